// What the commands that write a folder for ranks share: a DCP folder, or one of torch_checkpointing.
#pragma once

#include <string>

#include "app/output.h"
#include "base/json.h"
#include "line/context.h"

namespace dcp::cmd {

struct DcpFlags {
  std::string for_torch;

  // Throws usage.
  TorchTarget target() const;
};
// --for-torch.
void add_dcp(Command& command, DcpFlags& flags);
// Throws usage if one of them was given with an output that is not a DCP folder.
void refuse_dcp_flags(const DcpFlags& flags, const std::string& out);

// One line for each thing that users of the folder should know.
void describe_dcp(Context& context, const DcpNotes& notes);
void dcp_json(JsonWriter& out, const DcpNotes& notes);
struct FolderFlags {
  DcpFlags dcp;
  bool to_items = false;  // else to DCP
  bool model_in_safetensors = false;
  std::string device_type;

  // Throws usage.
  OutputRequest request(const std::string& out, const LayoutRequest& layout) const;
  // Throws usage if one of them was given with an output that is not a folder.
  void refuse(const std::string& out) const;
};
// --to, --model-form, --device-type, --for-torch.
void add_folder(Command& command, FolderFlags& flags);

// One line for each thing that users of the folder should know.
void describe_items(Context& context, const ItemNotes& notes);
void items_json(JsonWriter& out, const ItemNotes& notes);

}  // namespace dcp::cmd
