#include "writer.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/utf8.h"
#include "base/working_names.h"
#include "carry_out.h"
#include "catalog/data_files.h"
#include "catalog/duplicates.h"
#include "catalog/open.h"
#include "catalog/resolve.h"
#include "command.h"
#include "exec/execute.h"
#include "exec/file_set.h"
#include "mapped.h"
#include "maps/derive.h"
#include "maps/selected.h"
#include "memory.h"
#include "open_files.h"
#include "ranks/exchange.h"

namespace dcp::cmd {
namespace {

void refuse_source(const std::string& path, const Catalog& catalog) {
  std::error_code ignored;
  const auto out = std::filesystem::weakly_canonical(std::filesystem::absolute(without_trailing_slashes(path)), ignored);
  const auto holds = [&](const std::string& name) {
    const auto source = std::filesystem::weakly_canonical(name, ignored);
    return std::mismatch(out.begin(), out.end(), source.begin(), source.end()).first == out.end();
  };
  bool taken = !catalog.single_file && holds(catalog.folder);
  // The files of such a folder are what makes it up: one more would be a part of it.
  if (catalog.kind == CheckpointKind::kHf) taken = taken || out.parent_path() == std::filesystem::weakly_canonical(catalog.folder, ignored);
  for (uint32_t f = 0; f < catalog.files.size() && !taken; ++f) taken = catalog.files[f].raw && holds(catalog.file_path(f));
  if (taken) fail(ProblemId::output_in_source, {.path = path});
}

// What is selected, checked to be whole.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};

// Python could not read a name that is no text.
void check_text(const Catalog& catalog, const Selection& selection, const Entry& e) {
  bool text = is_pickled_text(e.key);
  for (const PathPart& p : selection.path(e)) text = text && is_pickled_text(p.name);
  if (text) return;
  Problem p = make_problem(ProblemId::pickle_unloadable, {.path = catalog.path, .tensor = std::string(e.key), .object = e.is_blob()},
                           "a key that is not UTF-8");
  p.hint = "--rename gives it another name, --exclude leaves it out";
  throw Error(std::move(p));
}

Parts check_selected(const Catalog& catalog, const Selection& selection, const OutputForm& form) {
  Parts parts;
  std::set<std::string_view> kept;
  for (const Entry& e : selection.entries) kept.insert(source_key(catalog, e));
  check_opened(catalog, [&](std::string_view key) { return catalog.strings.find(key) && !kept.contains(key); });
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      if (!form.blobs) continue;
      check_item(catalog, catalog.item_of(e.blob()), source_key(catalog, e), "");
      check_text(catalog, selection, e);
      parts.blobs.push_back(e.blob());
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    if (!form.any_tensor || !catalog.torch || t.strided) check_whole(catalog, t);
    if (form.blobs) check_text(catalog, selection, e);
    parts.tensors.push_back(e.tensor());
  }
  return parts;
}

}  // namespace

int write_output(const WriterFlags& flags, Context& context, WriteReport& report, const OutputForm& form, const MakePlan& make_plan) {
  const uint64_t begin = context.io.now_ns();
  join_ranks(flags.ranks, context);
  Together* const ranks = context.together.get();
  const bool leads = !ranks || ranks->crew.leads();
  if (ranks && flags.verify_after && flags.ranks.gather == "none")
    fail(ProblemId::usage, {}, "--verify-after with --gather none", "--gather rank0, or 'dcpctl verify' afterwards");
  const uint64_t cap = memory_cap(flags.max_memory, context);
  hold_heap(cap, context);
  SelectOptions select = flags.select_options(context);
  select.dtypes = flags.dtypes.options();
  report.dry_run = flags.dry_run;
  report.fp8_overflow = flags.dtypes.overflow();
  if (leads) check_output_free(context.io, flags.out, form.folder, flags.replace());

  const Catalog source = open_together(flags.source, context, memory_left(cap));
  check_transport(flags.ranks, context, source);
  refuse_source(flags.out, source);
  report.note_source(source);
  report.selection = select_keys(source, flags.map.map.empty() ? select : maps::before_map(select));
  const std::optional<MapAnswer> map =
      ask_map(flags.map, context,
              {.catalog = source, .selection = report.selection, .assets = form.assets, .may_mix_dtypes = select.dtypes.dtype.has_value()});
  if (map) check_holds(*map, context);
  Parts parts = check_selected(source, report.selection, form);
  if (map) parts = {.tensors = map->sources(), .blobs = {}};

  const OpenFileShares open_files = open_file_shares();
  DataFiles files(context.io, source, flags.source.links(), open_files.inputs);
  const ResolveOptions reading{.workers = wanted_workers(flags.threads, ranks != nullptr),
                               .blobs = form.blob_use,
                               .limits = flags.source.limits(),
                               .memory_bytes = memory_left(cap),
                               .memory_cap = cap};
  const Resolved found = resolve_together(context, files, source, parts.tensors, parts.blobs, reading);
  if (!flags.source.prefer_rank) {
    const ContentOf contents = contents_together(context, files, source, found, reading.limits);
    if (leads) prove_duplicates(source, found, contents);
  }
  // With a map, all that follows is about what it makes.
  std::optional<Derived> derived;
  if (map) {
    derived = derive(source, found, map->made.targets);
    report.selection = maps::select_mapped(derived->catalog, select, std::move(report.selection));
    report.note_map(*map, derived->catalog);
  } else if (!flags.map.map.empty()) {
    report.selection = select_keys(source, select);
  }
  const Catalog& catalog = derived ? derived->catalog : source;
  const Resolved& resolved = derived ? derived->resolved : found;
  const Plan plan = make_plan(catalog, resolved, report.selection);
  if (ranks) ranks->crew.agree(plan);
  check_expected(flags.expect, signatures_of(catalog, report.selection, plan), context, report.expectation);
  report.note_expected(context);
  report.plan = &plan;
  const uint64_t least = std::max(flags.verify_after ? kPassBytes : kMiB, ranks ? Exchange::worker_bytes(plan) : 0);
  const unsigned workers =
      fit_workers(plan, flags.source.path, cap, {.wanted = reading.workers, .least_bytes = least}, report.planned_memory);
  report.describe(context, select);
  if (flags.dry_run) return end_ranks(context, report.done(context, 0));
  if (map) compare_ties(*map, source, found, files, workers, context);
  return carry_out({.flags = flags,
                    .context = context,
                    .report = report,
                    .catalog = catalog,
                    .resolved = resolved,
                    .plan = plan,
                    .files = files,
                    .open_outputs = open_files.outputs,
                    .workers = workers,
                    .begin_ns = begin});
}

void add_writer_keys(Command& c, Context& context, WriterFlags& f, const std::string& out_help) {
  add_source(c, context, f.source);
  c.argument("OUT", f.out, out_help).writes().is_required();
  add_key_flags(c, f);
  add_map(c, f.map);
  add_expect(c, f.expect);
  add_casts(c, f.dtypes);
}

void add_writer_writing(Command& c, WriterFlags& f) {
  const std::string writing = "Writing";
  c.flag("--dry-run", f.dry_run, "Print the plan; create nothing").in(writing);
  c.flag("--force", f.force, "Replace OUT when the new one is complete").in(writing);
  add_threads(c, f.threads, writing);
  c.option("--max-memory", f.max_memory, "SIZE", "Hard cap on memory (default 1GiB)").in(writing);
  c.flag("--no-verify", f.no_verify, "Do not check the CRC of what is read").in(writing);
  c.flag("--verify-after", f.verify_after, "Read the output back before it appears and compare it with what was written").in(writing);
  c.flag("--no-sync", f.no_sync, "Do not wait for the disk before OUT appears, and leave OUT in the page cache").in(writing);
  add_ranks(c, f.ranks, Gathers::kYes);
}

void run_as_writer(Command& c, Context& context, const WriterFlags& flags, std::function<int(WriteReport&)> body) {
  add_common(c, context, true);
  c.run = [&context, &flags, body = std::move(body)] {
    WriteReport report(flags.source.path, flags.out);
    return report.around(context, [&] { return body(report); });
  };
}

}  // namespace dcp::cmd
