#include "base/problem.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace dcp {
namespace {

struct Entry {
  std::string_view name;
  ProblemClass fault;
  std::string_view text;
  std::string_view hint;
};

// In the order of ProblemId, because both come from one list.
constexpr auto kEntries = std::to_array<Entry>({
#define DCP_PROBLEM(id, class_, what, hint) {#id, ProblemClass::class_, what, hint},
#include "base/problems.def"
#undef DCP_PROBLEM
});

constexpr bool all_have_text() {
  for (const Entry& entry : kEntries) {
    if (entry.text.empty()) return false;
  }
  return true;
}
static_assert(all_have_text());

const Entry& entry_of(ProblemId id) { return kEntries[static_cast<size_t>(id)]; }

std::string place_line(const Place& place) {
  std::string line = escaped(who_or_where(place));
  for (const uint32_t number : {place.line, place.column})
    if (number > 0) line.append(line.empty() ? "" : ":").append(std::to_string(number));
  const auto separate = [&line](std::string_view mark) {
    if (!line.empty()) line += mark;
  };
  if (!place.member.empty()) {
    separate(" > ");
    line += escaped(place.member);
  }
  if (place.offset) {
    separate(" ");
    line += "@ 0x" + hex(*place.offset, 1);
  }
  return line;
}

std::string got_of(const Problem& problem) {
  constexpr size_t kMax = 16;
  const std::string& setting = problem.place.setting;
  if (setting.empty()) return problem.got;
  if (problem.names.empty()) return setting + " " + problem.got;
  return joined_first(problem.names, kMax, [&](const std::string& name) { return setting + " " + name; });
}

// Whoever has given a wrong command line sees that by what is said of it.
bool is_bare(const Problem& problem) { return problem.id == ProblemId::usage && problem.what == text_of(problem.id); }

}  // namespace

std::string who_or_where(const Place& place) {
  if (!place.rank) return place.path;
  return "rank " + std::to_string(*place.rank) + (place.path.empty() ? "" : " at " + place.path);
}

std::string_view id_name(ProblemId id) { return entry_of(id).name; }
ProblemClass class_of(ProblemId id) { return entry_of(id).fault; }
std::string_view text_of(ProblemId id) { return entry_of(id).text; }
std::string_view hint_of(ProblemId id) { return entry_of(id).hint; }

std::string shortened(std::string_view name) {
  constexpr size_t kMax = 300, kHead = 120, kTail = 60;
  if (name.size() <= kMax) return escaped(name);
  const auto is_inside = [&](size_t at) { return (static_cast<unsigned char>(name[at]) & 0xC0) == 0x80; };  // of a UTF-8 sequence
  size_t head = kHead, tail = name.size() - kTail;
  while (head > kHead - 4 && is_inside(head)) --head;
  while (tail < name.size() - kTail + 4 && is_inside(tail)) ++tail;
  return escaped(name.substr(0, head)) + "...(" + std::to_string(name.size()) + " bytes)..." + escaped(name.substr(tail));
}

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    const size_t size = c.size == 0 ? 1 : c.size;
    if (c.size == 0 || (c.size == 1 && acts_on_terminal(c.value))) {
      out += "\\x" + hex(static_cast<unsigned char>(text[0]), 2);
    } else if (acts_on_terminal(c.value)) {
      out += "\\u{" + hex(c.value, 4) + "}";
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out;
}

// `what`, `got` and `expected` may quote a file as well. Escaping text that is already escaped changes nothing, so it is done here
// for all of them.
std::string to_line(const Problem& problem) {
  std::string line = place_line(problem.place);
  if (!line.empty()) line += ": ";
  if (!problem.place.tensor.empty()) line += (problem.place.object ? "object '" : "tensor '") + shortened(problem.place.tensor) + "': ";
  const std::string what = problem.what.empty() ? std::string(text_of(problem.id)) : escaped(problem.what);
  const std::string got = escaped(got_of(problem));
  if (problem.expected.empty()) {
    if (got.empty()) return line + what;
    if (is_bare(problem)) return line + got;
    return line + what + (what.find(':') == what.npos ? ": " + got : " (" + got + ")");
  }
  const std::string compared = (got.empty() ? "" : "got " + got + ", ") + "expected " + escaped(problem.expected);
  return line + (is_bare(problem) ? compared : what + " (" + compared + ")");
}

Error::Error(Problem problem) : problem_(std::move(problem)), line_(to_line(problem_)) {}

void FindingList::add(Problem p) {
  Seen& seen = seen_[p.id];
  const auto is_news = [&](const std::string& name) { return !seen.names.contains(name); };
  const bool is_full = seen.kept >= kMax || seen.bytes > kMaxBytes;
  if (is_full && (seen.bytes > 2 * kMaxBytes || std::ranges::none_of(p.names, is_news))) {
    ++seen.more;
    return;
  }
  seen.names.insert(p.names.begin(), p.names.end());
  ++seen.kept;
  seen.bytes += p.place.tensor.size() + p.got.size() + p.expected.size();
  for (const std::string& name : p.names) seen.bytes += name.size();
  seen.last = list_.size();
  list_.push_back(std::move(p));
}

void FindingList::end() {
  for (auto& [id, seen] : seen_) {
    if (seen.more == 0) continue;
    std::string& got = list_[seen.last].got;
    got += (got.empty() ? "" : ", ") + std::string("and ") + std::to_string(seen.more) + " more";
    seen.more = 0;
  }
}

Problem make_problem(ProblemId id, Place place, std::string got, std::string expected) {
  Problem problem;
  problem.id = id;
  problem.place = std::move(place);
  problem.what = text_of(id);
  problem.got = std::move(got);
  problem.expected = std::move(expected);
  problem.hint = hint_of(id);
  return problem;
}

Problem make_finding(ProblemId id, Severity severity, Place place, std::string got, std::string expected) {
  Problem problem = make_problem(id, std::move(place), std::move(got), std::move(expected));
  problem.severity = severity;
  return problem;
}

bool can_be_collected(ProblemId id) { return class_of(id) == ProblemClass::kInput || id == ProblemId::io_open || id == ProblemId::io_read; }

Problem with_hint(Problem p, std::string_view hint) {
  p.hint = hint;
  return p;
}

Problem with_remedy(Problem p, Remedy remedy, uint64_t enough_bytes) {
  p.remedy = remedy;
  p.enough_bytes = enough_bytes;
  return p;
}

Problem with_what(Problem p, std::string_view what) {
  p.what = what;
  return p;
}

void fail(ProblemId id, Place place, std::string got, std::string expected) {
  throw Error(make_problem(id, std::move(place), std::move(got), std::move(expected)));
}

}  // namespace dcp
