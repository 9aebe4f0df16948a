#include "report/edit_report.h"

#include "base/json.h"
#include "base/text.h"
#include "line/text_file.h"
#include "report/dcp_output.h"
#include "report/selection_report.h"
#include "report/write_report.h"

namespace dcp::cmd {
namespace {

bool in_place(const EditRequest& request) { return request.out.empty(); }

constexpr const char* kSharings[] = {"", "cloned", "linked", "copied"};  // by Sharing

std::string shared_text(const EditResult& found) {
  std::string text;
  for (size_t s = 1; s < 4; ++s)
    if (found.files_of[s] > 0)
      text += (text.empty() ? "" : ", ") + counted(found.files_of[s], "data file") + " of " + human_bytes(found.bytes_of[s]) + " " +
              kSharings[s];
  return text.empty() ? "no data" : text;
}

}  // namespace

void describe_edit(const EditRequest& request, const EditResult& found, Context& context) {
  describe_selection(context, found.selection);
  if (found.edited.plan.dcp) describe_dcp(context, *found.edited.plan.dcp);
  if (!found.unneeded.empty())
    context.info((in_place(request) ? "no longer needed: " : "left out, because no key needs it: ") +
                 counted(found.unneeded.size(), "file") + " of " + human_bytes(found.unneeded_bytes) + ": " + list_of(found.unneeded, 3));
  if (found.edited.unreferenced > 0)
    context.info(human_bytes(found.edited.unreferenced) +
                 " of the data files belong to no key; 'dcpctl reshard' writes files without them");
}

void print_edit(const EditRequest& request, const EditResult& found, Context& context) {
  const std::string keys = counted(found.selection.entries.size(), "key");
  const std::string metadata = human_bytes(found.metadata_bytes) + " of metadata";
  if (request.dry_run) {
    context.print("would write " + escaped(in_place(request) ? request.source.path : request.out) + ": " + keys + ", " + metadata + ", " +
                  counted(found.edited.files.size(), "data file") + "\n");
    return;
  }
  if (context.common.quiet) return;
  std::string text = in_place(request) ? "edited " + escaped(found.catalog().folder) : "wrote " + escaped(request.out);
  text +=
      ": " + keys + ", " + metadata + (in_place(request) ? "" : ", " + shared_text(found)) + " in " + duration(found.nanoseconds) + "\n";
  if (!found.original.empty()) text += "the old metadata is now " + escaped(found.catalog().folder + "/" + found.original) + "\n";
  context.print(text);
}

std::string edit_json(const EditRequest& request, const EditResult& found) {
  return json_document([&](JsonWriter& json) {
    json.member("schema", "dcpctl.edit/1").member("exit", 0).member("path", found.catalog().path);
    if (!request.out.empty()) json.member("output", request.out);
    json.member("in_place", in_place(request)).member("dry_run", request.dry_run).member("keys", uint64_t{found.selection.entries.size()});
    json.member("metadata_bytes", found.metadata_bytes);
    if (!found.original.empty()) json.member("original", found.original);
    json.key("data").begin_object();
    for (size_t s = 1; s < 4; ++s)
      json.key(kSharings[s]).begin_object().member("files", found.files_of[s]).member("bytes", found.bytes_of[s]).end_object();
    json.member("unreferenced_bytes", found.edited.unreferenced).end_object();
    json.member("unneeded_files", found.unneeded);
    json.member("unneeded_bytes", found.unneeded_bytes);
    selection_json(json, found.catalog(), found.selection, 0);
    json.key("dcp").begin_object();
    dcp_json(json, *found.edited.plan.dcp);
    json.end_object().member("seconds", static_cast<double>(found.nanoseconds) / 1e9);
  });
}

}  // namespace dcp::cmd
