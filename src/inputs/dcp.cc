// A DCP folder: `.metadata` beside the files that it names. It may be given itself.
#include "base/limits.h"
#include "catalog/build.h"
#include "catalog/data_files.h"
#include "format/dcp_keys.h"
#include "format/dcp_metadata.h"
#include "format/lfs_pointer.h"
#include "inputs/dcp_metadata.h"
#include "inputs/safetensors_items.h"
#include "pickle/text_opcodes.h"

namespace dcp {
namespace {

// What a real `.metadata` takes while it is read, in bytes for each of its own: itself, its typed content and the catalog at once. Measured
// on 10^6 chunks: 2.2. Made-up ones that take more are stopped as they grow (PickleMachine, check_catalog_fits).
constexpr uint64_t kMemoryTenths = 25;

struct Paths {
  std::string file, path, folder;  // the metadata, what was given, where the data is
};

Paths paths_of(const Found& found) {
  if (!found.is_folder()) return {found.path(), found.path(), found.folder()};
  return {found.path() + "/" + std::string(kMetadata), found.path(), found.path()};
}

std::vector<std::byte> read_pickle(Store& store, const Paths& paths, const OpenOptions& options) {
  const auto& [file, path, folder] = paths;
  if (const auto facts = store.facts(file)) check_fits(facts->bytes, file, options.limits);
  // A file that the user named may be a link; one that was found in the folder is part of the checkpoint.
  std::vector<std::byte> bytes =
      path == file ? read_file(store, file, options.limits.metadata_bytes)
                   : read_file_beneath(store, folder, std::string(kMetadata), options.links, options.limits.metadata_bytes);
  if (is_lfs_pointer(bytes)) fail(ProblemId::lfs_pointer, {.path = file});
  if (auto binary = binary_form(bytes, {.path = file}, options.limits)) bytes = std::move(*binary);
  return bytes;
}

OpenedCatalog read_metadata(Found& found) {
  const Paths paths = paths_of(found);
  const auto& [file, path, folder] = paths;
  const OpenOptions& options = found.options();
  std::vector<std::byte> bytes = read_pickle(found.store(), paths, options);
  MetadataContent content = read_dcp_metadata(bytes, {.path = file}, options.limits);
  const std::deque<std::string> text = hold_text(content);
  std::vector<std::byte>().swap(bytes);  // before the catalog grows
  check_catalog_fits(content, file, options.limits);
  OpenedCatalog opened = build_catalog(content, path, folder);
  use_safetensors_items(found.store(), opened, options);
  return opened;
}

std::optional<std::vector<std::string>> read_keys_of(Found& found) {
  const Paths paths = paths_of(found);
  return read_dcp_keys(read_pickle(found.store(), paths, found.options()), {.path = paths.file}, found.options().limits);
}

}  // namespace

void check_fits(uint64_t metadata_bytes, const std::string& file, const Limits& limits) {
  const uint64_t needed = metadata_bytes / 10 * kMemoryTenths;
  if (needed <= limits.memory_bytes) return;
  Problem p = make_problem(ProblemId::memory_cap, {.path = file},
                           std::to_string(needed / kMiB) + " MiB for " + std::to_string(metadata_bytes / kMiB) + " MiB of metadata");
  p.remedy = Remedy::kMoreMemory;
  p.enough_bytes = needed + 64 * kMiB;
  throw Error(std::move(p));
}

Description read_whole_metadata(Store& store, const std::string& path, const Limits& limits) {
  return whole_file(store, path, limits.metadata_bytes);
}

const Input dcp_input{.is_at =
                          [](Found& found) {
                            return found.is_folder() ? found.store().facts(found.path() + "/" + std::string(kMetadata)).has_value()
                                                     : found.name() == kMetadata;
                          },
                      .open = read_metadata,
                      .read_keys = read_keys_of,
                      .describes = [](std::string_view name) { return name.ends_with(kMetadata); },
                      .read_description = read_whole_metadata,
                      .is_file = [](std::string_view name) { return name == kMetadata; }};

}  // namespace dcp
