// Elements of a tensor as text, as JSON, and as the beginning of a file that holds them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "app/extract.h"
#include "base/json.h"
#include "line/context.h"

namespace dcp::cmd {

// As numpy prints an array: brackets for dims, `...` for what the glance omits. Ends with a newline.
std::string values_text(const Glance& glance, DType dtype, size_t columns);

// Arrays of arrays, for the whole tensor: floats that are no numbers are the texts NaN, Infinity and -Infinity, complex numbers two
// numbers. Elements that are not numbers (packed, scales) are their bits as an integer.
void values_json(JsonWriter& out, Extraction& extraction);

// The element at the start of `bytes`, as Python prints it.
std::string element_text(DType dtype, Bytes bytes);

}  // namespace dcp::cmd
