#include "request/dtype_flags.h"

#include "base/text.h"
#include "line/command.h"
#include "line/option_values.h"

namespace dcp::cmd {
namespace {

DtypeRule parse_rule(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) fail(ProblemId::usage, {}, "--dtype-rule '" + text + "'", "GLOB=DTYPE or GLOB=keep");
  const std::string dtype = text.substr(at + 1);
  return {text.substr(0, at), dtype == "keep" ? std::nullopt : std::optional(parse_dtype(dtype))};
}

}  // namespace

DtypeOptions DtypeFlags::options() const {
  DtypeOptions o{.scope = scope == "all" ? DtypeScope::kAll : DtypeScope::kModel, .raw = raw};
  if (!dtype.empty()) o.dtype = parse_dtype(dtype);
  for (const std::string& text : rules) o.rules.push_back(parse_rule(text));
  const char* unmatched = scope == "all" && dtype.empty() ? "--dtype-scope"
                          : o.any()                       ? nullptr
                          : raw                           ? "--raw"
                          : strict                        ? "--strict-cast"
                          : fp8_overflow == "nan"         ? "--fp8-overflow"
                                                          : nullptr;
  if (unmatched != nullptr) fail(ProblemId::usage, {}, std::string(unmatched) + " without --dtype", "--dtype D");
  return o;
}

void add_dtypes(Command& c, DtypeFlags& flags) {
  const std::string group = "Dtypes";
  c.option("--dtype", flags.dtype, "D",
           "Cast the model's floating-point tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other "
           "state "
           "stays")
      .offers(Offer::kDtypes)
      .in(group);
  c.option("--dtype-scope", flags.scope, "SCOPE", "What --dtype casts: model (default), or all, optimizer and other state included")
      .one_of({"model", "all"})
      .in(group);
  c.option("--dtype-rule", flags.rules, "GLOB=D",
           "Floating-point tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first "
           "match wins, "
           "before --dtype")
      .offers(Offer::kDtypeRules)
      .in(group);
  c.flag("--raw", flags.raw, "Also cast quantized tensors, ignoring their scales: packed weights, and float8 that has a scale").in(group);
}

void add_casts(Command& c, DtypeFlags& flags) {
  add_dtypes(c, flags);
  const std::string group = "Dtypes";
  c.option("--fp8-overflow", flags.fp8_overflow, "RESULT",
           "What float8_e4m3fn makes of numbers beyond 448: saturate (default, as torch 2.15) or nan (as torch 2.11)")
      .one_of({"saturate", "nan"})
      .in(group);
  c.flag("--strict-cast", flags.strict, "Exit 1 and write nothing if a value is too large for its new dtype").in(group);
}

std::string root_text(const std::string& path) { return path.empty() ? "(top level)" : path; }

std::string cast_text(const CastSummary& casts) {
  std::vector<std::string> models;
  for (const std::string& path : casts.models) models.push_back(root_text(path));
  const std::string of = models.empty() ? "" : " of several models (" + list_of(models) + ")";
  return "cast " + counted(casts.tensors, "tensor") + of + ": " + human_bytes(casts.bytes_before) + " become " +
         human_bytes(casts.bytes_after);
}

}  // namespace dcp::cmd
