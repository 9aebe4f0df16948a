// What a map makes of a source: found out before anything is read, said, and compared where tensors are tied.
#pragma once

#include "catalog/data_files.h"
#include "catalog/resolve.h"
#include "map_flags.h"

namespace dcp::cmd {

struct MapQuestion {
  const Catalog& catalog;
  const Selection& selection;
  std::string assets;           // a folder that may hold config.json; ""
  bool may_mix_dtypes = false;  // all that is made is cast
};

struct MapAnswer {
  maps::ModelMap map;
  maps::Resolved made;  // sources are TensorIds

  // The tensors that it reads.
  std::vector<TensorId> sources() const;
};

// Nothing: no map is given, or `auto` finds the published names. Throws map_*.
std::optional<MapAnswer> ask_map(const MapFlags& flags, const Context& context, const MapQuestion& question);
// Throws the first problem of the answer; names others on stderr.
void check_holds(const MapAnswer& answer, const Context& context);
// What the map is, its notes, what it leaves out: lines on stderr.
void describe(const MapAnswer& answer, const Context& context);
void map_json(JsonWriter& out, const MapAnswer& answer);  // the member "map"
// Throws map_tied_differ, and what reading can throw.
void compare_ties(const MapAnswer& answer, const Catalog& source, const Resolved& resolved, DataFiles& files, unsigned workers,
                  Context& context);

}  // namespace dcp::cmd
