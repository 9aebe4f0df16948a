#include "format/dtype.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dcp {
namespace {

// torch spells it without the underscore that C++ needs.
constexpr std::string_view spelled(std::string_view name) { return name == "bool_" ? std::string_view("bool") : name; }

// In the order of DType, because both come from one list.
constexpr auto kFacts = std::to_array<DTypeFacts>({
#define DCP_DTYPE(name, bytes, kind, storage, safetensors, torch) {spelled(#name), bytes, DTypeKind::kind, storage, safetensors, torch},
#include "format/dtypes.def"
#undef DCP_DTYPE
});
static_assert(kFacts.size() == static_cast<size_t>(DType::kCount));

using Text = std::string_view DTypeFacts::*;

// Two dtypes under one name would make the lookups depend on the order of the list.
constexpr bool distinct(Text field) {
  for (size_t i = 0; i < kFacts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!(kFacts[i].*field).empty() && kFacts[i].*field == kFacts[j].*field) return false;
    }
  }
  return true;
}
static_assert(distinct(&DTypeFacts::name) && distinct(&DTypeFacts::storage) && distinct(&DTypeFacts::safetensors));

// The list is short and its common dtypes come first, so a scan beats a hash. An empty name means "none" in the list and finds nothing.
std::optional<DType> find(Text field, std::string_view wanted) {
  if (wanted.empty()) return std::nullopt;
  const auto it = std::ranges::find(kFacts, wanted, field);
  if (it == kFacts.end()) return std::nullopt;
  return static_cast<DType>(it - kFacts.begin());
}

}  // namespace

const DTypeFacts& facts_of(DType dtype) { return kFacts[static_cast<size_t>(dtype)]; }

std::optional<DType> dtype_named(std::string_view torch_name) { return find(&DTypeFacts::name, torch_name); }
std::optional<DType> dtype_of_storage_class(std::string_view storage_class) { return find(&DTypeFacts::storage, storage_class); }
std::optional<DType> dtype_of_safetensors(std::string_view name) { return find(&DTypeFacts::safetensors, name); }

}  // namespace dcp
