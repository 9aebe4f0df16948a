#include "report/maps_report.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "app/mapped.h"
#include "app/model_config.h"
#include "base/json.h"
#include "base/text.h"
#include "line/context.h"
#include "line/lines.h"
#include "maps/builtin.h"
#include "maps/config.h"
#include "maps/sizes.h"

namespace dcp::cmd {
namespace {

// What the first line says, which is a comment.
std::string_view title_of(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  return text.starts_with("# ") ? text.substr(2) : std::string_view{};
}

struct KnownSize {
  std::string name;
  std::optional<uint64_t> value;
  std::string text;  // "h = 4 (num_attention_heads of config.json)"
};

// The sizes that hold for the whole map, as far as they are known without a checkpoint.
std::vector<KnownSize> sizes_of(const maps::ModelMap& map, const MapsOptions& o, const Context& context) {
  maps::Config config;
  if (!o.flags.config.empty()) config = open_config(o.flags.config, context.store);
  const std::vector<maps::Setting> settings = o.flags.request().settings;
  maps::apply_settings(map, settings, config);
  const maps::Sizes sizes(map, config, settings);
  std::vector<KnownSize> all;
  for (maps::Word w = 0; w < map.words.size(); ++w) {
    const maps::Known& known = sizes.global()[w];
    if (!sizes.is_global(w) || known.from == maps::Known::From::kNumber) continue;
    all.push_back({map.word(w), known ? std::optional(known.value) : std::nullopt, sizes.describe(w, sizes.global(), {})});
  }
  return all;
}

}  // namespace

bool list_maps(std::string_view model, const Context& context) {
  std::string text;
  JsonWriter json([&](std::string_view s) { text += s; });
  json.begin_object().member("schema", "dcpctl.maps/1").key("maps").begin_array();
  std::vector<Cells> rows;
  for (const maps::BuiltinMap& m : maps::builtin_maps()) {
    const maps::ModelMap map = maps::builtin_map(m.name, {});
    if (std::ranges::none_of(map.families, [&](const std::string& f) { return f.starts_with(model); })) continue;
    json.begin_object().member("name", m.name).member("dialect", m.name.substr(m.name.rfind('.') + 1));
    json.member("tried_against", maps::tried_against(m.name.substr(m.name.rfind('.') + 1)));
    json.member("models", map.families).member("title", title_of(m.text)).end_object();
    rows.push_back({std::string(m.name), joined(map.families, ", "), std::string(title_of(m.text))});
  }
  json.end_array().end_object();
  json.finish();
  if (rows.empty()) return false;
  if (context.common.json) return context.print(text), true;
  // Most people come with a trainer's checkpoint, and most maps are transformers' own.
  std::ranges::stable_partition(rows, [](const Cells& cells) { return !cells[0].ends_with(".transformers"); });
  print_table(context, {false, false, false}, LongNames::kOwnLine, [&](const auto& row) {
    for (const Cells& cells : rows) row(cells);
  });
  text = "\nTried against " + std::string(maps::tried_against("torchtitan")) + ", " + std::string(maps::tried_against("transformers")) +
         " and " + std::string(maps::tried_against("megatron")) + ".\n";
  context.print(fitted(context, text, STDOUT_FILENO));
  return true;
}

int show_map(const MapsOptions& o, const Context& context) {
  const maps::ModelMap map = open_map(o.map, context.store);
  const bool is_asked = is_map_file(o.map) || !o.flags.config.empty() || !o.flags.sets.empty();
  std::string source;
  for (const std::string& line : map.text) source += line + "\n";
  const std::vector<KnownSize> sizes = sizes_of(map, o, context);
  std::string text;
  if (context.common.json) {
    text = json_document([&](JsonWriter& json) {
      json.member("schema", "dcpctl.map/1").member("name", map.name);
      json.member("models", map.families).member("releases", map.releases).member("notes", map.notes);
      json.member("lines", uint64_t{map.lines.size()}).key("sizes").begin_array();
      for (const KnownSize& s : sizes) json.begin_object().member("name", s.name).member("value", s.value).end_object();
      json.end_array().member("text", source);
    });
  } else if (!is_asked) {
    text = source;
  } else {
    text = escaped(map.name) + ": " + counted(map.lines.size(), "line") + ", each moves every element once, in both directions\n";
    for (const KnownSize& s : sizes) text += "  " + escaped(s.value ? s.text : s.name + ": the checkpoint says it") + "\n";
    for (const std::string& n : map.notes) text += "note: " + escaped(n) + "\n";
  }
  context.print(text);
  return 0;
}

}  // namespace dcp::cmd
