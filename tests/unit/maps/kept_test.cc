// Which tensors a family keeps in float32, by the `keep` lines of a map.
#include <catch2/catch_test_macros.hpp>

#include "maps/model_map.h"
#include "maps/published.h"

using namespace dcp;
using namespace dcp::maps;

namespace {

constexpr const char* kLines =
    "family a\nclass A\nkeep gate.weight sinks\nkeep norm for float16\n"
    "model.{l}.gate.weight = model.{l}.gate.weight\nmodel.{l}.sinks = model.{l}.offset\nmodel.{l}.up = model.{l}.linear_gate.weight\n"
    "model.norm = model.norm\n";

KeepsFloat32 of(const std::string& name, DType as) { return kept_in_float32(read_map(kLines, name, Limits()), as); }

}  // namespace

TEST_CASE("pieces of names in memory decide, whether a tensor has such a name or the published one") {
  for (const char* name : {"a.transformers", "./a.transformers.map"}) {
    const KeepsFloat32 keeps = of(name, DType::bfloat16);
    for (const char* key : {"model.0.gate.weight", "model.3.sinks", "model.3.offset", "app.model.3.offset", "module.0.gate.weight"})
      CHECK(keeps(key));
    for (const char* key : {"model.0.up", "model.0.linear_gate.weight", "model.norm", "app.model.0.linear_gate.weight", "offset"})
      CHECK_FALSE(keeps(key));
  }
}

TEST_CASE("a map of a trainer has the published names alone") {
  const KeepsFloat32 keeps = of("a.torchtitan", DType::bfloat16);
  CHECK(keeps("model.0.linear_gate.weight"));
  CHECK_FALSE(keeps("model.0.offset"));
}

TEST_CASE("some are kept of float16 alone, and all are as wide as float32") {
  CHECK(of("a.transformers", DType::float16)("model.norm"));
  CHECK_FALSE(of("a.transformers", DType::float8_e4m3fn)("model.norm"));
  CHECK(of("a.transformers", DType::float8_e4m3fn)("model.0.gate.weight"));
  CHECK_FALSE(of("a.transformers", DType::float64));
}

TEST_CASE("of a model_type without a map, by transformers' lists") {
  const KeepsFloat32 half = kept_of_types({"t5"}, DType::float16), moe = kept_of_types({"glm4v_moe"}, DType::bfloat16);
  CHECK(half("decoder.block.0.layer.2.DenseReluDense.wo.weight"));
  CHECK_FALSE(half("decoder.block.0.layer.2.DenseReluDense.wi.weight"));
  CHECK(moe("model.layers.1.mlp.gate.weight"));
  CHECK_FALSE(moe("model.layers.1.mlp.up_proj.weight"));
  CHECK_FALSE(kept_of_types({"t5"}, DType::bfloat16));
  CHECK_FALSE(kept_of_types({"nosuch"}, DType::float16));
  CHECK_FALSE(kept_of_types({"glm4v_moe"}, DType::float32));
}

TEST_CASE("published names that have other pieces are listed by their endings, below any root") {
  const KeepsFloat32 keeps = kept_of_types({"deepseek_v4"}, DType::bfloat16);
  for (const char* key : {"model.layers.3.attn.attn_sink", "layers.0.hc_attn_base", "hc_attn_base", "app.model.layers.3.ffn.gate.bias"})
    CHECK(keeps(key));
  for (const char* key : {"model.layers.3.attn.no_attn_sink", "model.layers.3.attn.attn_sink.more", "model.layers.3.attn.wkv.weight", ""})
    CHECK_FALSE(keeps(key));
  const KeepsFloat32 text = kept_of_types({"hy_v4_vl_text"}, DType::bfloat16);
  CHECK(text("model.layers.1.mlp.gate.weight"));
  CHECK_FALSE(text("model.layers.1.mlp.linear_gate.weight"));
}

TEST_CASE("the types of models in one say what they keep, those that have a map, too") {
  const KeepsFloat32 keeps = kept_of_types({"voxtral", "llama", "deepseek_v3"}, DType::bfloat16);
  CHECK(keeps("audio_tower.embed_positions.weight"));
  CHECK(keeps("language_model.model.layers.1.mlp.gate.e_score_correction_bias"));
  CHECK_FALSE(keeps("language_model.model.layers.1.mlp.up_proj.weight"));
}

TEST_CASE("names of their own are kept, too") {
  const KeepsFloat32 keeps = kept_too(of("a.transformers", DType::bfloat16), {"layers.0.bias"});
  CHECK(keeps("layers.0.bias"));
  CHECK(keeps("model.layers.0.bias"));
  CHECK(keeps("model.0.gate.weight"));
  CHECK_FALSE(keeps("layers.1.bias"));
}
