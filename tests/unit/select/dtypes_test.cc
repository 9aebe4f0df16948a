// Which tensor is written in which dtype: tables of cases.
#include "select/dtypes.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "base/error_line.h"
#include "catalog/build.h"
#include "catalog/made_checkpoint.h"
#include "select/select.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

struct TypedKey {
  std::string key;
  DType dtype = DType::float32;
  Lines path = {};
  Ints dims = {4};
};

Catalog catalog_with(const std::vector<TypedKey>& keys, bool planner_data = true) {
  MadeCheckpoint made;
  made.planner_data = planner_data;
  for (const TypedKey& k : keys)
    made.tensors.push_back({.key = k.key, .dtype = k.dtype, .dims = k.dims, .chunks = {whole_chunk(k.dims)}, .path = k.path});
  return build_catalog(made.content(), "ckpt", "ckpt").catalog;
}

// "final name: dtype" of each tensor.
Lines chosen(const Catalog& catalog, const SelectOptions& options) {
  Lines lines;
  for (const Entry& e : select_keys(catalog, options).entries)
    lines.push_back(std::string(e.key) + ": " + std::string(facts_of(e.dtype).name));
  return lines;
}
DtypeOptions to(DType dtype, DtypeScope scope = DtypeScope::kModel) { return {.dtype = dtype, .scope = scope, .rules = {}}; }
DtypeOptions by(std::vector<DtypeRule> rules) { return {.dtype = std::nullopt, .rules = std::move(rules)}; }

constexpr auto kKeep = std::optional<DType>();

}  // namespace

TEST_CASE("without a wish every tensor keeps the metadata's dtype") {
  const Catalog c = catalog_with({{"a"}, {"b", DType::int64}});
  CHECK(chosen(c, {}) == Lines{"a: float32", "b: int64"});
  CHECK_FALSE(select_keys(c, {}).casts.requested);
}

TEST_CASE("only floats that torch computes with are cast") {
  for (size_t i = 0; i < static_cast<size_t>(DType::kCount); ++i) {
    const auto dtype = static_cast<DType>(i);
    CAPTURE(facts_of(dtype).name);
    const bool cast = facts_of(dtype).kind == DTypeKind::kFloat;
    CHECK(chosen(catalog_with({{"a", dtype}}), {.dtypes = to(DType::float16, DtypeScope::kAll)}) ==
          Lines{"a: " + std::string(facts_of(cast ? DType::float16 : dtype).name)});
    CHECK(is_cast_target(dtype) == cast);
  }
}

TEST_CASE("state that is not model stays, whatever root is stripped") {
  const Catalog c = catalog_with({{"app.model.w", DType::float32, {"app", "model", "w"}},
                                  {"app.optim.step", DType::float32, {"app", "optim", "step"}},
                                  {"optimus.weight", DType::float32, {"optimus", "weight"}}});
  CHECK(chosen(c, {.dtypes = to(DType::bfloat16)}) ==
        Lines{"app.model.w: bfloat16", "app.optim.step: float32", "optimus.weight: bfloat16"});
  CHECK(chosen(c, {.root = "app.optim", .dtypes = to(DType::bfloat16)}) == Lines{"step: float32"});
  CHECK(chosen(c, {.root = "app.model", .dtypes = to(DType::bfloat16)}) == Lines{"w: bfloat16"});
  CHECK(chosen(c, {.dtypes = to(DType::bfloat16, DtypeScope::kAll)}) ==
        Lines{"app.model.w: bfloat16", "app.optim.step: bfloat16", "optimus.weight: bfloat16"});
  // Without paths the first component of the key says it.
  const Catalog flat = catalog_with({{"model.w"}, {"optim.step"}}, false);
  CHECK(chosen(flat, {.dtypes = to(DType::bfloat16)}) == Lines{"model.w: bfloat16", "optim.step: float32"});
}

TEST_CASE("rules see final names, the first match wins, before everything else") {
  const Catalog c = catalog_with({{"model.a.w"}, {"model.norm.w"}, {"optim.step", DType::float32, {"optim", "step"}}});
  const DtypeRule keep_norm{"*norm*", kKeep};
  const auto with = [](DType dtype, std::vector<DtypeRule> rules) { return DtypeOptions{.dtype = dtype, .rules = std::move(rules)}; };
  CHECK(chosen(c, {.dtypes = with(DType::bfloat16, {keep_norm})}) ==
        Lines{"model.a.w: bfloat16", "model.norm.w: float32", "optim.step: float32"});
  CHECK(chosen(c, {.dtypes = with(DType::bfloat16, {{"optim.*", DType::float64}})}) ==
        Lines{"model.a.w: bfloat16", "model.norm.w: bfloat16", "optim.step: float64"});
  CHECK(chosen(c, {.dtypes = by({{"model.*", DType::float16}, keep_norm})}) ==
        Lines{"model.a.w: float16", "model.norm.w: float16", "optim.step: float32"});
  CHECK(chosen(c, {.dtypes = by({keep_norm, {"*", DType::float16}})}) ==
        Lines{"model.a.w: float16", "model.norm.w: float32", "optim.step: float16"});
  CHECK(chosen(c, {.renames = {{"norm", "ln"}}, .dtypes = with(DType::bfloat16, {{"*ln*", kKeep}})}) ==
        Lines{"model.a.w: bfloat16", "model.ln.w: float32", "optim.step: float32"});
}

TEST_CASE("select, root, rename, dtype: in this order") {
  const Catalog c = catalog_with({{"app.model.x", DType::float32, {"app", "model", "x"}},
                                  {"app.model.y", DType::float32, {"app", "model", "y"}},
                                  {"app.optim.x", DType::float32, {"app", "optim", "x"}}});
  const SelectOptions options{.rules = {{KeyRule::Kind::kExclude, "app.model.y"}},
                              .model_only = true,
                              .add_root = "new",
                              .renames = {{"^new[.]x$", "new.z"}},
                              .dtypes = by({{"new.z", DType::bfloat16}, {"*", DType::float64}})};
  CHECK(chosen(c, options) == Lines{"new.z: bfloat16"});
}

TEST_CASE("scales of float8 stay") {
  const Catalog c = catalog_with({{"w_scale"}, {"w_scale_inv"}, {"w_scales"}, {"w_scaled"}, {"scale"}});
  CHECK(chosen(c, {.dtypes = to(DType::bfloat16)}) ==
        Lines{"w_scale: float32", "w_scale_inv: float32", "w_scales: float32", "w_scaled: bfloat16", "scale: bfloat16"});
  CHECK(select_keys(c, {.dtypes = to(DType::bfloat16)}).casts.kept_scales == 3);
  // A rule says it on purpose. A new name does not make it something else.
  CHECK(chosen(catalog_with({{"w_scale"}}), {.dtypes = by({{"*_scale", DType::bfloat16}})}) == Lines{"w_scale: bfloat16"});
  CHECK(chosen(catalog_with({{"w_scale"}}), {.renames = {{"_scale", ".s"}}, .dtypes = to(DType::bfloat16)}) == Lines{"w.s: float32"});
}

TEST_CASE("what quantization keeps of a tensor, under its name and a dot, stays") {
  const Catalog c = catalog_with({{"l.weight", DType::uint8}, {"l.weight.absmax"}, {"l.weight.quant_map"}, {"l.bias"}, {"n.weight.g"}});
  CHECK(chosen(c, {.dtypes = to(DType::bfloat16)}) ==
        Lines{"l.weight: uint8", "l.weight.absmax: float32", "l.weight.quant_map: float32", "l.bias: bfloat16", "n.weight.g: bfloat16"});
}

TEST_CASE("packed weights, and what lies beside them, are cast with raw only") {
  const auto raw = [](DtypeOptions o) {
    o.raw = true;
    return o;
  };
  using Names = std::set<std::string>;
  const auto names = [](const Catalog& c, const SelectOptions& options) {
    const Lines lines = chosen(c, options);
    return Names(lines.begin(), lines.end());
  };
  const std::pair<std::string, std::string> pairs[] = {{"a.weight", "a.weight.absmax"},
                                                       {"a.w1", "a.w1.absmax"},
                                                       {"a.weight", "a.SCB"},
                                                       {"a.w_blocks", "a.w_scales"},
                                                       {"a.weight_packed", "a.weight_scale"},
                                                       {"a.qweight", "a.scales"},
                                                       {"a.W_q", "a.scale"},
                                                       {"a.W_q", "a.zero"},
                                                       {"a.weight._data", "a.weight._scale"},
                                                       {"a.weight._data", "a.weight._shift"},
                                                       {"a.weight_qdata", "a.weight_scale"},
                                                       {"a._weight_qdata", "a._weight_scale_and_zero"},
                                                       {"a._weight_qdata", "a._weight_zero_point"},
                                                       {"a.W_q", "a.meta.scale"},
                                                       {"a.qweight", "a.forward_hadamard_matrix"},
                                                       {"a.codes", "a.codebooks"},
                                                       {"a.state1", "a.absmax1"}};
  for (const auto& [numbers, companion] : pairs) {
    const Catalog c = catalog_with({{numbers, DType::bfloat16}, {companion}, {"b.weight"}});
    const Names kept{numbers + ": bfloat16", companion + ": float32", "b.weight: float16"};
    const Names cast{numbers + ": float16", companion + ": float16", "b.weight: float16"};
    CHECK(names(c, {.dtypes = to(DType::float16)}) == kept);
    CHECK(names(c, {.dtypes = by({{"*", DType::float16}})}) == kept);
    CHECK(names(c, {.dtypes = raw(by({{"*", DType::float16}}))}) == cast);
    CHECK(names(c, {.dtypes = raw(to(DType::float16))}).contains(numbers + ": float16"));
    CHECK(select_keys(c, {.dtypes = to(DType::float16)}).casts.kept_packed == 2);
    // Whether or not what lies beside them is selected.
    CHECK(chosen(c, {.rules = {{KeyRule::Kind::kKey, numbers}}, .dtypes = to(DType::float16)}) == Lines{numbers + ": bfloat16"});
  }
  const Catalog below = catalog_with({{"w", DType::bfloat16}, {"w.absmax"}, {"w.quant_state.bitsandbytes__nf4"}, {"w.nested.map"}});
  CHECK(chosen(below, {.dtypes = by({{"*", DType::float16}})}) ==
        Lines{"w: bfloat16", "w.absmax: float32", "w.quant_state.bitsandbytes__nf4: float32", "w.nested.map: float32"});
  // Beside integers, whatever their dtype, names that others have too; beside floats these are the model's.
  for (const char* companion : {"a.scales", "a.biases", "a.tables"}) {
    CHECK(chosen(catalog_with({{"a.weight", DType::uint32}, {companion}}), {.dtypes = to(DType::float16)})[1] ==
          std::string(companion) + ": float32");
    CHECK(chosen(catalog_with({{"a.weight"}, {companion}}), {.dtypes = to(DType::float16)})[1] == std::string(companion) + ": float16");
  }
  // A rule for nothing but other floats casts them all the same.
  CHECK(chosen(catalog_with({{"a.weight"}, {"a.weight_scale"}}), {.dtypes = by({{"*", DType::float16}})}) ==
        Lines{"a.weight: float16", "a.weight_scale: float16"});
}

TEST_CASE("what the model's family keeps stays in float32") {
  DtypeOptions options = to(DType::bfloat16);
  options.keeps_float32 = [](std::string_view key) { return key.ends_with("gate"); };
  const Catalog c = catalog_with({{"model.gate", DType::float32, {"model", "gate"}},
                                  {"model.half.gate", DType::float16, {"model", "half", "gate"}},
                                  {"model.wide.gate", DType::float64, {"model", "wide", "gate"}},
                                  {"model.w", DType::float32, {"model", "w"}},
                                  {"optim.gate", DType::float32, {"optim", "gate"}}});
  CHECK(chosen(c, {.dtypes = options}) ==
        Lines{"model.gate: float32", "model.half.gate: bfloat16", "model.wide.gate: float32", "model.w: bfloat16", "optim.gate: float32"});
  CHECK(select_keys(c, {.dtypes = options}).casts.kept_float32 == 2);
  options.scope = DtypeScope::kAll;
  CHECK(chosen(c, {.dtypes = options}).back() == "optim.gate: bfloat16");
  options.rules = {{"*gate", DType::float16}};
  CHECK(chosen(c, {.dtypes = options})[0] == "model.gate: float16");
}

TEST_CASE("a float8 tensor that has a scale is cast with raw only") {
  const auto refusal = [](const Catalog& c, SelectOptions options) { return error_line([&] { select_keys(c, options); }); };
  const auto raw = [](DtypeOptions o) {
    o.raw = true;
    return o;
  };
  for (const DType f8 : {DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz, DType::float8_e5m2fnuz}) {
    for (const char* ending : {"_scale", "_scale_inv", "_scales", "_scale_2", ".scale", ".scale_inv"}) {
      const Catalog c = catalog_with({{"w", f8}, {std::string("w") + ending}});
      const std::string name(facts_of(f8).name);
      CHECK(refusal(c, {.dtypes = to(DType::bfloat16)}) ==
            "ckpt: tensor 'w': a float8 tensor that has a scale is not cast: " + name + " with its scale 'w" + ending + "'");
      CHECK(chosen(c, {.dtypes = raw(to(DType::bfloat16))})[0] == "w: bfloat16");
      CHECK(chosen(c, {.dtypes = {.dtype = DType::bfloat16, .rules = {{"w", kKeep}}}})[0] == "w: " + name);
      CHECK(chosen(c, {.dtypes = to(f8)})[0] == "w: " + name);  // nothing to cast
      CHECK(chosen(c, {})[0] == "w: " + name);
    }
  }
  for (const char* scale : {"l.scale", "l.scales", "l.scale_inv", "l.scale_weight", "l.weight_scale"}) {
    const Catalog beside = catalog_with({{"l.weight", DType::float8_e4m3fn}, {scale}, {"n.weight"}, {"n.scale"}});
    CHECK(refusal(beside, {.dtypes = to(DType::bfloat16)}).ends_with("float8_e4m3fn with its scale '" + std::string(scale) + "'"));
    const Lines lines = chosen(beside, {.dtypes = {.dtype = DType::bfloat16, .rules = {{"l.weight", kKeep}}}});
    CHECK(lines == Lines{"l.weight: float8_e4m3fn", std::string(scale) + ": float32", "n.weight: bfloat16", "n.scale: bfloat16"});
  }
  // The scale counts whether or not it is selected, and by the source's names.
  const Catalog c = catalog_with({{"w", DType::float8_e4m3fn}, {"w_scale"}, {"v", DType::float8_e4m3fn}});
  CHECK(refusal(c, {.rules = {{KeyRule::Kind::kExclude, "*_scale"}}, .renames = {{"^w$", "u"}}, .dtypes = to(DType::bfloat16)})
            .starts_with("ckpt: tensor 'w'"));
  CHECK(chosen(c, {.rules = {{KeyRule::Kind::kKey, "v"}}, .dtypes = to(DType::bfloat16)}) == Lines{"v: bfloat16"});
}

TEST_CASE("quantized tensors stay, and a rule cannot cast them") {
  const Catalog c = catalog_with({{"q", DType::qint8}, {"w"}});
  CHECK(chosen(c, {.dtypes = to(DType::bfloat16)}) == Lines{"q: qint8", "w: bfloat16"});
  CHECK(error_line([&] { select_keys(c, {.dtypes = by({{"q", DType::float32}})}); }) ==
        "ckpt: tensor 'q': only plain tensors can be cast: qint8");
  CHECK(chosen(c, {.dtypes = by({{"q", kKeep}, {"*", DType::float16}})}) == Lines{"q: qint8", "w: float16"});
}

TEST_CASE("a rule for a dict is for all below it") {
  const Catalog c = catalog_with({{"m.norm.w"}, {"m.norm.b"}, {"m.normal.w"}, {"m.x"}, {"m.x.y"}});
  CHECK(chosen(c, {.dtypes = by({{"m.norm", DType::float16}})}) ==
        Lines{"m.norm.w: float16", "m.norm.b: float16", "m.normal.w: float32", "m.x: float32", "m.x.y: float32"});
  CHECK(chosen(c, {.dtypes = by({{"m.x", DType::float16}})})[3] == "m.x: float16");
  CHECK(chosen(c, {.dtypes = by({{"m.x", DType::float16}})})[4] == "m.x.y: float32");
  // By its final name.
  CHECK(select_keys(c, {.add_root = "app", .dtypes = by({{"m.norm", DType::float16}})}).casts.unmatched_rules == Lines{"m.norm"});
  CHECK(select_keys(c, {.add_root = "app", .dtypes = by({{"app.m.norm", DType::float16}})}).casts.tensors == 2);
}

TEST_CASE("models that are cast together are named") {
  std::vector<TypedKey> keys;
  for (const std::string model : {"ema", "model"})
    for (const std::string name : {"weight", "bias"}) keys.push_back({.key = model + ".l." + name, .path = {model, "l", name}});
  const Catalog c = catalog_with(keys);
  CHECK(select_keys(c, {.dtypes = to(DType::bfloat16)}).casts.models == Lines{"ema", "model"});
  const std::vector<KeyRule> without{{KeyRule::Kind::kExclude, "ema.*"}};
  CHECK(select_keys(c, {.rules = without, .dtypes = to(DType::bfloat16)}).casts.models.empty());
}

TEST_CASE("what the choice comes to") {
  const Catalog c = catalog_with({{"a", DType::float32, {"model", "a"}, {2, 3}},
                                  {"b", DType::bfloat16, {"model", "b"}},
                                  {"c", DType::float64, {"optim", "c"}, {5}},
                                  {"d_scale", DType::float32, {"model", "d_scale"}}});
  const DtypeOptions options{.dtype = DType::bfloat16,
                             .rules = {{"c", DType::float32}, {"nobody", DType::float16}, {"?", DType::bfloat16}}};
  const CastSummary casts = select_keys(c, {.dtypes = options}).casts;
  CHECK(casts.requested);
  CHECK(casts.tensors == 2);
  CHECK(casts.bytes_before == 24 + 40);
  CHECK(casts.bytes_after == 12 + 20);
  CHECK(casts.kept_scales == 1);
  CHECK(casts.kept_non_model == 0);
  CHECK(casts.unmatched_rules == Lines{"nobody"});
  CHECK(casts.models.empty());
  CHECK(select_keys(c, {.dtypes = to(DType::float16)}).casts.kept_non_model == 1);
}
