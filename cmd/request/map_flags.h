// --map and related options: which model map, and its settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/requests.h"
#include "base/json.h"
#include "line/command.h"
#include "line/context.h"

namespace dcp {
struct MapAnswer;
}

namespace dcp::cmd {

struct MapFlags {
  std::string map;  // "": none
  std::string config;
  std::vector<std::string> sets;
  maps::Unmapped unmapped = maps::Unmapped::kError;
  std::optional<maps::Side> from;
  std::string to;          // "": none
  std::string model_root;  // of the model in the output
  const Option* model_root_option = nullptr;

  MapRequest request() const;                // throws map_setting
  void check_config(bool with_dtype) const;  // that it is used; throws usage
};

void add_map(Command& command, MapFlags& flags);
// --config and --set alone.
void add_map_config(Command& command, MapFlags& flags, const std::string& group);

std::string applied_maps(const MapAnswer& answer);  // "map llama.torchtitan (torchtitan → transformers)"
// Describes the map, its notes and what it leaves out, in lines on stderr.
void describe(const MapAnswer& answer, Context& context);
void map_json(JsonWriter& out, const MapAnswer& answer);  // the member "map"

}  // namespace dcp::cmd
