#include "catalog/data_files.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace dcp {
namespace {

// Parts this near are read in one piece: on a disk, what lies between is in the same pages.
constexpr uint64_t kNear = 4 * kKiB, kNearInStore = 256 * kKiB;
constexpr uint64_t kMostKept = 4 * kMiB;

}  // namespace

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

void DataFiles::keep(std::vector<Item> parts, const StopFlag& stop) {
  std::erase_if(parts, [&](const Item& i) { return i.file == kNone || !catalog_.files[i.file].reaches(i); });
  std::ranges::sort(parts, {}, [](const Item& i) { return std::tuple(i.file, i.offset); });
  const ReadCapabilities can = store_.read_capabilities(catalog_.path);
  const uint64_t near = can.request_bytes > 0 ? kNearInStore : kNear;
  std::vector<Item> pieces;
  uint64_t bytes = 0;
  for (const Item& i : parts) {
    Item* const last = pieces.empty() || pieces.back().file != i.file ? nullptr : &pieces.back();
    const bool joins = last != nullptr && i.offset <= last->offset + last->length + near;
    const uint64_t more = joins ? std::max(last->length, i.offset + i.length - last->offset) - last->length : i.length;
    if ((bytes += more) > kMostKept) break;
    if (joins) last->length += more;
    else pieces.push_back({.offset = i.offset, .length = i.length, .file = i.file});
  }
  kept_.assign(pieces.size(), {});
  parallel_for(std::max(can.requests, 1u), pieces.size(), stop, [&](unsigned, uint64_t n) {
    const Item& piece = pieces[n];
    Kept kept{.file = piece.file, .begin = piece.offset, .bytes = std::vector<std::byte>(piece.length)};
    try {
      read_exact(store_, open(piece.file)->get(), piece.offset, kept.bytes);
    } catch (const Error& e) {
      if (!can_be_collected(e.problem().id)) throw;
      kept.bytes.clear();
    }
    kept_[n] = std::move(kept);
  });
}

Bytes DataFiles::kept(uint32_t file, uint64_t offset) const {
  const auto after = std::ranges::upper_bound(kept_, std::pair(file, offset), {}, [](const Kept& k) { return std::pair(k.file, k.begin); });
  if (after == kept_.begin()) return {};
  const Kept& k = after[-1];
  return k.file == file && offset - k.begin < k.bytes.size() ? Bytes(k.bytes).subspan(offset - k.begin) : Bytes();
}

}  // namespace dcp
