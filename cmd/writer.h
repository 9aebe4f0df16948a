// What all commands that write a model share: their options, and the one sentence that each of them is: open, select, check, resolve,
// plan, execute into files, commit, report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "catalog/resolve.h"
#include "context.h"
#include "dtype_flags.h"
#include "expect.h"
#include "key_flags.h"
#include "map_flags.h"
#include "source.h"
#include "together.h"
#include "write_report.h"

namespace dcp::cmd {

struct WriterFlags : KeyFlags {
  SourceFlags source;
  std::string out, max_memory = "1GiB";
  MapFlags map;
  DtypeFlags dtypes;
  ExpectFlags expect;
  RanksFlags ranks;
  bool dry_run = false, force = false, no_verify = false, verify_after = false, no_sync = false;
  unsigned threads = 0;

  Replace replace() const { return force ? Replace::kYes : Replace::kNo; }
};
// CKPT, OUT and which keys under which names, in which dtypes; how it is written. Two calls, so that a command's own options stand between
// them.
void add_writer_keys(Command& command, Context& context, WriterFlags& flags, const std::string& out_help);
void add_writer_writing(Command& command, WriterFlags& flags);
// What every command takes, and what is run when this one was given: `body`, with the report that it fills. `flags` must outlive the
// command line.
void run_as_writer(Command& command, Context& context, const WriterFlags& flags, std::function<int(WriteReport&)> body);

struct OutputForm {
  bool folder = false;
  std::string assets{};  // a folder whose config.json tells a map its sizes
  bool blobs = true;     // holds byte items; else they are not looked at
  BlobUse blob_use = BlobUse::kPickles;
  bool any_tensor = false;  // holds those of a torch.save file that have no layout of their own: sparse, on meta, nested
};
using MakePlan = std::function<Plan(const Catalog&, const Resolved&, const Selection&)>;

// Runs the command; `make_plan` lays out the output. Returns the exit code.
int write_output(const WriterFlags& flags, Context& context, WriteReport& report, const OutputForm& form, const MakePlan& make_plan);

}  // namespace dcp::cmd
