// What loading a checkpoint would run: the globals of its pickles that torch.load(weights_only=True) refuses, as findings.
#pragma once

#include <string>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"
#include "base/workers.h"
#include "catalog/catalog.h"
#include "catalog/data_files.h"

namespace dcp {

// pickle_unsafe with the globals as its names.
Problem unsafe_pickle(Place place, std::vector<std::string> globals);
// pickle_unseen: a pickle, or an object, too large to be looked into.
Problem unseen_pickle(Place place, std::string got, uint64_t max);
// Of these findings: the pickle runs something, or what it would run is not known.
bool tells_unsafe(ProblemId id);

// Of the metadata's own pickle, which torch reads with pickle.load, and of all values of a torch.save file. A value that several keys
// share is told of the first.
std::vector<Problem> find_unsafe_pickles(const Catalog& catalog);

// Of byte items. kSome: of the first 64 MiB of them, a pickle of more than a mebibyte left out; what is left out is told. kAll: of every
// item, tensors too, with all else that is wrong with one.
enum class LookInto : uint8_t { kSome, kAll };
struct Looking {
  unsigned workers = 1;  // for kAll
  Limits limits;
  uint64_t memory_bytes = kGiB;  // for what is read
};
std::vector<Problem> find_unsafe_items(DataFiles& files, const Catalog& catalog, LookInto what, const Looking& looking,
                                       const StopFlag& stop);

}  // namespace dcp
