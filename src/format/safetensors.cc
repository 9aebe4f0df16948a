// Writer of safetensors headers; the reader is in safetensors_read.cc.
#include "format/safetensors.h"

#include <array>

#include "base/checked.h"
#include "format/json_text.h"
#include "format/safetensors_shape.h"

namespace dcp {
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

}  // namespace dcp
