#include "world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "line/program.h"

namespace dcp::fault {
namespace {

namespace fs = std::filesystem;

bool is_ours(const std::string& name) { return name.find(".dcpctl-") != std::string::npos; }
bool is_lock(const std::string& name) { return name.ends_with(".dcpctl-lock"); }

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string first_difference(const Files& a, const Files& b) {
  for (const auto& [name, content] : a)
    if (!b.contains(name)) return name + " is not there";
    else if (b.at(name) != content) return name + " has other bytes";
  for (const auto& [name, content] : b)
    if (!a.contains(name)) return name + " should not be there";
  return "nothing";
}

}  // namespace

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = {
      {.name = "a .pt file", .arguments = {"consolidate", "ckpt", "out.pt"}, .outputs = {"out.pt"}},
      {.name = "a .safetensors file replaced, read back",
       .arguments = {"consolidate", "ckpt", "out.safetensors", "--force", "--verify-after"},
       .outputs = {"out.safetensors"},
       .before = {{"out.safetensors", "older"}}},
      {.name = "a folder of shards", .arguments = {"consolidate", "ckpt", "out", "--max-shard-size", "600"}, .outputs = {"out"}},
      {.name = "an empty folder filled",
       .arguments = {"reshard", "ckpt", "out", "--world-size", "3"},
       .outputs = {"out"},
       .before = {{"out/", ""}}},
      {.name = "a folder replaced",
       .arguments = {"cast", "ckpt", "out", "--dtype", "bf16", "--force"},
       .outputs = {"out"},
       .before = {{"out/", ""}, {"out/.metadata", "older"}, {"out/old.distcp", "older"}}},
      {.name = "a .pt file to a DCP folder", .arguments = {"convert", "model.pt", "out", "--world-size", "2"}, .outputs = {"out"}},
      {.name = "a folder of torch_checkpointing",
       .arguments = {"reshard", "ckpt", "out", "--world-size", "2", "--to", "torch_checkpointing"},
       .outputs = {"out"}},
      {.name = "an edit", .arguments = {"edit", "ckpt", "out", "--rename", "^=>x."}, .outputs = {"out"}},
      {.name = "a tensor as an array", .arguments = {"extract", "ckpt", "w", "-o", "out.npy"}, .outputs = {"out.npy"}},
      {.name = "a manifest", .arguments = {"verify", "ckpt", "--manifest", "m.json", "--progress", "json"}, .outputs = {"m.json"}},
  };
  return cases;
}

const std::vector<Case>& reading_cases() {
  static const std::vector<Case> cases = {
      {.name = "inspect", .arguments = {"inspect", "ckpt", "--keys"}, .outputs = {}, .threads = false},
      {.name = "inspect as JSON", .arguments = {"inspect", "ckpt", "--json"}, .outputs = {}, .threads = false},
      {.name = "verify as JSON", .arguments = {"verify", "ckpt", "--json"}, .outputs = {}},
      {.name = "a plan",
       .arguments = {"reshard", "ckpt", "out", "--mesh", "2x2", "--placements", "scalar=replicate,replicate", "--placements",
                     "*=shard(0),replicate", "--dry-run", "--json"},
       .outputs = {}},
  };
  return cases;
}

std::vector<Case> answering_cases(const fs::path& data) {
  Files same, other, run;
  for (const auto& [name, bytes] : read_files(data / "torch21" / "ckpt")) {
    same["same/" + name] = bytes;
    run["run/step-1/" + name] = run["run/step-2/" + name] = bytes;
  }
  for (const auto& [name, bytes] : read_files(data / "titan_like" / "ckpt")) other["other/" + name] = bytes;
  return {{.name = "diff of equals", .arguments = {"diff", "ckpt", "same"}, .outputs = {}, .before = same},
          {.name = "diff of others", .arguments = {"diff", "ckpt", "other"}, .outputs = {}, .before = other},
          {.name = "diff of keys", .arguments = {"diff", "ckpt", "same", "--keys-only", "--json"}, .outputs = {}, .before = same},
          {.name = "an object printed", .arguments = {"extract", "ckpt", "lr_scheduler"}, .outputs = {}},
          {.name = "statistics", .arguments = {"inspect", "ckpt", "--stats", "*"}, .outputs = {}},
          {.name = "steps listed", .arguments = {"list", "run"}, .outputs = {}, .before = run, .threads = false},
          {.name = "the last step", .arguments = {"list", "run", "--latest"}, .outputs = {}, .before = run, .threads = false}};
}

Files read_files(const fs::path& folder) {
  Files files;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = fs::relative(it->path(), folder).string();
    if (it->is_directory()) files[name + "/"] = "";
    else files[name] = slurp(it->path());
  }
  return files;
}

void write_files(const fs::path& folder, const Files& files) {
  for (const auto& [name, content] : files) {
    const fs::path path = folder / name;
    fs::create_directories(name.ends_with('/') ? path : path.parent_path());
    if (!name.ends_with('/')) std::ofstream(path, std::ios::binary) << content;
  }
}

World::World(const fs::path& data, fs::path scratch, const Case& c) : case_(c), data_(data), folder_(std::move(scratch)) {
  for (const auto& [name, content] : read_files(data_ / "torch21" / "ckpt")) source_["ckpt/" + name] = content;
  source_["ckpt/"] = "";
  if (c.arguments[1] == "model.pt") {
    reset();
    const Case make{.name = "", .arguments = {"consolidate", "ckpt", "model.pt"}, .outputs = {}};
    World maker(data, folder_, make);
    if (maker.run().exit != 0) throw std::runtime_error("the source cannot be made");
    source_ = {{"model.pt", slurp(folder_ / "model.pt")}};
  }
  if (*c.name != '\0') measure();  // else the source of another
}

void World::measure() {
  reset();
  auto* calls = static_cast<uint64_t*>(::mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const Outcome o = run({.after = [calls](FaultIo& io) { *calls = io.calls(); }});
  calls_ = *calls;
  ::munmap(calls, sizeof(uint64_t));
  exit_ = o.exit;
  if (exit_ != 0 && !case_.outputs.empty()) throw std::runtime_error(std::string(case_.name) + ": an undisturbed run fails: " + o.said);
  complete_ = beside();
}

void World::reset() {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  write_files(folder_, source_);
  write_files(folder_, case_.before);
}

void World::put(const Files& files) {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  write_files(folder_, source_);
  write_files(folder_, files);
}

pid_t World::start(const Run& run) const {
  std::vector<std::string> words{"dcpctl"};
  words.insert(words.end(), case_.arguments.begin(), case_.arguments.end());
  words.insert(words.end(), {"--sandbox", "off"});  // it would keep the tests from their own files
  if (case_.threads) words.insert(words.end(), {"-j", std::to_string(run.threads)});
  if (run.force && std::ranges::find(words, "--force") == words.end()) words.push_back("--force");
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
  ::dup2(::open(said().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), STDERR_FILENO);
  if (::chdir(folder_.c_str()) != 0) std::_Exit(99);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const auto io = make_posix_io();
  FaultIo fault(*io);
  if (run.before) run.before(fault);
  const int exit = cmd::run_program(fault, static_cast<int>(words.size()), argv.data());
  if (run.after) run.after(fault);
  std::_Exit(exit);
}

Outcome World::wait(pid_t child) const {
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome o;
  if (WIFEXITED(status)) o.exit = WEXITSTATUS(status);
  else o.signal = WTERMSIG(status);
  o.said = slurp(said());
  fs::remove(said());
  return o;
}

Files World::beside() const {
  Files files = read_files(folder_);
  std::erase_if(files, [&](const auto& f) { return source_.contains(f.first); });
  return files;
}

bool World::committed() const {
  Files seen = beside();
  std::erase_if(seen, [](const auto& f) { return is_ours(f.first); });
  return seen == complete_;
}

std::string World::whole_or_absent(Left left) const {
  const Files all = read_files(folder_);
  Files seen;
  for (const auto& [name, content] : source_)
    if (!all.contains(name) || all.at(name) != content) return "the source has changed: " + name;
  bool aside = false;  // the old output, under a name of ours
  for (const auto& [name, content] : all) {
    if (source_.contains(name)) continue;
    aside = aside || name.find(".dcpctl-old/") != std::string::npos;
    if (!is_ours(name)) {
      seen[name] = content;
      continue;
    }
    if (left == Left::kNothing || (left == Left::kLock && !is_lock(name))) return "left behind: " + name;
  }
  if (seen == complete_ || seen == case_.before) return "";
  if (left == Left::kAnything) {
    // A folder has one moment in which the old one lies aside; one that is filled in place lacks its last file until all are there.
    if (aside && seen.empty()) return "";
    const bool in_place = case_.before == Files{{"out/", ""}};
    if (in_place && !seen.contains("out/.metadata") &&
        std::ranges::all_of(seen, [&](const auto& f) { return complete_.contains(f.first) && complete_.at(f.first) == f.second; }))
      return "";
  }
  return "neither the old nor the new: " + first_difference(complete_, seen);
}

std::string World::settled(const Outcome& o, bool may_be_complete) const {
  if (o.exit < 0) return "ended by signal " + std::to_string(o.signal) + ": " + o.said;
  Files seen = beside();
  std::erase_if(seen, [](const auto& f) { return is_ours(f.first); });
  if (o.exit == 0) return seen == complete_ ? "" : "exit 0 without the output: " + first_difference(complete_, seen);
  if (o.said.empty()) return "exit " + std::to_string(o.exit) + " silently";
  if (seen == case_.before || (may_be_complete && seen == complete_)) return "";
  return "exit " + std::to_string(o.exit) + ", and " + first_difference(case_.before, seen) + ": " + o.said;
}

std::string World::repaired() {
  const Files left = beside();
  // A folder that was being filled in place and has some of its files already is replaced as a whole, leftovers and all.
  const bool begun =
      std::ranges::any_of(left, [](const auto& f) { return f.first.starts_with("out/") && f.first != "out/" && !is_ours(f.first); });
  const bool partial = std::ranges::any_of(
      left, [&](const auto& f) { return is_ours(f.first) && !is_lock(f.first) && !(begun && f.first.starts_with("out/")); });
  const Outcome o = run({.force = true});
  if (o.exit != 0) return "the next run fails with " + std::to_string(o.exit) + ": " + o.said;
  if (const Files seen = beside(); seen != complete_) return "after the next run: " + first_difference(complete_, seen);
  if (partial && o.said.find("interrupted run") == std::string::npos) return "the next run does not say what it found: " + o.said;
  return "";
}

}  // namespace dcp::fault
