// What each rank of a checkpoint holds, and who holds the most.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/text.h"
#include "catalog/data_files.h"
#include "line/lines.h"
#include "report/inspect_text.h"
#include "report/outline.h"

namespace dcp::cmd {
namespace {

// Bytes of each.
double mean_of(const std::vector<Holding>& all) {
  uint64_t sum = 0;
  for (const Holding& h : all) sum += h.tensor_bytes;
  return static_cast<double>(sum) / static_cast<double>(std::max<size_t>(all.size(), 1));
}

constexpr double kMuch = 1.1;  // times the mean: below, files differ because rows do not divide

using ByName = std::map<std::string, Holding, NaturalLess>;

// Keys of which `largest` holds more than the mean, in rows as an outline has them.
std::vector<HeldMost> held_most(const std::vector<std::pair<const Entry*, std::map<const Holding*, uint64_t>>>& held,
                                const Holding& largest, size_t holders) {
  constexpr size_t kShown = 5;
  Fold fold({.rows = 40, .depth = std::nullopt});
  std::vector<HeldMost> keys;
  for (const auto& [entry, of] : held) {
    const auto own = of.find(&largest);
    if (own == of.end()) continue;
    uint64_t sum = 0;
    for (const auto& [who, bytes] : of) sum += bytes;
    const uint64_t mean = sum / holders;
    if (own->second <= mean) continue;
    Fold::Key key{.kind = of.size() == 1 ? "alone" : "more", .id = static_cast<uint32_t>(keys.size())};
    add_components(entry->key, key.words);
    fold.add(key);
    keys.push_back({.keys = "", .bytes = own->second, .beyond_mean = own->second - mean, .is_alone = of.size() == 1});
  }
  std::vector<HeldMost> rows;
  for (const FoldedRow& row : fold.rows()) {
    HeldMost sum{.keys = row.label, .is_alone = true};
    for (const uint32_t id : row.ids) {
      sum.bytes += keys[id].bytes;
      sum.beyond_mean += keys[id].beyond_mean;
      sum.is_alone = sum.is_alone && keys[id].is_alone;
    }
    rows.push_back(std::move(sum));
  }
  std::ranges::stable_sort(rows, std::greater<>(), &HeldMost::beyond_mean);
  constexpr uint64_t kSmall = 20;  // times less than the first: it explains nothing
  std::erase_if(rows, [least = rows.empty() ? 0 : rows.front().beyond_mean / kSmall](const HeldMost& h) { return h.beyond_mean < least; });
  if (rows.size() > kShown) rows.resize(kShown);
  return rows;
}

bool are_even(const std::vector<Holding>& all) {
  return std::ranges::all_of(all, [&](const Holding& h) { return h.tensor_bytes == all.front().tensor_bytes; });
}

}  // namespace

Holdings holdings_of(const InspectResult& found) {
  const Catalog& catalog = found.catalog();
  std::vector<std::pair<const Entry*, std::map<const Holding*, uint64_t>>> held;
  ByName by_name;
  const auto of_item = [&](ItemId id) -> Holding* {
    const Item& item = catalog.items[id];
    if (item.file == kNone) return nullptr;
    const std::string_view file = catalog.file_name(item.file);
    const auto rank = rank_of_file(file);
    Holding& h = by_name[rank ? std::to_string(*rank) : std::string(file)];
    h.is_rank = rank.has_value();
    return &h;
  };
  for (const Entry& e : found.selection.entries) {
    if (e.is_blob()) {
      if (Holding* const h = of_item(catalog.item_of(e.blob()))) ++h->objects;
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    std::map<const Holding*, uint64_t>& of = held.emplace_back(&e, std::map<const Holding*, uint64_t>{}).second;
    std::set<Holding*> holders;
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      Holding* const h = of_item(catalog.item_of(t, c));
      if (h == nullptr) continue;
      const uint64_t bytes = t.dtype_known ? volume(catalog.box(t, c).sizes) * bytes_of(t.dtype) : 0;
      h->tensor_bytes += bytes;
      of[h] += bytes;
      holders.insert(h);
    }
    for (Holding* const h : holders) ++h->tensors;
  }
  Holdings result;
  const Holding* largest = nullptr;
  for (auto& [who, h] : by_name) {
    h.who = who;
    result.all.push_back(h);
    if (largest == nullptr || h.tensor_bytes > largest->tensor_bytes) largest = &h;
  }
  if (largest != nullptr && static_cast<double>(largest->tensor_bytes) > kMuch * mean_of(result.all))
    result.most = held_most(held, *largest, result.all.size());
  return result;
}

void print_holdings(Holdings found, SortBy sort, const Context& context) {
  std::vector<Holding>& holdings = found.all;
  if (holdings.empty()) return context.print("no rank holds anything of it\n");
  const bool are_ranks = std::ranges::all_of(holdings, &Holding::is_rank);
  const Holding most = *std::ranges::max_element(holdings, {}, &Holding::tensor_bytes);
  const std::string of = (are_ranks ? "rank " : "") + escaped(most.who);
  if (holdings.size() > 1)
    context.print((are_even(holdings) ? "all hold the same number of bytes: " + human_bytes(most.tensor_bytes)
                                      : of + " holds the most: " + human_bytes(most.tensor_bytes) + ", " +
                                            fixed(static_cast<double>(most.tensor_bytes) / mean_of(holdings), 2) + " times the mean") +
                  "\n");
  print_table(context, {false, true, false}, LongNames::kOwnLine, [&](const auto& add) {
    for (const HeldMost& h : found.most)
      add({"  " + h.keys, human_bytes(h.bytes),
           h.is_alone ? "nobody else has any of it" : human_bytes(h.beyond_mean) + " more than the mean"});
  });
  if (!found.most.empty()) context.print("\n");
  if (sort == SortBy::kSize) std::ranges::stable_sort(holdings, std::greater<>(), &Holding::tensor_bytes);
  print_table(context, {are_ranks, true, true, true}, LongNames::kOnTheLine, [&](const auto& add) {
    add({are_ranks ? "rank" : "file", "bytes", "tensors", "objects"});
    for (const Holding& h : holdings) add({escaped(h.who), human_bytes(h.tensor_bytes), grouped(h.tensors), grouped(h.objects)});
  });
}

void holdings_json(JsonWriter& json, const Holdings& holdings) {
  json.key("ranks").begin_array();
  for (const Holding& h : holdings.all) {
    json.begin_object();
    if (h.is_rank) json.member("rank", uint64_t{std::stoull(h.who)});
    else json.member("file", h.who);
    json.member("tensor_bytes", h.tensor_bytes).member("tensors", h.tensors).member("objects", h.objects).end_object();
  }
  json.end_array().key("held_most").begin_array();
  for (const HeldMost& h : holdings.most)
    json.begin_object()
        .member("keys", h.keys)
        .member("bytes", h.bytes)
        .member("beyond_mean", h.beyond_mean)
        .member("alone", h.is_alone)
        .end_object();
  json.end_array();
}

}  // namespace dcp::cmd
