// config.json as a map sees it: values by path, such as text_config.num_attention_heads, each with its origin.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"

namespace dcp::maps {

struct Condition;
struct ModelMap;
struct Setting;

class Config {
 public:
  Config() = default;
  // Throws map_config for anything but a JSON object with distinct keys, over_limit if it is too large or nested too deep.
  static Config read(std::string_view json, std::string path, const Limits& limits);

  // Overrides a key, as a setting does.
  void set(const Setting& setting);

  // What the object at `path` says, and what only the whole says. Whether embeddings are tied is the whole's, if it says so.
  Config within(std::string_view path) const;

  bool is_given() const { return !path_.empty(); }
  std::string model_type() const;
  std::vector<std::string> model_types() const;  // of the whole, and of all models in it
  std::string architecture() const;              // the first of `architectures`, or ""
  bool has(std::string_view path) const;         // and not null
  bool is_true(std::string_view path) const;
  // Throws map_config for a value that is not a natural number. nullopt if it is absent or null.
  std::optional<uint64_t> number(std::string_view path) const;
  // "num_attention_heads of base/config.json", or "as set".
  std::string source_of(std::string_view path) const;
  const std::string& path() const { return path_; }

 private:
  std::string text(std::string_view path) const;
  enum class Kind : uint8_t { kNull, kEmpty, kFull, kNumber, kText };  // kEmpty: false, {}, []; kFull: anything else that counts as true
  struct Value {
    Kind kind = Kind::kNull;
    uint64_t number = 0;
    std::string text;  // kText, or the first text of an array
    bool is_set = false;
  };
  std::map<std::string, Value, std::less<>> values_;
  std::string path_;
};

// What settings and config.json mean to a map: conditions of its lines, and overrides of config.json.

// Throws map_setting for a setting that is neither a size, an axis, a choice or a name variable of the map, nor a key of config.json that
// it uses; the latter are applied to `config`.
void apply_settings(const ModelMap& map, const std::vector<Setting>& settings, Config& config);

// Whether the map uses a setting of this name.
bool asks_for(const ModelMap& map, const std::string& name);

bool holds(const std::vector<Condition>& conditions, const Config& config);

}  // namespace dcp::maps
