#include "plan/assets.h"

#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "format/dtype.h"

namespace dcp {
namespace {

constexpr const char* kAssets[] = {"config.json",
                                   "generation_config.json",
                                   "tokenizer*",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "vocab*",
                                   "merges.txt",
                                   "*.model",
                                   "*.tiktoken",
                                   "chat_template*",
                                   "*preprocessor_config.json",
                                   "processor_config.json",
                                   "LICENSE*",
                                   "NOTICE*"};
constexpr const char* kUsual[] = {"config.json",
                                  "generation_config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "tokenizer.model",
                                  "special_tokens_map.json",
                                  "added_tokens.json",
                                  "vocab.json",
                                  "vocab.txt",
                                  "merges.txt",
                                  "chat_template.jinja",
                                  "chat_template.json",
                                  "preprocessor_config.json",
                                  "processor_config.json",
                                  "LICENSE"};
// Names of weights, whatever an asset's name may begin with.
constexpr const char* kWeights[] = {"*.safetensors", "*.index.json", "*.bin", "*.pt",      "*.pth",   "*.ckpt",
                                    "*.gguf",        "*.onnx",       "*.h5",  "*.msgpack", "*.distcp"};

constexpr const char* kSpace = " \t\r\n";

bool is_floating(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  const auto dtype = dtype_named(name);
  return dtype && facts_of(*dtype).kind == DTypeKind::kFloat;
}

// A member of an object; its value lies from `begin` to `end`.
struct Member {
  std::string_view key;
  size_t depth = 0;  // 1: of the outermost object
  size_t begin = 0, end = 0;
};

// In the order of their keys in the text. An unfinished member does not count.
std::vector<Member> members_of(std::string_view json) {
  std::vector<Member> all;
  std::vector<size_t> open{SIZE_MAX};  // for each depth, the member whose value has begun
  std::string_view text;               // the last one
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"') {
      size_t end = at + 1;
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      text = json.substr(at + 1, std::min(end, json.size()) - at - 1);
      at = end;
    } else if (c == ':') {
      open.back() = all.size();
      all.push_back({.key = text, .depth = open.size() - 1, .begin = std::min(json.find_first_not_of(kSpace, at + 1), json.size())});
    } else if (c == '{' || c == '[') {
      open.push_back(SIZE_MAX);
    } else if (c == ',' || c == '}' || c == ']') {
      if (open.back() != SIZE_MAX) all[open.back()].end = json.find_last_not_of(kSpace, at - 1) + 1;
      open.back() = SIZE_MAX;
      if (c != ',' && open.size() > 1) open.pop_back();
    }
  }
  std::erase_if(all, [](const Member& m) { return m.end <= m.begin; });
  return all;
}

const Member* top_level(const std::vector<Member>& all, std::string_view key) {
  const auto it = std::ranges::find_if(all, [&](const Member& m) { return m.depth == 1 && m.key == key; });
  return it == all.end() ? nullptr : &*it;
}

// The text of an object with this value for a member. A new member is put first.
std::string with_member(std::string_view json, std::string_view key, std::string_view value) {
  const std::vector<Member> all = members_of(json);
  if (const Member* const m = top_level(all, key)) return std::string(json.substr(0, m->begin)).append(value).append(json.substr(m->end));
  const size_t after = json.find('{') + 1;
  return std::string(json.substr(0, after)) + "\n  \"" + std::string(key) + "\": " + std::string(value) + (all.empty() ? "\n" : ",") +
         std::string(json.substr(after));
}

bool is_text(std::string_view value) { return value.size() > 1 && value.front() == '"' && value.back() == '"'; }

// A value as it would be indented outside its object.
std::string dedented(std::string_view value) {
  std::string out;
  for (size_t at = 0; at < value.size(); ++at) {
    out += value[at];
    if (value.substr(at).starts_with("\n  ")) at += 2;
  }
  return out;
}

}  // namespace

std::string with_dtype(std::string_view json, std::string_view dtype) {
  std::string out;
  size_t copied = 0;
  for (const Member& m : members_of(json)) {
    const std::string_view value = json.substr(m.begin, m.end - m.begin);
    if ((m.key != "dtype" && m.key != "torch_dtype") || !is_text(value) || !is_floating(value.substr(1, value.size() - 2))) continue;
    out.append(json.substr(copied, m.begin + 1 - copied)).append(dtype);
    copied = m.end - 1;
  }
  return out.append(json.substr(copied));
}

std::string with_architecture(std::string_view json, std::string_view name) {
  return with_member(json, "architectures", "[\n    \"" + std::string(name) + "\"\n  ]");
}

std::string with_setting(std::string_view json, std::string_view name, std::string_view value) {
  const bool is_bare = nlohmann::json::accept(value);
  return with_member(json, name, is_bare ? std::string(value) : nlohmann::json(value).dump());
}

std::string text_part(std::string_view json) {
  // Members that any model's configuration may have are taken from the whole if its text part lacks them. Whether embeddings are tied is
  // always the whole's.
  constexpr std::string_view kOfTheWhole[] = {"transformers_version", "torch_dtype", "dtype", "tie_word_embeddings"};
  const std::vector<Member> all = members_of(json);
  const Member* const text = top_level(all, "text_config");
  std::string part = dedented(json.substr(text->begin, text->end - text->begin)) + "\n";
  for (const std::string_view key : kOfTheWhole)
    if (const Member* const m = top_level(all, key)) {
      const std::string_view value = json.substr(m->begin, m->end - m->begin);
      const bool is_of_whole = key == "tie_word_embeddings" && value != "null";
      if (is_of_whole || !top_level(members_of(part), key)) part = with_member(part, key, value);
    }
  return part;
}

bool is_processor(std::string_view name) { return name.ends_with("processor_config.json"); }

bool is_asset(std::string_view name) {
  const std::string text(name);
  const auto matches = [&](const char* pattern) { return fnmatch(pattern, text.c_str(), FNM_PERIOD) == 0; };
  return std::ranges::any_of(kAssets, matches) && std::ranges::none_of(kWeights, matches);
}

std::span<const char* const> usual_assets() { return kUsual; }

void add_assets(Plan& plan, std::vector<Asset> assets) {
  const auto last = narrow<uint32_t>(plan.files.size() - 1);
  for (Literal& l : plan.literals)
    if (l.file == last) l.file += narrow<uint32_t>(assets.size());
  OutputFile index = std::move(plan.files.back());
  plan.files.pop_back();
  for (Asset& a : assets) {
    plan.bytes_to_write += a.bytes.size();
    plan.literals.push_back({.file = narrow<uint32_t>(plan.files.size()), .bytes = std::move(a.bytes)});
    plan.files.push_back({.name = std::move(a.name), .bytes = plan.literals.back().bytes.size(), .archive = std::nullopt, .payloads = {}});
  }
  plan.files.push_back(std::move(index));
}

}  // namespace dcp
