// The output of a use case that writes: what it can hold, how it is laid out, and where it must not be; and small files beside the work.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/layout_request.h"
#include "app/requests.h"
#include "app/stages.h"
#include "app/world.h"
#include "base/io.h"
#include "plan/layout.h"

namespace dcp {

OutputForm form_of(const OutputRequest& request);

// What a layout refers to.
struct OutputLayout {
  UnitOptions units;
  RequestedLayout dcp;                                       // of a folder for a number of ranks
  std::vector<std::pair<std::string, std::string>> file_of;  // of like_index
};
// Reads it, before the source is opened. `max_memory`: cap of the whole run. Throws usage.
OutputLayout layout_of(const OutputRequest& request, World& world, const std::string& source, uint64_t max_memory);
// A DCP folder with the boxes of the source, on the ranks whose files hold them.
DcpLayoutOptions layout_of_source(const Catalog& catalog);
// Throws usage if the source is of another kind, and what the layouts throw.
Plan plan_output(const OutputRequest& request, const OutputLayout& layout, const SourceFacts& source, const Selected& selected,
                 World& world);
// Throws usage: an object in a form that can only hold tensors.
[[noreturn]] void fail_no_elements(const std::string& checkpoint, std::string_view key);

// An output must not replace its source or lie inside it. Throws output_in_source.
void refuse_source(const std::string& output, const Catalog& catalog);

// --- reports, pages, manifests

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
