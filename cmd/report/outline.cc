#include "report/outline.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "base/natural_order.h"
#include "base/quantity.h"
#include "base/text.h"
#include "catalog/sharding.h"
#include "report/inspect_text.h"

namespace dcp::cmd {
namespace {

// No leading zeros: what is printed as a range of numbers is spelled so.
bool is_number(std::string_view text) { return is_digits(text) && text.size() <= 18 && (text.size() == 1 || text[0] != '0'); }

// A component that stands for several: numbers, or words. The place of a number is part of what rows have in common.
using Words = std::vector<std::string>;

// The components of a final name: a flat key's dots part them, and so do the steps of a path.
Words words_of(const Selection& selection, const Entry& e) {
  Words words;
  for (const PathPart& p : selection.path(e)) {
    const std::string text = p.position >= 0 ? std::to_string(p.position) : std::string(p.name);
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('.', at), text.size());
      words.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  return words;
}

// What keys must share to be one row, beside all words except numbers.
using Kind = std::tuple<bool, std::string, std::string, std::string, std::string>;  // state, dtype, becomes, shape, sharding
Kind kind_of(const Catalog& catalog, const Selection& selection, const Entry& e) {
  const bool state = !selection.state.is_model(e.ref);
  if (e.is_blob()) return {state, "object", "", "", ""};
  const Tensor& t = catalog.tensors[e.tensor()];
  const std::string becomes = t.dtype_known && e.dtype != t.dtype ? std::string(facts_of(e.dtype).name) : "";
  return {state, std::string(catalog.strings[t.dtype_name]), becomes, shape_text(catalog.dims(t)), sharding_words(catalog, t)};
}

uint64_t bytes_of(const Catalog& catalog, const Entry& e) {
  if (!e.is_blob()) return catalog.tensor_bytes(catalog.tensors[e.tensor()]);
  const Item& item = catalog.items[catalog.item_of(e.blob())];
  return item.file == kNone || catalog.traits().in_torch_files ? 0 : item.length;  // in a torch.save file all objects are in one pickle
}

// Keys that are alike: for each place the words that they have there.
struct Row {
  bool state = false;  // not model
  bool is_folded = false;
  std::vector<std::set<std::string, NaturalLess>> variants;  // by place
  OutlineRow sum;
};

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

std::string label_of(const Row& row) {
  constexpr size_t kShownSteps = 64;
  std::string text;
  for (size_t i = 0; i < row.variants.size(); ++i) {
    if (i == kShownSteps) return text + "....";
    text += (i == 0 ? "" : ".") + braces(row.variants[i]);
  }
  return text;
}

void join(Row& into, const Row& other) {
  for (size_t i = 0; i < into.variants.size(); ++i) into.variants[i].insert(other.variants[i].begin(), other.variants[i].end());
  into.sum.tensors += other.sum.tensors;
  into.sum.objects += other.sum.objects;
  into.sum.bytes += other.sum.bytes;
}

// Merges rows that differ only in the component that `key` leaves out.
template <class KeyOf>
std::vector<Row> joined_by(std::vector<Row> rows, const KeyOf& key_of) {
  std::vector<Row> result;
  std::map<decltype(key_of(rows.front())), size_t> places;
  for (Row& row : rows) {
    const auto [place, is_new] = places.try_emplace(key_of(row), result.size());
    if (is_new) result.push_back(std::move(row));
    else join(result[place->second], row);
  }
  return result;
}

// The variants of each place in one text; the last place's left out if asked.
std::string shape_of(const Row& row, bool without_last) {
  std::string text = std::to_string(row.variants.size()) + "\1";
  for (size_t i = 0; i + (without_last ? 1 : 0) < row.variants.size(); ++i) {
    for (const std::string& w : row.variants[i]) text.append(w).push_back('\0');
    text.push_back('\1');
  }
  return text;
}

// Keys that differ in their last component only are one row: tensors all, objects, which have values to show, where these would take more
// than `limit` rows; the largest groups first.
std::vector<Row> joined_in_last(std::vector<Row> rows, size_t limit, const Catalog& catalog, const Selection& selection) {
  using Group = std::pair<std::string, Kind>;
  const auto group_of = [&](const Row& row) { return Group(shape_of(row, true), kind_of(catalog, selection, *row.sum.example)); };
  std::map<Group, size_t> sizes;
  for (const Row& row : rows)
    if (row.sum.example->is_blob()) ++sizes[group_of(row)];
  std::vector<std::pair<size_t, Group>> objects;
  size_t left = 0;  // rows of objects
  for (const auto& [group, size] : sizes) {
    left += size;
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
  size_t number = 0;
  return joined_by(std::move(rows), [&](const Row& row) {
    Group group = group_of(row);
    const bool stays = apart.contains(group);
    return std::pair(std::move(group), stays ? ++number : 0);
  });
}

enum class Part : uint8_t { kStateTensors, kState, kModel };  // what is folded, in this order

bool belongs_to(Part part, const Row& row) {
  return row.state == (part != Part::kModel) && (part != Part::kStateTensors || row.sum.objects == 0);
}

// Shortened to `depth` components, rows of one subtree are one.
std::vector<Row> cut(std::vector<Row> rows, size_t depth, Part part) {
  bool is_any_cut = false;
  for (Row& row : rows) {
    if (!belongs_to(part, row) || row.variants.size() <= depth) continue;
    row.variants.resize(depth);
    row.is_folded = is_any_cut = true;
  }
  if (!is_any_cut) return rows;
  return joined_by(std::move(rows),
                   [](const Row& row) { return std::pair(shape_of(row, false), row.is_folded ? KeyRef() : row.sum.example->ref); });
}

size_t deepest(const std::vector<Row>& rows) {
  size_t depth = 1;
  for (const Row& row : rows) depth = std::max(depth, row.variants.size());
  return depth;
}

// What a trainer keeps beside the model is folded first, its tensors before objects, whose values say something; of each the deepest
// components, until all fits.
std::vector<Row> folded(std::vector<Row> rows, size_t limit) {
  constexpr size_t kDeepest = 16;
  for (const Part part : {Part::kStateTensors, Part::kState, Part::kModel})
    for (size_t depth = std::min(deepest(rows), kDeepest); rows.size() > limit && depth > 1;) rows = cut(std::move(rows), --depth, part);
  return rows;
}

}  // namespace

std::vector<OutlineRow> outline_of(const Catalog& catalog, const Selection& selection, const OutlineOptions& options) {
  std::vector<Row> rows;
  std::map<std::pair<std::string, Kind>, size_t> places;  // by words with their numbers left out
  for (const Entry& e : selection.entries) {
    const Words words = words_of(selection, e);
    std::string pattern = std::to_string(words.size()) + "\1";
    for (const std::string& w : words) pattern.append(is_number(w) ? "\1" : w).push_back('\0');
    const auto [place, is_new] = places.try_emplace({std::move(pattern), kind_of(catalog, selection, e)}, rows.size());
    if (is_new) {
      Row& row = rows.emplace_back();
      row.state = !selection.state.is_model(e.ref);
      row.variants.resize(words.size());
      row.sum.example = e;
    }
    Row& row = rows[place->second];
    for (size_t i = 0; i < words.size(); ++i) row.variants[i].insert(words[i]);
    ++(e.is_blob() ? row.sum.objects : row.sum.tensors);
    row.sum.bytes += bytes_of(catalog, e);
  }
  rows = joined_in_last(std::move(rows), options.rows * 3 / 5, catalog, selection);
  if (options.depth)
    for (const Part part : {Part::kState, Part::kModel}) rows = cut(std::move(rows), std::max<size_t>(*options.depth, 1), part);
  else rows = folded(std::move(rows), options.rows);
  std::vector<OutlineRow> result;
  for (Row& row : rows) {
    row.sum.label = label_of(row);
    if (options.values != nullptr && row.sum.keys() == 1 && !row.is_folded)
      if (const auto value = options.values->find(row.sum.example->ref); value != options.values->end()) {
        row.sum.label += " = " + escaped(value->second);
        row.sum.has_value = row.sum.objects > 0;
      }
    row.sum.is_state = row.state;
    if (row.is_folded) row.sum.example.reset();
    result.push_back(std::move(row.sum));
  }
  std::ranges::stable_sort(result, [](const OutlineRow& a, const OutlineRow& b) {
    return a.is_state != b.is_state ? b.is_state : natural_less(a.label, b.label);
  });
  return result;
}

}  // namespace dcp::cmd
