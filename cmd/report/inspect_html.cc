// The data of a checkpoint's page: what is said of many tensors, a form or a list of files, is said once.
//
//   who      ranks, or the files if their names have no rank: bytes of the three groups, tensors
//   files    in natural order, with what lies where: gap, length, group; group; ...
//   forms    dtype, shape, bytes, sharding in words, number of chunks; how they are cut: of each dim 0 (not at all), n (every n), or sizes. `empty`
//            more chunks have no elements. Boxes that are no grid stand one by one: offsets, then sizes
//   places   the files of chunks, in their order; -n: the n files that follow the one before
//   entries  tensors and objects in natural order: how many characters of the name are those of the one before, the rest of it, group, form, place; of
//            an object (form -1) bytes and value
//   folds    rows of the outline: label, entries
//   offsets  of each entry, begin and length of each chunk in its file
//   copies   "entry,chunk": other files that hold the same
#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/problem.h"
#include "base/text.h"
#include "catalog/data_files.h"
#include "catalog/placements.h"
#include "line/problem_words.h"
#include "report/inspect_text.h"
#include "report/outline.h"
#include "report/page/page.h"
#include "report/stats_report.h"

namespace dcp::cmd {
namespace {

constexpr uint64_t kMaxOffsets = 50'000;  // chunks: of more, the page has no offsets
constexpr size_t kMaxText = 6'500'000;    // bytes of files, boxes and places together: beyond, chunks of further tensors are only counted
constexpr size_t kFileText = 150;         // what a file takes of that
constexpr size_t kRows = 60;              // of the outline
constexpr size_t kMaxStretches = 40'000;  // of all files: each gets its share
constexpr size_t kMaxCopies = 20'000;

using Numbers64 = std::vector<int64_t>;

// How long they are in JSON.
size_t text_bytes(const Numbers64& numbers) {
  size_t bytes = 0;
  for (const int64_t n : numbers) bytes += std::to_string(n).size() + 1;
  return bytes;
}

// How the chunks of a tensor are cut. No grid: `boxes` has all of them.
struct Cuts {
  std::vector<Numbers64> of_dim;  // empty: not cut; one number: every so many
  uint64_t empty = 0;
  Numbers64 boxes;
};

enum Group : uint8_t { kModel, kOptimizer, kOther };

// Chunks are sorted by their offsets, so those of a grid are in row-major order, and what is empty lies behind the others.
Cuts cuts_of(const Catalog& catalog, const Tensor& t) {
  Cuts cuts;
  uint32_t live = t.chunk_count;
  const auto dims = catalog.dims(t);
  while (live > 0 && volume(catalog.box(t, live - 1).sizes) == 0) --live;
  cuts.empty = t.chunk_count - live;
  std::vector<std::map<int64_t, int64_t>> sides(t.rank);  // begins and sizes
  for (uint32_t c = 0; c < live; ++c)
    for (size_t d = 0; d < t.rank; ++d) sides[d].emplace(catalog.box(t, c).offsets[d], catalog.box(t, c).sizes[d]);
  uint64_t cells = live == 0 ? 0 : 1;
  for (const auto& of_dim : sides) cells *= of_dim.size();
  bool is_grid = cells == live && live > 0;
  for (size_t d = 0; is_grid && d < t.rank; ++d) {
    Numbers64 sizes;
    int64_t at = 0;
    for (const auto& [begin, size] : sides[d]) {
      is_grid = is_grid && begin == at;
      at += size;
      sizes.push_back(size);
    }
    is_grid = is_grid && at == dims[d];
    const bool is_even = std::ranges::all_of(sizes.begin(), sizes.end() - 1, [&](int64_t s) { return s == sizes[0]; });
    if (sizes.size() == 1) sizes.clear();
    else if (is_even && sizes.back() <= sizes[0]) sizes.resize(1);
    cuts.of_dim.push_back(std::move(sizes));
  }
  for (uint32_t c = 0; is_grid && c < live; ++c)
    for (size_t d = 0; d < t.rank; ++d) is_grid = is_grid && sides[d].at(catalog.box(t, c).offsets[d]) == catalog.box(t, c).sizes[d];
  if (is_grid) return cuts;
  cuts = {};
  for (uint32_t c = 0; c < t.chunk_count; ++c) {
    const BoxView b = catalog.box(t, c);
    cuts.boxes.insert(cuts.boxes.end(), b.offsets.begin(), b.offsets.end());
    cuts.boxes.insert(cuts.boxes.end(), b.sizes.begin(), b.sizes.end());
  }
  return cuts;
}

struct Form {
  std::string dtype, words;
  Numbers64 shape;
  uint64_t bytes = 0, chunks = 0;
  std::optional<Cuts> cuts;
};

void form_json(JsonWriter& json, const Form& f) {
  json.begin_object().member("dtype", f.dtype).member("shape", f.shape).member("bytes", f.bytes).member("words", f.words);
  json.member("chunks", f.chunks);
  if (f.cuts && !f.cuts->boxes.empty()) json.member("boxes", f.cuts->boxes);
  else if (f.cuts) {
    json.key("cuts").begin_array();
    for (const Numbers64& cut : f.cuts->of_dim) {
      if (cut.size() < 2) json.value(cut.empty() ? int64_t{0} : cut[0]);
      else json.value(cut);
    }
    json.end_array();
    if (f.cuts->empty > 0) json.member("empty", f.cuts->empty);
  }
  json.end_object();
}

struct Stretch {
  uint64_t begin, end;
  Group group;
};

// Neighbours of one group are one; of several that would share one cell of the picture, the first that is there.
std::vector<Stretch> joined(std::vector<Stretch> file, uint64_t cell) {
  std::ranges::sort(file, {}, &Stretch::begin);
  std::vector<Stretch> result;
  for (Stretch s : file) {
    if (!result.empty()) {
      Stretch& last = result.back();
      const bool touches = s.begin <= last.end || s.begin - last.end < std::min<uint64_t>(cell, 4096);
      if (last.end >= s.end) continue;
      if ((touches && last.group == s.group) || (s.end - last.begin < cell)) {
        last.end = s.end;
        continue;
      }
      s.begin = std::max(s.begin, last.end);
    }
    result.push_back(s);
  }
  return result;
}

// Files in natural order, and who holds them: ranks, or the files themselves where a name has no rank.
class Files {
 public:
  explicit Files(const Catalog& catalog) : c_(catalog), order(catalog.files.size()), number(catalog.files.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) { return natural_less(c_.file_name(a), c_.file_name(b)); });
    are_ranks = !order.empty() && std::ranges::all_of(order, [&](uint32_t f) { return rank_of_file(c_.file_name(f)).has_value(); });
    std::map<std::string, size_t, NaturalLess> numbers;
    for (const uint32_t f : order) numbers[holder(f)] = 0;
    for (auto& [name, n] : numbers) n = who.size(), who.push_back(name);
    for (size_t n = 0; n < order.size(); ++n) {
      number[order[n]] = static_cast<int64_t>(n);
      who_of.push_back(numbers.at(holder(order[n])));
      by_path_.emplace(c_.file_path(order[n]), static_cast<int64_t>(n));
    }
  }

  // Of a chunk; behind all others for one that lies in no file.
  int64_t of(ItemId id) const {
    const Item& item = c_.items[id];
    return item.file == kNone ? static_cast<int64_t>(c_.files.size()) : number[item.file];
  }
  int64_t of(const Problem& p) const {
    const auto at = by_path_.find(p.place.path);
    return at == by_path_.end() ? -1 : at->second;
  }

 private:
  std::string holder(uint32_t file) const {
    return are_ranks ? std::to_string(*rank_of_file(c_.file_name(file))) : std::string(c_.file_name(file));
  }
  const Catalog& c_;
  std::map<std::string, int64_t> by_path_;

 public:
  std::vector<uint32_t> order;  // numbers in the catalog, by those on the page
  std::vector<int64_t> number;  // the other way round
  std::vector<std::string> who;
  std::vector<size_t> who_of;  // by number on the page
  bool are_ranks = false;
};

class CheckpointData {
 public:
  CheckpointData(const InspectResult& found, const Files& files, JsonWriter& json)
      : found_(found),
        c_(found.catalog()),
        selection_(found.selection),
        entries_(sorted_entries(found.selection)),
        files_(files),
        json_(json) {
    uint64_t chunks = 0;
    for (const Entry& e : entries_) chunks += e.is_blob() ? 1 : c_.tensors[e.tensor()].chunk_count;
    for (const std::string& name : files.who) who_.push_back({.name = escaped(name)});
    has_offsets_ = chunks <= kMaxOffsets;
    room_ = kMaxText - std::min(kMaxText, kFileText * c_.files.size());
  }

  void write() {
    json_.begin_object().member("type", "checkpoint").member("path", escaped(c_.path)).member("ranks", files_.are_ranks);
    json_.member("partial", entries_.size() < c_.order.size());
    collect();
    holders();
    files();
    forms();
    json_.key("places").begin_array();
    for (const Numbers64* p : places_) json_.value(*p);
    json_.end_array();
    entries();
    folds();
    if (has_offsets_) offsets();
    copies();
    json_.end_object();
  }

 private:
  using Bytes3 = std::array<uint64_t, 3>;
  struct Holder {
    std::string name;
    Bytes3 bytes{};
    uint64_t tensors = 0;
    size_t last = SIZE_MAX;  // the entry that was counted last
  };

  Group group_of(const Entry& e) const {
    return selection_.state.is_model(e.ref) ? kModel : selection_.state.is_optimizers(e.ref) ? kOptimizer : kOther;
  }

  // Forms and places get their numbers, holders their bytes.
  void collect() {
    stretches_.resize(c_.files.size());
    for (size_t n = 0; n < entries_.size(); ++n) {
      const Entry& e = entries_[n];
      const Group group = group_of(e);
      Numbers64 at;
      const auto add = [&](ItemId id, uint64_t bytes) {
        const int64_t file = files_.of(id);
        if (!at.empty() && at.back() < 0 && file == at[at.size() - 2] - at.back() + 1) --at.back();
        else if (!at.empty() && at.back() >= 0 && file == at.back() + 1) at.push_back(-1);
        else at.push_back(file);
        if (c_.items[id].file == kNone) return;
        const Item& item = c_.items[id];
        stretches_[static_cast<size_t>(file)].push_back({item.offset, item.offset + item.length, group});
        Holder& h = who_[files_.who_of[static_cast<size_t>(file)]];
        h.bytes[group] += bytes;
        if (!e.is_blob() && h.last != n) h.last = n, ++h.tensors;
      };
      if (e.is_blob()) {
        add(c_.item_of(e.blob()), 0);
      } else {
        const Tensor& t = c_.tensors[e.tensor()];
        const uint64_t size = t.dtype_known ? bytes_of(t.dtype) : 0;
        for (uint32_t c = 0; c < t.chunk_count; ++c) add(c_.item_of(t, c), volume(c_.box(t, c).sizes) * size);
      }
      form_of_.push_back(e.is_blob() ? -1 : form(e));
      place_of_.push_back(numbered(places_, place_numbers_, std::move(at)));
    }
  }

  // The number of a list that may have been seen before; -1: there is no room for it.
  int64_t numbered(std::vector<const Numbers64*>& lists, std::map<Numbers64, int64_t>& numbers, Numbers64 list) {
    if (const auto known = numbers.find(list); known != numbers.end()) return known->second;
    const size_t bytes = text_bytes(list);
    if (bytes > room_) return -1;
    room_ -= bytes;
    const auto at = numbers.emplace(std::move(list), static_cast<int64_t>(lists.size())).first;
    lists.push_back(&at->first);
    return at->second;
  }

  int64_t form(const Entry& e) {
    const Tensor& t = c_.tensors[e.tensor()];
    Form f{
        .dtype = escaped(c_.strings[t.dtype_name]), .words = sharding_words(c_, t), .bytes = c_.tensor_bytes(t), .chunks = t.chunk_count};
    if (t.dtype_known && e.dtype != t.dtype) f.dtype += " → " + std::string(facts_of(e.dtype).name);
    if (const std::string* cls = found_.subclass_of(e.tensor())) f.dtype += " of " + escaped(*cls);
    f.shape = c_.shape(t);
    f.cuts = cuts_of(c_, t);
    Numbers64 sign = f.cuts->boxes;
    for (const Numbers64& cut : f.cuts->of_dim) sign.push_back(-1), sign.insert(sign.end(), cut.begin(), cut.end());
    sign.push_back(static_cast<int64_t>(f.cuts->empty));
    sign.insert(sign.end(), f.shape.begin(), f.shape.end());
    const auto [at, is_new] = form_numbers_.try_emplace({f.dtype + "\1" + f.words, std::move(sign)}, static_cast<int64_t>(forms_.size()));
    if (!is_new) return at->second;
    size_t bytes = text_bytes(f.cuts->boxes);
    for (const Numbers64& cut : f.cuts->of_dim) bytes += text_bytes(cut);
    if (bytes > room_) f.cuts.reset();
    else room_ -= bytes;
    forms_.push_back(std::move(f));
    return at->second;
  }

  void holders() {
    json_.key("who").begin_array();
    for (const Holder& h : who_)
      json_.begin_object().member("name", h.name).member("bytes", h.bytes).member("tensors", h.tensors).end_object();
    json_.end_array().key("most").begin_array();
    for (const HeldMost& m : holdings_of(found_).most)
      json_.begin_object()
          .member("keys", m.keys)
          .member("bytes", m.bytes)
          .member("beyond", m.beyond_mean)
          .member("alone", m.is_alone)
          .end_object();
    json_.end_array();
  }

  void files() {
    const auto uses = file_uses(c_);
    uint64_t most = 1;
    for (const DataFile& f : c_.files) most = std::max(most, f.bytes.value_or(0));
    const uint64_t cells = std::clamp<uint64_t>(kMaxStretches / std::max<size_t>(c_.files.size(), 1), 20, 2'000);
    json_.key("files").begin_array();
    for (size_t n = 0; n < files_.order.size(); ++n) {
      const DataFile& file = c_.files[files_.order[n]];
      json_.begin_object().member("name", escaped(c_.file_name(files_.order[n])));
      if (file.bytes) json_.member("bytes", *file.bytes);
      json_.member("items", uses[files_.order[n]].items)
          .member("free", uses[files_.order[n]].unreferenced)
          .member("who", uint64_t{files_.who_of[n]});
      json_.key("parts").begin_array();
      uint64_t at = 0;
      for (const Stretch& s : joined(std::move(stretches_[n]), std::max<uint64_t>(most / cells, 1))) {
        json_.value(s.begin - at).value(s.end - s.begin).value(static_cast<int>(s.group));
        at = s.end;
      }
      json_.end_array().end_object();
    }
    json_.end_array();
  }

  void forms() {
    json_.key("forms").begin_array();
    for (const Form& f : forms_) form_json(json_, f);
    json_.end_array();
  }

  void entries() {
    std::string last;
    json_.key("entries").begin_array();
    for (size_t n = 0; n < entries_.size(); ++n) {
      const Entry& e = entries_[n];
      std::string name = escaped(e.key);
      size_t shared = 0;  // in ASCII, where bytes are what a script counts
      while (shared < std::min(name.size(), last.size()) && name[shared] == last[shared] && static_cast<unsigned char>(name[shared]) < 0x80)
        ++shared;
      json_.begin_array().value(uint64_t{shared}).value(std::string_view(name).substr(shared)).value(static_cast<int>(group_of(e)));
      json_.value(form_of_[n]).value(place_of_[n]);
      if (e.is_blob()) {
        json_.value(entry_bytes(c_, e));
        if (const std::string* value = found_.value_of(e.ref)) json_.value(escaped(*value));
      }
      json_.end_array();
      last = std::move(name);
    }
    json_.end_array();
  }

  void folds() {
    std::vector<FoldedRow> rows = folded_entries(c_, selection_, entries_, {.rows = kRows, .depth = std::nullopt});
    std::ranges::stable_sort(rows, [](const FoldedRow& a, const FoldedRow& b) {
      return a.is_state != b.is_state ? b.is_state : natural_less(a.label, b.label);
    });
    json_.key("folds").begin_array();
    for (FoldedRow& row : rows) {
      std::ranges::sort(row.ids);
      json_.begin_array().value(row.label).value(row.ids).end_array();
    }
    json_.end_array();
  }

  void offsets() {
    json_.key("offsets").begin_array();
    for (const Entry& e : entries_) {
      json_.begin_array();
      const auto add = [&](ItemId id) { json_.value(c_.items[id].offset).value(c_.items[id].length); };
      if (e.is_blob()) add(c_.item_of(e.blob()));
      else
        for (uint32_t c = 0; c < c_.tensors[e.tensor()].chunk_count; ++c) add(c_.item_of(c_.tensors[e.tensor()], c));
      json_.end_array();
    }
    json_.end_array();
  }

  void copies() {
    std::map<ItemId, Numbers64> files;
    for (size_t n = 0; n < std::min(c_.duplicates.size(), kMaxCopies); ++n)
      if (const Duplicate& d = c_.duplicates[n]; d.other.file != kNone) files[d.item].push_back(files_.number[d.other.file]);
    json_.key("copies").begin_object();
    for (size_t n = 0; !files.empty() && n < entries_.size(); ++n) {
      const Entry& e = entries_[n];
      const ItemId first = e.is_blob() ? c_.item_of(e.blob()) : c_.tensors[e.tensor()].first_chunk;
      const ItemId end = first + (e.is_blob() ? 1 : c_.tensors[e.tensor()].chunk_count);
      for (auto at = files.lower_bound(first); at != files.end() && at->first < end; ++at)
        json_.member(std::to_string(n) + "," + std::to_string(at->first - first), at->second);
    }
    json_.end_object();
  }

  const InspectResult& found_;
  const Catalog& c_;
  const Selection& selection_;
  const std::vector<Entry> entries_;
  const Files& files_;
  JsonWriter& json_;
  bool has_offsets_ = false;
  size_t room_;
  std::vector<Holder> who_;
  std::vector<std::vector<Stretch>> stretches_;
  std::vector<int64_t> form_of_, place_of_;
  std::vector<Form> forms_;
  std::map<std::pair<std::string, Numbers64>, int64_t> form_numbers_;
  std::vector<const Numbers64*> places_;
  std::map<Numbers64, int64_t> place_numbers_;
};

std::string_view tone_of(const std::vector<Problem>& findings) {
  Severity worst = Severity::kNote;
  for (const Problem& p : findings) worst = std::max(worst, p.severity);
  return worst >= Severity::kDamage ? "bad" : worst == Severity::kWarning ? "warn" : "good";
}

}  // namespace

std::string inspect_html(const InspectResult& found, const InspectMore& more) {
  const std::string said = dcp::joined(header_lines(found), "") + details_text(found);
  std::vector<std::string_view> lines = split(said, '\n');
  lines.pop_back();  // each ends with one
  PageHead head{.command = more.command,
                .title = escaped(found.catalog().path),
                .verdict = more.verdict,
                .tone = more.tone.empty() ? tone_of(found.findings) : more.tone,
                .note = more.note,
                .cards = inspect_cards(found),
                .facts = {lines.begin(), lines.end()},
                .findings = &found.findings};
  if (more.verdict.empty()) head.verdict = head.facts.front().substr(head.title.size() + 2);
  head.cards.push_back(more.stats == nullptr ? more.checked : stats_card(*more.stats));
  if (const std::string bad = more.stats == nullptr ? "" : not_finite_text(*more.stats); !bad.empty()) {
    if (more.verdict.empty()) head.verdict += bad;
    if (head.tone == "good") head.tone = "warn";
  }
  const Files files(found.catalog());
  head.file_of = [&](const Problem& p) { return files.of(p); };
  return page_html(head, [&](JsonWriter& json) {
    if (more.stats != nullptr) stats_section(json, *more.stats);
    CheckpointData(found, files, json).write();
  });
}

}  // namespace dcp::cmd
