// The config.json of a model: what it says of names, shapes and dtypes beside any map.
#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "inputs/open.h"
#include "maps/config.h"
#include "maps/published.h"
#include "plan/expect.h"
#include "select/select.h"

namespace dcp {

// Throws map_config, and what reading throws.
maps::Config open_config(const std::string& path, Store& store);
bool has_config(const std::string& folder, Store& store);
// The one that is named, else config.json of the first of the folders that has one; not given if there is none.
maps::Config model_config(const std::string& named, const std::vector<std::string>& folders, Store& store);

// The model_type of which there is a map with its class: that of the whole, or of the text model of one of images. "": none.
std::string known_model_type(const maps::Config& config);

// What its family keeps in float32 when it gets this dtype.
maps::KeepsFloat32 kept_by_family(const maps::Config& config, DType as);
// By model_config(). A file that nobody named need not be a configuration.
maps::KeepsFloat32 kept_by_family(const std::string& named, const std::vector<std::string>& folders, DType as, Store& store);

// What transformers would refuse, or load with random values, as damage; what it would not load, as a warning. Nothing without a config.json, or with
// one that is not a model's. Packed weights have shapes of their own. Of a model that is not whole, what is missing is known.
std::vector<Problem> differences_from_config(const Catalog& catalog, bool is_whole, Store& store);

// How large the tensors are that ranks have parts of: then it shows which of them each rank has whole. By the keys of the catalog. config.json is
// that of `configs` which knows the key first; those that are not there are passed over.
WholeShapes shapes_by_config(const Catalog& catalog, const std::vector<std::string>& configs, Store& store);
// What a reference has under the final names.
void add_shapes(const Catalog& catalog, const SelectOptions& select, const std::vector<Signature>& reference, WholeShapes& shapes);

}  // namespace dcp
