#include "format/item_metadata_write.h"

#include "format/torch_archive.h"

namespace dcp {
namespace {

constexpr uint64_t kBatch = 1000;  // entries in one SETITEMS, as by Python's pickler

}  // namespace

ItemMetadataWriter::ItemMetadataWriter(std::string& out, uint32_t world_size) : world_size_(world_size), out_(out, PickleProtocol::k4) {
  out_.begin();
  out_.op(Op::EMPTY_DICT);
  out_.op(Op::MARK);
  key("metadata");
  out_.op(Op::EMPTY_DICT);
}

void ItemMetadataWriter::item(std::string_view name) {
  next(items_);
  out_.text(name);
  out_.op(Op::EMPTY_DICT);
  out_.op(Op::MARK);
  key("nested_path_to_metadata");
  out_.op(Op::EMPTY_DICT);
  tensors_ = 0;
}

void ItemMetadataWriter::tensor(const Tensor& t) {
  next(tensors_);
  out_.text(t.path);
  out_.op(Op::EMPTY_LIST);
  out_.op(Op::EMPTY_DICT);
  out_.op(Op::MARK);
  key("sharding_metadata");
  out_.op(Op::EMPTY_DICT);
  out_.op(Op::MARK);
  key("type");
  key("DTensorShardingMetadata");
  key("data");
  out_.op(Op::EMPTY_DICT);
  out_.op(Op::MARK);
  key("global_shape");
  numbers(t.sizes);
  key("dtype");
  key("torch." + std::string(facts_of(t.dtype).name));
  key("stride");
  numbers(contiguous_strides(t.sizes));
  key("mesh_spec");
  mesh(t.mesh);
  key("placements");
  placements(t.placements);
  out_.op(Op::SETITEMS);
  out_.op(Op::SETITEMS);
  key("ranks");
  uint64_t count = 1;
  for (const uint32_t size : t.mesh.sizes) count *= size;
  ranks(count);
  out_.op(Op::SETITEMS);
  out_.op(Op::APPEND);
}

void ItemMetadataWriter::end_item(const std::function<std::string(uint32_t)>& file_of) {
  if (tensors_ > 0) out_.op(Op::SETITEMS);
  key("rank_to_layout_info");
  out_.op(Op::EMPTY_DICT);
  uint64_t files = 0;
  for (uint32_t rank = 0; rank < world_size_; ++rank) {
    next(files);
    out_.integer(rank);
    if (!file_of) {
      out_.op(Op::NONE);
      continue;
    }
    out_.op(Op::EMPTY_DICT);
    out_.op(Op::MARK);
    key("file_path");
    out_.text(file_of(rank));
    key("serialization_format");
    out_.op(Op::EMPTY_DICT);
    key("type");
    key("SafetensorsSerialization");
    out_.op(Op::SETITEM);
    out_.op(Op::SETITEMS);
  }
  out_.op(Op::SETITEMS);
  out_.op(Op::SETITEMS);
}

void ItemMetadataWriter::end() {
  if (items_ > 0) out_.op(Op::SETITEMS);
  key("world_size");
  out_.integer(world_size_);
  key("version");
  key("2.0");
  out_.op(Op::SETITEMS);
  out_.end();
}

// Before each entry of a dict: opens a batch where there is none.
void ItemMetadataWriter::next(uint64_t& n) {
  if (n % kBatch == 0) {
    if (n > 0) out_.op(Op::SETITEMS);
    out_.op(Op::MARK);
  }
  ++n;
}

template <class Map, class Key, class Write>
void ItemMetadataWriter::once(Map& slots, const Key& key, const Write& write) {
  if (const auto known = slots.find(key); known != slots.end()) return out_.get(known->second);
  write();
  slots.emplace(key, out_.put());
}

void ItemMetadataWriter::key(std::string_view text) {
  once(texts_, text, [&] { out_.text(text); });
}

void ItemMetadataWriter::numbers(std::span<const int64_t> values) {
  out_.op(Op::EMPTY_LIST);
  if (values.empty()) return;
  out_.op(Op::MARK);
  for (const int64_t v : values) out_.integer(v);
  out_.op(Op::APPENDS);
}

void ItemMetadataWriter::mesh(const Mesh& m) {
  once(meshes_, m, [&] {
    out_.op(Op::EMPTY_DICT);
    out_.op(Op::MARK);
    key("device_type");
    key(m.device_type);
    key("mesh_shape");
    out_.op(Op::MARK);
    uint64_t count = 1;
    for (const uint32_t size : m.sizes) {
      out_.integer(size);
      count *= size;
    }
    out_.op(Op::TUPLE);
    key("mesh_data");
    ranks(count);
    key("mesh_dim_names");
    if (m.names.empty()) {
      out_.op(Op::NONE);
    } else {
      out_.op(Op::MARK);
      for (const std::string& name : m.names) key(name);
      out_.op(Op::TUPLE);
    }
    out_.op(Op::SETITEMS);
  });
}

void ItemMetadataWriter::ranks(uint64_t count) {
  once(ranks_, count, [&] {
    out_.op(Op::MARK);
    for (uint64_t rank = 0; rank < count; ++rank) out_.integer(static_cast<int64_t>(rank));
    out_.op(Op::TUPLE);
  });
}

void ItemMetadataWriter::placements(const std::vector<Placement>& all) {
  once(placements_, all, [&] {
    out_.op(Op::EMPTY_LIST);
    out_.op(Op::MARK);
    for (const Placement& p : all) {
      out_.op(Op::EMPTY_DICT);
      out_.op(Op::MARK);
      key("type");
      key(p.dim < 0 ? "Replicate" : p.split_factor == 0 ? "Shard" : "StridedShard");
      if (p.dim >= 0) {
        key("dim");
        out_.integer(p.dim);
      }
      if (p.split_factor > 0) {
        key("split_factor");
        out_.integer(static_cast<int64_t>(p.split_factor));
      }
      out_.op(Op::SETITEMS);
    }
    out_.op(Op::APPENDS);
  });
}

}  // namespace dcp
