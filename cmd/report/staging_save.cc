#include "report/staging_save.h"

#include "base/text.h"
#include "line/command.h"
#include "line/option_values.h"
#include "line/progress.h"
#include "line/sandbox.h"
#include "report/staging_report.h"
#include "request/dtype_flags.h"

namespace dcp::cmd {
namespace {

Table mode_table(const TrainingReport& r) {
  Table t{.head = {"mode", "saves", "stall a save", "step", "overhead", "durable after", "host memory", "last save"}, .rows = {}};
  for (const TrainResult& m : r.modes) {
    const TrainSummary s = summarize(m, r.without_saves);
    t.rows.push_back({std::string(name_of(*m.mode)), std::to_string(m.saves.size()), duration(s.stall_ns), duration(s.step_ns),
                      fixed(100 * s.overhead, 1) + "%", duration(s.durable_ns), human_bytes(m.host_bytes),
                      duration(m.saves.back().stall_ns())});
  }
  return t;
}

void save_json(JsonWriter& out, const SaveFacts& s) {
  out.begin_object().member("step", s.step).member("last", s.last).member("bytes", s.bytes).member("waiting_ns", s.waiting_ns);
  out.member("staging_ns", s.staging_ns).member("stall_ns", s.stall_ns()).member("durable_ns", s.durable_ns).end_object();
}

}  // namespace

TrainSpec SaveFlags::spec() const {
  TrainSpec spec = train;
  spec.step_ns = static_cast<uint64_t>(step_ms * 1e6);
  spec.folder = folder;
  spec.sync = !no_sync;
  if (export_dtype.empty()) return spec;
  spec.export_dtype = parse_dtype(export_dtype);
  return spec;
}

std::vector<SaveMode> SaveFlags::wanted_modes() const {
  if (modes.empty()) return {std::begin(kSaveModes), std::end(kSaveModes)};
  std::vector<SaveMode> wanted;
  for (const std::string& name : split_list(modes)) {
    const std::optional<SaveMode> mode = save_mode_named(name);
    if (!mode) fail(ProblemId::usage, {}, "--modes '" + name + "'", joined(kSaveModes, ", ", [](SaveMode m) { return name_of(m); }));
    wanted.push_back(*mode);
  }
  return wanted;
}

TrainingReport run_training(const SaveFlags& flags, Device& device, const Workload& workload, Context& context) {
  TrainSpec spec = flags.spec();
  const std::vector<SaveMode> modes = flags.wanted_modes();
  const auto there = context.io.facts(flags.folder);
  if (there && (there->kind != FileKind::kDirectory || !context.io.list(flags.folder).empty())) {
    throw Error(with_hint(make_problem(ProblemId::output_exists, {.path = flags.folder},
                                       there->kind == FileKind::kDirectory ? "a folder that is not empty" : "a file"),
                          "give a folder that is empty or not there yet"));
  }
  if (!there) make_folder(context.io, flags.folder);
  TrainingReport report{.folder = flags.folder};
  StepDisplay steps(context, 1 + modes.size());
  context.verbose("without saves");
  steps.begin("training without saves");
  report.without_saves = train(context.io, device, workload, spec, context.stop);
  for (const SaveMode mode : modes) {
    spec.mode = mode;
    spec.folder = flags.folder + "/" + std::string(name_of(mode));
    context.verbose(spec.folder);
    steps.begin("training, " + std::string(name_of(mode)));
    make_folder(context.io, spec.folder);
    report.modes.push_back(train(context.io, device, workload, spec, context.stop));
  }
  return report;
}

void TrainingReport::print(const Context& context) const {
  context.print("a step without saves takes " + duration(summarize(without_saves, without_saves).step_ns) + "; checkpoints are in " +
                escaped(folder) + "/MODE/step-N\n\n");
  print_table(context, mode_table(*this));
  context.print("\n" + train_verdict(modes, without_saves) + "\n");
}

void TrainingReport::json(JsonWriter& out) const {
  out.key("training")
      .begin_object()
      .member("folder", folder)
      .member("step_without_saves_ns", summarize(without_saves, without_saves).step_ns)
      .key("modes")
      .begin_array();
  for (const TrainResult& m : modes) {
    const TrainSummary s = summarize(m, without_saves);
    out.begin_object()
        .member("mode", name_of(*m.mode))
        .member("stall_ns", s.stall_ns)
        .member("step_ns", s.step_ns)
        .member("overhead", s.overhead);
    out.member("durable_ns", s.durable_ns).member("host_bytes", m.host_bytes).key("saves").begin_array();
    for (const SaveFacts& f : m.saves) save_json(out, f);
    out.end_array().member("steps_ns", m.step_ns).end_object();
  }
  out.end_array().member("verdict", train_verdict(modes, without_saves)).end_object();
}

std::string TrainingReport::verdict() const { return train_verdict(modes, without_saves); }

void TrainingReport::sections(JsonWriter& json) const {
  table_section(json, "Training with saves", mode_table(*this));
  for (const TrainResult& m : modes) {
    json.begin_object().member("type", "lanes").member("title", name_of(*m.mode));
    json.key("lanes").value(std::vector<std::string>(std::begin(kTrainLanes), std::end(kTrainLanes)));
    json.key("kinds").value(std::vector<std::string>(std::begin(kTrainKinds), std::end(kTrainKinds))).key("spans").begin_array();
    for (const Span& s : m.spans)
      json.begin_array().value(uint64_t{s.lane}).value(uint64_t{s.kind}).value(s.begin_ns).value(s.end_ns).value(s.label).end_array();
    json.end_array().end_object();
  }
}

void add_save(Command& c, SaveFlags& f) {
  const auto add = [](Option& o) { o.needs("--save").in("Training with saves"); };
  c.option("--save", f.folder, "DIR", "Train and save checkpoints under DIR, which is empty or not there yet")
      .writes(Offer::kFolders)
      .in("Training with saves");
  add(c.number("--steps", f.train.steps, {1u, 1000000u}, "N", "Steps of training (default 12)"));
  add(c.number("--save-every", f.train.save_every, {1u, 1000000u}, "K", "Save every K steps, and after the last (default 4)"));
  add(c.number("--step-time", f.step_ms, {0.0, 3600000.0}, "MS", "Length of a step in milliseconds (default 200)"));
  add(c.option("--modes", f.modes, "LIST", "Only these of disabled,async,async_with_pinned_mem"));
  add(c.number("--keep-latest-k", f.train.keep_latest_k, {0u, 1000000u}, "K",
               "Keep the latest K checkpoints of each mode (default 2; 0: all)"));
  add(c.flag("--last-model-only", f.train.last_model_only, "The last checkpoint holds the model alone"));
  add(c.option("--export-dtype", f.export_dtype, "DTYPE", "The last checkpoint's floats in this dtype").offers(Offer::kDtypes));
  add(c.flag("--no-sync", f.no_sync, "Do not wait for the disk before a checkpoint appears"));
}

}  // namespace dcp::cmd
