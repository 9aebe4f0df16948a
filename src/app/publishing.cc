#include "app/publishing.h"

#include <algorithm>
#include <exception>
#include <set>
#include <vector>

#include "app/ask_map.h"
#include "base/limits.h"
#include "base/text.h"
#include "files/output_free.h"
#include "maps/config.h"
#include "plan/assets.h"
#include "plan/plan.h"

namespace dcp {
namespace {

// config.json of the output: with the dtype that is written, and the class of what a map publishes. Of a text model alone it is the text
// model's, and no other asset is of more than text.
void configure(std::vector<Asset>& assets, const AssetsRequest& request, World& world) {
  const auto its = std::ranges::find(assets, "config.json", &Asset::name);
  if (its == assets.end()) return;
  std::string& json = its->bytes;
  if (request.dtype) json = with_dtype(json, facts_of(*request.dtype).name);
  const PublishedModel& published = request.published;
  if (published.model_type.empty()) return;
  const maps::Config config = maps::Config::read(json, request.folder + "/config.json", Limits());
  for (const maps::Setting& s : published.settings) {
    if (s.name.find('.') != s.name.npos) continue;
    const std::string changed = with_setting(json, s.name, s.value);
    if (changed != json) world.events.info("config.json: set " + escaped(s.name) + " to " + escaped(s.value));
    json = changed;
  }
  const bool is_within = published.is_text_part && config.has("text_config.model_type");
  const std::string was = config.architecture().empty() ? "absent" : escaped(config.architecture());
  if (published.architecture.empty() && is_within)
    world.events.info("config.json: of " + was + ", but the names that are written are those of its text model, " +
                      escaped(published.model_type));
  if (published.architecture.empty() || (!is_within && published.architecture == config.architecture())) return;
  world.events.info("config.json: " + std::string(is_within ? "took text_config alone, and " : "") + "set architectures to " +
                    published.architecture + " (was " + was + ")");
  json = with_architecture(is_within ? text_part(json) : json, published.architecture);
  if (!is_within) return;
  std::erase_if(assets, [&](const Asset& a) {
    if (is_processor(a.name)) world.events.info("left out " + escaped(a.name) + ", which is of the image model");
    return is_processor(a.name);
  });
}

// Those of a folder in a store, which may list nothing. Some web servers refuse what is not there.
std::set<std::string> usual_names(const std::string& folder, Store& store) {
  std::set<std::string> names;
  std::exception_ptr refused;
  for (const char* name : usual_assets()) {
    try {
      const auto file = store.open_beneath(folder, name, FollowLinks::kCacheOnly);
      if (!file) continue;
      store.close(*file);
      names.insert(name);
    } catch (const Error& error) {
      if (error.problem().id != ProblemId::net_refused) throw;
      refused = std::current_exception();
    }
  }
  if (names.empty() && refused) std::rethrow_exception(refused);
  return names;
}

// Throws no_such_path, no_assets.
std::set<std::string> asset_names(const std::string& folder, Store& store) {
  const std::optional<FileFacts> facts = store.facts(folder);
  std::set<std::string> names;
  if (store.read_capabilities(folder).network) names = usual_names(folder, store);
  if (!facts && names.empty()) fail(ProblemId::no_such_path, {.path = folder});
  if (facts && facts->kind != FileKind::kDirectory) fail(ProblemId::no_assets, {.path = folder}, "a file", "a folder");
  for (const DirEntry& e : facts ? store.list(folder) : std::vector<DirEntry>())
    if (e.kind == FileKind::kRegular && is_asset(e.name)) names.insert(e.name);
  if (names.empty()) fail(ProblemId::no_assets, {.path = folder});
  return names;
}

}  // namespace

void check_publishable(const Publishing& paths, World& world) {
  std::vector<Problem> missing;
  const auto look = [&](const auto& check) {
    try {
      check();
    } catch (const Error& e) {
      missing.push_back(e.problem());
    }
  };
  look([&] {
    if (!world.store.facts(paths.source)) fail(ProblemId::no_such_path, {.path = paths.source});
  });
  look([&] {
    const std::set<std::string> names = asset_names(paths.assets, world.store);
    const auto has = [&](std::string_view begin) {
      return std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(begin); });
    };
    std::string lacks = has("config.json") ? "" : "config.json, without which the model does not load";
    if (!has("tokenizer") && !has("vocab"))
      lacks += std::string(lacks.empty() ? "" : ", and ") + "a tokenizer, which inference servers need";
    if (!lacks.empty()) world.events.warn("warning: " + escaped(paths.assets) + " lacks " + lacks);
  });
  look([&] { check_output_free(world.io, paths.output, true, paths.replace); });
  for (size_t i = 0; i + 1 < missing.size(); ++i) world.events.warn(world.events.line_of(missing[i]));
  if (!missing.empty()) throw Error(std::move(missing.back()));
}

void copy_assets(const AssetsRequest& request, World& world, Plan& plan) {
  std::vector<Asset> assets;
  for (const std::string& name : asset_names(request.folder, world.store)) {
    const std::vector<std::byte> bytes =
        read_file_beneath(world.store, request.folder, name, FollowLinks::kCacheOnly, Limits{}.asset_bytes);
    assets.push_back({name, std::string(as_text(bytes))});
  }
  configure(assets, request, world);
  for (const Asset& a : assets) world.events.verbose("copies " + escaped(a.name));
  add_assets(plan, std::move(assets));
}

void note_assets(const std::string& folder, World& world) {
  std::vector<std::string> names{"config.json"};
  if (!world.store.read_capabilities(folder).network) {
    const std::set<std::string> all = asset_names(folder, world.store);
    names.assign(all.begin(), all.end());
  }
  world.events.info("not written: " + list_of(names) + "; " + world.events.name_of("assets") + " " + escaped(folder) + " copies " +
                    (names.size() == 1 ? "it" : "them"));
}

}  // namespace dcp
