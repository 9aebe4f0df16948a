#include "map_flags.h"

#include "base/working_names.h"
#include "command.h"
#include "maps/builtin.h"

namespace dcp::cmd {

std::vector<maps::Setting> MapFlags::settings() const {
  std::vector<maps::Setting> all;
  for (const std::string& s : sets) all.push_back(maps::setting_of(s));
  return all;
}

void add_map_config(Command& c, MapFlags& f, const std::string& group) {
  c.option("--config", f.config, "FILE", "The model's config.json, for the sizes and conditions of the map").reads().in(group);
  c.option("--set", f.sets, "NAME=VALUE", "A size, an axis or a choice of the map, or a key of config.json; repeatable").in(group);
}

void add_map(Command& c, MapFlags& f) {
  const std::string maps = "Maps of models";
  c.option("--map", f.map, "MAP", "Make the tensors of another form of the model: a map of 'dcpctl maps', a file of one, or auto")
      .reads()
      .in(maps);
  add_map_config(c, f, maps);
  const Choices<maps::Unmapped> fates{{"error", maps::Unmapped::kError}, {"keep", maps::Unmapped::kKeep}, {"drop", maps::Unmapped::kDrop}};
  c.choice("--unmapped", f.unmapped, fates, "WHAT", "What becomes of keys that the map does not take: error (default), keep or drop")
      .needs("--map")
      .in(maps);
  const Choices<std::optional<maps::Side>> sides{{"left", maps::Side::kLeft}, {"right", maps::Side::kRight}};
  c.choice("--map-from", f.from, sides, "SIDE", "Which side of the map CKPT has: left or right, where its names do not say it")
      .needs("--map")
      .in(maps);
  for (const char* name : {"--config", "--set"}) c.find(name)->needs("--map");
  // config.json beside CKPT is read where --config does not name another.
  for (Option& argument : c.arguments)
    if (argument.value == "CKPT")
      argument.leads_to = [&f](Io&, const std::string& path) { return f.map.empty() ? path : folder_around(path) + "/config.json"; };
}

bool is_map_file(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".map"); }

maps::ModelMap open_map(const std::string& name, const Context& context) {
  const Limits limits;
  if (!is_map_file(name)) return maps::builtin_map(name, limits);
  return maps::read_map(as_text(read_file(context.io, name, limits.map_bytes)), name, limits);
}

maps::Config open_config(const std::string& path, const Context& context) {
  const Limits limits;
  return maps::Config::read(as_text(read_file(context.io, path, limits.config_bytes)), path, limits);
}

}  // namespace dcp::cmd
