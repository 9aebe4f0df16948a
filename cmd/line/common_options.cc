#include "line/common_options.h"

#include "line/command.h"

namespace dcp::cmd {

void add_common(Command& c, CommonOptions& o, bool writer) {
  const std::string group = "Output";
  const Choices<When> whens{{"auto", When::kAuto}, {"always", When::kAlways}, {"never", When::kNever}};
  c.flag("--json", o.json, "Print one JSON document on stdout").in(group);
  c.flag("-q,--quiet", o.quiet, "No notes, progress or closing line: the answer and errors only").in(group);
  c.flag("-v", o.verbose, "More details on stderr").also({"--verbose"}).in(group);
  c.choice("--color", o.color, whens, "WHEN", "Colours: auto, always or never").in(group);
  c.flag("--no-pager", o.no_pager, "No pager ($DCPCTL_PAGER, $PAGER or less) at a terminal").in(group);
  if (!writer) return;
  const Choices<ProgressForm> forms{{"auto", ProgressForm::kAuto},
                                    {"bar", ProgressForm::kBar},
                                    {"plain", ProgressForm::kPlain},
                                    {"json", ProgressForm::kJson},
                                    {"none", ProgressForm::kNone}};
  c.option("--report", o.report, "FILE", "Write the JSON document to FILE in every outcome").writes().in(group);
  c.choice("--progress", o.progress, forms, "FORM", "Progress on stderr: auto, bar, plain, json or none").in(group);
}

}  // namespace dcp::cmd
