#include "inputs/dcp.h"

#include <algorithm>

#include "base/limits.h"
#include "catalog/build.h"
#include "catalog/data_files.h"
#include "format/dcp_metadata.h"
#include "inputs/safetensors_files.h"
#include "items/bare_pickle.h"
#include "pickle/text_opcodes.h"
#include "pickle/tokens.h"

namespace dcp {

// A DCP folder: `.metadata` beside the files that it names. The user may give the folder or `.metadata`.

namespace {

// Memory to read a real `.metadata`, in bytes per byte of the file: itself, its typed content and the catalog at once. Measured on 10^6
// chunks: 2.2. Malicious ones that take more are stopped as they grow (PickleMachine, check_catalog_fits).
constexpr uint64_t kMemoryTenths = 25;

struct Paths {
  std::string file, path, folder;  // the metadata, what was given, where the data is
};

Paths paths_of(const Found& found) {
  if (!found.is_folder()) return {found.path(), found.path(), found.folder()};
  return {found.path() + "/" + std::string(kMetadata), found.path(), found.path()};
}

uint64_t memory_for(uint64_t metadata_bytes) { return metadata_bytes / 10 * kMemoryTenths; }

// A file that the user named may be a link; one found in the folder is part of the checkpoint, and may not.
OpenFile open_file(Found& found, const Paths& paths) {
  Store& store = found.store();
  const std::optional<Handle> handle = paths.path == paths.file
                                           ? store.open_read(paths.file)
                                           : store.open_beneath(paths.folder, std::string(kMetadata), found.options().links);
  if (!handle) fail(ProblemId::file_missing, {.path = paths.file});
  return OpenFile(store, *handle);
}

// Throws pickle_unknown_opcode if `head`, the beginning of a longer file, does not begin a pickle.
void check_begins_as_pickle(Bytes head, const Place& place) {
  try {
    TokenReader reader(head, place, Opcodes::kPythons);
    Token t;
    do reader.next(t);
    while (t.op != Op::STOP);
  } catch (const Error& e) {
    if (e.problem().id == ProblemId::pickle_unknown_opcode) throw;
  }
}

std::vector<std::byte> read_pickle(Store& store, const OpenFile& opened, const std::string& file, const Limits& limits) {
  constexpr uint64_t kHeadBytes = 4096, kAtOnce = 16 * kMiB;
  const uint64_t size = store.facts(opened.get()).bytes;
  const bool is_read_at_once = size <= std::min(kAtOnce, limits.metadata_bytes) && memory_for(size) <= limits.memory_bytes;
  std::vector<std::byte> bytes(is_read_at_once ? size : std::min(size, kHeadBytes));
  read_exact(store, opened.get(), 0, bytes);
  if (size > kHeadBytes) check_begins_as_pickle(Bytes(bytes).first(kHeadBytes), {.path = file});
  check_fits(size, file, limits);
  if (bytes.size() < size) bytes = read_file(store, opened.get(), limits.metadata_bytes);
  if (is_lfs_pointer(bytes)) fail(ProblemId::lfs_pointer, {.path = file});
  if (auto binary = binary_form(bytes, {.path = file}, limits)) bytes = std::move(*binary);
  return bytes;
}

OpenedCatalog open_metadata(Found& found) {
  const Paths paths = paths_of(found);
  const OpenOptions& options = found.options();
  HeldMetadata held = read_metadata(found.store(), open_file(found, paths), paths.file, options.limits);
  check_catalog_fits(held.content, paths.file, options.limits);
  OpenedCatalog opened = build_catalog(held.content, paths.path, paths.folder);
  if (held.trailing) opened.findings.push_back(std::move(*held.trailing));
  use_safetensors_items(found.store(), opened, options);
  return opened;
}

std::optional<std::vector<std::string>> read_keys_of(Found& found) {
  const Paths paths = paths_of(found);
  const Limits& limits = found.options().limits;
  return read_dcp_keys(read_pickle(found.store(), open_file(found, paths), paths.file, limits), {.path = paths.file}, limits);
}

}  // namespace

HeldMetadata read_metadata(Store& store, const OpenFile& opened, const std::string& file, const Limits& limits) {
  const std::vector<std::byte> bytes = read_pickle(store, opened, file, limits);
  HeldMetadata held{.content = read_dcp_metadata(bytes, {.path = file}, limits), .text = {}, .trailing = {}};
  held.trailing = trailing_pickle(held.content.trailing_bytes, {.path = file, .offset = bytes.size() - held.content.trailing_bytes});
  held.text = hold_text(held.content);
  return held;
}

void check_fits(uint64_t metadata_bytes, const std::string& file, const Limits& limits) {
  const uint64_t needed = memory_for(metadata_bytes);
  if (needed <= limits.memory_bytes) return;
  throw Error(
      with_remedy(make_problem(ProblemId::memory_cap, {.path = file},
                               std::to_string(needed / kMiB) + " MiB for " + std::to_string(metadata_bytes / kMiB) + " MiB of metadata"),
                  Remedy::kMoreMemory, needed + 64 * kMiB));
}

Description read_whole_metadata(Store& store, const std::string& path, const Limits& limits) {
  return whole_file(store, path, limits.metadata_bytes);
}

const Input dcp_input{.is_at =
                          [](Found& found) {
                            return found.is_folder() ? found.store().facts(found.path() + "/" + std::string(kMetadata)).has_value()
                                                     : found.name() == kMetadata;
                          },
                      .open = open_metadata,
                      .read_keys = read_keys_of,
                      .describes = [](std::string_view name) { return name.ends_with(kMetadata); },
                      .read_description = read_whole_metadata,
                      .is_file = [](std::string_view name) { return name == kMetadata; }};

}  // namespace dcp
