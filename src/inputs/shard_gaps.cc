#include "inputs/shard_gaps.h"

#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/decimal.h"
#include "inputs/safetensors.h"

namespace dcp {
namespace {

// [shard-RRRRR-]PREFIX-NNNNN-of-MMMMM.safetensors, as transformers and torch's _hf_utils.py number files.
struct Numbered {
  std::string prefix;
  uint32_t rank = 0;  // from 1; 0: none
  uint32_t number = 0, of = 0;
};
std::optional<Numbered> numbered(std::string_view name) {
  name.remove_suffix(kSafetensorsEnding.size());
  Numbered n;
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const auto number = decimal<uint32_t>(name.substr(dash + 1, of - dash - 1)), count = decimal<uint32_t>(name.substr(of + 4));
  if (!number || !count) return std::nullopt;
  n.number = *number;
  n.of = *count;
  name = name.substr(0, dash);
  constexpr std::string_view kShard = "shard-";
  const size_t after = name.find('-', kShard.size());
  if (name.starts_with(kShard) && after != std::string_view::npos) {
    if (const auto rank = decimal<uint32_t>(name.substr(kShard.size(), after - kShard.size()))) {
      n.rank = *rank;
      name.remove_prefix(after + 1);
    }
  }
  n.prefix = name;
  return n;
}

std::string padded(uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<size_t>(digits.size(), 5), '0') + digits;
}

}  // namespace

void find_gaps(const std::vector<std::string>& names, const std::string& path, std::vector<Problem>& findings) {
  struct Group {
    std::set<uint32_t> numbers;
    bool by_ranks = false;
  };
  std::map<std::pair<std::string, uint32_t>, Group> groups;
  std::set<uint32_t> ranks;
  std::set<std::tuple<std::string, uint32_t, uint32_t>> shards;  // prefix, number, rank
  for (const std::string& name : names) {
    const std::optional<Numbered> n = numbered(name);
    if (!n) continue;
    Group& group = groups[{n->prefix, n->of}];
    group.numbers.insert(n->number);
    if (n->rank == 0) continue;
    group.by_ranks = true;
    ranks.insert(n->rank);
    shards.insert({n->prefix, n->number, n->rank});
  }
  bool has_gap = false;
  const auto gap = [&](std::string got) {
    has_gap = true;
    findings.push_back(make_finding(ProblemId::shard_gap, Severity::kWarning, {.path = path}, std::move(got)));
  };
  for (const auto& [name, group] : groups) {
    const auto& [prefix, of] = name;
    uint32_t next = 1;
    while (group.numbers.contains(next)) ++next;
    if (next > of) continue;
    std::string got = "no " + prefix + "-" + padded(next) + "-of-" + padded(of);
    if (group.by_ranks) gap(std::move(got));
    else findings.push_back(make_finding(ProblemId::shard_file_missing, Severity::kDamage, {.path = path}, std::move(got)));
  }
  if (ranks.empty()) return;
  uint32_t next = 1;
  while (ranks.contains(next)) ++next;
  const std::string last = padded(*ranks.rbegin());
  if (next < *ranks.rbegin()) return gap("no shard-" + padded(next) + " beside shard-" + last);
  for (const auto& [name, group] : groups) {
    const auto& [prefix, of] = name;
    for (const uint32_t number : group.numbers) {
      if (!shards.contains({prefix, number, 1}) && !shards.contains({prefix, number, *ranks.rbegin()}))
        continue;  // else all ranks have it, or the numbers end here
      for (const uint32_t rank : ranks)
        if (!shards.contains({prefix, number, rank}) && shards.contains({prefix, number, rank == 1 ? *ranks.rbegin() : 1}))
          return gap("no shard-" + padded(rank) + "-" + prefix + "-" + padded(number) + "-of-" + padded(of) +
                     " beside other ranks' shards of it");
    }
  }
  if (!has_gap)
    findings.push_back(make_finding(ProblemId::shard_count_unknown, Severity::kNote, {.path = path}, "shard-00001 to shard-" + last));
}

}  // namespace dcp
