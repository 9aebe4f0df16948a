#include "inputs/plain_shards.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "base/sums.h"
#include "base/text.h"
#include "select/globs.h"
#include "select/select.h"

namespace dcp {
namespace {

using Ranks = std::vector<PlainTensor>;

bool same_dims(const PlainTensor& a, const PlainTensor& b) { return std::ranges::equal(a.dims, b.dims); }
bool have_same_dims(const Ranks& ranks) {
  return std::ranges::all_of(ranks, [&](const PlainTensor& t) { return same_dims(t, ranks[0]); });
}

bool can_join(const Ranks& ranks, size_t dim) {
  return dim < ranks[0].dims.size() &&
         std::ranges::all_of(
             ranks,
             [&](const PlainTensor& t) {
               if (t.info->opaque || t.dims.size() != ranks[0].dims.size() || t.info->dtype != ranks[0].info->dtype) return false;
               for (size_t d = 0; d < t.dims.size(); ++d)
                 if (d != dim && t.dims[d] != ranks[0].dims[d]) return false;
               return true;
             });
}

// Strides in elements, one for each dim.
std::vector<int64_t> strides_of(const PlainTensor& t) {
  if (!t.strides.empty()) return {t.strides.begin() + 1, t.strides.end()};
  const Numbers strides = row_major(t.dims);
  return {strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(t.dims.size())};
}

// Whether its elements, in any order, are contiguous.
bool is_dense(const PlainTensor& t) {
  uint64_t last = 0;
  const std::vector<int64_t> strides = strides_of(t);
  for (size_t d = 0; d < t.dims.size(); ++d)
    if (t.dims[d] > 0) last += static_cast<uint64_t>(t.dims[d] - 1) * static_cast<uint64_t>(strides[d]);
  return volume(t.dims) == 0 || last + 1 == volume(t.dims);
}

bool is_whole_record(const PlainTensor& t) { return t.strides.empty() && volume(t.dims) * bytes_of(t.info->dtype) == t.info->record_bytes; }

JoinedTensor joined(const Ranks& ranks, uint32_t dim, const Place& place) {
  JoinedTensor whole{.sizes = {ranks[0].dims.begin(), ranks[0].dims.end()}, .dim = dim, .parts = {}};
  int64_t& end = whole.sizes[dim] = 0;
  for (const PlainTensor& t : ranks) {
    if (volume(t.dims) > 0) whole.parts[t.file] = {end, {t.dims.begin(), t.dims.end()}};
    const auto sum = checked_add(end, t.dims[dim]);
    if (!sum) fail(ProblemId::number_overflow, place, std::to_string(end) + " + " + std::to_string(t.dims[dim]));
    end = *sum;
  }
  if (whole.parts.empty()) whole.parts[ranks[0].file] = {0, {ranks[0].dims.begin(), ranks[0].dims.end()}};
  return whole;
}

JoinedTensor unknown(const Ranks& ranks) { return {.sizes = {ranks[0].dims.begin(), ranks[0].dims.end()}, .parts = {}}; }

// Lists up to ten keys.
std::string listed(const std::vector<std::string>& keys) {
  constexpr size_t kNamed = 10;
  std::string text;
  for (size_t i = 0; i < keys.size() && i < kNamed; ++i) text += (i == 0 ? "" : ", ") + shortened(keys[i]);
  return keys.size() > kNamed ? text + " and " + grouped(keys.size() - kNamed) + " more" : text;
}

}  // namespace

TensorPart JoinedTensor::part(size_t file, const Value& local) const {
  TensorPart part{.local = local, .local_sizes = {}, .sizes = sizes, .boxes = {}};
  if (const auto found = parts.find(file); found != parts.end()) {
    const std::vector<int64_t> zeros(sizes.size(), 0);
    part.local_sizes = found->second.second;
    part.boxes.push_back({.offsets = zeros, .sizes = part.local_sizes, .local_offsets = zeros});
    part.boxes[0].offsets[dim] = found->second.first;
  }
  return part;
}

bool PlainShards::are_same(const PlainTensors& tensors, size_t count) {
  const auto same = [](const PlainTensor& a, const PlainTensor& b) {
    const ItemInfo &x = *a.info, &y = *b.info;
    return same_dims(a, b) && std::ranges::equal(a.strides, b.strides) && x.dtype == y.dtype && x.record_bytes == y.record_bytes &&
           x.crc == y.crc && x.has_crc && y.has_crc;
  };
  return std::ranges::all_of(tensors, [&](const auto& of_key) {
    const Ranks& ranks = of_key.second;
    return ranks.size() == count && std::ranges::all_of(ranks, [&](const PlainTensor& t) { return same(t, ranks[0]); });
  });
}

JoinedTensors PlainShards::join(const PlainTensors& tensors, size_t count, std::vector<Problem>& findings) {
  const uint32_t dim = *options_.shards_on_dim;
  std::map<std::string_view, Is> is;
  for (const auto& [key, ranks] : tensors) is.emplace(key, judge(key, ranks, count));
  const std::map<std::string_view, Is> by_bytes = is;
  settle_by_shape(tensors, is);
  std::vector<std::string> parts, unclear, whole, equal;
  JoinedTensors all;
  for (const auto& [key, ranks] : tensors) {
    const Place place{.path = path_, .tensor = std::string(key)};
    if (is.at(key) == Is::kEither) unclear.emplace_back(key);
    if (is.at(key) == Is::kWhole) {
      if (!ranks[0].dims.empty()) whole.emplace_back(key);
      if (is_named(key) && any_differ(ranks, UINT64_MAX)) {
        findings.push_back(make_finding(ProblemId::replicated_differs, Severity::kDamage, place));
        findings.back().keys = {std::string(key)};
        all.emplace(key, unknown(ranks));
      }
      continue;
    }
    if (is.at(key) == Is::kPart && ranks.size() == count) {
      parts.emplace_back(key);
      if (by_bytes.at(key) == Is::kEither || (!options_.replicated.empty() && !any_differ(ranks, UINT64_MAX))) equal.emplace_back(key);
      all.emplace(key, joined(ranks, dim, place));
      continue;
    }
    all.emplace(key, unknown(ranks));
    if (is.at(key) == Is::kPart) findings.push_back(make_finding(ProblemId::rank_lacks_key, Severity::kDamage, place));
  }
  add_others(tensors, is, findings);
  if (!unclear.empty()) {
    findings.push_back(make_finding(ProblemId::shards_equal, Severity::kDamage, {.path = path_}, listed(unclear)));
    findings.back().keys = std::move(unclear);
  }
  if (!equal.empty()) {
    Problem p = make_finding(ProblemId::shards_equal, Severity::kWarning, {.path = path_}, listed(equal));
    p.what = "these tensors are the same on all ranks, and joined, since " +
             std::string(options_.replicated.empty() ? "others of their shape are shards" : "they are not named as replicated");
    findings.push_back(std::move(p));
  }
  if (!repeat_rank(tensors, parts, findings)) {
    if (parts.empty()) return all;
    const std::string what = counted(parts.size(), "tensor") + " of " + std::to_string(count) + " ranks on dim " + std::to_string(dim);
    findings.push_back(make_finding(ProblemId::shards_joined, Severity::kNote, {.path = path_},
                                    what + (whole.empty() ? "" : "; replicated: " + listed(whole))));
    return all;
  }
  for (const std::string& key : parts) all.at(key) = unknown(tensors.at(key));
  return all;
}

void PlainShards::add_others(const PlainTensors& tensors, const std::map<std::string_view, Is>& is, std::vector<Problem>& findings) const {
  std::vector<std::string> others;
  for (const auto& [key, what] : is)
    if (what == Is::kOther) others.emplace_back(key);
  if (others.empty()) return;
  Problem p = make_finding(ProblemId::ranks_are_shards, Severity::kDamage, {.path = path_}, listed(others));
  p.what = "the ranks' tensors are shards, but not along dim " + std::to_string(*options_.shards_on_dim);
  p.remedy = Remedy::kFewerKeys;
  for (const size_t d : {size_t{0}, size_t{1}}) {
    const auto joins = [&](const auto& k) { return (k.second != Is::kPart && k.second != Is::kOther) || can_join(tensors.at(k.first), d); };
    if (p.names.empty() && std::ranges::all_of(is, joins)) p.names = {std::to_string(d)}, p.remedy = Remedy::kOfId;
  }
  p.keys = std::move(others);
  findings.push_back(std::move(p));
}

bool PlainShards::is_named(std::string_view key) const {
  return std::ranges::any_of(options_.replicated, [&](const std::string& glob) { return glob_matches(glob, key); });
}

// Decides by what is known, or else by the shapes, or else by the bytes.
PlainShards::Is PlainShards::judge(std::string_view key, const Ranks& ranks, size_t count) {
  const uint32_t dim = *options_.shards_on_dim;
  const bool is_opaque = std::ranges::any_of(ranks, [](const PlainTensor& t) { return t.info->opaque; });
  if (ranks[0].dims.empty() || is_opaque || (volume(ranks[0].dims) == 0 && have_same_dims(ranks))) return Is::kWhole;
  if (is_named(key)) return Is::kWhole;
  const bool joins = can_join(ranks, dim);
  if (const auto known = options_.whole_shapes.find(key); known != options_.whole_shapes.end()) {
    const Place place{.path = path_, .tensor = std::string(key)};
    if (joins && std::ranges::equal(known->second, joined(ranks, dim, place).sizes)) return Is::kPart;
    if (have_same_dims(ranks) && std::ranges::equal(known->second, ranks[0].dims)) return Is::kWhole;
  }
  const bool is_part = !options_.replicated.empty() || ranks.size() != count || any_differ(ranks, UINT64_MAX);
  return !is_part ? Is::kEither : joins ? Is::kPart : Is::kOther;
}

// A tensor that is the same on all ranks is a part if all others of its shape are, as far as these are known.
void PlainShards::settle_by_shape(const PlainTensors& tensors, std::map<std::string_view, Is>& is) const {
  struct Count {
    uint64_t parts = 0, whole = 0;
  };
  const auto shape = [&](std::string_view key) {
    const Dims dims = tensors.at(key)[0].dims;
    return std::vector<int64_t>(dims.begin(), dims.end());
  };
  std::map<std::vector<int64_t>, Count> of_shape;
  for (const auto& [key, ranks] : tensors)
    if (have_same_dims(ranks) && is.at(key) != Is::kEither)
      ++(is.at(key) == Is::kPart ? of_shape[shape(key)].parts : of_shape[shape(key)].whole);
  for (auto& [key, what] : is) {
    const Count& count = of_shape[shape(key)];
    if (what == Is::kEither && count.parts > 0 && count.whole == 0) what = Is::kPart;
  }
}

// If two ranks have the same parts of everything, each part would occur twice.
bool PlainShards::repeat_rank(const PlainTensors& tensors, const std::vector<std::string>& parts, std::vector<Problem>& findings) {
  const auto is_same = [&](const std::string& key) { return !any_differ(tensors.find(key)->second, UINT64_MAX); };
  if (parts.empty() || (!options_.replicated.empty() && std::ranges::all_of(parts, is_same))) return false;  // shards of ones and zeros
  const Ranks& first = tensors.find(parts[0])->second;
  for (size_t r = 1; r < first.size(); ++r) {
    const auto is_known = [&](const std::string& key) { return options_.whole_shapes.contains(key); };
    const auto repeats = [&](const std::string& key) {
      const Ranks& ranks = tensors.find(key)->second;
      return volume(ranks[0].dims) > 0 && same_dims(ranks[0], ranks[r]) && !differ(ranks[0], ranks[r], UINT64_MAX);
    };
    if (std::ranges::any_of(parts, is_known) || !std::ranges::all_of(parts, repeats)) continue;
    findings.push_back(make_finding(ProblemId::shards_repeated, Severity::kDamage, {.path = path_ + "/" + files_[first[r].file].name},
                                    "all that " + files_[first[0].file].name + " has", "shards of its own"));
    findings.back().keys = parts;
    return true;
  }
  return false;
}

// Ranks of which most bytes differ, in several tensors, or most matrices, have shards: beside these, vectors are replicated, and so may be a large
// matrix. A difference in one small tensor concerns only that key.
JoinedTensors PlainShards::refuse_shards(const PlainTensors& tensors, size_t count, std::vector<Problem>& findings) {
  constexpr uint64_t kLookedAt = 64 * kKiB;  // of each tensor that has no CRC
  uint64_t bytes = 0, differing_bytes = 0, matrices = 0, differing_matrices = 0;
  std::vector<std::string> equal, differing;
  for (const auto& [key, ranks] : tensors) {
    if (ranks.size() != count || ranks[0].dims.empty()) continue;
    const bool joins = can_join(ranks, 0) || can_join(ranks, 1);
    const bool differs = joins && any_differ(ranks, kLookedAt);
    if (joins) (differs ? differing : equal).emplace_back(key);
    if (!differs && is_constant(ranks[0], kLookedAt)) continue;  // zeros are the same whether they are shards or not
    const uint64_t its = ranks[0].info->record_bytes;
    const bool is_matrix = ranks[0].dims.size() > 1;
    bytes += its;
    matrices += is_matrix;
    if (!differs) continue;
    differing_bytes += its;
    differing_matrices += is_matrix;
  }
  const bool is_most = differing_bytes > bytes / 2 && (differing.size() > 1 || equal.empty());
  if (!is_most && 2 * differing_matrices <= matrices) return {};
  JoinedTensors all;
  for (const auto* keys : {&equal, &differing})
    for (const std::string& key : *keys) all.emplace(key, unknown(tensors.find(key)->second));
  add_shards(tensors, std::move(differing), std::move(equal), findings);
  return all;
}

// Those that the better of two dims joins, and the others.
void PlainShards::add_shards(const PlainTensors& tensors, std::vector<std::string> differing, std::vector<std::string> equal,
                             std::vector<Problem>& findings) const {
  uint64_t bytes[2] = {};
  const auto joins = [&](const std::string& key, size_t d) { return can_join(tensors.find(key)->second, d); };
  for (const std::string& key : differing)
    for (const size_t d : {size_t{0}, size_t{1}})
      if (joins(key, d)) bytes[d] += tensors.find(key)->second[0].info->record_bytes + 1;
  const size_t dim = bytes[1] > bytes[0];
  const auto rest = std::ranges::stable_partition(differing, [&](const std::string& key) { return joins(key, dim); });
  std::vector<std::string> others(rest.begin(), rest.end());
  differing.erase(rest.begin(), rest.end());
  Problem p = make_finding(ProblemId::ranks_are_shards, Severity::kDamage, {.path = path_},
                           listed(differing) + (equal.empty() ? "" : "; the same on all ranks: " + listed(equal)));
  p.names = {std::to_string(dim)};
  p.keys = std::move(differing);
  std::ranges::move(equal, std::back_inserter(p.keys));
  findings.push_back(std::move(p));
  if (others.empty()) return;
  Problem q = make_finding(ProblemId::ranks_are_shards, Severity::kDamage, {.path = path_}, listed(others));
  q.remedy = Remedy::kFewerKeys;
  q.keys = std::move(others);
  findings.push_back(std::move(q));
}

bool PlainShards::any_differ(const Ranks& ranks, uint64_t at_most) {
  return std::ranges::any_of(ranks, [&](const PlainTensor& t) { return differ(ranks[0], t, at_most); });
}

// Whether they surely differ: bytes that cannot be compared in order, or are not read, may be the same.
bool PlainShards::differ(const PlainTensor& a, const PlainTensor& b, uint64_t at_most) {
  if (&a == &b) return false;
  if (!same_dims(a, b) || a.info->dtype != b.info->dtype) return true;
  if (is_whole_record(a) && is_whole_record(b) && a.info->has_crc && b.info->has_crc) return a.info->crc != b.info->crc;
  const auto flags = [](const ItemInfo& i) { return std::tuple(i.swap, i.conj, i.neg); };
  const bool comparable = is_dense(a) && is_dense(b) && std::ranges::equal(strides_of(a), strides_of(b)) && !a.is_packed && !b.is_packed;
  return comparable && flags(*a.info) == flags(*b.info) && read_crc(a, at_most) != read_crc(b, at_most);
}

// Whether the first bytes repeat one element.
bool PlainShards::is_constant(const PlainTensor& t, uint64_t at_most) {
  if (!is_dense(t) || t.is_packed) return false;
  bool repeats = true;
  visit_bytes(t, at_most, [&](Bytes part) {
    const size_t element = std::min<size_t>(bytes_of(t.info->dtype), part.size());
    repeats = repeats && std::ranges::equal(part.subspan(element), part.first(part.size() - element));
  });
  return repeats;
}

uint32_t PlainShards::read_crc(const PlainTensor& t, uint64_t at_most) {
  uint32_t raw = 0;
  const uint64_t bytes = visit_bytes(t, at_most, [&](Bytes part) { raw = crc32_shift(raw, part.size()) ^ crc32_raw(part); });
  return crc32_finish(raw, bytes);
}

uint64_t PlainShards::visit_bytes(const PlainTensor& t, uint64_t at_most, const std::function<void(Bytes)>& visit) {
  const std::string& name = files_[t.file].name;
  const std::optional<Handle> handle = store_.open_beneath(path_, name, options_.links);
  if (!handle) fail(ProblemId::file_missing, {.path = path_ + "/" + name});
  const OpenFile file(store_, *handle);
  const uint64_t es = bytes_of(t.info->dtype), bytes = std::min(at_most, volume(t.dims) * es);
  uint64_t at = t.info->record + (t.strides.empty() ? 0 : static_cast<uint64_t>(t.strides[0]) * es);
  std::vector<std::byte> block(std::min(bytes, kMiB));
  for (uint64_t left = bytes; left > 0;) {
    const MutableBytes part = MutableBytes(block).first(std::min<uint64_t>(left, block.size()));
    read_exact(store_, file.get(), at, part);
    visit(part);
    at += part.size();
    left -= part.size();
  }
  return bytes;
}

}  // namespace dcp
