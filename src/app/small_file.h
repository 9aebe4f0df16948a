// Small files beside the work: reports, pages, manifests.
#pragma once

#include <string>
#include <string_view>

#include "app/world.h"
#include "exec/output_free.h"

namespace dcp {

struct SmallFileOptions {
  Replace replace = Replace::kYes;
  bool sync = true;
};
// Whole, or absent. Throws output_exists, and what writing throws. What an interrupted run left there is removed, and noted.
void save_small_file(World& world, const std::string& path, std::string_view text, const SmallFileOptions& options);

}  // namespace dcp
