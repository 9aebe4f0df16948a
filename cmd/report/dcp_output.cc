#include "report/dcp_output.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "format/dcp_metadata.h"
#include "line/command.h"
#include "report/write_report.h"

namespace dcp::cmd {
namespace {

// "dp_rank_0 to dp_rank_3".
std::string ranks_text(const RankBound& group) {
  const std::string last = group.stem.substr(group.stem.rfind('.') + 1);
  const std::string first = group.stem + std::to_string(group.ranks.front());
  return group.ranks.size() == 1 ? first : first + " to " + last + std::to_string(group.ranks.back());
}

void describe_rank_bound(Context& context, const RankBound& group, uint32_t world_size) {
  const uint64_t next = group.ranks.back() + 1;
  if (world_size == next) return;
  const std::string missing = group.stem + std::to_string(next);
  const bool more = world_size > next;
  context.info(
      "'" + escaped(ranks_text(group)) +
      "' belong to single ranks and are copied as they are: a trainer with another number of data-parallel ranks will not load them" +
      (more ? " ('" + escaped(missing) + "' and later ones are missing, " + counted(world_size - next, "key") + " for " +
                  std::to_string(world_size) + " ranks)"
            : "") +
      "; --exclude '" + escaped(group.exclude) + "' leaves them out, for a trainer that does not ask for them");
}

// Of any folder for a number of ranks; what is replicated once for each glob.
template <class Notes>
void describe_layout(const Notes& of, Context& context) {
  const std::vector<KeyNote>& notes = of.replicated;
  for (size_t i = 0; i < notes.size();) {
    std::vector<std::string> keys;
    const std::string& glob = notes[i].text;
    for (; i < notes.size() && notes[i].text == glob; ++i) keys.push_back(notes[i].key);
    context.info("replicated where --placements '" + escaped(glob) +
                 "' splits a dim that they do not have: " + counted(keys.size(), "tensor") + ", " + list_of(keys, 3));
  }
  for (const RankBound& group : of.rank_bound) describe_rank_bound(context, group, of.world_size);
}

template <class Notes>
void layout_json(JsonWriter& out, const Notes& notes) {
  out.member("idle_placements", notes.unmatched_placements);
  notes_json(out, "replicated", notes.replicated);
  out.key("rank_bound").begin_array();
  for (const RankBound& group : notes.rank_bound)
    out.begin_object().member("stem", group.stem).member("exclude", group.exclude).member("ranks", group.ranks).end_object();
  out.end_array();
}

// The first `max` of them, and how many more there are: a text before the number and one behind it.
template <class LineOf>
void describe_first(const std::vector<KeyNote>& notes, size_t max, const LineOf& line_of, std::pair<const char*, const char*> more,
                    Context& context) {
  for (size_t i = 0; i < notes.size(); ++i) {
    if (i < max) context.info(line_of(notes[i]));
    else context.verbose(line_of(notes[i]));
  }
  if (notes.size() > max) context.info(more.first + grouped(notes.size() - max) + more.second + ", which -v and --report list");
}

}  // namespace

TorchTarget DcpFlags::target() const {
  if (for_torch.empty()) return {};
  unsigned major = 0, minor = 0;
  const char* const last = for_torch.data() + for_torch.size();
  const auto [dot, error] = std::from_chars(for_torch.data(), last, major);
  const auto [end, minor_error] =
      dot != last && *dot == '.' ? std::from_chars(dot + 1, last, minor) : std::from_chars_result{dot, std::errc::invalid_argument};
  const bool patch =
      end != last && *end == '.' && end + 1 != last && std::all_of(end + 1, last, [](char c) { return c >= '0' && c <= '9'; });
  if (error != std::errc{} || minor_error != std::errc{} || (end != last && !patch) || major != 2 || minor > 99)
    fail(ProblemId::usage, {}, "--for-torch '" + for_torch + "'", "X.Y, 2.0 or later");
  return {.version = major * 100 + minor, .requested = true};
}

void add_dcp(Command& c, DcpFlags& f) {
  c.option("--for-torch", f.for_torch, "X.Y", "Oldest torch that must load OUT, 2.0 or later (default 2.4, or what the dtypes need)")
      .also({"--torch"})
      .in("Layout");
}

void refuse_dcp_flags(const DcpFlags& flags, const std::string& out) {
  if (!flags.for_torch.empty())
    fail(ProblemId::usage, {.path = out}, "--for-torch with an output that is not a DCP folder", "a folder name");
}

void describe_dcp(Context& context, const DcpNotes& notes) {
  for (const KeyNote& n : notes.raised_by)
    context.info("for torch " + torch_release(notes.for_torch) + " and later: '" + escaped(n.key) + "': " + n.text);
  if (notes.containers > 0)
    context.info("wrote " + counted(notes.containers, "container") +
                 " (dict or list) of plain values as one object each, for torch before 2.4");
  for (const KeyNote& n : notes.attributes_left_out)
    context.info("left out attribute '" + escaped(n.key) + "' of the metadata: " + escaped(n.text));
  const auto odd = [](const KeyNote& n) { return "warning: '" + escaped(n.key) + "': " + escaped(n.text); };
  describe_first(notes.kept_as_is, 8, odd, {"and ", " more such tensors"}, context);
  if (!notes.default_layout.empty())
    context.info("default layout for " + counted(notes.default_layout.size(), "tensor") + " that --like does not place:");
  const auto placed = [](const KeyNote& n) { return "  " + escaped(n.key) + ": " + escaped(n.text); };
  describe_first(notes.default_layout, 20, placed, {"  and ", " more"}, context);
  describe_layout(notes, context);
}

void dcp_json(JsonWriter& out, const DcpNotes& notes) {
  out.member("world_size", notes.world_size).member("for_torch", torch_release(notes.for_torch)).member("containers", notes.containers);
  notes_json(out, "for_torch_raised_by", notes.raised_by);
  notes_json(out, "attributes_left_out", notes.attributes_left_out);
  notes_json(out, "kept_as_is", notes.kept_as_is);
  notes_json(out, "default_layout", notes.default_layout);
  layout_json(out, notes);
}

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
    if (item.tensors == 0 || item.of_ranks) whole.push_back(item.name);
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
    context.info("items that are not resharded have a file for " +
                 (notes.world_size == 1 ? "rank 0 alone" : "each of " + counted(notes.world_size, "rank")) +
                 ", and a job with more lacks them: " + list_of(whole, 3));
  describe_layout(notes, context);
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
  layout_json(out, notes);
}

}  // namespace dcp::cmd
