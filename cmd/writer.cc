#include "writer.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "catalog/data_files.h"
#include "catalog/open.h"
#include "catalog/rank_local.h"
#include "catalog/resolve.h"
#include "exec/execute.h"
#include "exec/file_set.h"
#include "exec/read_back.h"
#include "progress.h"

namespace dcp::cmd {
namespace {

void refuse_source(const std::string& path, const Catalog& catalog) {
  std::error_code ignored;
  const auto out = std::filesystem::weakly_canonical(path, ignored), source = std::filesystem::weakly_canonical(catalog.folder, ignored);
  const auto [end, rest] = std::mismatch(out.begin(), out.end(), source.begin(), source.end());
  if (end == out.end()) fail(ProblemId::output_in_source, {.path = path});
}

SelectOptions select_options(const WriterFlags& flags, const Context& context) {
  SelectOptions select = flags.select;
  select.rules = flags.selection.rules();
  for (const std::string& text : flags.renames) select.renames.push_back(parse_rename(text));
  if (!flags.rename_map.empty()) select.rename_map = read_rename_map(context.io, flags.rename_map);
  return select;
}

// What is selected, checked to be whole.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};
Parts check_selected(const Catalog& catalog, const Selection& selection, const OutputForm& form) {
  Parts parts;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      if (!form.blobs) continue;
      check_item(catalog, catalog.item_of(e.blob()), source_key(catalog, e), "");
      parts.blobs.push_back(e.blob());
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    check_whole(catalog, t);
    parts.tensors.push_back(e.tensor());
  }
  return parts;
}

// Metadata and objects may always take this much: a cap that is far too small is told by fit_workers, which knows what is needed.
constexpr uint64_t kLeastForObjects = 8 * kMiB;

// Workers that fit under the cap beside what is held already. Throws memory_cap with what one worker needs.
unsigned fit_workers(const WriterFlags& flags, const Plan& plan, uint64_t cap, WriteReport& report) {
  const uint64_t held = peak_rss_bytes() + plan.checks.size() * 16 + plan.regions.size() * 16;
  const uint64_t each = std::max(plan.worker_bytes, flags.verify_after ? kPassBytes : kMiB);
  report.planned_memory = held + each;
  if (held + each > cap) {
    Problem p = make_problem(ProblemId::memory_cap, {.path = flags.source.path}, human_bytes(cap), human_bytes(held + each) + " or more");
    p.hint = "give --max-memory " + std::to_string((held + each) / kMiB + 8) + "MiB";
    throw Error(std::move(p));
  }
  const unsigned wanted = flags.threads > 0 ? flags.threads : default_workers();
  const auto workers = static_cast<unsigned>(std::clamp<uint64_t>((cap - held) / each, 1, wanted));
  report.planned_memory = held + workers * each;
  return workers;
}

}  // namespace

int write_output(const WriterFlags& flags, Context& context, WriteReport& report, const OutputForm& form, const MakePlan& make_plan) {
  const uint64_t begin = context.io.now_ns();
  const uint64_t cap = parse_size(flags.max_memory);
  check_output_free(context.io, flags.out, form.folder, flags.replace());

  const Catalog catalog = open_source(flags.source, context, std::max(cap - std::min(cap, peak_rss_bytes()), kLeastForObjects));
  refuse_source(flags.out, catalog);
  report.note_source(catalog);
  const SelectOptions select = select_options(flags, context);
  report.selection = select_keys(catalog, select);
  const Parts parts = check_selected(catalog, report.selection, form);

  DataFiles files(context.io, catalog, flags.source.links());
  const ResolveOptions reading{.workers = flags.threads > 0 ? flags.threads : default_workers(),
                               .limits = {},
                               .memory_bytes = std::max(cap - std::min(cap, peak_rss_bytes()), kLeastForObjects)};
  const Resolved resolved = resolve(files, catalog, parts.tensors, parts.blobs, reading, context.stop);
  if (!flags.source.prefer_rank) prove_duplicates(files, catalog, resolved, reading);
  const Plan plan = make_plan(catalog, resolved, report.selection);
  check_expected(flags.expect, signatures_of(catalog, report.selection, plan), context, report.expectation);
  report.plan = &plan;
  const unsigned workers = fit_workers(flags, plan, cap, report);
  report.describe(context, select);
  if (flags.dry_run) {
    report.dry_run = true;
    return report.done(context, 0);
  }

  std::vector<FileSpec> specs;
  for (const OutputFile& f : plan.files) specs.push_back({f.name, f.bytes});
  FileSet output(context.io, flags.out, specs, {.folder = plan.folder, .replace = flags.replace(), .sync = !flags.no_sync});
  for (const std::string& n : output.notes()) context.detail(n);
  SummedFiles summed(output, specs);
  Sink& sink = flags.verify_after ? static_cast<Sink&>(summed) : output;
  Progress progress;
  {
    const ProgressDisplay display(context, progress, plan.bytes_to_write);
    report.executed = execute(plan, catalog, resolved, files, sink, {.workers = workers}, progress, context.stop);
  }
  report.executed.bytes_read += resolved.bytes_read;
  if (!report.executed.damage.empty()) {
    sink.abort();
    return report.damaged(context);
  }
  sink.finish();
  if (flags.verify_after) summed.read_back(workers, context.stop);
  report.verified_after = flags.verify_after;
  context.check_stop();  // the last moment at which nothing has appeared
  sink.commit();
  report.seconds_ns = context.io.now_ns() - begin;
  return report.done(context, 0);
}

void add_writer_keys(CLI::App& c, WriterFlags& f, const std::string& out_help) {
  const std::string which = "Which keys", names = "Names";
  add_source(c, f.source);
  c.add_option("OUT", f.out, out_help)->required();
  add_selection(c, f.selection);
  c.add_flag("--model-only", f.select.model_only, "The model without optimizer and other training state, its root stripped")->group(which);
  c.add_flag("--keep-root", f.select.keep_root, "With --model-only: keep the root")->group(which);
  c.add_option("--root", f.select.root, "Take the subtree under PATH (such as app.model) and strip it")->option_text("PATH")->group(which);
  c.add_option("--add-root", f.select.add_root, "Put NAME above all keys")->option_text("NAME")->group(names);
  c.add_flag("--clean-fqns", f.select.clean_fqns, "Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module")->group(names);
  c.add_option("--rename", f.renames, "Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order")
      ->option_text("REGEX=>REPL")
      ->group(names)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  c.add_option("--rename-map", f.rename_map, "Rename whole keys as the JSON object in FILE says")->option_text("FILE")->group(names);
  c.add_flag("--tensors-only", f.select.tensors_only, "Leave out Python objects")->group(which);
  add_expect(c, f.expect);
}

void add_writer_writing(CLI::App& c, WriterFlags& f) {
  const std::string writing = "Writing";
  c.add_flag("--dry-run", f.dry_run, "Print the plan; create nothing")->group(writing);
  c.add_flag("--force", f.force, "Replace OUT when the new one is complete")->group(writing);
  c.add_option("-j,--threads", f.threads, "Worker threads (default: cores, at least 4, at most 16)")->option_text("N")->check(CLI::Range(1, 1024))->group(writing);
  c.add_option("--max-memory", f.max_memory, "Hard cap on memory (default 1GiB)")->option_text("SIZE")->group(writing);
  c.add_flag("--no-verify", f.no_verify, "Do not check the CRC of what is read")->group(writing);
  c.add_flag("--verify-after", f.verify_after, "Read the output back before it appears and compare it with what was written")->group(writing);
  c.add_flag("--no-sync", f.no_sync, "Do not wait for the disk before OUT appears")->group(writing);
}

}  // namespace dcp::cmd
