// What loading a checkpoint would execute: the globals in its pickles that torch.load(weights_only=True) refuses, as findings.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/problem.h"
#include "base/workers.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"

namespace dcp {

// pickle_unsafe with the globals as its names.
Problem unsafe_pickle(Place place, std::vector<std::string> globals);
// pickle_unseen: a pickle, or an object, too large to examine.
Problem unseen_pickle(Place place, std::string got, uint64_t max);
// Whether the finding says that a pickle runs something, or that this is unknown.
bool tells_unsafe(ProblemId id);

// Examines the metadata's own pickle, which torch reads with pickle.load, and all values of a torch.save file. A value that several keys
// share is reported for the first. Also reports where torch.load would read wrong numbers.
std::vector<Problem> find_unsafe_pickles(const Catalog& catalog);

// Which items to examine. kSome: the first 64 MiB of byte items, except pickles over 1 MiB; what is skipped is reported. kAll: every item,
// tensors too, including all other faults.
enum class LookInto : uint8_t { kSome, kAll };
struct Looking {
  unsigned workers = 1;  // for kAll
  Limits limits;
  uint64_t memory_bytes = kGiB;  // for what is read
};
std::vector<Problem> find_unsafe_items(DataFiles& files, const Catalog& catalog, LookInto what, const Looking& looking,
                                       const StopFlag& stop);

// A pickle that runs something: of a byte item or tensor, of the metadata, or of a torch.save file as a whole (no key).
struct UnsafePickle {
  std::string key;
  bool object = false;
  std::string path;
  std::vector<std::string> globals;
};
// The pickle_unsafe findings, of which a checkpoint may have thousands; those with the same globals are merged, in order of place.
std::vector<UnsafePickle> fold_unsafe(std::vector<Problem>& findings);

// Being unreadable is not damage: makes such findings errors.
void part_errors(std::vector<Problem>& findings);

}  // namespace dcp
