#include "app/whole_steps.h"

#include <algorithm>
#include <span>

#include "app/small_file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "base/sums.h"
#include "catalog/data_files.h"
#include "format/json_text.h"

namespace dcp {
namespace {

constexpr std::string_view kName = ".dcpctl-whole", kSchema = "dcpctl.whole/1";
constexpr uint64_t kMaxBytes = 1 << 20;  // of 10,000 steps

// Machine failures of so small a matter are none; a signal is one.
template <class F>
void if_possible(F f) {
  try {
    f();
  } catch (const Error& e) {
    const ProblemClass c = class_of(e.problem().id);
    if (c == ProblemClass::kInterrupted || c == ProblemClass::kTerminated) throw;
  }
}

void list_files(Store& store, const std::string& folder, const std::string& below, unsigned levels, std::string& text) {
  for (const DirEntry& e : store.list(folder)) {
    const std::string path = folder + "/" + e.name;
    if (e.kind == FileKind::kDirectory && !e.link && levels > 0) list_files(store, path, below + e.name + "/", levels - 1, text);
    const std::optional<FileFacts> facts = store.facts(path);
    if (e.kind != FileKind::kRegular || !facts) continue;
    text += below + e.name + '\0';
    for (const uint64_t fact : {facts->bytes, facts->id.inode, static_cast<uint64_t>(facts->modified_ns)})
      text += std::to_string(fact) + '\0';
  }
}

}  // namespace

WholeSteps::WholeSteps(World& world, std::string run, const std::vector<std::string>& steps) : world_(world), run_(std::move(run)) {
  if_possible([&] { read(steps); });
}

void WholeSteps::read(const std::vector<std::string>& steps) {
  if (!world_.store.facts(run_ + "/" + std::string(kName))) return;
  const std::vector<std::byte> bytes = read_file_beneath(world_.store, run_, std::string(kName), FollowLinks::kCacheOnly, kMaxBytes);
  std::map<std::string, std::string> found;
  bool is_ours = false;
  walk_json(as_text(bytes), {}, {}, ProblemId::manifest_bad, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (v.kind != JsonValue::Kind::kText) return;
    is_ours |= keys.size() == 1 && keys[0] == "schema" && v.text == kSchema;
    if (keys.size() == 2 && keys[0] == "steps" && std::ranges::find(steps, keys[1]) != steps.end())
      found.insert_or_assign(keys[1], std::string(v.text));
  });
  if (is_ours) files_of_ = std::move(found);
}

bool WholeSteps::holds(const std::string& name, const std::string& files) const {
  const auto found = files_of_.find(name);
  return found != files_of_.end() && found->second == files;
}

void WholeSteps::add(const std::string& name, std::string files) {
  files_of_.insert_or_assign(name, std::move(files));
  if_possible([&] { write(); });
}

void WholeSteps::tidy() const {
  const std::string path = run_ + "/" + std::string(kName);
  if_possible([&] {
    if (world_.store.facts(beside(path, kPartial)) || world_.store.facts(beside(path, kLock))) write();
  });
}

void WholeSteps::write() const {
  std::string text;
  JsonWriter json([&](std::string_view part) { text += part; });
  json.begin_object().member("schema", kSchema).key("steps").begin_object();
  for (const auto& [name, files] : files_of_) json.member(name, files);
  json.end_object().end_object();
  json.finish();
  save_small_file(world_, run_ + "/" + std::string(kName), text, {.sync = false});
}

std::string files_of(Store& store, const std::string& step) {
  constexpr unsigned kLevels = 8;
  std::string text;
  list_files(store, step, "", kLevels, text);
  const Bytes bytes = as_bytes(text);
  return std::to_string(crc64_finish(crc64_raw(bytes), bytes.size()));
}

}  // namespace dcp
