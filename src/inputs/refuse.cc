#include "inputs/refuse.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/file_names.h"
#include "base/text.h"
#include "catalog/data_files.h"
#include "format/legacy_torch.h"
#include "inputs/input.h"
#include "inputs/run.h"

namespace dcp {
namespace {

using std::string_view_literals::operator""sv;

struct Magic {
  std::string_view bytes;
  Foreign is;
  size_t at = 0;
};
// torch before 0.2 wrote a tar of these files, which torch.load reads only if it may run code from it.
constexpr Foreign kTorchTar = {"a torch.save file in the tar form of torch 0.1",
                               "if you trust it, rewrite it with torch: torch.save(torch.load(FILE, weights_only=False), NEW)"};
constexpr Magic kMagics[] = {
    {"sys_info\0"sv, kTorchTar},
    {"pickle\0"sv, kTorchTar},
    {"tensors\0"sv, kTorchTar},
    {"storages\0"sv, kTorchTar},
    {"ustar"sv, {"a tar archive", "unpack it first"}, 257},
    {"GGUF"sv, {"a GGUF file", ""}},
    {"\x93NUMPY"sv, {"a numpy .npy file", ""}},
    {"\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", ""}},
    {"\x1f\x8b"sv, {"a gzip file", "unpack it first"}},
    {"\x28\xb5\x2f\xfd"sv, {"a zstd file", "unpack it first"}},
    {"PK\x03\x04"sv, {"a zip archive that is not a torch.save file", ""}},
    {"\x80\x02"sv, {"a pickle, not a torch.save file", ""}},
    {"\x80\x03"sv, {"a pickle, not a torch.save file", ""}},
    {"\x80\x04"sv, {"a pickle, not a torch.save file", ""}},
    {"\x80\x05"sv, {"a pickle, not a torch.save file", ""}},
};

struct Marker {
  std::string_view file;  // its name, or how it begins
  Foreign is;
};
constexpr Foreign kDeepSpeed{"a DeepSpeed checkpoint", "zero_to_fp32.py of DeepSpeed writes the model as a file that dcpctl reads", true};
constexpr Marker kMarkers[] = {
    {".snapshot_metadata", {"a torchsnapshot snapshot", "read it with torchsnapshot and save it with torch.distributed.checkpoint"}},
    {"zero_to_fp32.py", {"a DeepSpeed checkpoint", "its zero_to_fp32.py writes the model as a file that dcpctl reads", true}},
    {"mp_rank_", kDeepSpeed},
    {"zero_pp_rank_", kDeepSpeed},
    {"bf16_zero_pp_rank_", kDeepSpeed},
    {"saved_model.pb", {"a TensorFlow SavedModel", ""}},
    {"_CHECKPOINT_METADATA", {"an Orbax checkpoint", ""}},
    {"manifest.ocdbt", {"an Orbax checkpoint", ""}},
};

}  // namespace

Foreign foreign_file(Bytes head) {
  for (const Magic& m : kMagics)
    if (head.size() >= m.at && as_text(head.subspan(m.at)).starts_with(m.bytes)) return m.is;
  return {};
}

bool is_torch_file(Bytes head) {
  if (begins_legacy_torch(head)) return true;
  constexpr uint64_t kLocalBytes = 30, kNameBytesAt = 26;  // of the first record's header, before its name
  const std::string_view text = as_text(head);
  if (!text.starts_with("PK\x03\x04") || text.size() < kLocalBytes) return false;
  const uint64_t name_bytes = load_le<uint16_t>(head.data() + kNameBytesAt);
  return name_bytes > text.size() - kLocalBytes || text.substr(kLocalBytes, name_bytes).find('/') != std::string_view::npos;
}

Foreign foreign_folder(const std::vector<std::string>& names) {
  for (const Marker& m : kMarkers)
    if (std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(m.file); })) return m.is;
  return {};
}

namespace {

// The program that wrote the folder, or the folders in it.
Foreign foreign_of(Store& store, const std::string& path, const std::vector<DirEntry>& entries, const std::vector<std::string>& names) {
  Foreign foreign = foreign_folder(names);
  for (const DirEntry& e : entries) {
    if (!foreign.what.empty()) break;
    if (e.kind != FileKind::kDirectory || e.link) continue;
    std::vector<std::string> below;
    for (DirEntry& inner : store.list(path + "/" + e.name)) below.push_back(std::move(inner.name));
    foreign = foreign_folder(below);
  }
  return foreign;
}

// The folder that DeepSpeed's file `latest` names; "": there is none.
std::string named_by_latest(Store& store, const std::string& path) {
  constexpr uint64_t kMost = 255;
  const std::optional<FileFacts> facts = store.facts(path + "/latest");
  if (!facts || facts->kind != FileKind::kRegular || facts->bytes > kMost) return "";
  std::vector<std::byte> bytes(facts->bytes);
  const OpenFile file(store, store.open_read(path + "/latest"));
  read_exact(store, file.get(), 0, bytes);
  const std::string_view text = as_text(bytes);
  return std::string(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
}

bool is_of_layer(std::string_view name) { return name.starts_with("layer_"); }

// Without ZeRO, DeepSpeed writes the module's state dict to files that dcpctl reads, one for each rank of tensor parallelism; its own
// script refuses such a folder. Experts, and all layers of a pipeline, are in files of their own. Of several steps, this returns the files
// of the one that `latest` names, or of the newest.
std::vector<std::string> states_without_zero(Store& store, const std::string& path) {
  std::vector<std::string> states, steps;
  for (const DirEntry& e : store.list(path)) {
    if (e.name.find("zero_pp_rank_") != e.name.npos) return {};
    if (e.kind == FileKind::kDirectory && !e.link) steps.push_back(path + "/" + e.name);
    if ((e.name.starts_with("mp_rank_") || is_of_layer(e.name)) && e.name.ends_with("model_states.pt"))
      states.push_back(path + "/" + e.name);
  }
  std::ranges::sort(steps, NaturalLess());
  if (const std::string latest = path + "/" + named_by_latest(store, path); std::erase(steps, latest) > 0) steps.push_back(latest);
  for (auto step = steps.rbegin(); step != steps.rend() && states.empty(); ++step)
    for (const DirEntry& e : store.list(*step))
      if (e.name.starts_with("mp_rank_")) return states_without_zero(store, *step);
  std::ranges::sort(states, NaturalLess());
  return states;
}

bool has_distinct_steps(Store& store, const std::string& path) try {
  std::vector<Step> steps = find_run(store, path, "").steps;
  std::erase_if(steps, [](const Step& s) { return s.unfinished; });
  const bool is_whole = std::ranges::all_of(steps, [](const Step& s) { return s.parts.size() <= 1; });
  return !steps.empty() && is_whole && std::ranges::adjacent_find(steps, {}, &Step::number) == steps.end();
} catch (const Error&) {  // several runs
  return false;
}

// The name of a folder in `path` that `below` leads through.
std::string first_below(const std::string& path, const std::string& below) {
  const size_t at = path.size() + 1;
  return at < below.size() ? below.substr(at, below.find('/', at) - at) : "";
}

constexpr std::string_view kUnfinishedMetadata = ".metadata.tmp";

bool is_data_file(const std::string& name) { return name.ends_with(".distcp"); }

[[noreturn]] void refuse_folder(Found& found) {
  Store& store = found.store();
  const std::string& path = found.path();
  const std::vector<DirEntry>& entries = found.entries();
  std::vector<std::string> names, torch_files;
  for (const DirEntry& e : entries) {
    if (e.kind == FileKind::kRegular && torch_file_input.is_file(e.name)) torch_files.push_back(path + "/" + e.name);
    names.push_back(e.name);
  }
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  Problem p = make_problem(ProblemId::not_checkpoint, {.path = path}, {}, std::string(kExpected));
  const Foreign foreign = foreign_of(store, path, entries, names);
  if (auto checkpoints = checkpoints_below(store, path); !checkpoints.empty()) {
    const std::vector<std::string> all = checkpoints;
    std::erase_if(checkpoints, [&](const std::string& c) { return is_unfinished_name(first_below(path, c)); });
    const bool are_unfinished = checkpoints.empty();
    if (are_unfinished) checkpoints = all;
    const auto others =
        std::ranges::stable_partition(checkpoints, [&](const std::string& c) { return c.find("optim", path.size()) == c.npos; });
    p.got = "a folder of checkpoints";
    const bool apart = !others.empty() && others.begin() == checkpoints.begin() + 1;  // accelerate saves a model and its optimizer apart
    p.hint = apart            ? "the model is in " + checkpoints.front() + ", its optimizer in " + some_of({others.begin(), others.end()})
             : are_unfinished ? "only a save that did not finish is in it, which opens where it is given itself: " + some_of(checkpoints)
                              : "give one of them: " + some_of(checkpoints);
    if (!apart && has_distinct_steps(store, path)) {
      p.remedy = Remedy::kOneOrLatest;
      p.names = std::move(checkpoints);
    }
  } else if (!foreign.what.empty()) {
    p.got = foreign.what;
    p.hint = foreign.hint;
    if (const auto states = states_without_zero(store, path); foreign.is_deepspeed && !states.empty())
      p.hint = states.size() == 1 ? "its model is in " + states[0]
               : is_of_layer(states[0].substr(states[0].rfind('/') + 1))
                   ? "its model is in these together, with files for layers or experts: " + some_of(states)
                   : "its model is in these, a part for each rank of tensor parallelism: " + some_of(states);
  } else if (may_be_one_nodes_part(names)) {
    p.got = ".distcp files but no .metadata";
    p.hint = "this may be one node's part: bring the files of all nodes together, or start the command on every node; " +
             std::string(kWithoutMetadata);
  } else if (has(kUnfinishedMetadata) || std::ranges::any_of(names, is_data_file)) {
    p.what = "unfinished";
    p.got = has(kUnfinishedMetadata) ? ".metadata.tmp but no .metadata" : ".distcp files but no .metadata";
    p.expected.clear();
    p.names = {folder_around(path)};  // where an earlier step may be
  } else if (has("snapshots") && has("blobs")) {
    p.got = "a model of the Hugging Face cache";
    p.hint = "give one of the folders in " + path + "/snapshots";
  } else if (has("sharded")) {
    p.got = "a folder whose consolidation did not finish";
    p.hint = "give " + path + "/sharded";
  } else if (!torch_files.empty()) {
    p.got = "a folder with torch.save files";
    p.hint = "give one of them: " + some_of(torch_files);
  } else {
    p.got = names.empty() ? "an empty folder" : "a folder with " + some_of(names);
  }
  throw Error(std::move(p));
}

}  // namespace

bool may_be_one_nodes_part(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, is_data_file) && std::ranges::none_of(names, [](const std::string& name) {
           return name == ".metadata" || name == kUnfinishedMetadata || rank_of_file(name) == 0u;
         });
}

void refuse(Found& found) {
  if (found.is_folder()) refuse_folder(found);
  const Foreign foreign = foreign_file(found.head());
  throw Error(with_hint(make_problem(ProblemId::not_checkpoint, {.path = found.path()},
                                     foreign.what.empty() ? "another kind of file" : std::string(foreign.what), std::string(kExpected)),
                        foreign.hint));
}

void merge_missing(std::vector<Problem>& findings) {
  std::map<std::string_view, Problem*> of_file;
  for (const bool is_missing : {false, true})
    for (Problem& p : findings)
      if (p.severity >= Severity::kDamage && (p.id == ProblemId::file_missing) == is_missing) of_file.try_emplace(p.place.path, &p);
  std::vector<bool> is_merged;
  for (Problem& p : findings) {
    Problem* const first = p.id == ProblemId::file_missing ? of_file.at(p.place.path) : &p;
    is_merged.push_back(first != &p);
    if (first != &p && !p.keys.empty()) first->keys = std::move(p.keys);
  }
  std::vector<Problem> rest;
  for (size_t n = 0; n < findings.size(); ++n)
    if (!is_merged[n]) rest.push_back(findings[n]);
  findings = std::move(rest);
}

OpenedCatalog open_rest(const std::string& folder, size_t count, const OpenWithout& open) {
  constexpr size_t kMost = 16;  // of a folder with more of them nothing is shown: each time all others are read again
  std::set<std::string> without;
  std::vector<Problem> damage;
  const auto give_up = [&] {
    damage.front().severity = Severity::kError;
    throw Error(damage.front());
  };
  for (;;) {
    try {
      OpenedCatalog opened = open(without);
      if (!damage.empty() && opened.catalog.order.empty()) give_up();
      opened.findings.insert(opened.findings.begin(), damage.begin(), damage.end());
      merge_missing(opened.findings);
      return opened;
    } catch (const Error& e) {
      const std::string& path = e.problem().place.path;
      const bool is_below = path.size() > folder.size() + 1 && path.starts_with(folder + "/");
      const auto broken = std::ranges::find(damage, path, [](const Problem& p) { return p.place.path; });
      if (broken != damage.end()) give_up();  // without it the others are nothing
      if (!is_below) damage.empty() ? throw : give_up();
      without.insert(path.substr(folder.size() + 1));
      damage.push_back(e.problem());
      damage.back().severity = Severity::kDamage;
      if (without.size() >= std::min(count, kMost)) give_up();
    }
  }
}

}  // namespace dcp
