// Small DCP checkpoints made in memory from a description: every way in which a stored tensor may differ from the plain one.
//
// Stored bytes are noise unless given. put() lays the items out, several a file, and writes the files and `.metadata`.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fake_io.h"
#include "catalog/made_item.h"
#include "format/dcp_metadata_writer.h"

namespace dcp::test {

using Rng = std::mt19937_64;

struct MadeChunk {
  Ints offsets;
  Ints sizes;
  std::optional<DType> stored = std::nullopt;  // the tensor's dtype unless said
  Ints strides = {};                           // elements; row-major unless said
  uint64_t storage_offset = 0;                 // elements
  uint64_t extra_elements = 0;                 // of the storage, behind the last one used
  bool big_endian = false;
  bool conj = false;
  bool neg = false;
  bool crc = true;
  bool zstd = false;
  unsigned file = 0;
  bool has_item = true;
  std::string pickle = {};   // in place of a plain tensor's
  std::string storage = {};  // stored bytes; noise unless said
  // Filled by put(): the item in its file, and the payload in the file or in the decoded item.
  uint64_t at = 0, length = 0, payload = 0;
};

struct MadeTensor {
  std::string key;
  DType dtype{};
  Ints dims;
  std::vector<MadeChunk> chunks;
  std::vector<std::string> path = {};  // "#3" is a list position; none: the key itself
};

struct MadeBlob {
  std::string key;
  std::string pickle;
  std::vector<MadeRecord> storages = {};  // "data/0"
  bool zstd = false;
  bool deflated = false;  // the records of its archive
  bool big_endian = false;
  unsigned file = 0;
  std::vector<std::string> path = {};
  uint64_t at = 0, length = 0;
};

inline MadeChunk whole_chunk(const Ints& dims) { return {.offsets = Ints(dims.size(), 0), .sizes = dims}; }
inline MadeTensor whole_tensor(const std::string& key, DType dtype, const Ints& dims, std::vector<std::string> path = {}) {
  return {.key = key, .dtype = dtype, .dims = dims, .chunks = {whole_chunk(dims)}, .path = std::move(path)};
}

// Elements that the storage must have for the chunk.
inline uint64_t storage_elements(const MadeChunk& c) {
  const Ints strides = c.strides.empty() ? row_major_strides(c.sizes) : c.strides;
  uint64_t last = c.storage_offset;
  for (size_t d = 0; d < c.sizes.size(); ++d) last += static_cast<uint64_t>((c.sizes[d] - 1) * strides[d]);
  return (volume(c.sizes) == 0 ? 0 : last + 1) + c.extra_elements;
}

class MadeCheckpoint {
 public:
  std::vector<MadeTensor> tensors;
  std::vector<MadeBlob> blobs;
  bool planner_data = true;
  bool shuffled = false;  // items in any order within their files, with gaps
  uint64_t seed = 1;

  void put(FakeIo& io, const std::string& folder) {
    lay_out();
    for (const auto& [file, bytes] : files_) io.put(folder + "/" + file_name(file), bytes);
    io.put(folder + "/.metadata", write_dcp_metadata(content()));
  }
  static std::string file_name(unsigned file) { return "__" + std::to_string(file) + "_0.distcp"; }

  // As read from the metadata. Views the strings of this object.
  MetadataContent content() {
    texts_.clear();
    MetadataContent c;
    c.transforms = {{}, {"stream.zstd/1"}};
    c.has_planner_data = planner_data;
    for (const MadeTensor& t : tensors) add(c, t);
    for (size_t b = 0; b < blobs.size(); ++b) {
      const MadeBlob& blob = blobs[b];
      c.order.push_back(KeyRef::blob_at(b));
      c.blobs.push_back(blob.key);
      c.storage.push_back(
          {.key = blob.key, .file = file_number(c, blob.file), .offset = blob.at, .length = blob.length, .transforms = blob.zstd});
      add_path(c, blob.key, blob.path);
    }
    return c;
  }

 private:
  void add(MetadataContent& c, const MadeTensor& t) {
    const auto ints = [&](const Ints& values) {
      c.ints.insert(c.ints.end(), values.begin(), values.end());
      return c.ints.size() - values.size();
    };
    const auto rank = static_cast<uint32_t>(t.dims.size());
    c.order.push_back(KeyRef::tensor_at(c.tensors.size()));
    c.tensors.push_back({.key = t.key,
                         .dtype = t.dtype,
                         .dtype_name = facts_of(t.dtype).name,
                         .rank = rank,
                         .dims_at = ints(t.dims),
                         .first_chunk = c.chunks.size(),
                         .chunk_count = t.chunks.size()});
    for (const MadeChunk& k : t.chunks) {
      const uint64_t offsets = ints(k.offsets);
      c.chunks.push_back({.offsets_at = offsets, .sizes_at = ints(k.sizes)});
      if (!k.has_item) continue;
      c.storage.push_back({.key = t.key,
                           .has_offset = true,
                           .rank = static_cast<uint16_t>(rank),
                           .file = file_number(c, k.file),
                           .offsets_at = offsets,
                           .offset = k.at,
                           .length = k.length,
                           .transforms = k.zstd});
    }
    add_path(c, t.key, t.path);
  }
  void add_path(MetadataContent& c, std::string_view key, const std::vector<std::string>& path) {
    if (!planner_data) return;
    c.paths.push_back({.key = key, .first = c.path_elements.size(), .count = static_cast<uint32_t>(std::max<size_t>(path.size(), 1))});
    if (path.empty()) c.path_elements.push_back({.name = key});
    for (const std::string& p : path) {
      if (p.starts_with('#')) c.path_elements.push_back({.name = {}, .position = std::stoll(p.substr(1))});
      else c.path_elements.push_back({.name = p});
    }
  }
  uint32_t file_number(MetadataContent& c, unsigned file) {
    const std::string name = file_name(file);
    const auto found = std::ranges::find(c.files, name);
    if (found == c.files.end()) c.files.push_back(texts_.emplace_back(name));
    return static_cast<uint32_t>(std::ranges::find(c.files, name) - c.files.begin());
  }

  void lay_out() {
    files_.clear();
    Rng rng(seed);
    std::vector<std::pair<MadeChunk*, const MadeTensor*>> chunks;
    for (MadeTensor& t : tensors)
      for (MadeChunk& c : t.chunks)
        if (c.has_item) chunks.emplace_back(&c, &t);
    if (shuffled) std::ranges::shuffle(chunks, rng);
    for (auto& [c, t] : chunks) place(*c, chunk_item(*c, t->dtype, rng), rng);
    for (MadeBlob& b : blobs) {
      std::vector<MadeRecord> records{{"data.pkl", b.pickle}, {"byteorder", b.big_endian ? "big" : "little"}};
      records.insert(records.end(), b.storages.begin(), b.storages.end());
      records.push_back({"version", "3\n"});
      place(b, b.deflated ? made_deflated_archive(records) : made_archive(records), rng);
    }
  }
  std::string chunk_item(MadeChunk& c, DType dtype, Rng& rng) const {
    const DType stored = c.stored.value_or(dtype);
    const uint64_t elements = storage_elements(c);
    if (c.storage.empty())
      for (uint64_t i = 0; i < elements * bytes_of(stored); ++i) c.storage += static_cast<char>(rng());
    std::string pickle = c.pickle;
    if (pickle.empty()) {
      PickleWriter out(pickle, PickleProtocol::k2);
      out.begin();
      write_view(out, {.dtype = stored,
                       .storage_elements = elements,
                       .storage_offset = c.storage_offset,
                       .sizes = c.sizes,
                       .strides = c.strides.empty() ? row_major_strides(c.sizes) : c.strides,
                       .conj = c.conj,
                       .neg = c.neg});
      out.end();
    }
    TorchArchiveLayout layout;
    layout.add("data.pkl", pickle.size());
    layout.add("byteorder", c.big_endian ? 3 : 6);
    c.payload = layout.add("data/0", c.storage.size());
    return made_archive(
        {{"data.pkl", pickle}, {"byteorder", c.big_endian ? "big" : "little"}, {"data/0", c.storage, c.crc}, {"version", "3\n"}});
  }
  template <class Made>
  void place(Made& made, std::string item, Rng& rng) {
    std::string& file = files_[made.file];
    if (shuffled) file.append(rng() % 50, '?');
    if (made.zstd) item = made_zstd(item, 1000);
    made.at = file.size();
    made.length = item.size();
    if constexpr (requires { made.payload; })
      if (!made.zstd) made.payload += made.at;
    file += item;
  }

  std::map<unsigned, std::string> files_;
  std::deque<std::string> texts_;
};

inline MadeCheckpoint checkpoint_of(std::vector<MadeTensor> tensors, std::vector<MadeBlob> blobs = {}) {
  MadeCheckpoint made;
  made.tensors = std::move(tensors);
  made.blobs = std::move(blobs);
  return made;
}

}  // namespace dcp::test
