#include "inputs/step_notes.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/file_names.h"
#include "base/json.h"
#include "base/sums.h"
#include "catalog/data_files.h"
#include "format/json_text.h"

namespace dcp {
namespace {

constexpr std::string_view kSchema = "dcpctl.whole/1";
constexpr uint64_t kMaxBytes = 4 << 20;  // of 10,000 steps

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

StepNotes parse(std::string_view text) {
  StepNotes found;
  bool is_ours = false;
  walk_json(text, {}, {}, ProblemId::manifest_bad, [&](std::span<const std::string> keys, const JsonValue& v) {
    if (v.kind != JsonValue::Kind::kText) return;
    is_ours |= keys.size() == 1 && keys[0] == "schema" && v.text == kSchema;
    if (keys.size() == 2 && keys[0] == "steps") found.whole.insert_or_assign(keys[1], std::string(v.text));
    if (keys.size() != 3 || keys[0] != "damaged") return;
    if (keys[2] == "files") found.damaged[keys[1]].files = v.text;
    if (keys[2] == "what") found.damaged[keys[1]].what = v.text;
  });
  return is_ours ? found : StepNotes();
}

}  // namespace

StepNotes read_step_notes(Store& store, const std::string& run) {
  try {
    if (!store.facts(run + "/" + std::string(kStepNotes))) return {};
    return parse(as_text(read_file_beneath(store, run, std::string(kStepNotes), FollowLinks::kCacheOnly, kMaxBytes)));
  } catch (const Error& e) {
    const ProblemClass c = class_of(e.problem().id);
    if (c == ProblemClass::kInterrupted || c == ProblemClass::kTerminated) throw;
    return {};
  }
}

std::string text_of(const StepNotes& notes) {
  return json_document([&](JsonWriter& json) {
    json.member("schema", kSchema).key("steps").begin_object();
    for (const auto& [name, files] : notes.whole) json.member(name, files);
    json.end_object().key("damaged").begin_object();
    for (const auto& [name, note] : notes.damaged)
      json.key(name).begin_object().member("files", note.files).member("what", note.what).end_object();
    json.end_object();
  });
}

std::string files_of(Store& store, const std::string& step) {
  constexpr unsigned kLevels = 8;
  std::string text;
  list_files(store, step, "", kLevels, text);
  const Bytes bytes = as_bytes(text);
  return std::to_string(crc64_finish(crc64_raw(bytes), bytes.size()));
}

std::optional<Problem> noted_damage(Store& store, const StepNotes& notes, const std::string& step) {
  const auto note = notes.damaged.find(split_path(step).name);
  if (note == notes.damaged.end() || note->second.files != files_of(store, step)) return std::nullopt;
  return make_finding(ProblemId::damage_noted, Severity::kDamage, {.path = step}, note->second.what);
}

}  // namespace dcp
