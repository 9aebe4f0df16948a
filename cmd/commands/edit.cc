// dcpctl edit: other names, or fewer keys, by new metadata alone.
#include "app/edit.h"

#include "line/commands.h"
#include "line/option_values.h"
#include "line/text_file.h"
#include "report/dcp_output.h"
#include "report/edit_report.h"
#include "report/selection_report.h"
#include "report/write_report.h"
#include "request/key_flags.h"
#include "request/model_file.h"
#include "request/ranks_flags.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Renames keys of a DCP folder, leaves some out, merges rank-local metadata, or writes it for an older torch, all by writing a new
.metadata. Tensors are neither read nor written, so a checkpoint of a terabyte takes milliseconds.

OUT is a new folder whose data files are clones of the source's (reflinks) if the file system supports them, else hard links, else copies;
--link picks one of these. dcpctl never writes into an existing data file, so checkpoints can share it.

With --in-place CKPT itself gets the new metadata, in one step; the old one is kept as .metadata.orig, and 'mv' brings it back.

Dropping keys frees only the data files that no remaining key uses; reshard or cast reclaims the rest.

  dcpctl edit step-1000 renamed --rename '^model\.=>'
  dcpctl edit step-1000 weights --model-only --keep-root --link hard
  dcpctl edit rank-local-ckpt merged
  dcpctl edit step-1000 --in-place --clean-fqns)";

struct Options {
  SourceFlags source;
  KeyFlags keys;
  DcpFlags dcp;
  std::string out, max_memory = "1GiB";
  Sharing sharing = Sharing::kBest;
  bool in_place = false, no_orig = false, dry_run = false, force = false, no_sync = false;
  unsigned threads = 0;
};

EditRequest request_of(const Options& o, const Context& context) {
  if (o.in_place == !o.out.empty())
    fail(ProblemId::usage, {.path = o.source.path}, o.in_place ? "OUT with --in-place" : "neither OUT nor --in-place", "one of them");
  check_folder_name(o.out);
  return {.source = o.source.request(),
          .max_memory = parse_size(o.max_memory),
          .threads = o.threads,
          .select = o.keys.select_to_write(context),
          .torch = o.dcp.target(),
          .out = o.out,
          .sharing = o.sharing,
          .keep_original = !o.no_orig,
          .replace = o.force ? Replace::kYes : Replace::kNo,
          .dry_run = o.dry_run,
          .sync = !o.no_sync};
}

int run(const Options& o, Context& context) {
  return run_reported(context, {.source = o.source.path, .output = o.out}, [&] {
    const EditRequest request = request_of(o, context);
    EditResult found;
    edit(request, context, found, [&] {
      describe_edit(request, found, context);
      describe_unmatched(context, unmatched_rules(found.selection));
      if (o.dry_run) check_writable(context.io, o.in_place ? found.catalog().folder + "/.metadata" : o.out, !o.in_place);
    });
    std::string document = edit_json(request, found);
    if (context.common.json) context.print(document);
    else print_edit(request, found, context);
    return document;
  });
}

}  // namespace

void add_edit(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  add_source(c, context, o.source);
  c.arguments.front().help = "DCP folder, or a run folder with --step";
  c.arguments.front().opens(Access::kChange);  // a file gets another name only where the rights are the same, and --in-place writes there
  c.argument("OUT", o.out, "A new folder").writes();
  add_key_flags(c, o.keys);
  add_allow_unmatched(c, o.keys);
  add_strict(c, o.keys);
  add_dcp(c, o.dcp);
  const std::string writing = "Writing";
  c.flag("--in-place", o.in_place, "Replace the metadata of CKPT itself").in(writing);
  c.flag("--no-orig", o.no_orig, "With --in-place: do not keep the old metadata").needs("--in-place").in(writing);
  const Choices<Sharing> sharings{{"reflink", Sharing::kClone}, {"hard", Sharing::kLink}, {"copy", Sharing::kCopy}};
  c.choice("--link", o.sharing, sharings, "HOW", "How OUT gets its data: reflink, hard or copy (default: the first that works)")
      .excludes("--in-place")
      .in(writing);
  c.flag("--dry-run", o.dry_run, "Print what would be written; create nothing").in(writing);
  c.flag("--force", o.force, "Replace OUT when the new one is complete").also({"--overwrite"}).excludes("--in-place").in(writing);
  add_threads(c, o.threads, writing);
  c.option("--max-memory", o.max_memory, "SIZE", "Hard cap on memory (default 1GiB)").in(writing);
  c.flag("--no-sync", o.no_sync, "Do not wait for the disk").in(writing);
  add_common(c, context.common, true);
  c.run = by_rank_0([options, &context] { return run(*options, context); });
}

}  // namespace dcp::cmd
