#include "plan/assets.h"

#include <fnmatch.h>

#include <algorithm>

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
// Whatever their names begin with.
constexpr const char* kWeights[] = {"*.safetensors", "*.index.json", "*.bin", "*.pt",      "*.pth",   "*.ckpt",
                                    "*.gguf",        "*.onnx",       "*.h5",  "*.msgpack", "*.distcp"};

bool is_floating(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  const auto dtype = dtype_named(name);
  return dtype && facts_of(*dtype).kind == DTypeKind::kFloat;
}

}  // namespace

std::string with_dtype(std::string_view json, std::string_view dtype) {
  std::string out;
  std::string_view key;  // that a value follows
  size_t copied = 0;
  for (size_t at = 0; at < json.size();) {
    if (json[at] != '"') {
      if (json[at] == ',' || json[at] == '{' || json[at] == '[') key = {};
      ++at;
      continue;
    }
    size_t end = at + 1;
    while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
    if (end >= json.size()) break;
    const std::string_view text = json.substr(at + 1, end - at - 1);
    if ((key == "dtype" || key == "torch_dtype") && is_floating(text)) {
      out.append(json.substr(copied, at + 1 - copied)).append(dtype);
      copied = end;
    }
    const size_t next = std::min(json.find_first_not_of(" \t\r\n", end + 1), json.size());
    key = next < json.size() && json[next] == ':' ? text : std::string_view{};
    at = end + 1;
  }
  return out.append(json.substr(copied));
}

std::string with_architecture(std::string_view json, std::string_view name) {
  const std::string value = "[\n    \"" + std::string(name) + "\"\n  ]";
  const size_t open = json.find('{');
  size_t depth = 0, begin = 0;  // `begin`: of the member's value, once it is found
  std::string_view last;        // the text before where we are
  for (size_t at = open; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"') {
      size_t end = at + 1;
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      last = json.substr(at + 1, std::min(end, json.size()) - at - 1);
      at = end;
    } else if (c == ':' && depth == 1 && last == "architectures" && begin == 0) {
      begin = std::min(json.find_first_not_of(" \t\r\n", at + 1), json.size());
    } else if (depth == 1 && begin > 0 && (c == ',' || c == '}')) {
      const size_t end = json.find_last_not_of(" \t\r\n", at - 1) + 1;
      return std::string(json.substr(0, begin)) + value + std::string(json.substr(end));
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  const bool is_empty = json.find_first_not_of(" \t\r\n", open + 1) == json.rfind('}');
  return std::string(json.substr(0, open + 1)) + "\n  \"architectures\": " + value + (is_empty ? "\n" : ",") +
         std::string(json.substr(open + 1));
}

bool is_asset(std::string_view name) {
  const std::string text(name);
  const auto matches = [&](const char* pattern) { return fnmatch(pattern, text.c_str(), FNM_PERIOD) == 0; };
  return std::ranges::any_of(kAssets, matches) && std::ranges::none_of(kWeights, matches);
}

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
