#include "plan/assets.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/checked.h"

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

}  // namespace

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
