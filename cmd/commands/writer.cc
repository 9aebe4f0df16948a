#include "commands/writer.h"

#include "app/ranked_run.h"
#include "line/command.h"
#include "line/option_values.h"
#include "report/selection_report.h"
#include "report/write_report.h"
#include "request/model_file.h"

namespace dcp::cmd {

namespace {

void add_expect(Command& c, ExpectRequest& flags) {
  const std::string group = "Expectations";
  c.option("--expect", flags.reference, "REF",
           "Write only if keys and shapes are those of REF, a checkpoint or a list as 'inspect --keys' prints it, and no object of REF is "
           "missing")
      .reads()
      .in(group);
  c.flag("--expect-tensors", flags.tensors, "With --expect: tensors alone, whatever objects REF has").needs("--expect").in(group);
  c.flag("--expect-dtypes", flags.dtypes, "With --expect: the dtypes too").needs("--expect").in(group);
}

}  // namespace

WriteRequest WriterFlags::request(const Context& context) const {
  WriteRequest request{
      .read = {.source = source.request(), .ranks = ranks.options(context), .max_memory = parse_size(max_memory), .threads = threads},
      .select = select_to_write(context),
      .map = map.request(),
      .output = {},
      .optimizer = optimizer,
      .fill_from = fill_from,
      .expect = expect,
      .fp8_overflow = dtypes.overflow(),
      .strict_cast = dtypes.strict,
      .replace = force ? Replace::kYes : Replace::kNo,
      .dry_run = dry_run,
      .verify_after = verify_after,
      .sync = !no_sync};
  request.select.model_only |= !fill_from.empty() && request.select.root.empty();
  request.select.dtypes = dtypes.options();
  map.check_config(!dtypes.dtype.empty());
  if (request.read.ranks.launch && !fill_from.empty())
    fail(ProblemId::usage, {}, "--fill-from on several ranks", "one process, or 'dcpctl consolidate' of the output with it afterwards");
  if (request.read.ranks.all_write && verify_after)
    fail(ProblemId::usage, {}, "--verify-after with --gather none", "--gather rank0, or 'dcpctl verify' afterwards");
  return request;
}

void add_writer_keys(Command& c, Context& context, WriterFlags& f, const std::string& out_help) {
  add_source(c, context, f.source);
  c.argument("OUT", f.out, out_help).writes().is_required();
  add_key_flags(c, f);
  add_allow_unmatched(c, f);
  add_strict(c, f);
  add_map(c, f.map);
  add_expect(c, f.expect);
  add_casts(c, f.dtypes);
}

void add_fill(Command& c, WriterFlags& f) {
  c.option("--fill-from", f.fill_from, "MODEL",
           "Take what the model in CKPT lacks from MODEL, as it is stored there, and what --exclude leaves out, such as a damaged tensor; "
           "what CKPT has "
           "must be in MODEL, too, in the same shape. "
           "Implies --model-only, and --map auto where MODEL has a config.json")
      .reads()
      .in("Expectations");
}

void add_writer_writing(Command& c, WriterFlags& f) {
  const std::string writing = "Writing";
  c.flag("--dry-run", f.dry_run, "Print the plan; create nothing").in(writing);
  c.flag("--force", f.force, "Replace OUT when the new one is complete").also({"--overwrite"}).in(writing);
  add_threads(c, f.threads, writing);
  c.option("--max-memory", f.max_memory, "SIZE", "Hard cap on memory (default 1GiB)").in(writing);
  c.flag("--no-verify", f.no_verify, "Do not check CRCs").in(writing);
  c.flag("--verify-after", f.verify_after, "Read the output back before it appears and compare it with what was written").in(writing);
  c.flag("--no-sync", f.no_sync, "Do not wait for the disk before OUT appears, and leave OUT in the page cache").in(writing);
  add_ranks(c, f.ranks, Gathers::kYes);
}

namespace {

int run(Context& context, const WriterFlags& flags, const std::function<OutputRequest()>& output, WriteReport& report) {
  WriteRequest request = flags.request(context);
  request.output = output();
  if (!flags.map.sets.empty() && flags.map.map.empty() && request.output.assets.empty())
    fail(ProblemId::usage, {}, "--set without --map", "a map that uses it, or --assets, which implies one");
  request.output.check_crcs = !flags.no_verify;
  report.request = request;
  write(request, context, report.result, [&] {
    report.describe(context);
    if (request.dry_run && context.leads()) check_writable(context.io, request.output.path, request.output.is_folder());
  });
  return end_ranks(context, context.leads() ? report.done(context) : 0);
}

}  // namespace

void run_as_writer(Command& c, Context& context, const WriterFlags& flags, std::function<OutputRequest()> output) {
  add_common(c, context.common, true);
  c.run = [&context, &flags, output = std::move(output)] {
    WriteReport report(flags.source.path, flags.out);
    return report.around(context, [&] { return run(context, flags, output, report); });
  };
}

}  // namespace dcp::cmd
