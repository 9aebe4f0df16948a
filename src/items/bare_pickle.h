// Pickles that are not an archive's data.pkl.
//
// torch.load reads an item that is not an archive in its format before 1.6: five pickles, the first of which is a magic number. Python runs
// this first one, whatever the result.
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
  bool is_cut = false;               // a pickle does not end within these bytes
  std::vector<std::string> refused;  // globals that weights_only refuses, as far as Python would get
};

// Whether torch takes bytes that begin like this for an archive.
bool begins_archive(Bytes begin);

BarePickle look_at_bare_pickle(Bytes item, const Place& place, const Limits& limits);

// The warning about bytes after a pickle's STOP; nullopt if there are none.
std::optional<Problem> trailing_pickle(uint64_t trailing_bytes, Place behind_stop);

// Whether unloaded_pickles() may find any: the archive has more records than torch writes for so many storages.
bool may_hold_pickles(const ZipDirectory& directory, size_t storages);
// Records of an archive that are pickles, by their name or content, but are not loaded by torch. `named` are the keys of the storages that
// the archive's own pickle names. Of long records only the beginning is examined.
std::vector<Problem> unloaded_pickles(ItemSource& item, const ZipDirectory& directory, const std::set<std::string, std::less<>>& named,
                                      const Place& place, const Limits& limits);

}  // namespace dcp
