// A made-up sharded checkpoint, for measuring.
#pragma once

#include <string>

#include "app/world.h"
#include "exec/synthetic.h"

namespace dcp {

// In the new folder `path`; `threads` 0: the default. Throws output_exists, and what writing throws.
inline SyntheticReport make_synthetic(World& world, const std::string& path, const SyntheticSpec& spec, unsigned threads, Replace replace) {
  return write_synthetic(world.io, path, spec, {.replace = replace, .sync = false, .workers = threads > 0 ? threads : default_workers()},
                         world.stop);
}

}  // namespace dcp
