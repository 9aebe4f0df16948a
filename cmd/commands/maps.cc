// dcpctl maps: the maps of models that are built in, the text of one, whether one holds.
#include "line/commands.h"
#include "report/maps_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(A map relates the tensors of a trainer to those of the published model, in a language described in dcpctl-maps(7). Without MAP the
built-in maps are listed, with a model_type or its beginning those of that model. With the name of one, its text is printed, to read, copy
and change. A file, or any map with --config, is checked: that it moves every element once in both directions, and what its sizes are.

  dcpctl maps
  dcpctl maps llama
  dcpctl maps llama.torchtitan
  dcpctl maps llama.torchtitan --config base-model/config.json)";

}  // namespace

void add_maps(Command& c, Context& context) {
  auto options = std::make_shared<MapsOptions>();
  c.details = kText;
  c.argument("MAP", options->map, "A built-in map, a model such as llama, or a file whose name contains a '/' or ends in .map")
      .reads(Offer::kMaps);
  add_map_config(c, options->flags, "Options");
  add_common(c, context.common, false);
  c.pages = true;
  c.run = [options, &context] {
    const bool is_checked = !options->flags.config.empty() || !options->flags.sets.empty();
    if (!is_checked && list_maps(options->map, context)) return 0;
    if (options->map.empty()) fail(ProblemId::usage, {}, "--config or --set without a map", "MAP, the map to check");
    return show_map(*options, context);
  };
}

}  // namespace dcp::cmd
