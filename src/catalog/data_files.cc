#include "catalog/data_files.h"

#include <charconv>

namespace dcp {

std::vector<std::byte> read_file_beneath(Store& store, const std::string& root, const std::string& name, FollowLinks links, uint64_t cap) {
  const std::optional<Handle> handle = store.open_beneath(root, name, links);
  if (!handle) fail(ProblemId::file_missing, {.path = root + "/" + name});
  const OpenFile file(store, *handle);
  return read_file(store, file.get(), cap);
}

std::optional<uint32_t> rank_of_file(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);
  if (!name.starts_with("__")) return std::nullopt;
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(name.data() + 2, name.data() + name.size(), rank);
  return error == std::errc{} && end != name.data() + name.size() && *end == '_' ? std::optional(rank) : std::nullopt;
}

std::string file_of_rank(uint32_t rank) { return "__" + std::to_string(rank) + "_0.distcp"; }

std::optional<Handle> open_data_file(Store& store, const Catalog& catalog, uint32_t file, FollowLinks links) {
  const StringId its = catalog.files[file].folder;
  if (its == kNone ? catalog.single_file : catalog.strings[its].empty()) return store.open_read(catalog.file_path(file));
  return store.open_beneath(its == kNone ? catalog.folder : std::string(catalog.strings[its]), catalog.file_name(file), links);
}

std::shared_ptr<const OpenFile> DataFiles::open(uint32_t file) {
  return files_.open(file, [&] {
    const std::optional<Handle> handle = open_data_file(store_, catalog_, file, links_);
    if (!handle) fail(ProblemId::file_missing, {.path = catalog_.file_path(file)});
    return OpenFile(store_, *handle);
  });
}

}  // namespace dcp
