// What each rank of a checkpoint holds, and who holds the most.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/text.h"
#include "catalog/data_files.h"
#include "line/lines.h"
#include "report/inspect_text.h"

namespace dcp::cmd {
namespace {

std::string times_the_mean(const Holding& most, const std::vector<Holding>& all) {
  uint64_t sum = 0;
  for (const Holding& h : all) sum += h.tensor_bytes;
  const double mean = static_cast<double>(sum) / static_cast<double>(all.size());
  return fixed(static_cast<double>(most.tensor_bytes) / mean, 2) + " times the mean";
}

}  // namespace

std::vector<Holding> holdings_of(const InspectResult& found) {
  const Catalog& catalog = found.catalog();
  std::map<std::string, Holding, NaturalLess> by_name;
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
    std::set<Holding*> holders;
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      Holding* const h = of_item(catalog.item_of(t, c));
      if (h == nullptr) continue;
      h->tensor_bytes += t.dtype_known ? volume(catalog.box(t, c).sizes) * bytes_of(t.dtype) : 0;
      holders.insert(h);
    }
    for (Holding* const h : holders) ++h->tensors;
  }
  std::vector<Holding> all;
  for (auto& [who, h] : by_name) {
    h.who = who;
    all.push_back(std::move(h));
  }
  return all;
}

void print_holdings(std::vector<Holding> holdings, SortBy sort, const Context& context) {
  if (holdings.empty()) return context.print("no rank holds anything of it\n");
  const bool are_ranks = std::ranges::all_of(holdings, &Holding::is_rank);
  const Holding most = *std::ranges::max_element(holdings, {}, &Holding::tensor_bytes);
  const std::string of = (are_ranks ? "rank " : "") + escaped(most.who);
  const bool is_even = std::ranges::all_of(holdings, [&](const Holding& h) { return h.tensor_bytes == most.tensor_bytes; });
  if (holdings.size() > 1)
    context.print((is_even ? "all hold the same number of bytes: " + human_bytes(most.tensor_bytes)
                           : of + " holds the most: " + human_bytes(most.tensor_bytes) + ", " + times_the_mean(most, holdings)) +
                  "\n");
  if (sort == SortBy::kSize) std::ranges::stable_sort(holdings, std::greater<>(), &Holding::tensor_bytes);
  print_table(context, {are_ranks, true, true, true}, LongNames::kOnTheLine, [&](const auto& add) {
    add({are_ranks ? "rank" : "file", "bytes", "tensors", "objects"});
    for (const Holding& h : holdings) add({escaped(h.who), human_bytes(h.tensor_bytes), grouped(h.tensors), grouped(h.objects)});
  });
}

void holdings_json(JsonWriter& json, const std::vector<Holding>& holdings) {
  json.key("ranks").begin_array();
  for (const Holding& h : holdings) {
    json.begin_object();
    if (h.is_rank) json.member("rank", uint64_t{std::stoull(h.who)});
    else json.member("file", h.who);
    json.member("tensor_bytes", h.tensor_bytes).member("tensors", h.tensors).member("objects", h.objects).end_object();
  }
  json.end_array();
}

}  // namespace dcp::cmd
