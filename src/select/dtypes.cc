#include "select/dtypes.h"

#include <algorithm>
#include <set>

#include "select/globs.h"
#include "select/quantized.h"
#include "select/select.h"

namespace dcp {
namespace {

constexpr std::string_view kScaleEndings[] = {"_scale", "_scale_inv", "_scales", "_scale_2"};

bool is_float8(DType dtype) { return facts_of(dtype).kind == DTypeKind::kFloat && bytes_of(dtype) == 1; }

bool is_scale(std::string_view key) {
  return std::ranges::any_of(kScaleEndings, [&](std::string_view ending) { return key.ends_with(ending); });
}

// The first that matches; null if none does.
const DtypeRule* rule_for(const DtypeOptions& options, std::string_view key) {
  const auto rule = std::ranges::find_if(options.rules, [&](const DtypeRule& r) { return glob_matches(r.glob, key); });
  return rule == options.rules.end() ? nullptr : &*rule;
}

class Chooser {
 public:
  Chooser(const Catalog& catalog, const DtypeOptions& options, const TrainingState& state, CastSummary& summary)
      : catalog_(catalog), options_(options), state_(state), summary_(summary), used_(options.rules.size()) {}

  DType choose(const Entry& e) {
    const Tensor& t = catalog_.tensors[e.tensor()];
    if (!t.dtype_known) {
      if (!t.strided && options_.any_tensor && catalog_.traits().in_torch_files) refuse_not_strided(e, t);
      return t.dtype;
    }
    if (!is_cast_target(t.dtype)) {
      if (facts_of(t.dtype).kind == DTypeKind::kQuantized) refuse_quantized(e, t);
      return t.dtype;
    }
    const DType wanted = wanted_for(e, t).value_or(t.dtype);
    if (wanted == t.dtype) return wanted;
    if (is_float8(t.dtype) && !options_.raw) refuse_scaled(t);
    ++summary_.tensors;
    // Who casts whatever it is has not asked what is model.
    if (!state_.models.empty() && state_.is_model(e.ref)) models_.insert(state_.model_of(e.ref).path);
    summary_.bytes_before += catalog_.tensor_bytes(t);
    summary_.bytes_after += catalog_.elements(t) * bytes_of(wanted);
    return wanted;
  }

  // An object stays as it is, also without a rule that says so.
  void object(const Entry& e) {
    if (const DtypeRule* rule = rule_for(options_, e.key); rule != nullptr && !rule->dtype) used_rule(e);
  }

  void end(const std::vector<DtypeRule>& as_given) {
    for (size_t r = 0; r < used_.size(); ++r)
      if (!used_[r]) summary_.unmatched_rules.push_back(as_given[r].glob);
    if (models_.size() > 1) summary_.models.assign(models_.begin(), models_.end());
  }

 private:
  const DtypeRule* used_rule(const Entry& e) {
    const DtypeRule* rule = rule_for(options_, e.key);
    if (rule != nullptr) used_[static_cast<size_t>(rule - options_.rules.data())] = true;
    return rule;
  }

  // nullopt: its own.
  std::optional<DType> wanted_for(const Entry& e, const Tensor& t) {
    const DtypeRule* rule = used_rule(e);
    const std::optional<DType> asked = rule != nullptr ? rule->dtype : options_.dtype;
    if (!asked) return std::nullopt;
    const bool is_insisted = options_.raw && is_packed(catalog_.key(t), has_key_);
    if (!options_.raw && is_packed(catalog_.key(t), has_key_)) {
      if (asked != t.dtype && summary_.kept_packed++ == 0) summary_.packed_example = e.key;
      return std::nullopt;
    }
    if (rule != nullptr) return asked;
    if (!is_insisted && (is_scale(e.key) || is_scale(catalog_.key(t)) || is_of_a_tensor(catalog_.key(t)) ||
                         is_scale_of_bytes(catalog_.key(t), has_bytes_))) {
      if (summary_.kept_scales++ == 0) summary_.scale_example = e.key;
      return std::nullopt;
    }
    if (options_.scope == DtypeScope::kModel && !state_.is_model(e.ref)) {
      ++summary_.kept_non_model;
      return std::nullopt;
    }
    if (options_.scope == DtypeScope::kModel && state_.is_doubtful(e.ref)) fail_doubtful(catalog_, state_, Doubt::kWhichDtype);
    if (is_kept_in_float32(e, t)) {
      if (summary_.kept_float32++ == 0) summary_.float32_example = e.key;
      return DType::float32;
    }
    return asked;
  }

  bool is_kept_in_float32(const Entry& e, const Tensor& t) const {
    return options_.keeps_float32 && state_.is_model(e.ref) && bytes_of(t.dtype) > bytes_of(*options_.dtype) &&
           bytes_of(t.dtype) >= bytes_of(DType::float32) && (options_.keeps_float32(catalog_.key(t)) || options_.keeps_float32(e.key));
  }

  // w.absmax beside the tensor w: what quantization keeps of it (bitsandbytes), or an optimizer. No module can have both.
  bool is_of_a_tensor(std::string_view key) const {
    const size_t dot = key.rfind('.');
    return dot != std::string_view::npos && catalog_.has_key(key.substr(0, dot));
  }

  // Sparse, nested, on meta, of a class of its own: copied as it is. Left in a model of another dtype it would be wrong without a word. If its
  // class alone knows its dtype, it has the name of that.
  void refuse_not_strided(const Entry& e, const Tensor& t) {
    const std::string_view name = catalog_.strings[t.dtype_name];
    const bool is_described = name.starts_with(facts_of(t.dtype).name);
    if (is_described && !is_cast_target(t.dtype)) return;
    const std::optional<DType> wanted = wanted_for(e, t);
    if (wanted && !(is_described && *wanted == t.dtype))
      fail(ProblemId::cast_opaque, {.path = catalog_.path, .tensor = std::string(catalog_.key(t))},
           std::string(name) + " that is not strided");
  }

  void refuse_quantized(const Entry& e, const Tensor& t) {
    const DtypeRule* rule = used_rule(e);
    if (rule == nullptr || !rule->dtype) return;
    fail(ProblemId::cast_opaque, {.path = catalog_.path, .tensor = std::string(catalog_.key(t))}, std::string(facts_of(t.dtype).name));
  }

  // The scale counts whether or not it is selected, under the names of the source.
  void refuse_scaled(const Tensor& t) const {
    if (const auto pair = pair_of_bytes(catalog_.key(t), has_key_))
      fail(ProblemId::cast_scaled, {.path = catalog_.path, .tensor = pair->numbers},
           std::string(facts_of(t.dtype).name) + " with its scale '" + escaped(pair->companion) + "'");
  }

  const Catalog& catalog_;
  const HasKey has_key_ = [this](std::string_view key) { return catalog_.has_key(key); };
  const HasKey has_bytes_ = bytes_of_catalog(catalog_);
  const DtypeOptions& options_;
  const TrainingState& state_;
  CastSummary& summary_;
  std::vector<bool> used_;  // by rule
  std::set<std::string_view> models_;
};

}  // namespace

bool is_to_be_cast(const DtypeOptions& options, std::string_view key) {
  const DtypeRule* rule = rule_for(options, key);
  return rule != nullptr ? rule->dtype.has_value() : options.dtype.has_value();
}

bool is_cast_target(DType dtype) { return facts_of(dtype).kind == DTypeKind::kFloat; }

DtypeOptions meant_rules(DtypeOptions options, const Selection& selection) {
  if (options.rules.empty()) return options;
  std::vector<std::string_view> names;
  for (const Entry& e : selection.entries) names.push_back(e.key);
  const KnownKeys known(std::move(names));
  for (DtypeRule& r : options.rules) r.glob = known.meant(r.glob);
  return options;
}

void choose_dtypes(const Catalog& catalog, const DtypeOptions& given, Selection& selection) {
  for (Entry& e : selection.entries)
    if (!e.is_blob()) e.dtype = catalog.tensors[e.tensor()].dtype;
  selection.casts.requested = given.any();
  if (!given.any()) return;
  const DtypeOptions options = meant_rules(given, selection);
  Chooser chooser(catalog, options, selection.state, selection.casts);
  for (Entry& e : selection.entries) {
    if (e.is_blob()) chooser.object(e);
    else e.dtype = chooser.choose(e);
  }
  chooser.end(given.rules);
}

}  // namespace dcp
