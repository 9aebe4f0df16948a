#include "app/layout_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "inputs/open.h"

namespace dcp {
namespace {

// The members of an object in their order: the first glob that matches wins. nlohmann's own ordered map looks at all for each that it adds.
template <class Key, class T, class Less, class Allocator>
struct Members : nlohmann::ordered_map<Key, T, Less, Allocator> {
  T& operator[](const Key& key) {
    this->emplace_back(key, T());
    return this->back().second;
  }
};
using Json = nlohmann::basic_json<Members>;

[[noreturn]] void fail_usage(Place place, std::string got, std::string expected, Remedy remedy) {
  throw Error(with_remedy(make_problem(ProblemId::usage, std::move(place), std::move(got), std::move(expected)), remedy));
}

[[noreturn]] void fail_without_ranks(const std::string& file) {
  Problem p = make_problem(ProblemId::usage, {.path = file});
  if (!file.empty()) p.what = "neither world_size, mesh nor like";
  p.remedy = Remedy::kWorldSize;
  throw Error(std::move(p));
}

[[noreturn]] void fail_file(const std::string& path, const std::string& got, const std::string& expected) {
  fail(ProblemId::usage, {.path = path}, got, expected);
}

// A value in a message. What holds others may be of any size.
std::string shown(const Json& value) { return value.is_structured() ? std::string("an ") + value.type_name() : value.dump(); }

// A text, or an array whose elements are joined: ["dp", "tp"] is "dp,tp", [2, 4] is "2x4".
std::string text_of(const Json& value, char between, const std::string& path, const std::string& name) {
  const auto one = [&](const Json& v) -> std::string {
    if (v.is_string()) return v.get<std::string>();
    if (v.is_number_unsigned()) return v.dump();
    fail_file(path, "member '" + name + "': " + shown(v), "a text, or an array of texts or numbers");
  };
  if (!value.is_array()) return one(value);
  std::string text;
  for (const Json& v : value) text += (text.empty() ? "" : std::string(1, between)) + one(v);
  return text;
}

// What the file says in the words of the command line.
LayoutRequest read_layout(Store& store, const std::string& path) {
  const std::vector<std::byte> bytes = read_file(store, path, Limits{}.layout_bytes);
  const Json json = Json::parse(as_text(bytes), nullptr, false);
  if (!json.is_object()) fail_usage({.path = path}, "a file that is not a JSON object", "a layout", Remedy::kLayoutFile);
  LayoutRequest request;
  request.file = path;
  for (const auto& [name, value] : json.items()) {
    if (name == "world_size") {
      if (!value.is_number_unsigned() || value > kMaxRanks || value < 1)
        fail_file(path, "world_size " + shown(value), "1 to " + std::to_string(kMaxRanks));
      request.world_size = value.get<uint32_t>();
    } else if (name == "mesh") {
      request.mesh = text_of(value, 'x', path, name);
    } else if (name == "mesh_dims") {
      request.mesh_dims = text_of(value, ',', path, name);
    } else if (name == "like") {
      request.like = text_of(value, ',', path, name);
    } else if (name == "placements") {
      if (!value.is_object()) fail_file(path, "placements " + shown(value), "an object: {\"GLOB\": [\"shard(0)\", ...], ...}");
      for (const auto& [glob, placements] : value.items()) request.placements.push_back(glob + "=" + text_of(placements, ',', path, glob));
    } else {
      fail_file(path, "member '" + name + "'", "world_size, mesh, mesh_dims, placements or like");
    }
  }
  return request;
}

Mesh mesh_of(const LayoutRequest& request) {
  if (!request.mesh.empty()) return parse_mesh(request.mesh, request.mesh_dims);
  if (request.world_size > 0) return parse_mesh(std::to_string(request.world_size), request.mesh_dims);
  if (!request.mesh_dims.empty()) fail_usage({.setting = "mesh_dims"}, "without a mesh", {}, Remedy::kMesh);
  if (!request.placements.empty()) fail_usage({}, "placements without a mesh", {}, Remedy::kMeshOrWorldSize);
  return {};
}

PlacementRule parse_rule(const std::string& text, const Mesh& mesh) {
  size_t at = text.rfind('=');
  while (at != std::string::npos && at >= 4 && text.compare(at - 4, 4, "(dim") == 0) at = text.rfind('=', at - 1);  // of Shard(dim=0)
  if (at == std::string::npos || at == 0)
    fail(ProblemId::usage, {.setting = "placements"}, "'" + text + "'", "GLOB=PLACEMENTS, such as '*.weight=shard(0),replicate'");
  return {text.substr(0, at), parse_placements(std::string_view(text).substr(at + 1), mesh)};
}

// The placements and sizes that were given, checked against each other.
DcpLayoutOptions options_of(const LayoutRequest& request) {
  DcpLayoutOptions o{.limits = {}, .units = {}, .world_size = request.world_size, .mesh = mesh_of(request), .rules = {}};
  for (const std::string& text : request.placements) o.rules.push_back(parse_rule(text, o.mesh));
  if (o.mesh.sizes.empty()) return o;
  const auto ranks = static_cast<uint32_t>(o.mesh.ranks());
  if (o.world_size > 0 && o.world_size != ranks)
    fail(ProblemId::usage, {},
         "mesh " + request.mesh + " of " + std::to_string(ranks) + " ranks with a world size of " + std::to_string(o.world_size),
         "as many");
  o.world_size = ranks;
  return o;
}

}  // namespace

std::string checkpoint_of_layout(Store& store, const std::string& file) {
  try {
    return read_layout(store, file).like;
  } catch (const Error&) {
    return {};
  }
}

uint32_t world_size_of(const LayoutRequest& request, const Catalog& source) {
  if (source.traits().has_metadata)
    if (const uint32_t ranks = ranks_shown(source)) return ranks;
  fail_without_ranks(request.file);
}

RequestedLayout requested_layout(const LayoutRequest& given, Store& store, uint64_t memory_bytes) {
  const LayoutRequest request = given.file.empty() ? given : read_layout(store, given.file);
  RequestedLayout requested;
  try {
    requested.options = options_of(request);
  } catch (const Error& e) {  // what is wrong with a file's text is wrong with the file
    Problem p = e.problem();
    p.place.path = request.file;
    throw Error(std::move(p));
  }
  if (!request.like.empty()) {
    requested.like =
        std::make_unique<const Catalog>(read_checkpoint(store, request.like, {.limits = {.memory_bytes = memory_bytes}}).catalog);
    requested.options.like = requested.like.get();
    if (requested.options.world_size == 0) requested.options.world_size = std::max<uint32_t>(ranks_shown(*requested.like), 1);
  }
  if (requested.options.world_size == 0 && !request.file.empty()) fail_without_ranks(request.file);
  return requested;
}

}  // namespace dcp
