#include "request/map_flags.h"

#include "app/mapped.h"
#include "base/file_names.h"
#include "base/text.h"
#include "line/command.h"
#include "select/select.h"

namespace dcp::cmd {

MapRequest MapFlags::request() const {
  MapRequest request{.map = map == "none" ? "" : map,
                     .config = config,
                     .settings = {},
                     .unmapped = unmapped,
                     .from = from,
                     .to = to,
                     .is_declined = map == "none",
                     .model_root = {}};
  if (request.is_declined && !to.empty()) fail(ProblemId::usage, {}, "--to-map with --map none", "a map before it");
  if (model_root_option != nullptr && model_root_option->count() > 0) request.model_root = model_root == "." ? "" : model_root;
  for (const std::string& s : sets) {
    const size_t at = s.find('=');
    if (at == std::string::npos || at == 0) fail(ProblemId::usage, {}, "--set '" + s + "'", "NAME=VALUE");
    request.settings.push_back({s.substr(0, at), s.substr(at + 1)});
  }
  return request;
}

void MapFlags::check_config(bool with_dtype) const {
  if (!config.empty() && map.empty() && !with_dtype) fail(ProblemId::usage, {}, "--config without --map and --dtype", "one of them");
}

void add_map_config(Command& c, MapFlags& f, const std::string& group) {
  c.option("--config", f.config, "FILE", "The model's config.json, for the sizes and conditions of the map").reads().in(group);
  c.option("--set", f.sets, "NAME=VALUE", "A size, an axis or a choice of the map, or a key of config.json; repeatable").in(group);
}

void add_map(Command& c, MapFlags& f) {
  const std::string maps = "Maps of models";
  c.option("--map", f.map, "MAP",
           "Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none")
      .reads(Offer::kMaps)
      .in(maps);
  c.option("--to-map", f.to, "MAP2", "Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP")
      .reads(Offer::kMaps)
      .needs("--map")
      .in(maps);
  add_map_config(c, f, maps);
  c.find("--config")->help += "; default: that of --assets, or beside CKPT";
  const Choices<maps::Unmapped> fates{{"error", maps::Unmapped::kError}, {"keep", maps::Unmapped::kKeep}, {"drop", maps::Unmapped::kDrop}};
  c.choice("--unmapped", f.unmapped, fates, "WHAT", "What to do with keys that the map does not match: error (default), keep or drop")
      .needs("--map")
      .in(maps);
  const Choices<std::optional<maps::Side>> sides{{"left", maps::Side::kLeft}, {"right", maps::Side::kRight}};
  c.choice("--map-from", f.from, sides, "SIDE", "The side of the map that CKPT is on, if its names do not decide it: left or right")
      .needs("--map")
      .in(maps);
  f.model_root_option = &c.option("--model-root", f.model_root, "PATH",
                                  "Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)")
                             .needs("--map")
                             .in(maps);
  c.find("--set")->needs("--map");
  // config.json beside a source is read where --config does not name another.
  for (Option& argument : c.arguments)
    if (argument.source) argument.leads_to = [](Store&, const std::string& path) { return folder_around(path) + "/config.json"; };
}

// "torchtitan → transformers": the sides of a built-in map, FAMILY.TRAINER. A map of somebody's own does not name them.
static std::string direction(std::string_view map, bool forward) {
  const size_t dot = map.find('.');
  std::string left = "left", right = "right";
  if (map.find('/') == map.npos && !map.ends_with(".map") && dot != map.npos) {
    left = map.substr(dot + 1), right = "transformers";
    if (left == right) left = "in memory", right = "published";
  }
  return " (" + (forward ? left + " → " + right : right + " → " + left) + ")";
}

std::string applied_maps(const MapAnswer& answer) {
  if (answer.stays_published) return "map " + escaped(answer.map.name) + " (published → published)";
  return "map " + escaped(answer.map.name + direction(answer.map.name, answer.made.from == maps::Side::kLeft)) +
         (answer.to ? ", then " + escaped(answer.to->name + direction(answer.to->name, false)) : "");
}

void describe(const MapAnswer& answer, Context& context) {
  const maps::Mapping& made = answer.made;
  if (!answer.stays_published) context.info(applied_maps(answer));  // else it is said how the names were found
  for (const std::string& n : made.notes) context.info("note: " + escaped(n));
  if (!answer.left_out.empty())
    context.info("the map leaves out " + counted(answer.left_out.size(), "tensor") + ": " + list_of(answer.left_out, 3));
  if (!made.kept.empty())
    context.info(counted(made.kept.size(), "tensor") + " that the map does not know, under " + (made.kept.size() == 1 ? "its" : "their") +
                 " own name" + (made.kept.size() == 1 ? "" : "s") + ": " + list_of(made.kept, 3));
  if (answer.left_out.size() > 4)
    for (const std::string& key : answer.left_out) context.verbose("  " + escaped(key));
  if (!made.not_made.empty()) context.info("not written, because the source has no data for it: " + list_of(made.not_made));
}

void map_json(JsonWriter& out, const MapAnswer& answer) {
  const maps::Mapping& made = answer.made;
  out.key("map").begin_object().member("name", answer.map.name).member("from", maps::name_of(made.from));
  if (answer.to) out.member("to", answer.to->name);
  out.member("tensors", uint64_t{made.targets.size()}).member("left_out", uint64_t{answer.left_out.size()});
  out.member("left_out_keys", answer.left_out);
  out.member("not_made", made.not_made);
  out.member("notes", made.notes);
  out.end_object();
}

}  // namespace dcp::cmd
