// Turns a checkpoint into another one, or into a model file: consolidate, reshard, cast and convert are requests with different outputs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/expect.h"
#include "app/fill.h"
#include "app/output.h"
#include "app/stages.h"
#include "files/output_free.h"
#include "maps/optimizer_form.h"

namespace dcp {

struct WriteRequest {
  ReadRequest read;
  SelectOptions select;                 // which keys, under which names, in which dtypes
  MapRequest map;                       // another form of the model
  std::optional<Subscript> slice = {};  // of the single selected tensor; without a map
  OutputRequest output;
  std::optional<maps::OptimizerForm> optimizer = {};  // of its state, in a folder; nullopt: that of the source
  std::string fill_from = {};                         // a model that has what the result lacks; "": none. In one process.
  ExpectRequest expect;
  Fp8Overflow fp8_overflow = Fp8Overflow::kSaturate;
  bool strict_cast = false;  // a value that is too large for its new dtype is an error
  Replace replace = Replace::kNo;
  bool dry_run = false;       // only plan; create nothing
  bool verify_after = false;  // read the output back before it appears
  bool sync = true;
};

// Filled as far as it got, whatever happens.
struct WriteResult {
  std::optional<Ready> source;
  Selected selected;
  std::optional<maps::Reformed> reformed;  // what the optimizers became
  Filled filled;
  std::string checkpoint;  // the path that was read: a step of a run
  std::optional<Plan> plan;
  std::vector<Problem> warnings;  // about the source, if they concern the output
  Expectation expectation;
  unsigned workers = 1;
  uint64_t planned_memory = 0;  // bytes, peak
  uint64_t begin_ns = 0;
  ExecuteReport executed;
  bool verified_after = false;
  uint64_t nanoseconds = 0;

  const Catalog& catalog() const { return source->catalog(); }
  // Gives back the memory of the source and of all that views it.
  void release();
};

// `planned` is called once the plan is made, before the first byte is written. On several ranks all of them call this; the output is
// complete when rank 0's call returns. Warns of each fault before it throws the first. Throws usage, output_exists, output_in_source,
// expect_differs, cast_overflow, and what reading, planning and writing throw.
void write(const WriteRequest& request, World& world, WriteResult& result, const std::function<void()>& planned);

}  // namespace dcp
