// Layouts of output formats: a selection of a catalog becomes a Plan in which every byte has its place.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "plan/plan.h"
#include "plan/units.h"
#include "select/select.h"

namespace dcp {

struct LayoutOptions {
  Limits limits;
  UnitOptions units;
  bool weights_only_safe = false;  // .pt: leave out what torch.load(weights_only=True) refuses
  bool bare = false;               // .pt: the value of the single key itself, without a dict around it
  bool mcore_shapes = false;       // tensors get the shapes of Megatron's mcore_data
  uint64_t max_shard_bytes = 0;    // safetensors: 0: one file; else a folder of shards with an index
  // safetensors: a folder with these files, and which of them has each tensor, as in an index of Hugging Face's
  std::vector<std::pair<std::string, std::string>> file_of{};
  std::string file_of_path{};     // its origin, for messages
  bool shards_of_source = false;  // safetensors: a folder with a shard for each file of the source that a tensor begins in
};

// One torch.save archive, nested by the keys' paths. Every tensor gets its own storage; byte items and opaque tensors are spliced in at
// their places. Throws keys_collide, path_conflict, opaque_sharded, mcore_shape, cast_opaque, and what splicing throws.
Plan plan_torch(const SourceFacts& source, const Selection& selection, const LayoutOptions& options);

// Tensors only, as the reference library lays them out. Throws keys_collide, cast_opaque, and no_dtype_in_output naming every tensor whose
// dtype the format lacks.
Plan plan_safetensors(const SourceFacts& source, const Selection& selection, const LayoutOptions& options);

// One file per entry of the selection, all of them plain tensors: a .npy file, or the elements alone. Throws cast_opaque.
enum class ArrayForm : uint8_t { kNpy, kRaw };
Plan plan_arrays(const SourceFacts& source, const Selection& selection, ArrayForm form, const UnitOptions& units);
// One .npz file: an archive with a .npy file for each tensor of the selection, under its key; objects are left out. Throws cast_opaque,
// keys_collide.
Plan plan_npz(const SourceFacts& source, const Selection& selection, const UnitOptions& units);

// Adds the check of a record that lies in the last of plan.copies.
void add_check(Plan& plan, const CopyCheck& check);
// Adds the box of a whole tensor to plan.numbers.
uint64_t add_whole_box(Plan& plan, Dims dims);

// Whether some item of the tensor is not plain: quantized, or of a subclass.
bool is_opaque(const SourceFacts& source, TensorId id);
// Throws cast_opaque for an opaque tensor: its elements alone have no meaning.
void refuse_opaque(const SourceFacts& source, TensorId id);
// Throws cast_opaque if the selection casts an opaque tensor.
void refuse_opaque_casts(const SourceFacts& source, const Selection& selection);

}  // namespace dcp
