// The map that fits a model which is written beside its config.json.
#pragma once

#include <string_view>

#include "app/ask_map.h"

namespace dcp {

// What model_differs got where a tensor is missing.
inline constexpr std::string_view kNoSuchTensor = "no tensor of this name";

// The map that fits a model which is written beside its config.json, where none is requested: none for names that are published, of a model_type
// that no map is for, and for quantized weights. Tensors that no map knows stay under their own names. Throws model_differs if the model is not
// the one that config.json describes.
AskedMap ask_fitting_map(MapRequest request, World& world, MapQuestion question);

}  // namespace dcp
