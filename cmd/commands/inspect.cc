// dcpctl inspect: what is in a checkpoint. Reads the metadata and the sizes of data files; no tensor data.
#include "line/commands.h"
#include "line/exit_status.h"
#include "line/text_file.h"
#include "report/inspect_answer.h"
#include "request/ranks_flags.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Shows what is in a checkpoint: who wrote it, which torch versions can load it, tensors, dtypes, bytes, how each tensor is sharded,
which files hold it. Reads only metadata and headers, in milliseconds; no tensor data, and data files may be missing.

Findings come first, then totals, then the keys on one screen: layers, and other keys that differ only in numbers, share a row, and what a
trainer keeps beside the model is folded if it would not fit. --tree and --keys show all. A data file that is missing or was cut short
makes the exit code 1, an unreadable one 4.

If the data files are there, the pickles of objects are examined too: one that would run what torch.load(weights_only=True) refuses is named
with its key. --fail-on unsafe examines every item's pickle, and makes the exit code 1 if one is unsafe or cannot be examined.

--stats prints bounds, mean, deviation and the number of NaN, inf and zeros of each tensor: which layer went NaN? It reads the tensors' data
and checks its CRCs.

CKPT is a DCP folder or its .metadata file, a torch.save file (.pt .pth .bin .ckpt; also in the form before torch 1.6), a safetensors file,
a folder of safetensors files, a folder of per-rank files (verl, SkyRL, torch_checkpointing), or with --step a run folder. The kind of a file
is recognized by its content.

  dcpctl inspect step-1000
  dcpctl inspect step-1000 --tree --root model
  dcpctl inspect step-1000 --keys --include 'model.*'
  dcpctl inspect step-1000 --fail-on unsafe
  dcpctl inspect step-1000 --stats 'model.*'
  dcpctl inspect step-1000 --json | jq '.tensors[].key')";

int run(const InspectOptions& o, Context& context) {
  Exit answer_exit = Exit::kOk;
  const int exit = run_reported(context, {.source = o.source.path}, [&] {
    InspectAnswer a = inspect_answer(o, context);
    answer_exit = a.exit;
    return std::move(a.document);
  });
  return exit == 0 ? static_cast<int>(answer_exit) : exit;
}

}  // namespace

void add_inspect(Command& c, Context& context) {
  auto options = std::make_shared<InspectOptions>();
  InspectOptions& o = *options;
  c.details = kText;
  add_source(c, context, o.source);
  add_max_memory(c, o.max_memory, "Source");
  const auto add_view = [&](const char* name, InspectView view, const char* help) -> Option& {
    return c.option(name, [&o, view](const std::string&) { return o.view = view, true; }, "", help);
  };
  add_view("--summary", InspectView::kSummary, "The summary alone");
  c.number("--depth", o.depth, "N", "Show N components of keys, and totals of what is below them").excludes("--summary");
  add_view("--tree", InspectView::kTree, "Every key, in the tree of their components").excludes("--summary").excludes("--depth");
  add_view("--keys", InspectView::kKeys, "Flat list of keys");
  add_view("--chunks", InspectView::kChunks, "Each chunk with its box, file and byte range").excludes("--keys");
  add_view("--files", InspectView::kFiles, "Each data file: bytes, items, unreferenced bytes").excludes("--keys").excludes("--chunks");
  c.option("--stats", o.stats, "GLOB", "Read the tensors whose keys match GLOB, and print statistics of their values")
      .offers(Offer::kKeys)
      .excludes("--keys")
      .excludes("--chunks")
      .excludes("--files")
      .excludes("--map");
  add_threads(c, o.threads, "Source");
  c.find("--threads")->needs("--stats");
  c.option("--html", o.html, "FILE",
           "Also write a page with pictures to FILE: the layout of each file, how each tensor is sharded; with --map, which tensors become "
           "which")
      .writes();
  add_key_flags(c, o.keys);
  add_map(c, o.map);
  add_fail_on(c, o.fail_on, "What is checked");
  add_dtypes(c, o.dtypes);
  add_common(c, context.common, true);
  c.pages = true;
  c.arguments.front().for_each();
  c.run = by_rank_0([options, &context] {
    if (context.several && options->view > InspectView::kTree && !context.common.json) context.print(escaped(options->source.path) + ":\n");
    return run(*options, context);
  });
}

}  // namespace dcp::cmd
