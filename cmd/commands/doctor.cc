// dcpctl doctor: what this build and machine have.
#include "app/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "inputs/run.h"
#include "line/commands.h"
#include "line/environment.h"
#include "line/lines.h"
#include "line/network.h"
#include "line/option_values.h"
#include "net/known_stores.h"
#include "report/doctor_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Prints what this build and this machine have, what they lack, and the package or option that provides it: modules (opened with
everything they need), LibTorch, NCCL, the driver and GPUs, processor cores and memory that the process may use, its limits, the sandbox of
the kernel, and what the file system of PATH can do. PATH is a folder or a file in it (default: the working folder); its file system is
tried with files of a few bytes, which are removed afterwards.

If PATH is in a store (s3://, gs://, hf://, https://), it prints where credentials come from, the endpoint, the region or the commit, and how
fast a range is read.

The exit code is 0 whatever is missing: nearly all of dcpctl needs none of it. Include the output of --json in bug reports.

  dcpctl doctor
  dcpctl doctor step-1000
  dcpctl doctor --json >doctor.json)";

struct Options {
  std::string path;
};

// The first object at `path` or in it; "": there is none.
std::string object_at(Store& store, const std::string& path) {
  const std::optional<FileFacts> facts = store.facts(path);
  if (!facts) fail(ProblemId::no_such_path, {.path = path});
  if (facts->kind == FileKind::kRegular) return path;
  std::string largest;
  uint64_t most = 0;
  for (const DirEntry& e : store.list(path)) {
    const std::string name = (path.ends_with('/') ? path : path + "/") + e.name;
    const std::optional<FileFacts> inner = e.kind == FileKind::kRegular ? store.facts(name) : std::nullopt;
    if (inner && inner->bytes >= most) most = inner->bytes, largest = name;
  }
  return largest;
}

// Of a store: its credentials, its place, and how fast it answers.
int run_on_store(const std::string& path, Context& context) {
  auto lines = net::about_store(*context.http, path);
  lines.emplace_back("module", std::string(context.http->module().header.built_with));
  const auto time = [] { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); };
  const uint64_t begin = time();
  const std::string name = object_at(context.store, path);
  lines.emplace_back("answer", "a first one after " + duration(time() - begin));
  if (!name.empty()) {
    const OpenFile file(context.store, context.store.open_read(name));
    std::vector<std::byte> bytes(std::min<uint64_t>(context.store.facts(file.get()).bytes, 8 << 20));
    const uint64_t from = time();
    read_exact(context.store, file.get(), 0, bytes);
    const uint64_t ns = std::max<uint64_t>(time() - from, 1);
    lines.emplace_back("range", human_bytes(bytes.size()) + " of " + name + " in " + duration(ns) + ", " + rate(bytes.size(), ns));
  }
  if (context.common.json) {
    context.print(json_document([&](JsonWriter& json) {
      json.member("schema", schema_of(context)).key("store").begin_object().member("path", path);
      for (const auto& [what, text] : lines) json.member(what, text);
      json.end_object();
    }));
    return 0;
  }
  for (const auto& [what, text] : lines) context.print(what + std::string(13 - what.size(), ' ') + escaped(text) + "\n");
  return 0;
}

int run(const Options& o, Context& context) {
  if (context.http && net::is_known(o.path)) return run_on_store(o.path, context);
  // LibTorch writes its own stack to stderr where something fails.
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  DoctorResult found;
  doctor({.folder = o.path.empty() ? "." : o.path, .module_folders = module_folders()}, context, found);
  if (context.common.json) context.print(doctor_json(found));
  else context.print(fitted(context, doctor_text(found), STDOUT_FILENO));
  const auto facts = o.path.empty() ? std::nullopt : context.store.facts(o.path);
  if (facts && facts->kind == FileKind::kDirectory && is_checkpoint_folder(context.store, o.path))
    context.info("this is about the folder: for the checkpoint in it, 'dcpctl verify " + shell_word(o.path) +
                 "' says whether it is whole, 'dcpctl inspect " + shell_word(o.path) + "' which torch loads it");
  return 0;
}

}  // namespace

void add_doctor(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  c.argument("PATH", options->path, "A folder, or a file in it").reads(Offer::kFolders);
  add_network(c, context);
  add_common(c, context.common, false);
  c.run = [options, &context] { return run(*options, context); };
}

}  // namespace dcp::cmd
