#include "in_place.h"

#include <algorithm>
#include <set>

namespace dcp::fault {
namespace {

bool is_ours(const std::string& name) { return name.find(".dcpctl-") != std::string::npos; }
bool is_note(const std::string& name) { return name.ends_with("/.dcpctl-whole"); }  // of what was read
bool is_kept(const std::string& name) { return name.find(".metadata.orig") != std::string::npos; }

std::string step_of(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }

// All files that one state of the step has are there with their bytes. Others may lie beside them: old data that is to go, new data that is
// not named yet.
bool holds(const Files& now, const Files& state, const std::string& step) {
  return std::ranges::all_of(state, [&](const auto& f) {
    if (step_of(f.first) != step || f.first == step || is_kept(f.first)) return true;
    const auto found = now.find(f.first);
    return found != now.end() && found->second == f.second;
  });
}

std::string content(const Files& files, const std::string& name) {
  const auto found = files.find(name);
  return found == files.end() ? "" : found->second;
}

}  // namespace

std::vector<Case> in_place_cases(const std::filesystem::path& data) {
  Files run, step;
  for (const auto& [name, bytes] : read_files(data / "titan_like" / "ckpt")) {
    for (const char* number : {"1", "2", "3"}) run[std::string("run/step-") + number + "/" + name] = bytes;
    step["step/" + name] = bytes;
  }
  run.erase("run/step-2/.metadata");
  return {{.name = "steps deleted",
           .arguments = {"prune", "run", "--keep-latest", "1", "--partial", "--grace", "0", "--yes"},
           .outputs = {"run"},
           .before = run},
          {.name = "an optimizer dropped",
           .arguments = {"prune", "run", "--keep-latest", "1", "--drop-optimizer", "--yes"},
           .outputs = {"run"},
           .before = run},
          {.name = "an edit in place",
           .arguments = {"edit", "step", "--in-place", "--rename", "^(x\\.)?=>x."},
           .outputs = {"step"},
           .before = step},
          {.name = "an edit in place, nothing kept",
           .arguments = {"edit", "step", "--in-place", "--no-orig", "--exclude", "net1*", "--allow-unmatched"},
           .outputs = {"step"},
           .before = step}};
}

std::string steps_fault(const Files& before, const Files& complete, const Files& now) {
  std::set<std::string> steps;
  for (const auto& [name, bytes] : before) steps.insert(step_of(name));
  for (const std::string& step : steps) {
    const std::string metadata = content(now, step + ".metadata");
    if (metadata.empty()) {
      if (!content(complete, step + ".metadata").empty()) return step + " has no metadata";
      continue;  // nobody takes it for complete
    }
    const bool old_one = metadata == content(before, step + ".metadata"), new_one = metadata == content(complete, step + ".metadata");
    if (!old_one && !new_one) return step + ".metadata is neither the old nor the new one";
    if (!(old_one && holds(now, before, step)) && !(new_one && holds(now, complete, step))) return step + " lacks what its metadata names";
  }
  for (const auto& [name, bytes] : now)
    if (is_kept(name) && bytes != content(before, step_of(name) + ".metadata") && bytes != content(complete, step_of(name) + ".metadata"))
      return name + " is no metadata that was there";
  return "";
}

std::string repaired_fault(const Files& before, const Files& complete, const Files& now) {
  for (const auto& [name, bytes] : now)
    if (is_ours(name) && !is_note(name)) return "left behind: " + name;
  Files rest = now, wanted = complete;
  for (Files* files : {&rest, &wanted})
    std::erase_if(*files, [](const auto& f) { return is_kept(f.first) || is_note(f.first) || f.first.ends_with('/'); });
  if (std::string fault = steps_fault(before, complete, now); !fault.empty()) return fault;
  for (const auto& [name, bytes] : rest)
    if (!wanted.contains(name)) return name + " should not be there";
  for (const auto& [name, bytes] : wanted)
    if (content(rest, name) != bytes) return name + " is not what it should be";
  return "";
}

}  // namespace dcp::fault
