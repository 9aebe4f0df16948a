// Quantized tensors by their names: what lies beside or below a tensor says that its numbers alone are not its values. Whether it is so is asked
// here, by all who would take these numbers for values: casts, comparisons, maps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "format/dtype.h"

namespace dcp {

struct Catalog;

// Two tensors that mean something together.
struct QuantizedPair {
  std::string numbers, companion;  // weight, weight.absmax
  bool is_packed = false;  // the numbers are bits, and their dtype is that of a storage; else multiples of a scale, whose dtype counts
};

using HasKey = std::function<bool(std::string_view)>;

// The pair in which this key has the numbers.
std::optional<QuantizedPair> pair_of_numbers(std::string_view key, const HasKey& has_key);
// And if they are integers, or of one byte: then a tensor named scale is that, too.
std::optional<QuantizedPair> pair_of_bytes(std::string_view key, const HasKey& has_key);
// The pair in which this key is the companion, or one of them.
std::optional<QuantizedPair> pair_of_companion(std::string_view key, const HasKey& has_key);

// Packed weights, and what lies beside them.
bool is_packed(std::string_view key, const HasKey& has_key);
// What scales integers, or numbers of one byte; the function knows these, as that of a catalog does.
bool is_scale_of_bytes(std::string_view key, const HasKey& has_bytes);
HasKey bytes_of_catalog(const Catalog& catalog);
// What is packed, and integers and numbers of one byte that have a scale.
bool is_quantized(std::string_view key, DType dtype, const HasKey& has_key);

}  // namespace dcp
