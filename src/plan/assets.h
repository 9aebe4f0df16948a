// Small files beside the weights of a Hugging Face model: configuration, tokenizer, generation settings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace dcp {

// Whether a file of this name belongs to a model without being weights: config.json, generation_config.json, tokenizer*,
// special_tokens_map.json, added_tokens.json, vocab*, merges.txt, *.model, *.tiktoken, chat_template*, *preprocessor_config.json,
// processor_config.json, LICENSE*, NOTICE*. Not README.md, which describes another file's weights, and no code.
bool is_asset(std::string_view name);

// Names that assets usually have: what is asked for where nothing can be listed.
std::span<const char* const> usual_assets();

// Whether the asset prepares other inputs than text: a text model has none of these.
bool is_processor(std::string_view name);

// A config.json with "dtype" and "torch_dtype" set to another floating dtype, otherwise unchanged. Text that is not JSON is returned as it
// is.
std::string with_dtype(std::string_view json, std::string_view dtype);

// A config.json in which "architectures" is this class alone; otherwise unchanged. The text must be a JSON object.
std::string with_architecture(std::string_view json, std::string_view name);

// A config.json in which this member is a number, a truth value or a text; otherwise unchanged. The text must be a JSON object.
std::string with_setting(std::string_view json, std::string_view name, std::string_view value);

// The config.json of the text model alone, from that of a model of images: its "text_config", with the dtype of the whole, and whether the
// whole's embeddings are tied. The text must be a JSON object with a "text_config" that is one.
std::string text_part(std::string_view json);

struct Asset {
  std::string name;
  std::string bytes;
};

// Adds the assets to the plan of a folder, before its last file, which marks the folder as complete. No asset may have the name of a
// planned file.
void add_assets(Plan& plan, std::vector<Asset> assets);

}  // namespace dcp
