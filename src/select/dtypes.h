// Which tensor is written in which dtype. The last step of the selection (select.h), so that rules see final names.
//
//   a rule that matches the final name    decides: the first match wins; `keep` keeps
//   what the model's family keeps         stays, or becomes float32, if it is wider than the dtype
//   else the dtype                         the model's floats, or with kAll all floats; float8 scales stay
//
// Only floats that torch computes with are ever cast: integers, bools, complex, e8m0 scales and packed tensors stay, and a rule that
// matches them says nothing about them. Packed weights and what lies beside them stay, too (quantized.h), a rule or not. Tensors of quantized
// dtypes stay; a rule that would cast one is an error. So is casting what may hold floats that nothing here can convert: sparse and nested
// tensors, those on meta or of a class of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/dtype.h"

namespace dcp {

struct Catalog;
struct Selection;

struct DtypeRule {
  std::string glob;            // `*` crosses dots; or a dict
  std::optional<DType> dtype;  // nullopt: keep
};
enum class DtypeScope : uint8_t { kModel, kAll };

struct DtypeOptions {
  std::optional<DType> dtype;
  DtypeScope scope = DtypeScope::kModel;
  std::vector<DtypeRule> rules;
  bool raw = false;                                       // cast what is quantized, too: float8 tensors that have a scale, packed weights
  std::function<bool(std::string_view)> keeps_float32{};  // of the model's tensors, by name: those that the dtype leaves in float32
  bool any_tensor = true;                                 // the output holds tensors that are not strided; else it refuses them itself
  bool any() const { return dtype.has_value() || !rules.empty(); }
};

// The outcome of the choice.
struct CastSummary {
  bool requested = false;  // DtypeOptions::any()
  uint64_t tensors = 0;
  uint64_t bytes_before = 0, bytes_after = 0;  // of those tensors
  uint64_t kept_non_model = 0;                 // floats that the dtype skipped: state that is not model,
  uint64_t kept_scales = 0;                    // and tensors named like the scale, or a part, of another
  std::string scale_example;
  uint64_t kept_packed = 0;  // packed weights, and what lies beside them
  std::string packed_example;
  uint64_t kept_float32 = 0;  // by the model's family
  std::string float32_example;
  std::vector<std::string> unmatched_rules;  // globs that decided no tensor
  std::vector<std::string> models;           // where those tensors are of several: the paths of these
};

// Rules in which every glob is what it means among the final names.
DtypeOptions meant_rules(DtypeOptions options, const Selection& selection);

// Whether a key of the model, under its final name, is asked to get another dtype.
bool is_to_be_cast(const DtypeOptions& options, std::string_view key);

// Whether tensors may be cast to this dtype.
bool is_cast_target(DType dtype);

// Sets Entry::dtype of each tensor and Selection::casts. Throws cast_scaled (a float8 tensor means nothing without its scale),
// cast_opaque (a rule for a quantized tensor, a tensor of a torch.save file that is not strided).
void choose_dtypes(const Catalog& catalog, const DtypeOptions& options, Selection& selection);

}  // namespace dcp
