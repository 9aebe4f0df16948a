// dcpctl edit: other names, or fewer keys, by new metadata alone.
#include "app/edit.h"

#include "commands.h"
#include "dcp_output.h"
#include "key_flags.h"
#include "selection_report.h"
#include "source.h"
#include "text_file.h"
#include "write_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Renames keys of a DCP folder, leaves some out, merges the metadata of ranks that saved by themselves, or writes it for an older torch: all
by a new .metadata. Tensors are neither read nor written, so a checkpoint of a terabyte takes milliseconds.

OUT is a new folder whose data files are clones of the source's (reflinks) where the file system has them, else further names of the same
files (hard links), else copies; --link asks for one of them. Nothing ever writes into a data file that is there, so checkpoints can share it.

With --in-place CKPT itself gets the new metadata, in one step; the old one is kept as .metadata.orig, and 'mv' brings it back.

Space comes free only as files go that no key is in any more; reshard and cast write what is left of a file anew.

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
  bool in_place = false, no_orig = false, dry_run = false, force = false, no_sync = false, strict = false;
  unsigned threads = 0;
};

EditRequest request_of(const Options& o, const Context& context) {
  if (o.in_place == !o.out.empty())
    fail(ProblemId::usage, {.path = o.source.path}, o.in_place ? "OUT with --in-place" : "neither OUT nor --in-place", "one of them");
  return {.source = o.source.request(context),
          .max_memory = parse_size(o.max_memory),
          .threads = o.threads,
          .select = o.keys.select_options(context),
          .torch = o.dcp.target(),
          .out = o.out,
          .sharing = o.sharing,
          .keep_original = !o.no_orig,
          .replace = o.force ? Replace::kYes : Replace::kNo,
          .dry_run = o.dry_run,
          .sync = !o.no_sync};
}

void describe(const Options& o, const EditResult& found, Context& context) {
  describe_selection(context, found.selection);
  if (found.edited.plan.dcp) describe_dcp(context, *found.edited.plan.dcp);
  describe_unmatched(context, unmatched_rules(found.selection), o.strict);
  if (!found.unneeded.empty())
    context.info((o.in_place ? "no key is left in " : "not taken over, no key is left in ") + counted(found.unneeded.size(), "file") +
                 " of " + human_bytes(found.unneeded_bytes) + ": " + list_of(found.unneeded, 3));
  if (found.edited.unreferenced > 0)
    context.info(human_bytes(found.edited.unreferenced) + " of the data files belong to no key; 'dcpctl reshard' writes them anew without");
}

constexpr const char* kSharings[] = {"", "cloned", "linked", "copied"};  // by Sharing

std::string shared_text(const EditResult& found) {
  std::string text;
  for (size_t s = 1; s < 4; ++s)
    if (found.files_of[s] > 0)
      text += (text.empty() ? "" : ", ") + counted(found.files_of[s], "data file") + " of " + human_bytes(found.bytes_of[s]) + " " +
              kSharings[s];
  return text.empty() ? "no data" : text;
}

void print(const Options& o, const EditResult& found, Context& context) {
  const std::string keys = counted(found.selection.entries.size(), "key");
  const std::string metadata = human_bytes(found.metadata_bytes) + " of metadata";
  if (o.dry_run) {
    context.print("would write " + escaped(o.in_place ? o.source.path : o.out) + ": " + keys + ", " + metadata + ", " +
                  counted(found.edited.files.size(), "data file") + "\n");
    return;
  }
  if (context.common.quiet) return;
  std::string text = o.in_place ? "edited " + escaped(found.catalog.folder) : "wrote " + escaped(o.out);
  text += ": " + keys + ", " + metadata + (o.in_place ? "" : ", " + shared_text(found)) + " in " + duration(found.nanoseconds) + "\n";
  if (!found.original.empty()) text += "the old metadata is " + escaped(found.catalog.folder + "/" + found.original) + "\n";
  context.print(text);
}

void edit_json(const Options& o, const EditResult& found, const std::function<void(std::string_view)>& write) {
  JsonWriter json(write);
  json.begin_object().member("schema", "dcpctl.edit/1").member("exit", 0).member("path", found.catalog.path);
  if (!o.out.empty()) json.member("output", o.out);
  json.member("in_place", o.in_place).member("dry_run", o.dry_run).member("keys", uint64_t{found.selection.entries.size()});
  json.member("metadata_bytes", found.metadata_bytes);
  if (!found.original.empty()) json.member("original", found.original);
  json.key("data").begin_object();
  for (size_t s = 1; s < 4; ++s)
    json.key(kSharings[s]).begin_object().member("files", found.files_of[s]).member("bytes", found.bytes_of[s]).end_object();
  json.member("unreferenced_bytes", found.edited.unreferenced).end_object();
  text_json(json, "unneeded_files", found.unneeded);
  json.member("unneeded_bytes", found.unneeded_bytes);
  selection_json(json, found.catalog, found.selection, 0);
  json.key("dcp").begin_object();
  dcp_json(json, *found.edited.plan.dcp);
  json.end_object().member("seconds", static_cast<double>(found.nanoseconds) / 1e9).end_object();
  json.finish();
}

int run(const Options& o, Context& context) {
  return run_reported(context, {.source = o.source.path, .output = o.out}, [&] {
    EditResult found;
    edit(request_of(o, context), context, found, [&] { describe(o, found, context); });
    std::string document;
    edit_json(o, found, [&](std::string_view text) { document += text; });
    if (context.common.json) context.print(document);
    else print(o, found, context);
    return document;
  });
}

}  // namespace

void add_edit(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  c.details = kText;
  add_source(c, context, o.source);
  c.arguments.front().opens(Access::kChange);  // a file gets another name only where the rights are the same, and --in-place writes there
  c.argument("OUT", o.out, "A new folder").writes();
  add_key_flags(c, o.keys);
  add_dcp(c, o.dcp);
  const std::string writing = "Writing";
  c.flag("--in-place", o.in_place, "Replace the metadata of CKPT itself").in(writing);
  c.flag("--no-orig", o.no_orig, "With --in-place: do not keep the old metadata").needs("--in-place").in(writing);
  const Choices<Sharing> sharings{{"reflink", Sharing::kClone}, {"hard", Sharing::kLink}, {"copy", Sharing::kCopy}};
  c.choice("--link", o.sharing, sharings, "HOW", "How OUT gets its data: reflink, hard or copy (default: the first that works)")
      .excludes("--in-place")
      .in(writing);
  add_strict(c, o.strict, "--include, --rename, ...", writing);
  c.flag("--dry-run", o.dry_run, "Say what would be written; create nothing").in(writing);
  c.flag("--force", o.force, "Replace OUT when the new one is complete").excludes("--in-place").in(writing);
  add_threads(c, o.threads, writing);
  c.option("--max-memory", o.max_memory, "SIZE", "Hard cap on memory (default 1GiB)").in(writing);
  c.flag("--no-sync", o.no_sync, "Do not wait for the disk").in(writing);
  add_common(c, context, true);
  c.run = [options, &context] { return run(*options, context); };
}

}  // namespace dcp::cmd
