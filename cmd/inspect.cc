// dcpctl inspect: what is in a checkpoint. Reads the metadata and the sizes of data files; no tensor data.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "catalog/oddities.h"
#include "catalog/open.h"
#include "commands.h"
#include "dtype_flags.h"
#include "inspect_text.h"
#include "sandbox.h"
#include "source.h"
#include "write_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText = R"(Says what is in a checkpoint: who wrote it, which torch versions can load it, tensors, dtypes, bytes, how each tensor is
sharded, which files hold it. Reads metadata and headers only, in milliseconds; no tensor data, and no data file needs to be there.

CKPT is a DCP folder or its .metadata file, a torch.save file (.pt .pth .bin .ckpt), a safetensors file, a folder of safetensors files,
or with --step a run folder. What a file is, its content says.

  dcpctl inspect step-1000
  dcpctl inspect step-1000 --keys --include 'model.*'
  dcpctl inspect step-1000 --json | jq '.tensors[].key')";

struct Options {
  SourceFlags source;
  InspectView view = InspectView::kTree;
  bool keys = false, chunks = false, files = false, model_only = false;
  SelectionFlags selection;
  DtypeFlags dtypes;
  std::string html;
  bool has_html = false;
};

// Returns the JSON document if --report asks for it.
std::string answer(const Options& o, Context& context) {
  if (o.has_html)
    if (auto fault = text_file_fault(context.io, {"--html", o.html, "<!doctype html>"}, o.source.path, "")) throw Error(std::move(*fault));
  Catalog catalog = open_source(o.source, context);
  find_structure_faults(catalog);
  if (!catalog.single_file) std::ranges::move(find_folder_oddities(context.io, catalog), std::back_inserter(catalog.findings));
  const Selection selection = select_keys(catalog, {.rules = o.selection.rules(), .model_only = o.model_only, .keep_root = true, .root = {}, .dtypes = o.dtypes.options()});
  if (!selection.idle.empty()) context.note("no key for " + list_of(selection.idle));
  if (o.has_html) save_text(context.io, o.html, inspect_html(catalog, selection));
  if (context.common.json) inspect_json(catalog, selection, [&](std::string_view text) { context.out(text); });
  else inspect_text(catalog, selection, o.view, context);
  std::string document;
  if (context.common.has_report) inspect_json(catalog, selection, [&](std::string_view text) { document += text; });
  return document;
}

std::string failure(const Options& o, const Problem& problem) {
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  json.begin_object().member("schema", "dcpctl.inspect/1").member("exit", static_cast<int>(exit_of(problem.id))).member("path", o.source.path).key("error");
  error_json(json, problem);
  json.end_object();
  json.finish();
  return document;
}

int run(const Options& o, Context& context) {
  if (const auto fault = report_fault(context, o.source.path, "")) return report_error(context, *fault);
  int exit = 0;
  std::string document;
  try {
    document = answer(o, context);
  } catch (const std::exception& error) {
    exit = report_error(context, error);
    document = failure(o, problem_of(error));
  }
  save_report(context, document);
  return exit;
}

}  // namespace

void add_inspect(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "What is in a checkpoint");
  command->footer(kText);
  add_source(*command, options->source);
  auto* keys = command->add_flag("--keys", options->keys, "Flat list of keys");
  auto* chunks = command->add_flag("--chunks", options->chunks, "Each chunk with its box, file and byte range")->excludes(keys);
  command->add_flag("--files", options->files, "Each data file: bytes, items, unreferenced bytes")->excludes(keys)->excludes(chunks);
  writes(command->add_option_function<std::string>("--html", [options](const std::string& file) { options->html = file, options->has_html = true; }, "Write a page with pictures to FILE too: what lies where in each file, how each tensor is cut"))->option_text("FILE");
  command->add_flag("--model-only", options->model_only, "Show the model only, not optimizer and other state")->group("Which keys");
  add_selection(*command, options->selection);
  add_dtypes(*command, options->dtypes);
  add_common(*command, context, true);
  command->callback([options, &context] {
    context.command = "inspect";
    options->view = options->keys ? InspectView::kKeys : options->chunks ? InspectView::kChunks : options->files ? InspectView::kFiles : InspectView::kTree;
    context.run = [options, &context] { return run(*options, context); };
  });
}

}  // namespace dcp::cmd
