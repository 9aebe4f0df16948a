#include "report/item_output.h"

#include <algorithm>

#include "base/text.h"
#include "line/command.h"
#include "report/write_report.h"

namespace dcp::cmd {

void add_folder(Command& c, FolderFlags& f) {
  const std::string group = "Layout";
  c.choice("--to", f.to_items, {{"dcp", false}, {"torch_checkpointing", true}}, "FORM",
           "Form of a folder: DCP's (default), or that of torch_checkpointing, a file for each item and rank")
      .in(group);
  c.choice("--model-form", f.model_in_safetensors, {{"torch", false}, {"safetensors", true}}, "FORM",
           "With --to torch_checkpointing: files of the model's item, ITEM_RANK.pt (default) or ITEM_RANK.safetensors")
      .needs("--to")
      .in(group);
  c.option("--device-type", f.device_type, "TYPE",
           "With --to torch_checkpointing: write DTensors for a job on devices of this type, such as cuda, which reads its own files if it "
           "has this layout")
      .needs("--to")
      .in(group);
  add_dcp(c, f.dcp);
}

OutputRequest FolderFlags::request(const std::string& out, const LayoutRequest& layout) const {
  using Kind = OutputRequest::Kind;
  if (!to_items && (model_in_safetensors || !device_type.empty()))
    fail(ProblemId::usage, {.path = out}, std::string(device_type.empty() ? "--model-form" : "--device-type") + " with --to dcp",
         "--to torch_checkpointing");
  if (to_items && !layout.like.empty())
    fail(ProblemId::usage, {.path = out}, "--like with --to torch_checkpointing, which knows placements and no boxes",
         "--mesh and --placements");
  const bool is_name = std::ranges::all_of(device_type, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
  if (!is_name) fail(ProblemId::usage, {}, "--device-type '" + escaped(device_type) + "'", "a type of devices, such as cuda");
  if (to_items) refuse_dcp_flags(dcp, out);
  return {.path = out,
          .kind = to_items ? Kind::kItems : Kind::kDcp,
          .layout = layout,
          .torch = dcp.target(),
          .model_in_safetensors = model_in_safetensors,
          .device_type = device_type};
}

void FolderFlags::refuse(const std::string& out) const {
  refuse_dcp_flags(dcp, out);
  if (to_items) fail(ProblemId::usage, {.path = out}, "--to torch_checkpointing with a model file", "a folder name");
}

void describe_items(Context& context, const ItemNotes& notes) {
  if (!notes.model_item.empty())
    context.info("the model is at the top level of the state dict: it becomes the item '" + notes.model_item + "'");
  uint64_t kept = 0;
  std::string example;
  std::vector<std::string> whole;
  for (const OutputItem& item : notes.items) {
    if (item.tensors == 0) whole.push_back(item.name);
    else if ((kept += item.objects) > 0 && example.empty()) example = item.object;
  }
  const std::string objects = counted(kept, "object") + " in items with tensors, such as '" + escaped(example) + "'";
  if (notes.device_type.empty() && kept > 0)
    context.info("torch_checkpointing gives a job its parts of tensors, on any number of ranks; " + objects +
                 ", keep the values that the job has, as whenever its world changes");
  if (!notes.device_type.empty() && kept > 0)
    context.info("a job with this layout on " + notes.device_type + " devices reads its own files whole; in others " + objects +
                 ", keep the values that the job has");
  if (!whole.empty())
    context.info("items without tensors have a file for " +
                 (notes.world_size == 1 ? "rank 0 alone" : "each of " + counted(notes.world_size, "rank")) +
                 ", and a job with more lacks them: " + list_of(whole, 3));
  describe_layout(context, notes.replicated, notes.rank_bound, notes.world_size);
}

void items_json(JsonWriter& out, const ItemNotes& notes) {
  out.member("world_size", notes.world_size);
  if (!notes.device_type.empty()) out.member("device_type", notes.device_type);
  if (!notes.model_item.empty()) out.member("model_item", notes.model_item);
  out.key("items").begin_array();
  for (const OutputItem& item : notes.items)
    out.begin_object()
        .member("name", item.name)
        .member("form", item.is_safetensors ? "safetensors" : "torch")
        .member("tensors", item.tensors)
        .member("objects", item.objects)
        .end_object();
  out.end_array();
  layout_json(out, notes.unmatched_placements, notes.replicated, notes.rank_bound);
}

}  // namespace dcp::cmd
