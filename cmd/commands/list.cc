// dcpctl list: the steps of a run.
#include <unistd.h>

#include "app/run_survey.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/option_values.h"
#include "line/text_file.h"
#include "report/list_report.h"
#include "report/page/page.h"
#include "report/step_text.h"
#include "request/ranks_flags.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"text(Lists the steps of a run: number, age, bytes, what they hold, and whether they are complete: the metadata parses, and every file that it names is
there and long enough. No data is read. The first line says which step to resume from: the newest complete one that is full.

  full            model and optimizer
  no optimizer    model and other training state; where no step has an optimizer, the newest of these is the one to resume from
  model-only      the model alone

  complete        it can be loaded
  unfinished      its save did not end, or is under way: no metadata, an empty folder, a name or a missing mark that says so
  damaged         files or parts of it are missing or wrong
  cannot be read  the machine does not let it be read, so that nothing is known

At a terminal the newest step comes first, elsewhere last; --reverse turns that round.

A step is a folder with a checkpoint and a number in its name, and the names of a run's steps differ in their numbers alone. Of several kinds of
names that one counts whose words are those of a trainer (step-20, global_step_20, epoch=0-step=20.ckpt, 20): copies and exports beside it are no
steps (step-20.bak, llama-7b). The step's number is the one behind 'step', 'iter' or 'ba', else the last one. Beside it, names may differ in decimals
of metrics (val_loss=0.25) and in an epoch that goes up with the steps. Where they differ in more (run2_step_100, run1_step_900), or two steps have
one number, it is an error; --pattern decides. Its group may hold a date: 2025-01-31_09-30.

A step's checkpoints may lie in folders of their own, such as model/ckpt and model/optimizer, and the steps in one folder below RUN. A folder
whose name begins with tmp_, tmp- or .tmp, or ends with .tmp, _tmp, -tmp, .partial or .incomplete, is an unfinished save. Where a step has
checkpoint_manifest.json, _SUCCESS or .complete, newer ones without are unfinished.

A link such as 'latest' is checked, and so is a small file whose only line names a step (latest_checkpointed_iteration.txt, 'best'), or a .json file of
which a value does: one that leads to an unusable step is reported, and so is a 'latest' that does not lead to the newest one.

The exit code is 1 if no step is complete. --latest, --latest-full and --latest-model print the path of one step and nothing else; if there
is none, they print no path, and the exit code is 1. --wait is for exporters beside a run: it waits until there is one, newer than --after.

  dcpctl list run
  dcpctl list run --last 5
  dcpctl list run -l
  dcpctl list run --latest-full
  dcpctl consolidate "$(dcpctl list run --latest)" model.pt --model-only
  dcpctl list run --latest --wait 3600 --after 500)text";

struct Options {
  RunFlags run;
  bool latest = false, latest_full = false, latest_model = false, reverse = false, dates = false, csv = false;
  size_t last = SIZE_MAX;
  std::string after, wait, html;
  FieldFlags fields;

  bool one() const { return latest || latest_full || latest_model; }
};

std::string none_text(const Options& o, const std::string& run) {
  std::string what = o.latest_full ? " with model and optimizer" : o.latest_model ? " that holds the model alone" : "";
  if (!o.after.empty()) what += o.after == "latest" ? " after the newest" : " after " + o.after;
  if (!o.wait.empty()) what += " within " + o.wait + (o.wait.find_first_not_of("0123456789.") == o.wait.npos ? " s" : "");
  return escaped(run) + ": no complete step" + what + "; 'dcpctl list " + shell_word(run) + "' shows what there is";
}

ListRequest request_of(const Options& o, const Context& context) {
  const bool has_document = context.common.json || !context.common.report.empty();
  ListRequest request{.survey = o.run.request(), .newest_only = o.one() && !has_document};
  request.after_newest = o.after == "latest";
  uint64_t number = 0;
  if (!o.after.empty() && !request.after_newest) {
    if (!parse_number(o.after, number, {0, UINT64_MAX})) fail(ProblemId::usage, {}, "--after '" + o.after + "'", "a number or 'latest'");
    request.after = number;
  }
  if (o.latest_full) request.content = StepContent::kFull;
  if (o.latest_model) request.content = StepContent::kModel;
  if (!o.wait.empty()) request.wait_ns = parse_duration(o.wait, "--wait", Seconds::kWithoutUnit);
  return request;
}

int run(const Options& o, Context& context) {
  bool is_none = false;
  const int exit = run_reported(context, {.source = o.run.run}, [&] {
    const ListRequest request = request_of(o, context);
    check_page(context, o.html, o.run.run);
    ListResult found;
    list_steps(request, context, found);
    is_none = !found.newest;
    std::string document;
    list_json(found, o.last, is_none ? static_cast<int>(Exit::kAnswerNo) : 0, [&](std::string_view text) { document += text; });
    if (!o.html.empty()) save_page(context, o.html, list_html(found.survey));
    context.apart = context.apart && !o.one();  // then each is a line
    if (context.common.json) context.print(document);
    else if (o.csv) print_steps_csv(found.survey, o.last, context);
    else if (o.fields.format != RowFormat::kNone) list_rows(found.survey, o.last, o.fields, context);
    else if (!o.one())
      print_steps(found.survey, {.newest_first = context.at_terminal(STDOUT_FILENO) != o.reverse, .last = o.last, .dates = o.dates},
                  context);
    else if (found.newest) context.print(found.newest->path + "\n");
    else context.info(none_text(o, o.run.run));
    return document;
  });
  return exit == 0 && is_none ? static_cast<int>(Exit::kAnswerNo) : exit;
}

}  // namespace

void add_list(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  add_run(c, context, o.run, Access::kRun);
  c.arguments.front().for_each();
  const std::string group = "One step", table = "The table";
  c.number("--last", o.last, {1, SIZE_MAX}, "N", "The N newest steps alone").excludes("--latest").in(table);
  c.flag("-l,--long", o.dates, "Date and time of each step beside its age").also({"--sizes"}).excludes("--latest").in(table);
  c.flag("--csv", o.csv, "A row for each step, as spreadsheets read it (RFC 4180)").excludes("--latest").excludes("--json").in(table);
  c.option("--html", o.html, "FILE", "Also write a page with pictures to FILE: the run over time, and what prune would take")
      .writes()
      .excludes("--latest")
      .excludes("--latest-full")
      .excludes("--latest-model")
      .in(table);
  c.flag("--reverse", o.reverse, "Oldest first at a terminal, newest first elsewhere").excludes("--latest").in(table);
  c.flag("--latest", o.latest, "Print the path of the newest complete step").in(group).excludes("--latest-full").excludes("--latest-model");
  c.flag("--latest-full", o.latest_full,
         "The newest complete one to resume from: full, or where no step has an optimizer, with other state")
      .in(group)
      .excludes("--latest-model");
  c.flag("--latest-model", o.latest_model, "The newest complete one that has the model alone").in(group);
  c.option("--after", o.after, "N|latest", "Only a step with a number above N, or above that of the current newest one")
      .offers(Offer::kSteps)
      .in(group);
  c.option("--wait", o.wait, "SECONDS",
           "Wait that long for one (or 10min, 12h), with --after latest for the next; exit code 1 if none appears")
      .in(group);
  add_fields(c, o.fields, kListFields);
  for (const char* other : {"--latest", "--latest-full", "--latest-model", "--csv", "--long", "--reverse", "--json"})
    c.find("--format")->excludes(other);
  add_common(c, context.common, true);
  c.pages = true;
  c.run = by_rank_0([options, &context] { return run(*options, context); });
}

}  // namespace dcp::cmd
