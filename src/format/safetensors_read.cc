// Reader of safetensors headers: one pass over the JSON, then one over the ranges.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "format/safetensors.h"
#include "format/safetensors_shape.h"
#include "pickle/tokens.h"

namespace dcp {
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
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    // Positions count from 1, in the JSON after the length prefix.
    fail(ProblemId::safetensors_bad_json, at_offset(place_, 8 + (position > 0 ? position - 1 : 0)));
  }

 private:
  enum class Inside : uint8_t { kNeither, kMetadata, kTensor };

  bool in_tensor(uint32_t depth) const { return depth_ == depth && inside_ == Inside::kTensor; }
  bool is_known_key() const { return key_ == "dtype" || key_ == "shape" || key_ == "data_offsets"; }
  // A value of the wrong kind is an error, unless it lies under a member that is ignored.
  bool scalar() {
    if (inside_ != Inside::kTensor || array_ != nullptr || (depth_ == 2 && is_known_key())) malformed("a value");
    return true;
  }
  bool nested() {
    if (inside_ != Inside::kTensor || array_ != nullptr || (depth_ == 3 && is_known_key())) malformed("a nested value");
    return true;
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
    std::string got = "data_offsets [";
    for (size_t i = 0; i < range.size(); ++i) got += (i > 0 ? ", " : "") + std::to_string(range[i]);
    fail(ProblemId::safetensors_bad_range, place, got + "]", std::to_string(entry.bytes) + " bytes");
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
  if (at > file_bytes || (at < file_bytes && !may_have_holes)) {
    fail(ProblemId::safetensors_hole, file, "a file of " + std::to_string(file_bytes) + " bytes", std::to_string(at));
  }
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

}  // namespace dcp
