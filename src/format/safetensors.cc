#include "format/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <unordered_set>

#include "base/checked.h"
#include "base/text.h"
#include "format/dtype.h"
#include "format/json_text.h"
#include "pickle/tokens.h"

namespace dcp {
namespace {

// Bytes of a shape, shared by the reader and the writer of safetensors headers.

// How many safetensors values one torch element holds, in the last dim.
inline uint64_t values_per_element(DType dtype) { return dtype == DType::float4_e2m1fn_x2 ? 2 : 1; }

// Bytes of a row-major tensor; `shape` is torch's, each dim >= 0.
inline uint64_t bytes_of_shape(DType dtype, std::span<const int64_t> shape, const Place& place) {
  uint64_t bytes = bytes_of(dtype);
  for (const int64_t dim : shape) bytes = mul_or_fail(bytes, static_cast<uint64_t>(dim), place);
  return bytes;
}

}  // namespace

// Writer of safetensors headers; the reader is in safetensors_read.cc.

namespace {

// The reference library sorts by its enum of dtypes, from the last to the first (safetensors 0.8, enum Dtype).
constexpr auto kOrder = [] {
  using enum DType;
  return std::to_array(
      {uint64, int64,           float64,         complex64,      float32,       uint32,      int32, bfloat16, float16,          uint16,
       int16,  float8_e5m2fnuz, float8_e4m3fnuz, float8_e8m0fnu, float8_e4m3fn, float8_e5m2, int8,  uint8,    float4_e2m1fn_x2, bool_});
}();

constexpr auto kHasForm = std::to_array<bool>({
#define DCP_DTYPE(name, bytes, kind, storage, safetensors, torch) !std::string_view(safetensors).empty(),
#include "format/dtypes.def"
#undef DCP_DTYPE
});

// The position of each dtype in kOrder; kOrder's size for dtypes without a form.
constexpr auto kRanks = [] {
  std::array<size_t, kHasForm.size()> ranks{};
  ranks.fill(kOrder.size());
  for (size_t i = 0; i < kOrder.size(); ++i) ranks[static_cast<size_t>(kOrder[i])] = i;
  return ranks;
}();

constexpr bool order_is_complete() {
  for (size_t i = 0; i < kHasForm.size(); ++i) {
    if (kHasForm[i] != (kRanks[i] < kOrder.size())) return false;
  }
  return true;
}
static_assert(order_is_complete(), "every dtype with a safetensors name has its place in kOrder, and no other");

Place tensor_place(const std::string& name) {
  Place place;
  place.tensor = name;
  return place;
}

void append_text(std::string& out, const std::string& text) {
  if (!append_json_text(out, text, JsonText::kUtf8)) fail(ProblemId::safetensors_bad_name, tensor_place(text), "text that is not UTF-8");
}

void append_metadata(std::string& out, const std::map<std::string, std::string>& metadata) {
  if (metadata.empty()) return;
  out += "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    append_text(out, key);
    out += ':';
    append_text(out, value);
    out += ',';
  }
  out.back() = '}';
  out += ',';
}

void append_entry(std::string& out, const SafetensorsEntry& entry) {
  if (entry.name == "__metadata__") fail(ProblemId::safetensors_bad_name, tensor_place(entry.name), "the header's own name");
  append_text(out, entry.name);
  out.append(":{\"dtype\":\"").append(facts_of(entry.dtype).safetensors).append("\",\"shape\":[");
  for (size_t d = 0; d < entry.shape.size(); ++d) {
    const bool is_last = d + 1 == entry.shape.size();
    const uint64_t dim = static_cast<uint64_t>(entry.shape[d]) * (is_last ? values_per_element(entry.dtype) : 1);
    if (d > 0) out += ',';
    out += std::to_string(dim);
  }
  out += "],\"data_offsets\":[" + std::to_string(entry.offset) + "," + std::to_string(entry.offset + entry.bytes) + "]},";
}

}  // namespace

bool safetensors_before(DType dtype_a, std::string_view name_a, DType dtype_b, std::string_view name_b) {
  const size_t a = kRanks[static_cast<size_t>(dtype_a)], b = kRanks[static_cast<size_t>(dtype_b)];
  return a != b ? a < b : name_a < name_b;
}

std::string write_safetensors_header(std::vector<SafetensorsEntry>& entries, const std::map<std::string, std::string>& metadata) {
  std::string out(8, '\0');
  out += '{';
  append_metadata(out, metadata);
  uint64_t offset = 0;
  for (SafetensorsEntry& entry : entries) {
    const Place place = tensor_place(entry.name);
    const DTypeFacts& facts = facts_of(entry.dtype);
    if (facts.safetensors.empty() || (values_per_element(entry.dtype) != 1 && entry.shape.empty())) {
      fail(ProblemId::safetensors_no_dtype, place, (entry.shape.empty() ? "a 0-dim " : "") + std::string(facts.name));
    }
    entry.bytes = bytes_of_shape(entry.dtype, entry.shape, place);
    entry.offset = offset;
    offset = add_or_fail(offset, entry.bytes, place);
    append_entry(out, entry);
  }
  if (out.back() == ',') out.pop_back();
  out += '}';
  out.resize((out.size() + 7) / 8 * 8, ' ');
  const uint64_t json = out.size() - 8;
  if (json > kMaxSafetensorsHeader) {
    fail(ProblemId::over_limit, {}, "a safetensors header of " + std::to_string(json) + " bytes",
         "at most " + std::to_string(kMaxSafetensorsHeader));
  }
  store_le(reinterpret_cast<std::byte*>(out.data()), json);
  for (SafetensorsEntry& entry : entries) entry.offset += out.size();
  return out;
}

// Reader of safetensors headers: one pass over the JSON, then one over the ranges.

namespace {

using Json = nlohmann::json;

// What has been read so far about one tensor. Ranges are relative to the end of the header.
struct RawEntry {
  std::string name;
  std::optional<std::string> dtype = {};
  std::optional<std::vector<uint64_t>> shape = {}, range = {};
  std::string malformed = {};  // "a value at 'shape'"
};

// Called by the parser for every value. Other members of a tensor's object are ignored, as the reference does.
class HeaderHandler : public Json::json_sax_t {
 public:
  HeaderHandler(const Place& place, const Limits& limits) : place_(place), limits_(limits) {}
  std::map<std::string, std::string> metadata;
  std::vector<RawEntry> entries;

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(Json::number_integer_t) override { return scalar(); }
  bool number_float(Json::number_float_t, const std::string&) override { return scalar(); }
  bool binary(Json::binary_t&) override { return scalar(); }
  bool number_unsigned(Json::number_unsigned_t n) override {
    if (array_ == nullptr) return scalar();
    if (array_->size() >= limits_.tensor_rank) {
      fail(ProblemId::over_limit, at_key(), std::to_string(array_->size() + 1) + " numbers",
           "at most " + std::to_string(limits_.tensor_rank));
    }
    array_->push_back(n);
    return true;
  }
  bool string(std::string& text) override {
    if (inside_ == Inside::kMetadata && depth_ == 2) {
      if (!metadata.emplace(key_, text).second) duplicate();
      return true;
    }
    if (!in_tensor(2) || key_ != "dtype") return scalar();
    if (entries.back().dtype) duplicate();
    entries.back().dtype = text;
    return true;
  }
  bool start_object(std::size_t) override {
    deeper();
    if (depth_ == 1) return true;
    if (depth_ == 2) {
      const bool is_metadata = key_ == "__metadata__";
      if (is_metadata && std::exchange(has_metadata_, true)) duplicate();
      if (!is_metadata) entries.push_back({.name = key_});
      inside_ = is_metadata ? Inside::kMetadata : Inside::kTensor;
      return true;
    }
    return nested();
  }
  bool start_array(std::size_t) override {
    deeper();
    if (depth_ == 2 && is_entry()) {
      add_other("an array");
      inside_ = Inside::kOther;
    }
    if (!in_tensor(3) || (key_ != "shape" && key_ != "data_offsets")) return nested();
    auto& list = key_ == "shape" ? entries.back().shape : entries.back().range;
    if (list) duplicate();
    array_ = &list.emplace();
    return true;
  }
  bool key(std::string& text) override {
    key_ = text;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) inside_ = Inside::kNeither;
    return true;
  }
  bool end_array() override {
    array_ = nullptr;
    if (--depth_ == 1) inside_ = Inside::kNeither;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    // Positions count from 1, in the JSON after the length prefix.
    fail(ProblemId::safetensors_bad_json, at_offset(place_, 8 + (position > 0 ? position - 1 : 0)));
  }

 private:
  enum class Inside : uint8_t { kNeither, kMetadata, kTensor, kOther };

  bool in_tensor(uint32_t depth) const { return depth_ == depth && inside_ == Inside::kTensor; }
  bool is_known_key() const { return key_ == "dtype" || key_ == "shape" || key_ == "data_offsets"; }
  // A value of the wrong kind is an error, unless it lies under a member that is ignored.
  bool scalar() {
    if (depth_ == 1 && is_entry()) return add_other("a value"), true;
    if (inside_ == Inside::kOther) return true;
    if (inside_ != Inside::kTensor || array_ != nullptr || (depth_ == 2 && is_known_key())) malformed("a value");
    return true;
  }
  bool nested() {
    if (inside_ == Inside::kOther) return true;
    if (inside_ != Inside::kTensor || array_ != nullptr || (depth_ == 3 && is_known_key())) malformed("a nested value");
    return true;
  }
  // Whether what comes has the place of a tensor's description.
  bool is_entry() const { return inside_ == Inside::kNeither && key_ != "__metadata__"; }
  void add_other(std::string_view what) {
    entries.push_back({.name = key_, .malformed = std::string(what) + " in the place of a tensor's description"});
  }
  void deeper() {
    if (++depth_ > limits_.json_depth) {
      fail(ProblemId::over_limit, place_, "JSON nested " + std::to_string(depth_) + " deep",
           "at most " + std::to_string(limits_.json_depth));
    }
  }
  Place at_key() const {
    Place place = place_;
    if (inside_ == Inside::kTensor) place.tensor = entries.back().name;
    return place;
  }
  void malformed(std::string_view value) {
    const std::string got = std::string(value) + (key_.empty() ? "" : " at '" + key_ + "'");
    if (inside_ != Inside::kTensor) fail(ProblemId::safetensors_bad_header, place_, got);
    if (entries.back().malformed.empty()) entries.back().malformed = got;
  }
  [[noreturn]] void duplicate() const { fail(ProblemId::safetensors_duplicate, at_key(), key_); }

  const Place& place_;
  const Limits& limits_;
  std::string key_;
  std::vector<uint64_t>* array_ = nullptr;  // the shape or range being filled
  uint32_t depth_ = 0;
  Inside inside_ = Inside::kNeither;
  bool has_metadata_ = false;
};

// Makes an entry, whose range is absolute.
SafetensorsEntry checked_entry(const RawEntry& raw, uint64_t header_bytes, const Place& file) {
  Place place = file;
  place.tensor = raw.name;
  const auto malformed = [&](const std::string& got) { fail(ProblemId::safetensors_bad_header, place, got); };
  if (!raw.malformed.empty()) malformed(raw.malformed);
  const bool has_bytes = raw.range && raw.range->size() == 2 && raw.range->front() != raw.range->back();
  if (raw.dtype.value_or("").empty() && !has_bytes) fail(ProblemId::safetensors_no_data, place);
  if (!raw.dtype) malformed("no dtype");
  if (!raw.shape) malformed("no shape");
  if (!raw.range) malformed("no data_offsets");
  const auto dtype = dtype_of_safetensors(*raw.dtype);
  if (!dtype) fail(ProblemId::safetensors_unknown_dtype, place, *raw.dtype);
  SafetensorsEntry entry{.name = raw.name, .dtype = *dtype, .shape = {}};
  const uint64_t values = values_per_element(*dtype);
  if (values != 1 && (raw.shape->empty() || raw.shape->back() % values != 0)) {
    fail(ProblemId::safetensors_bad_range, place, "an odd number of values in the last dim", "pairs");
  }
  for (const uint64_t dim : *raw.shape) {
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail(ProblemId::number_overflow, place, std::to_string(dim));
    entry.shape.push_back(static_cast<int64_t>(dim));
  }
  if (values != 1) entry.shape.back() /= static_cast<int64_t>(values);
  entry.bytes = bytes_of_shape(*dtype, entry.shape, place);
  const auto& range = *raw.range;
  if (range.size() != 2 || range[0] > range[1] || range[1] - range[0] != entry.bytes) {
    fail(ProblemId::safetensors_bad_range, place, "data_offsets [" + joined(range, ", ") + "]", std::to_string(entry.bytes) + " bytes");
  }
  entry.offset = add_or_fail(range[0], header_bytes, place);
  return entry;
}

// If the entry has a fault, this returns what is known about it.
SafetensorsEntry entry_or_fault(const RawEntry& raw, uint64_t header_bytes, const Place& file) {
  try {
    return checked_entry(raw, header_bytes, file);
  } catch (const Error& e) {
    Problem p = e.problem();
    p.severity = Severity::kDamage;
    p.remedy = Remedy::kFewerKeys;
    SafetensorsEntry entry{.name = raw.name, .shape = {}, .offset = header_bytes, .fault = std::make_shared<const Problem>(std::move(p))};
    uint64_t elements = 1;
    for (const uint64_t dim : raw.shape.value_or(std::vector<uint64_t>()))
      if (dim >= uint64_t{1} << 32 || (elements *= std::max<uint64_t>(dim, 1)) >= uint64_t{1} << 31) return entry;
    if (raw.shape) entry.shape.assign(raw.shape->begin(), raw.shape->end());
    return entry;
  }
}

void check_ranges(const std::vector<SafetensorsEntry>& entries, uint64_t header_bytes, uint64_t file_bytes, const Place& file) {
  uint64_t at = header_bytes;
  bool may_have_holes = false;
  for (const SafetensorsEntry& entry : entries) may_have_holes = may_have_holes || entry.fault;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.fault) continue;
    Place place = at_offset(file, entry.offset);
    place.tensor = entry.name;
    if (may_have_holes && entry.offset > at) at = entry.offset;
    if (entry.offset != at) fail(ProblemId::safetensors_hole, place, "a start at " + std::to_string(entry.offset), std::to_string(at));
    at = add_or_fail(at, entry.bytes, place);
  }
  if (at < file_bytes && !may_have_holes)
    fail(ProblemId::safetensors_hole, file, "a file of " + std::to_string(file_bytes) + " bytes", std::to_string(at));
}

void check_names(const std::vector<SafetensorsEntry>& entries, const Place& place) {
  std::vector<std::string_view> names(entries.size());
  std::ranges::transform(entries, names.begin(), [](const SafetensorsEntry& e) { return std::string_view(e.name); });
  std::ranges::sort(names);
  if (const auto it = std::ranges::adjacent_find(names); it != names.end()) {
    fail(ProblemId::safetensors_duplicate, place, std::string(*it));
  }
}

}  // namespace

bool begins_like_safetensors(Bytes head, uint64_t max_bytes) {
  if (head.size() < kSafetensorsBeginBytes) return false;
  const auto json = load_le<uint64_t>(head.data());
  return json >= 2 && json <= max_bytes - 8 && std::to_integer<char>(head[8]) == '{';
}

uint64_t safetensors_header_bytes(Bytes first, uint64_t file_bytes, const Place& place, const Limits& limits) {
  if (first.size() < 8 || file_bytes < 8) fail(ProblemId::safetensors_bad_length, place, std::to_string(file_bytes) + " bytes in all");
  const uint64_t json = load_le<uint64_t>(first.data());
  if (json > file_bytes - 8)
    fail(ProblemId::safetensors_bad_length, place, std::to_string(json), "at most " + std::to_string(file_bytes - 8));
  if (json > limits.json_bytes)
    fail(ProblemId::over_limit, place, std::to_string(json) + " bytes of JSON", "at most " + std::to_string(limits.json_bytes));
  return 8 + json;
}

SafetensorsHeader read_safetensors_header(Bytes head, uint64_t file_bytes, const Place& place, const Limits& limits) {
  const uint64_t header_bytes = safetensors_header_bytes(head, file_bytes, place, limits);
  if (head.size() < header_bytes) fail(ProblemId::internal, place, "a part of the header");
  const std::string_view json = as_text(head.subspan(8, header_bytes - 8));
  // The parser skips a byte order mark and stops at a zero byte; the reference takes neither.
  if (!json.starts_with('{') || json.find('\0') != std::string_view::npos) fail(ProblemId::safetensors_bad_json, at_offset(place, 8));
  HeaderHandler handler(place, limits);
  Json::sax_parse(json, &handler);
  SafetensorsHeader header{.metadata = std::move(handler.metadata), .entries = {}};
  header.entries.reserve(handler.entries.size());
  for (const RawEntry& raw : handler.entries) header.entries.push_back(entry_or_fault(raw, header_bytes, place));
  std::ranges::stable_sort(header.entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;  // empty tensors come before one that begins at the same place
  });
  check_ranges(header.entries, header_bytes, file_bytes, place);
  check_names(header.entries, place);
  return header;
}

// The index that Hugging Face puts beside several safetensors files:
//   {"metadata"?: {"total_size"?: bytes, ...}, "weight_map": {tensor: file...}}

namespace {

void append(std::string& out, std::string_view text) {
  if (append_json_text(out, text, JsonText::kAscii)) return;
  Place place;
  place.tensor = text;
  fail(ProblemId::safetensors_bad_name, std::move(place), "text that is not UTF-8");
}

}  // namespace

HfIndex read_hf_index(std::string_view json, const Place& place, const Limits& limits) {
  HfIndex index;
  bool has_map = false;
  std::unordered_set<std::string> names;
  walk_json(json, place, limits, ProblemId::hf_index_bad, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (keys.size() == 2 && keys[0] == "metadata" && keys[1] == "total_size" && v.kind == JsonValue::Kind::kNatural)
      index.total_bytes = v.number;
    if (keys.empty() || keys[0] != "weight_map") return;
    Place here = place;
    if (keys.size() > 1) here.tensor = keys[1];
    if (keys.size() == 1) {
      if (v.kind != JsonValue::Kind::kObject || std::exchange(has_map, true))
        fail(ProblemId::hf_index_bad, here, "a weight_map that is not an object, or two of them");
    } else {
      if (v.kind != JsonValue::Kind::kText) fail(ProblemId::hf_index_bad, here, "no file name");
      if (!names.insert(keys[1]).second) fail(ProblemId::hf_index_bad, here, "the tensor twice");
      index.weight_map.emplace_back(keys[1], v.text);
    }
  });
  if (!has_map) fail(ProblemId::hf_index_bad, place, "no weight_map");
  return index;
}

std::string write_hf_index(uint64_t total_bytes, const std::vector<std::pair<std::string, std::string>>& name_to_file) {
  auto sorted = name_to_file;
  std::ranges::sort(sorted);
  std::string out = "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(total_bytes) + "\n  },\n  \"weight_map\": {";
  for (size_t i = 0; i < sorted.size(); ++i) {
    out += i == 0 ? "\n    " : ",\n    ";
    append(out, sorted[i].first);
    out += ": ";
    append(out, sorted[i].second);
  }
  out += sorted.empty() ? "}\n}\n" : "\n  }\n}\n";
  return out;
}

// Reader of DCP_SHARDING_INFO. Source: torch/distributed/checkpoint/filesystem.py _write_files_from_queue, _hf_utils.py.

namespace {

constexpr std::string_view kKey = "DCP_SHARDING_INFO";

}  // namespace

std::optional<ShardingInfo> read_sharding_info(const SafetensorsHeader& header, const Place& place, const Limits& limits) {
  const auto found = header.metadata.find(std::string(kKey));
  if (found == header.metadata.end()) return std::nullopt;
  ShardingInfo info;
  Place here = place;
  here.member = kKey;
  const auto bad = [&](std::span<const std::string> keys, const std::string& got) {
    Place at = here;
    if (!keys.empty()) at.tensor = keys[0];
    fail(ProblemId::sharding_info_bad, at, got);
  };
  walk_json(found->second, here, limits, ProblemId::sharding_info_bad, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (keys.empty()) return;
    if (keys.size() == 1) {
      if (v.kind != JsonValue::Kind::kObject) bad(keys, "no object");
      if (!info.try_emplace(keys[0]).second) bad(keys, "the tensor twice");
      return;
    }
    SavedShard& shard = info.find(keys[0])->second;
    if (keys[1] == "logical_fqn" && v.kind == JsonValue::Kind::kText) shard.fqn = v.text;
    if (keys[1] != "saved_offsets") return;
    if (keys.size() == 2 && v.kind == JsonValue::Kind::kArray && shard.offsets.empty()) return;
    if (keys.size() != 3 || v.kind != JsonValue::Kind::kNatural || v.number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      bad(keys, "saved_offsets that are not a list of numbers");
    if (shard.offsets.size() == limits.tensor_rank)
      fail(ProblemId::over_limit, here, std::to_string(shard.offsets.size() + 1) + " numbers",
           "at most " + std::to_string(limits.tensor_rank));
    shard.offsets.push_back(static_cast<int64_t>(v.number));
  });
  return info;
}

}  // namespace dcp
