#include "app/inspect.h"

#include <algorithm>
#include <iterator>

#include "app/memory.h"
#include "app/open_files.h"
#include "catalog/data_files.h"
#include "catalog/folder_findings.h"
#include "catalog/structure.h"
#include "catalog/unsafe.h"
#include "catalog/values.h"

namespace dcp {

void inspect(const InspectRequest& request, World& world, InspectResult& result) {
  const uint64_t cap = take_memory_cap(request.max_memory, world);
  result.opened = open_source(request.source, world, memory_left(cap));
  const Catalog& catalog = result.catalog();
  std::vector<Problem> structure = structure_findings(*result.opened);
  if (request.map.is_given()) {
    const Selection selection = select_keys(catalog, {.rules = request.select.rules, .model_only = request.select.model_only});
    result.map =
        ask_map(request.map, world, {.catalog = catalog, .selection = selection, .assets = {}, .has_run = !request.select.model_only});
    if (result.map) return;
  }
  result.findings = std::move(structure);
  const auto add = [&](std::vector<Problem> more) { std::ranges::move(more, std::back_inserter(result.findings)); };
  if (!catalog.single_file) add(inspect_folder(world.store, catalog));
  add(find_unsafe_pickles(catalog));
  DataFiles files(world.store, catalog, request.source.links(), open_file_shares().inputs);
  const Looking looking{
      .workers = reading_workers(0, world, catalog.path), .limits = request.source.limits(), .memory_bytes = memory_left(cap)};
  add(find_unsafe_items(files, catalog, request.look_into_all ? LookInto::kAll : LookInto::kSome, looking, world.stop));
  result.values = small_values(files, catalog, request.source.limits());
  part_errors(result.findings);
  result.unsafe = fold_unsafe(result.findings);
  result.selection = select_keys(catalog, request.select);
}

}  // namespace dcp
