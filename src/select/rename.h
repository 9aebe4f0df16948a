// The last step of naming: wrapper prefixes, regular expressions, a map of whole names.
#pragma once

#include "select/select.h"

namespace dcp {

// Changes the names and paths of a selection's entries; counts renamed keys and those that still hold a wrapper's prefix. The leading path
// components that a new name keeps stay components; the rest becomes one component. Throws usage for a bad regex, key_missing for one that is
// found in no name, and over_limit for a name too long for one.
void rename_keys(const Catalog& catalog, const SelectOptions& options, Selection& selection);

// A path component without the prefixes that wrappers of modules put into fqns: torch.compile's `_orig_mod.`, FSDP1's
// `_fsdp_wrapped_module.`, activation checkpointing's `_checkpoint_wrapped_module.` wherever they stand, DDP's `module.` at the start.
std::string without_wrappers(std::string_view component);

}  // namespace dcp
