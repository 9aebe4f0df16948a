#include "expect.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "catalog/open.h"
#include "command.h"

namespace dcp::cmd {
namespace {

constexpr uint64_t kShown = 20;     // of each kind, on stderr
constexpr uint64_t kInJson = 1000;  // of each kind

struct KindText {
  std::string_view member, word;
};
constexpr std::array<KindText, 4> kKinds{
    {{"missing", "missing"}, {"unexpected", "unexpected"}, {"shape", "other shape"}, {"dtype", "other dtype"}}};
const KindText& text_of_kind(Difference::Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

using Counts = std::array<uint64_t, kKinds.size()>;
Counts counts_of(const std::vector<Difference>& all) {
  Counts counts{};
  for (const Difference& d : all) ++counts[static_cast<size_t>(d.kind)];
  return counts;
}

// A folder is a checkpoint, and so is a file with the ending of one; any other file is a list.
bool is_checkpoint(Io& io, const std::string& path) {
  const std::optional<FileFacts> facts = io.facts(path);
  if (!facts) fail(ProblemId::no_such_path, {.path = path});
  if (facts->kind == FileKind::kDirectory) return true;
  const std::filesystem::path p(path);
  const std::string ending = p.extension();
  return p.filename() == ".metadata" || ending == ".safetensors" || ending == ".pt" || ending == ".pth" || ending == ".bin" ||
         ending == ".ckpt";
}

std::vector<Signature> read_reference(Io& io, const std::string& path, bool& has_gap) {
  if (is_checkpoint(io, path)) {
    const Catalog catalog = open_checkpoint(io, path, {});
    has_gap = std::ranges::find(catalog.findings, ProblemId::shard_gap, &Problem::id) != catalog.findings.end();
    return signatures_of(catalog);
  }
  const std::vector<std::byte> text = read_file(io, path, Limits{}.json_bytes);
  return parse_signatures(as_text(text), path);
}

std::string line_of(const Difference& d) {
  std::string line = std::string(text_of_kind(d.kind).word) + ": " + d.key;
  if (d.kind == Difference::Kind::kMissing) return line + " " + d.expected;
  if (d.kind == Difference::Kind::kUnexpected) return line + " " + d.got;
  return line + " (got " + d.got + ", expected " + d.expected + ")";
}

}  // namespace

void add_expect(Command& c, ExpectFlags& flags) {
  const std::string group = "Expectations";
  c.option("--expect", flags.reference, "REF",
           "Write only if keys and shapes are those of REF: a checkpoint, or a list as 'inspect --keys' prints it")
      .reads()
      .in(group);
  c.flag("--expect-dtypes", flags.dtypes, "With --expect: the dtypes too").needs("--expect").in(group);
}

void check_expected(const ExpectFlags& flags, std::vector<Signature> result, const Context& context, Expectation& found) {
  if (flags.reference.empty()) return;
  found.reference = flags.reference;
  std::vector<Signature> expected = read_reference(context.io, flags.reference, found.has_gap);
  found.differences = differences(std::move(result), std::move(expected), flags.dtypes ? CompareDtypes::kYes : CompareDtypes::kNo);
  if (found.differences.empty()) return;
  const Counts counts = counts_of(found.differences);
  Counts shown{};
  for (const Difference& d : found.differences) {
    const uint64_t n = ++shown[static_cast<size_t>(d.kind)];
    if (n <= kShown) context.complain(line_of(d));
    else if (n == kShown + 1)
      context.complain("and " + grouped(counts[static_cast<size_t>(d.kind)] - kShown) + " more " + std::string(text_of_kind(d.kind).word));
  }
  std::string got;
  for (size_t k = 0; k < kKinds.size(); ++k)
    if (counts[k] > 0) got += (got.empty() ? "" : ", ") + grouped(counts[k]) + " " + std::string(kKinds[k].word);
  fail(ProblemId::expect_differs, {.path = flags.reference}, std::move(got));
}

void expectation_json(JsonWriter& json, const Expectation& e) {
  if (e.reference.empty()) return;
  json.key("expect").begin_object().member("reference", e.reference).member("differences", uint64_t{e.differences.size()});
  if (e.has_gap) json.member("incomplete", true);
  for (size_t k = 0; k < kKinds.size(); ++k) {
    json.key(kKinds[k].member).begin_array();
    uint64_t shown = 0;
    for (const Difference& d : e.differences) {
      if (static_cast<size_t>(d.kind) != k || ++shown > kInJson) continue;
      json.begin_object().member("key", d.key);
      if (!d.got.empty()) json.member("got", d.got);
      if (!d.expected.empty()) json.member("expected", d.expected);
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
}

}  // namespace dcp::cmd
