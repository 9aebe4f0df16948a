// Small files beside the work: reports, pages, manifests.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "app/world.h"
#include "files/output_free.h"

namespace dcp {

struct SmallFileOptions {
  Replace replace = Replace::kYes;
  bool sync = true;
};
// Written whole or not at all. Throws output_exists, and what writing throws. Removes and notes what an interrupted run left there.
void save_small_file(World& world, const std::string& path, std::string_view text, const SmallFileOptions& options);

// A text of any size: `emit` passes it on piece by piece. It is called twice, the first time for the size.
using TextOut = std::function<void(std::string_view)>;
void save_text(World& world, const std::string& path, const std::function<void(const TextOut&)>& emit, const SmallFileOptions& options);

}  // namespace dcp
