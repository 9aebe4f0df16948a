// dcpctl consolidate: a sharded checkpoint becomes one full-model file, or a folder of safetensors shards.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "catalog/data_files.h"
#include "catalog/open.h"
#include "catalog/rank_local.h"
#include "catalog/resolve.h"
#include "commands.h"
#include "exec/execute.h"
#include "exec/file_set.h"
#include "plan/layout.h"
#include "progress.h"
#include "source.h"
#include "write_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Writes what torch would load from CKPT as one file. OUT says the form:

  OUT.pt .pth .bin     a torch.save file with the nesting of the trainer's state dict; Python objects are kept
  OUT.safetensors      tensors only
  OUT/                 with --max-shard-size: safetensors shards and model.safetensors.index.json

Every CRC that the checkpoint holds is checked on the way; a hole, a missing file or damaged bytes end the command and leave no
output. Memory stays under --max-memory whatever the model's size. OUT appears whole or not at all.

  dcpctl consolidate step-1000 model.pt --model-only
  dcpctl consolidate step-1000 model.safetensors --model-only
  dcpctl consolidate step-1000 hf/ --model-only --max-shard-size 5GB
  dcpctl consolidate step-1000 all.pt --dry-run)";

enum class Form : uint8_t { kTorch, kSafetensors, kShards };

struct Options {
  SourceFlags source;
  std::string out, max_shard_size, max_memory = "1GiB";
  SelectionFlags selection;
  SelectOptions select;
  std::vector<std::string> renames;
  std::string rename_map;
  bool weights_only_safe = false, dry_run = false, force = false, no_verify = false, no_sync = false;
  unsigned threads = 0;
};

Form form_of(const Options& o) {
  const std::string ending = std::filesystem::path(o.out).extension();
  if (!o.max_shard_size.empty()) {
    if (ending == ".pt" || ending == ".pth" || ending == ".safetensors")
      fail(ProblemId::usage, {.path = o.out}, "a file name together with --max-shard-size", "a folder name");
    return Form::kShards;
  }
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return Form::kTorch;
  if (ending == ".safetensors") return Form::kSafetensors;
  fail(ProblemId::usage, {.path = o.out}, ending.empty() ? "no ending" : "'" + ending + "'",
       "OUT.pt, .pth or .bin, OUT.safetensors, or a folder with --max-shard-size SIZE");
}

void refuse_source(const Options& o, const Catalog& catalog) {
  std::error_code ignored;
  const auto out = std::filesystem::weakly_canonical(o.out, ignored), source = std::filesystem::weakly_canonical(catalog.folder, ignored);
  const auto [end, rest] = std::mismatch(out.begin(), out.end(), source.begin(), source.end());
  if (end == out.end()) fail(ProblemId::output_in_source, {.path = o.out});
}

SelectOptions select_options(const Options& o, const Context& context) {
  SelectOptions select = o.select;
  for (const std::string& text : o.renames) select.renames.push_back(parse_rename(text));
  if (!o.rename_map.empty()) select.rename_map = read_rename_map(context.io, o.rename_map);
  return select;
}

// What is selected, checked to be whole; byte items only where the form holds them.
struct Parts {
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
};
Parts check_selected(const Catalog& catalog, const Selection& selection, Form form) {
  Parts parts;
  for (const Entry& e : selection.entries) {
    if (e.is_blob()) {
      if (form != Form::kTorch) continue;
      check_item(catalog, catalog.item_of(e.blob()), source_key(catalog, e), "byte item");
      parts.blobs.push_back(e.blob());
      continue;
    }
    const Tensor& t = catalog.tensors[e.tensor()];
    if (!t.dtype_known)
      fail(ProblemId::dtype_unknown, {.path = catalog.path, .tensor = std::string(catalog.key(t))}, std::string(catalog.strings[t.dtype_name]));
    check_whole(catalog, t);
    parts.tensors.push_back(e.tensor());
  }
  return parts;
}

Plan make_plan(const Options& o, Form form, const Catalog& catalog, const Resolved& resolved, const Selection& selection) {
  LayoutOptions layout;
  layout.units.verify = !o.no_verify;
  layout.weights_only_safe = o.weights_only_safe;
  if (form == Form::kTorch) return plan_torch(catalog, resolved, selection, layout);
  if (form == Form::kShards) layout.max_shard_bytes = std::max<uint64_t>(parse_size(o.max_shard_size), 1);
  return plan_safetensors(catalog, resolved, selection, layout);
}

// Objects may always take this much: a cap that is far too small is told by fit_workers, which knows what is needed.
constexpr uint64_t kLeastForObjects = 8 * kMiB;

// Workers that fit under the cap beside what is held already. Throws memory_cap with what one worker needs.
unsigned fit_workers(const Options& o, const Plan& plan, uint64_t cap, WriteReport& report) {
  const uint64_t held = peak_rss_bytes() + plan.checks.size() * 16 + plan.regions.size() * 16;
  const uint64_t each = std::max<uint64_t>(plan.worker_bytes, kMiB);
  report.planned_memory = held + each;
  if (held + each > cap) {
    Problem p = make_problem(ProblemId::memory_cap, {.path = o.source.path}, human_bytes(cap), human_bytes(held + each) + " or more");
    p.hint = "give --max-memory " + std::to_string((held + each) / kMiB + 8) + "MiB";
    throw Error(std::move(p));
  }
  const unsigned wanted = o.threads > 0 ? o.threads : default_workers();
  const auto workers = static_cast<unsigned>(std::clamp<uint64_t>((cap - held) / each, 1, wanted));
  report.planned_memory = held + workers * each;
  return workers;
}

int run(const Options& o, Context& context, WriteReport& report) {
  const uint64_t begin = context.io.now_ns();
  report.source = o.source.path;
  report.output = o.out;
  const Form form = form_of(o);
  const uint64_t cap = parse_size(o.max_memory);
  const Replace replace = o.force ? Replace::kYes : Replace::kNo;
  check_output_free(context.io, o.out, form == Form::kShards, replace);

  const Catalog catalog = open_source(o.source, context);
  refuse_source(o, catalog);
  report.selection = select_keys(catalog, select_options(o, context));
  const Parts parts = check_selected(catalog, report.selection, form);

  DataFiles files(context.io, catalog, o.source.links());
  const ResolveOptions reading{.workers = o.threads > 0 ? o.threads : default_workers(), .limits = {}, .memory_bytes = std::max(cap - std::min(cap, peak_rss_bytes()), kLeastForObjects)};
  const Resolved resolved = resolve(files, catalog, parts.tensors, parts.blobs, reading, context.stop);
  if (!o.source.prefer_rank) prove_duplicates(files, catalog, resolved, reading);
  const Plan plan = make_plan(o, form, catalog, resolved, report.selection);
  report.plan = &plan;
  const unsigned workers = fit_workers(o, plan, cap, report);
  report.describe(context, o.select);
  if (o.dry_run) {
    report.dry_run = true;
    return report.done(context, 0);
  }

  std::vector<FileSpec> specs;
  for (const OutputFile& f : plan.files) specs.push_back({f.name, f.bytes});
  FileSet sink(context.io, o.out, std::move(specs), {.folder = plan.folder, .replace = replace, .sync = !o.no_sync});
  for (const std::string& n : sink.notes()) context.detail(n);
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
  context.check_stop();  // the last moment at which nothing has appeared
  sink.commit();
  report.seconds_ns = context.io.now_ns() - begin;
  return report.done(context, 0);
}

void add_flags(CLI::App& c, Options& o) {
  const std::string which = "Which keys", names = "Names", writing = "Writing";
  add_source(c, o.source);
  c.add_option("OUT", o.out, "Output: .pt, .pth, .bin, .safetensors, or a folder with --max-shard-size")->required();
  add_selection(c, o.selection);
  c.add_flag("--model-only", o.select.model_only, "The model without optimizer and other training state, its root stripped")->group(which);
  c.add_flag("--keep-root", o.select.keep_root, "With --model-only: keep the root")->group(which);
  c.add_option("--root", o.select.root, "Take the subtree under PATH (such as app.model) and strip it")->option_text("PATH")->group(which);
  c.add_option("--add-root", o.select.add_root, "Put NAME above all keys")->option_text("NAME")->group(names);
  c.add_flag("--clean-fqns", o.select.clean_fqns, "Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module")->group(names);
  c.add_option("--rename", o.renames, "Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order")
      ->option_text("REGEX=>REPL")
      ->group(names)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  c.add_option("--rename-map", o.rename_map, "Rename whole keys as the JSON object in FILE says")->option_text("FILE")->group(names);
  c.add_flag("--tensors-only", o.select.tensors_only, "Leave out Python objects")->group(which);
  c.add_flag("--weights-only-safe", o.weights_only_safe, "Leave out objects that torch.load(weights_only=True) refuses")->group(which);
  c.add_option("--max-shard-size", o.max_shard_size, "Write a folder of safetensors shards of at most SIZE")->option_text("SIZE")->group(writing);
  c.add_flag("--dry-run", o.dry_run, "Print the plan; create nothing")->group(writing);
  c.add_flag("--force", o.force, "Replace OUT when the new one is complete")->group(writing);
  c.add_option("-j,--threads", o.threads, "Worker threads (default: cores, at least 4, at most 16)")->option_text("N")->check(CLI::Range(1, 1024))->group(writing);
  c.add_option("--max-memory", o.max_memory, "Hard cap on memory (default 1GiB)")->option_text("SIZE")->group(writing);
  c.add_flag("--no-verify", o.no_verify, "Do not check the CRC of what is read")->group(writing);
  c.add_flag("--no-sync", o.no_sync, "Do not wait for the disk before OUT appears")->group(writing);
}

}  // namespace

void add_consolidate(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("consolidate", "One full-model file from a sharded checkpoint");
  command->footer(kText);
  add_flags(*command, *options);
  add_common(*command, context, true);
  command->callback([options, &context] {
    context.command = "consolidate";
    options->select.rules = options->selection.rules();
    context.run = [options, &context] {
      WriteReport report;
      return report.around(context, [&] { return run(*options, context, report); });
    };
  });
}

}  // namespace dcp::cmd
