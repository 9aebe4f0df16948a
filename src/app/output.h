// The output of a use case that writes: a file or folder that holds a whole model, a DCP folder, or the same kind as the source.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/layout_request.h"
#include "app/mapped.h"
#include "app/world.h"
#include "plan/item_folder.h"
#include "plan/layout.h"
#include "select/select.h"

namespace dcp {

struct OutputRequest {
  enum class Kind : uint8_t {
    kTorch,        // one torch.save file
    kSafetensors,  // one file
    kNpy,          // one tensor, as numpy reads it
    kNpz,          // tensors, as numpy reads them
    kRaw,          // one tensor: its elements, row-major and little-endian
    kShards,       // a folder of safetensors files, of at most max_shard_bytes or as an index has them, and their index
    kDcp,          // a DCP folder, laid out as `layout` says
    kItems,        // a folder of torch_checkpointing, laid out as `layout` says
    kSameFolder,   // a folder of the source's own kind: the same boxes on the same ranks, or the same shards
  };
  std::string path;
  Kind kind = Kind::kTorch;
  bool same_kind = false;          // must be the source's kind, for a file too; else throws usage
  bool one_value = false;          // a single key, without a dict around it
  bool weights_only_safe = false;  // leave out objects that torch.load(weights_only=True) refuses
  bool mcore_shapes = false;       // tensors get the shapes of Megatron's mcore_data
  bool check_crcs = true;
  uint64_t max_shard_bytes = 0;
  std::string like_index;  // shards: an index, or a folder with one, that gives the file of each tensor; "": by size
  std::string assets;      // folder whose configuration and tokenizer files are copied beside shards; "": none
  LayoutRequest layout;
  TorchTarget torch;                  // the oldest release that must load a DCP folder
  bool model_in_safetensors = false;  // items: of a model
  std::string device_type = {};       // items: of DTensors; "": they are plain tensors

  bool is_folder() const { return kind >= Kind::kShards; }
};

// The kind of a model file, by the ending of its name in any case: .pt, .pth, .bin or .safetensors; nullopt: another ending.
std::optional<OutputRequest::Kind> model_file_kind(const std::string& path);

// A model beside its configuration and tokenizer: throws the last of what is missing, the source, the assets or room for the output, and warns of
// the others. Who met one refusal after another would start anew each time.
struct Publishing {
  const std::string& source;
  const std::string& assets;
  const std::string& output;
  Replace replace{};
};
void check_publishable(const Publishing& paths, World& world);

// What the output can hold.
struct OutputForm {
  bool blobs = true;  // byte items; otherwise they are ignored
  BlobUse blob_use = BlobUse::kPickles;
  bool any_tensor = false;  // tensors of a torch.save file without a strided layout: sparse, on meta, nested
};
OutputForm form_of(const OutputRequest& request);

// Lays out the output. Owns what the plan refers to, so it must outlive the plan.
class OutputLayout {
 public:
  // Reads what a layout refers to, before the source is opened. `max_memory`: cap of the whole run. Throws usage.
  OutputLayout(const OutputRequest& request, World& world, uint64_t max_memory);
  // `published`: what a map publishes. Throws usage if the source is of another kind, and what the layouts throw.
  Plan plan(const SourceFacts& source, const Selection& selection, const PublishedModel& published);
  // Of a folder of torch_checkpointing, once it is planned.
  const std::optional<ItemNotes>& items() const { return items_; }

 private:
  Plan model_file(const SourceFacts& source, const Selection& selection, const PublishedModel& published);
  Plan same_folder(const SourceFacts& source, const Selection& selection);
  const OutputRequest& request_;
  World& world_;
  const UnitOptions units_;
  RequestedLayout layout_;
  std::vector<std::pair<std::string, std::string>> file_of_;  // of like_index
  std::optional<ItemNotes> items_;
};

}  // namespace dcp
