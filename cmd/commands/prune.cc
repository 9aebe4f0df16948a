// dcpctl prune: steps of a run that are not needed any more go.
#include "app/prune.h"

#include "line/commands.h"
#include "line/exit_status.h"
#include "line/text_file.h"
#include "report/prune_report.h"
#include "report/step_text.h"
#include "request/ranks_flags.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Deletes steps of a run that no rule keeps, oldest first. Before that, it prints what it will do and how many bytes that frees. On a
terminal it asks; elsewhere it needs --yes.

  --keep-latest K   keep the complete steps with the K highest numbers
  --keep-every N    also keep steps whose number is a multiple of N
  --partial         delete unfinished steps, which have no .metadata (or other index), and folders named like an unfinished save (tmp_step-5), if
                    nothing in them changed for --grace (10min); damaged steps stay
  --older-than AGE  of the steps to be deleted, delete only those older than AGE
  --drop-optimizer  full steps keep their model and lose the rest instead of being deleted; no complete step is deleted

Whatever the rules say, these stay: the newest complete step with model and optimizer, the newest model-only one, damaged steps, steps that a link or
a small file of the run names ('best', 'latest', best_model_checkpoint of trainer_state.json), steps that hold what links in a step that stays lead
to, steps that a dcpctl is writing, steps that cannot be judged or lack a mark (dcpctl list --help), and folders that hold anything but a
checkpoint's files. If no step is complete, nothing is deleted.

Before anything goes, the steps that count as kept are checked: structure and item headers of all, and the data of the newest full one
(--verify all: of every step that stays; --no-verify: nothing), with the bytes that takes in the plan. A damaged step stays and does not
count: the next older one takes its place. If fewer are whole than are to be kept, nothing is deleted and the exit code is 1. What reading has
shown is noted in RUN/.dcpctl-whole and holds while a step's files stay as they are: it is not read again, and a damaged one is no longer
complete to any command. --dry-run reads no data.

A full step whose optimizer is to be dropped and that turns out to be damaged is left alone; the others continue, and the exit code says so.

A step's metadata is deleted first: an interruption never leaves a step that only looks complete. Links are not followed. An optimizer is
dropped by writing the model's items into new files, and new metadata in one step: torch loads the same model before, during and after.

  dcpctl prune run --keep-latest 3 --dry-run
  dcpctl prune run --keep-latest 3 --keep-every 1000 --partial --yes
  dcpctl prune run --keep-latest 10 --older-than 7d --yes
  dcpctl prune run --keep-latest 2 --drop-optimizer --yes)";

struct Options {
  RunFlags run;
  std::optional<uint64_t> keep_latest;
  uint64_t keep_every = 0;
  bool partial = false, drop_optimizer = false, dry_run = false, yes = false, no_sync = false, no_verify = false;
  CheckKept check = CheckKept::kNewest;
  std::string older_than, grace = "10min";
};

[[noreturn]] void fail_without_rule() {
  Problem p = make_problem(ProblemId::usage, {}, "neither --keep-latest nor --partial", "one of them");
  p.hint =
      "--keep-latest 3 keeps the three newest steps and deletes the others, --partial deletes what interrupted saves left; with --dry-run "
      "it is only shown";
  throw Error(std::move(p));
}

RetentionRules rules_of(const Options& o) {
  if (!o.keep_latest && !o.partial) fail_without_rule();
  RetentionRules rules{.keep_latest = o.keep_latest,
                       .partial = o.partial,
                       .grace_ns = parse_duration(o.grace, "--grace", Seconds::kWithUnit),
                       .drop_optimizer = o.drop_optimizer};
  if (o.keep_every > 0) rules.keep_every = o.keep_every;
  if (!o.older_than.empty()) rules.older_than_ns = parse_duration(o.older_than, "--older-than", Seconds::kWithUnit);
  return rules;
}

// A plan that changes since a step is damaged is shown again, and asked about again.
bool may_go(const Options& o, const PruneResult& found, Context& context) {
  if (!context.common.json && !(context.common.quiet && o.yes))
    print_plan(found, {.partial = o.partial, .is_carried_out = o.yes && !o.dry_run}, context);
  return o.dry_run || o.yes || !found.has_work() || agrees(found, context);
}

int run(const Options& o, Context& context) {
  int exit = 0;
  const int failed = run_reported(context, {.source = o.run.run}, [&] {
    PruneResult found;
    bool confirmed = false, is_shown = false;
    prune({.survey = o.run.request(),
           .rules = rules_of(o),
           .check = o.no_verify ? CheckKept::kNothing : o.check,
           .now_ns = wall_clock_ns(),
           .dry_run = o.dry_run,
           .sync = !o.no_sync},
          context, found, [&] {
            if (std::exchange(is_shown, true)) context.info("in place of that plan, since a step of it is damaged:");
            return confirmed = may_go(o, found, context);
          });
    exit = static_cast<int>(!confirmed ? Exit::kAnswerNo : found.failed.empty() ? Exit::kOk : exit_of(found.failed.begin()->second.id));
    std::string document;
    prune_json(found, o.dry_run, exit, [&](std::string_view text) { document += text; });
    if (context.common.json) context.print(document);
    else if (!o.dry_run && !context.common.quiet) print_done(found, context);
    return document;
  });
  return failed != 0 ? failed : exit;
}

}  // namespace

void add_prune(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  add_run(c, context, o.run, Access::kChange);
  const std::string rules = "What stays", writing = "Writing";
  c.number("--keep-latest", o.keep_latest, "K", "Keep the complete steps with the K highest numbers").in(rules);
  c.number("--keep-every", o.keep_every, {1, UINT64_MAX}, "N", "Keep steps whose number is a multiple of N")
      .needs("--keep-latest")
      .in(rules);
  c.flag("--partial", o.partial, "Delete what interrupted saves have left").in(rules);
  c.option("--older-than", o.older_than, "AGE", "Delete nothing younger: 12h, 7d, 2w").in(rules);
  c.flag("--drop-optimizer", o.drop_optimizer, "Make full steps model-only instead of deleting them").needs("--keep-latest").in(rules);
  c.option("--grace", o.grace, "TIME", "An unfinished step that changed within TIME may still be being written (default 10min)").in(rules);
  const std::string check = "What is checked of the steps that stay";
  const Choices<CheckKept> checks{{"newest", CheckKept::kNewest}, {"all", CheckKept::kAll}};
  c.choice("--verify", o.check, checks, "WHICH", "Read the data of the newest full step (newest) or of all that stay (all)").in(check);
  c.flag("--no-verify", o.no_verify, "Check nothing: what is listed as complete is taken for whole").excludes("--verify").in(check);
  c.flag("--dry-run", o.dry_run, "Print what would be deleted; delete nothing").in(writing);
  c.flag("--yes", o.yes, "Do not ask").in(writing);
  c.flag("--no-sync", o.no_sync, "Do not wait for the disk at the end").in(writing);
  add_common(c, context.common, true);
  c.run = by_rank_0([options, &context] { return run(*options, context); });
}

}  // namespace dcp::cmd
