// What all commands that write a model share: their options, and the request made from these.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/requests.h"
#include "line/context.h"
#include "maps/optimizer_form.h"
#include "request/dtype_flags.h"
#include "request/key_flags.h"
#include "request/map_flags.h"
#include "request/ranks_flags.h"
#include "request/source.h"

namespace dcp {
struct WriteRequest;
}

namespace dcp::cmd {

struct WriterFlags : KeyFlags {
  SourceFlags source;
  std::string out, max_memory = "1GiB";
  MapFlags map;
  DtypeFlags dtypes;
  ExpectRequest expect;
  std::string fill_from;
  std::optional<maps::OptimizerForm> optimizer;
  RanksFlags ranks;
  bool dry_run = false, force = false, no_verify = false, verify_after = false, no_sync = false;
  unsigned threads = 0;

  // All but the output. Throws usage.
  WriteRequest request(const Context& context) const;
};
// CKPT, OUT and which keys under which names, in which dtypes; how it is written. Two calls, so that a command can place its own options
// between them.
void add_writer_keys(Command& command, Context& context, WriterFlags& flags, const std::string& out_help);
void add_fill(Command& command, WriterFlags& flags);
void add_writer_writing(Command& command, WriterFlags& flags);
// Adds the common options, and sets the command to write the output that `output` returns; it may throw usage. `flags` must outlive the
// command line.
void run_as_writer(Command& command, Context& context, const WriterFlags& flags, std::function<OutputRequest()> output);

}  // namespace dcp::cmd
