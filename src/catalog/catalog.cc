#include "catalog/catalog.h"

#include <algorithm>
#include <cstring>

#include "catalog/torch_files.h"

namespace dcp {
namespace {

// Text is held in blocks that never move; a text longer than this gets its own block.
constexpr size_t kBlockBytes = 64 * 1024;

}  // namespace

Strings::Strings(const Strings& other) {
  for (const std::string_view text : other.by_id_) intern(text);
}

std::string_view Strings::hold(std::string_view text) {
  if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < text.size()) {
    blocks_.emplace_back();
    blocks_.back().reserve(std::max(kBlockBytes, text.size()));
    held_ += blocks_.back().capacity();
  }
  std::string& block = blocks_.back();
  const size_t at = block.size();
  block.append(text);
  return std::string_view(block).substr(at);
}

StringId Strings::intern(std::string_view text) {
  if (auto it = ids_.find(text); it != ids_.end()) return it->second;
  const auto id = static_cast<StringId>(by_id_.size());
  by_id_.push_back(hold(text));
  ids_.emplace(by_id_.back(), id);
  return id;
}

std::optional<StringId> Strings::find(std::string_view text) const {
  auto it = ids_.find(text);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

std::string Catalog::file_path(uint32_t file) const {
  const StringId its = files[file].folder;
  if (its == kNone) return single_file ? path : folder + "/" + std::string(file_name(file));
  return (strings[its].empty() ? "" : std::string(strings[its]) + "/") + std::string(file_name(file));
}

// Tensors hold their chunks in the tensors' order.
const Tensor& Catalog::tensor_of_chunk(ItemId item) const {
  return *std::prev(std::ranges::upper_bound(tensors, item, {}, &Tensor::first_chunk));
}

std::string_view Catalog::key_of_item(ItemId item) const {
  if (!saved_keys.empty()) return strings[saved_keys[item]];
  if (item >= chunk_total) return key(blobs[item - chunk_total]);
  return key(tensor_of_chunk(item));
}

Place Catalog::place_of(ItemId item, std::string_view tensor) const {
  Place place{.path = path, .tensor = std::string(tensor), .object = item >= chunk_total};
  const Item& i = items[item];
  if (i.file == kNone) return place;
  place.path = file_path(i.file);
  place.offset = i.offset;
  place.length = i.length;
  return place;
}

Catalog catalog_over_files_of(const Catalog& from) {
  Catalog c;
  c.kind = from.kind;
  c.path = from.path;
  c.folder = from.folder;
  c.single_file = from.single_file;
  for (const DataFile& f : from.files) {
    c.files.push_back(f);
    c.files.back().name = c.strings.intern(from.strings[f.name]);
    if (f.folder != kNone) c.files.back().folder = c.strings.intern(from.strings[f.folder]);
  }
  c.transforms = from.transforms;
  return c;
}

}  // namespace dcp
