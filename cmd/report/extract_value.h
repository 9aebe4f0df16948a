// What extract does with a key: a file of its elements; text, JSON or a stream of them; statistics.
#pragma once

#include <optional>
#include <string>

#include "app/extract.h"
#include "line/option_values.h"
#include "request/dtype_flags.h"
#include "request/source.h"

namespace dcp::cmd {

enum class ExtractForm : uint8_t { kDefault, kNpy, kNpz, kTorch, kSafetensors, kRaw, kText, kJson };

struct ExtractOptions {
  SourceFlags source;
  std::string key, out, slice, dtype, max_memory;
  std::vector<std::string> more;  // further keys, dicts and globs
  ExtractForm form = ExtractForm::kDefault;
  bool model_only = false;  // of a dict, a glob or several keys
  bool stats = false, raw = false, force = false, no_verify = false, no_sync = false;
  unsigned threads = 0;

  bool to_file() const { return !out.empty() && out != "-"; }
  bool is_text() const { return form == ExtractForm::kText || form == ExtractForm::kJson; }
  // Whether the form can hold several keys, and nothing is asked for that is of one tensor.
  bool may_be_several() const { return form != ExtractForm::kNpy && form != ExtractForm::kRaw && slice.empty() && !key.empty(); }
  std::optional<Subscript> part() const { return slice.empty() ? std::nullopt : std::optional(Subscript::parse(slice)); }
  // KEY and the further ones.
  SelectOptions select(KeyRule::Kind kind) const {
    SelectOptions options{.rules = {{kind, key}}, .model_only = model_only && kind == KeyRule::Kind::kInclude};
    for (const std::string& k : more) options.rules.push_back({kind, k});
    return options;
  }
  // Only the one key is selected.
  DtypeOptions dtypes() const {
    DtypeOptions d{.scope = DtypeScope::kAll, .raw = raw};
    if (!dtype.empty()) d.rules.push_back({"*", parse_dtype(dtype)});
    return d;
  }
  ReadRequest read() const { return {.source = source.request(), .max_memory = reading_cap(max_memory), .threads = threads}; }
};

// Writes a file of elements, by the same path that writes models. Where there is no such key, the keys below it, or those that match it.
int extract_file(const ExtractOptions& o, Context& context);
// Prints the value, or those of the keys below it, or writes a small file; returns its report, as extract_stats does.
std::string extract_value(const ExtractOptions& o, Context& context);
std::string extract_stats(const ExtractOptions& o, Context& context);

}  // namespace dcp::cmd
