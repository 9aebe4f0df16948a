// Files that every rank has written with torch.save, made in memory.
#pragma once

#include <string>
#include <vector>

#include "catalog/made_torch_file.h"

namespace dcp::test {

// A rank's part of a float32 tensor of 4 columns that is sharded by its rows.
struct MadePart {
  int64_t rows = 0;                    // of the tensor
  int64_t local_rows = 0;              // of the part
  std::vector<int64_t> coordinate{0};  // in the mesh: rows are sharded along the last of its dims and replicated along the others
  std::string storage = "0";
};

inline Made& write_tuple(Made& m, const std::vector<int64_t>& numbers) {
  m.op(POp::MARK);
  for (const int64_t n : numbers) m.number(n);
  return m.op(POp::TUPLE);
}

// An object of no arguments; its state comes next, and then BUILD.
inline void write_new(Made& m, std::string_view module, std::string_view name) {
  m.out.global(module, name);
  m.op(POp::EMPTY_TUPLE).op(POp::NEWOBJ);
}

inline Made& write_part(Made& m, const MadePart& part) {
  m.out.global("torch._tensor", "_rebuild_from_type_v2");
  m.op(POp::MARK);
  m.out.global("torch._utils", "_rebuild_wrapper_subclass");
  m.out.global("torch.distributed.tensor", "DTensor");
  m.op(POp::MARK);
  m.out.global("torch.distributed.tensor", "DTensor");
  m.out.global("torch", "float32");
  write_tuple(m, {part.rows, 4}).op(POp::TUPLE);
  m.dict().key("_local_tensor");
  m.tensor({.dtype = DType::float32,
            .storage = part.storage,
            .storage_elements = static_cast<uint64_t>(part.local_rows * 4),
            .sizes = {part.local_rows, 4},
            .strides = {4, 1}});
  m.key("_spec");
  write_new(m, "torch.distributed.tensor._dtensor_spec", "DTensorSpec");
  m.dict().key("mesh");
  write_new(m, "torch.distributed.device_mesh", "DeviceMesh");
  write_tuple(m.dict().key("_coordinate_on_dim"), part.coordinate).end_dict().op(POp::BUILD);
  m.key("placements").op(POp::MARK);
  for (size_t d = 0; d < part.coordinate.size(); ++d) {
    const bool is_last = d + 1 == part.coordinate.size();
    write_new(m, "torch.distributed.tensor.placement_types", is_last ? "Shard" : "Replicate");
    m.dict();
    if (is_last) m.key("dim").number(0);
    m.end_dict().op(POp::BUILD);
  }
  m.op(POp::TUPLE).end_dict().op(POp::BUILD);
  return m.end_dict().op(POp::TUPLE).op(POp::REDUCE);
}

// A torch.save file; `data` is its one storage.
inline void put_file(FakeIo& io, const std::string& path, Made& m, const std::string& data = "") {
  io.put(path, made_archive({{"data.pkl", m.done()}, {"byteorder", "little"}, {"data/0", data}, {"version", "3\n"}}));
}

inline void put_object(FakeIo& io, const std::string& path, int64_t number) {
  Made m;
  put_file(io, path, m.dict().key("n").number(number).end_dict());
}

inline std::string name_of_rank(size_t rank, size_t world, const std::string& part = "model") {
  return part + "_world_size_" + std::to_string(world) + "_rank_" + std::to_string(rank) + ".pt";
}

inline void put_part(FakeIo& io, const std::string& path, const MadePart& part, const std::string& key = "w") {
  Made m;
  m.dict().key(key);
  put_file(io, path, write_part(m, part).end_dict(), std::string(static_cast<size_t>(part.local_rows) * 16, 'x'));
}

inline void put_model(FakeIo& io, const std::string& folder, const std::vector<MadePart>& parts) {
  for (size_t r = 0; r < parts.size(); ++r) put_part(io, folder + "/" + name_of_rank(r, parts.size()), parts[r]);
}

}  // namespace dcp::test
