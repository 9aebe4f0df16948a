// Pickles that are not an archive's data.pkl.
//
// An item that is no archive: torch.load takes it for the format of its releases before 1.6: five pickles, the first of them a magic number.
// Python runs the first one, whatever comes of it.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "format/torch_item.h"

namespace dcp {

struct BarePickle {
  enum class Form : uint8_t { kOther, kPickle, kLegacy };
  Form form = Form::kOther;
  bool is_cut = false;               // a pickle does not end in these bytes
  std::vector<std::string> refused;  // globals that weights_only refuses, as far as Python would get
};

// Whether torch takes bytes that begin like this for an archive.
bool begins_archive(Bytes begin);

BarePickle look_at_bare_pickle(Bytes item, const Place& place, const Limits& limits);

// Warning of bytes behind a pickle's STOP; nullopt for none.
std::optional<Problem> trailing_pickle(uint64_t trailing_bytes, Place behind_stop);

// Whether there may be any of the following: more records than torch writes for so many storages.
bool may_hold_pickles(const ZipDirectory& directory, size_t storages);
// Records of an archive that torch does not load and that are pickles: by their names, or by what they hold. `named`: keys of the storages
// that its own pickle names. Of long records the beginning is looked at.
std::vector<Problem> unloaded_pickles(ItemSource& item, const ZipDirectory& directory, const std::set<std::string, std::less<>>& named,
                                      const Place& place, const Limits& limits);

}  // namespace dcp
