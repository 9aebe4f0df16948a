#include "report/outline.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "catalog/placements.h"
#include "report/inspect_text.h"

namespace dcp::cmd {
namespace {

// No leading zeros: what is printed as a range of numbers is spelled so.
bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 18 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }) &&
         (text.size() == 1 || text[0] != '0');
}

std::string braces(const std::set<std::string, NaturalLess>& words) {
  if (words.size() == 1) return part_text({.name = *words.begin()});
  if (std::ranges::all_of(words, is_number)) {
    const uint64_t first = std::stoull(*words.begin()), last = std::stoull(*words.rbegin());
    if (last - first + 1 == words.size()) return "{" + std::to_string(first) + ".." + std::to_string(last) + "}";
  }
  constexpr size_t kWide = 28;
  std::string text = "{";
  size_t n = 0;
  for (const std::string& w : words) {
    if (n++ > 0 && text.size() + w.size() > kWide) return text + ", ... " + std::to_string(words.size()) + "}";
    text += (n == 1 ? "" : ", ") + part_text({.name = w});
  }
  return text + "}";
}

size_t deepest(const auto& rows) {
  size_t depth = 1;
  for (const auto& row : rows) depth = std::max(depth, row.variants.size());
  return depth;
}

// The components of a final name: a flat key's dots part them, and so do the steps of a path.
std::vector<std::string> words_of(const Selection& selection, const Entry& e) {
  std::vector<std::string> words;
  for (const PathPart& p : selection.path(e)) add_components(p.position >= 0 ? std::to_string(p.position) : std::string(p.name), words);
  return words;
}

// dtype, what it becomes, shape, sharding
std::string kind_of(const Catalog& catalog, const Entry& e) {
  if (e.is_blob()) return "";
  const Tensor& t = catalog.tensors[e.tensor()];
  const std::string becomes = t.dtype_known && e.dtype != t.dtype ? std::string(facts_of(e.dtype).name) : "";
  return std::string(catalog.strings[t.dtype_name]) + "\1" + becomes + "\1" + shape_text(catalog.dims(t)) + "\1" +
         sharding_words(catalog, t);
}

}  // namespace

void add_components(std::string_view key, std::vector<std::string>& words) {
  for (const std::string_view part : split(key, '.')) words.emplace_back(part);
}

void Fold::add(const Key& key) {
  std::string pattern = std::to_string(key.words.size()) + "\1";
  for (const std::string& w : key.words) pattern.append(is_number(w) && !options_.depth ? "\1" : w).push_back('\0');
  const std::string kind = key.kind + (key.is_state ? "\1" : "") + (key.is_object ? "\2" : "");
  const auto [place, is_new] = places_.try_emplace({std::move(pattern), kind}, rows_.size());
  if (is_new) {
    Row& row = rows_.emplace_back();
    row.sum.is_state = key.is_state;
    row.kind = kind;
    row.variants.resize(key.words.size());
  }
  Row& row = rows_[place->second];
  for (size_t i = 0; i < key.words.size(); ++i) row.variants[i].insert(key.words[i]);
  row.objects += key.is_object;
  row.has_values |= key.is_object || key.has_value;
  row.sum.ids.push_back(key.id);
}

std::vector<FoldedRow> Fold::rows() {
  Rows rows = std::move(rows_);
  if (options_.depth) {
    for (const Part part : {Part::kState, Part::kModel}) rows = cut(std::move(rows), std::max<size_t>(*options_.depth, 1), part);
  } else {
    rows = folded(joined_in_last(std::move(rows), options_.rows * 3 / 5), options_.rows);
  }
  std::vector<FoldedRow> result;
  for (Row& row : rows) {
    row.sum.label = label_of(row);
    result.push_back(std::move(row.sum));
  }
  return result;
}

std::string Fold::label_of(const Row& row) {
  constexpr size_t kShownSteps = 64;
  std::string text;
  for (size_t i = 0; i < row.variants.size(); ++i) {
    if (i == kShownSteps) return text + "....";
    text += (i == 0 ? "" : ".") + braces(row.variants[i]);
  }
  return text;
}

void Fold::join(Row& into, const Row& other) {
  for (size_t i = 0; i < into.variants.size(); ++i) into.variants[i].insert(other.variants[i].begin(), other.variants[i].end());
  into.sum.ids.insert(into.sum.ids.end(), other.sum.ids.begin(), other.sum.ids.end());
  into.objects += other.objects;
  into.has_values |= other.has_values;
}

// Merges rows that differ only in what `key_of` leaves out.
template <class KeyOf>
Fold::Rows Fold::joined_by(Rows rows, const KeyOf& key_of) {
  Rows result;
  std::map<decltype(key_of(rows.front())), size_t> places;
  for (Row& row : rows) {
    const auto [place, is_new] = places.try_emplace(key_of(row), result.size());
    if (is_new) result.push_back(std::move(row));
    else join(result[place->second], row);
  }
  return result;
}

// The variants of each place in one text; the last place's left out if asked.
std::string Fold::shape_of(const Row& row, bool without_last) {
  std::string text = std::to_string(row.variants.size()) + "\1";
  for (size_t i = 0; i + (without_last ? 1 : 0) < row.variants.size(); ++i) {
    for (const std::string& w : row.variants[i]) text.append(w).push_back('\0');
    text.push_back('\1');
  }
  return text;
}

// Keys that differ in their last component only are one row: tensors all, objects and scalars, which have values to show, where these would
// take more than `limit` rows; the largest groups first.
Fold::Rows Fold::joined_in_last(Rows rows, size_t limit) {
  using Group = std::pair<std::string, std::string>;
  const auto group_of = [&](const Row& row) { return Group(shape_of(row, true), row.kind); };
  std::map<Group, size_t> sizes;
  for (const Row& row : rows)
    if (row.has_values) ++sizes[group_of(row)];
  std::vector<std::pair<size_t, Group>> objects;
  size_t left = 0;  // rows of objects, and of scalars beside others
  for (const auto& [group, size] : sizes) {
    if (size > 1 || group.second.ends_with('\2')) left += size;
    if (size > 1) objects.emplace_back(size, group);
  }
  std::ranges::sort(objects, std::greater<>());
  std::set<Group> apart;
  for (size_t i = 0; i < objects.size();) {  // groups of one size alike
    size_t end = i, fewer = 0;
    while (end < objects.size() && objects[end].first == objects[i].first) fewer += objects[end++].first - 1;
    const bool join = left > limit;
    if (join) left -= fewer;
    for (; i < end; ++i)
      if (!join) apart.insert(objects[i].second);
  }
  for (Row& row : rows) row.is_apart = apart.contains(group_of(row));
  size_t number = 0;
  return joined_by(std::move(rows), [&](const Row& row) { return std::pair(group_of(row), row.is_apart ? ++number : 0); });
}

bool Fold::belongs_to(Part part, const Row& row) {
  return row.sum.is_state == (part != Part::kModel) && (part != Part::kStateTensors || (row.objects == 0 && !row.is_apart));
}

// Shortened to `depth` components, rows of one subtree are one.
Fold::Rows Fold::cut(Rows rows, size_t depth, Part part) {
  bool is_any_cut = false;
  for (Row& row : rows) {
    if (!belongs_to(part, row) || row.variants.size() <= depth) continue;
    row.variants.resize(depth);
    row.sum.is_folded = is_any_cut = true;
  }
  if (!is_any_cut) return rows;
  return joined_by(std::move(rows), [](const Row& row) {
    return std::pair(shape_of(row, false), row.sum.is_folded ? std::nullopt : std::optional(row.sum.ids.front()));
  });
}

// What a trainer keeps beside the model is folded first, its tensors before objects, whose values say something; of each the deepest
// components, until all fits.
Fold::Rows Fold::folded(Rows rows, size_t limit) {
  constexpr size_t kDeepest = 16;
  for (const Part part : {Part::kStateTensors, Part::kState, Part::kModel})
    for (size_t depth = std::min(deepest(rows), kDeepest); rows.size() > limit && depth > 1;) rows = cut(std::move(rows), --depth, part);
  return rows;
}

uint64_t entry_bytes(const Catalog& catalog, const Entry& e) {
  if (!e.is_blob()) return catalog.tensor_bytes(catalog.tensors[e.tensor()]);
  const Item& item = catalog.items[catalog.item_of(e.blob())];
  return item.file == kNone || catalog.traits().in_torch_files ? 0 : item.length;  // in a torch.save file all objects are in one pickle
}

std::vector<FoldedRow> folded_entries(const Catalog& catalog, const Selection& selection, const std::vector<Entry>& entries,
                                      FoldOptions options, const std::map<KeyRef, std::string>* values) {
  Fold fold(options);
  for (uint32_t i = 0; i < entries.size(); ++i)
    fold.add({.words = words_of(selection, entries[i]),
              .kind = kind_of(catalog, entries[i]),
              .is_state = !selection.state.is_model(entries[i].ref),
              .is_object = entries[i].is_blob(),
              .has_value = values != nullptr && values->contains(entries[i].ref),
              .id = i});
  return fold.rows();
}

std::vector<OutlineRow> outline_of(const Catalog& catalog, const Selection& selection, const OutlineOptions& options) {
  const std::vector<Entry>& entries = selection.entries;
  std::vector<OutlineRow> result;
  for (FoldedRow& folded : folded_entries(catalog, selection, entries, {.rows = options.rows, .depth = options.depth}, options.values)) {
    OutlineRow row{.label = std::move(folded.label), .is_state = folded.is_state, .example = {}};
    for (const uint32_t i : folded.ids) {
      ++(entries[i].is_blob() ? row.objects : row.tensors);
      row.bytes += entry_bytes(catalog, entries[i]);
    }
    if (!folded.is_folded) row.example = entries[folded.ids.front()];
    const auto value_of = [&](uint32_t i) {
      const auto value = options.values->find(entries[i].ref);
      return value == options.values->end() ? std::string() : value->second;
    };
    if (options.values != nullptr && row.example)
      if (const std::string value = value_of(folded.ids.front());
          !value.empty() && std::ranges::all_of(folded.ids, [&](uint32_t i) { return value_of(i) == value; })) {
        row.label += " = " + escaped(value);
        row.has_value = row.objects > 0;
      }
    result.push_back(std::move(row));
  }
  std::ranges::stable_sort(result, [&](const OutlineRow& a, const OutlineRow& b) {
    if (options.by_size && a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.is_state != b.is_state ? b.is_state : natural_less(a.label, b.label);
  });
  return result;
}

}  // namespace dcp::cmd
