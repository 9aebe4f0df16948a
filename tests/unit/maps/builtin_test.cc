// The maps that come with dcpctl: tiny models under their published names become the trainer's and come back, and what moves is what it
// should be.
#include "maps/builtin.h"

#include <catch2/catch_test_macros.hpp>

#include "maps/mapped.h"
#include "maps/published.h"

using namespace dcp;
using namespace dcp::maps;
using namespace dcp::test;

TEST_CASE("each model_type of a built-in map has the class that transformers loads") {
  for (const BuiltinMap& b : builtin_maps())
    for (const std::string& family : builtin_map(b.name, {}).families) {
      INFO(b.name << " " << family);
      CHECK_FALSE(class_of(family, {}).empty());
    }
  CHECK(class_of("mistral", {}) == "MistralForCausalLM");
  CHECK(class_of("kimi_k2", {}) == "DeepseekV3ForCausalLM");
  CHECK(class_of("otter", {}).empty());
}

namespace {

using List = std::vector<std::pair<std::string, Shape>>;

// Sizes that no two axes share.
constexpr int64_t kVocab = 11, kHidden = 6, kHeads = 4, kGroups = 2, kHead = 8, kWide = 10, kExpertWide = 5, kExperts = 3;

struct Published {
  std::string config;
  List tensors;
};

std::string layer(int64_t l) { return "model.layers." + std::to_string(l) + "."; }

void attention(List& all, const std::string& at) {
  all.push_back({at + "self_attn.q_proj.weight", {kHeads * kHead, kHidden}});
  all.push_back({at + "self_attn.k_proj.weight", {kGroups * kHead, kHidden}});
  all.push_back({at + "self_attn.v_proj.weight", {kGroups * kHead, kHidden}});
  all.push_back({at + "self_attn.o_proj.weight", {kHidden, kHeads * kHead}});
}
void norms(List& all, const std::string& at) {
  for (const char* name : {"input_layernorm.weight", "post_attention_layernorm.weight"}) all.push_back({at + name, {kHidden}});
}
void dense(List& all, const std::string& at, int64_t wide) {
  all.push_back({at + "gate_proj.weight", {wide, kHidden}});
  all.push_back({at + "up_proj.weight", {wide, kHidden}});
  all.push_back({at + "down_proj.weight", {kHidden, wide}});
}
void experts(List& all, const std::string& at) {
  all.push_back({at + "mlp.gate.weight", {kExperts, kHidden}});
  for (int64_t e = 0; e < kExperts; ++e) dense(all, at + "mlp.experts." + std::to_string(e) + ".", kExpertWide);
}
List outside() {
  return {{"model.embed_tokens.weight", {kVocab, kHidden}}, {"model.norm.weight", {kHidden}}, {"lm_head.weight", {kVocab, kHidden}}};
}

std::string config(const std::string& more, int64_t layers) {
  return "{\"num_hidden_layers\": " + std::to_string(layers) + ", \"vocab_size\": 11, \"hidden_size\": 6, \"num_attention_heads\": 4, " +
         "\"num_key_value_heads\": 2, \"head_dim\": 8" + more + "}";
}

Published llama() {
  List all = outside();
  for (int64_t l = 0; l < 3; ++l) {
    attention(all, layer(l));
    norms(all, layer(l));
    dense(all, layer(l) + "mlp.", kWide);
  }
  return {config("", 3), all};
}

// A dense layer, then those with experts.
Published qwen3(int64_t experts_from, int64_t layers) {
  List all = outside();
  for (int64_t l = 0; l < layers; ++l) {
    attention(all, layer(l));
    norms(all, layer(l));
    for (const char* name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) all.push_back({layer(l) + name, {kHead}});
    if (l < experts_from) dense(all, layer(l) + "mlp.", kWide);
    else experts(all, layer(l));
  }
  return {config(", \"num_experts\": 3", layers), all};
}

Published mixtral() {
  List all = outside();
  for (int64_t l = 0; l < 2; ++l) {
    attention(all, layer(l));
    norms(all, layer(l));
    const std::string moe = layer(l) + "block_sparse_moe.";
    all.push_back({moe + "gate.weight", {kExperts, kHidden}});
    for (int64_t e = 0; e < kExperts; ++e) {
      const std::string at = moe + "experts." + std::to_string(e) + ".";
      for (const char* w : {"w1", "w3"}) all.push_back({at + w + ".weight", {kExpertWide, kHidden}});
      all.push_back({at + "w2.weight", {kHidden, kExpertWide}});
    }
  }
  return {config(", \"num_local_experts\": 3", 2), all};
}

// `predicting` layers for further tokens stand behind the others.
Published deepseek(int64_t predicting) {
  List all = outside();
  for (int64_t l = 0; l < 2 + predicting; ++l) {
    norms(all, layer(l));
    const std::string at = layer(l) + "self_attn.";
    if (l == 0) {
      all.push_back({at + "q_proj.weight", {kHeads * kHead, kHidden}});
    } else {
      all.push_back({at + "q_a_proj.weight", {7, kHidden}});
      all.push_back({at + "q_a_layernorm.weight", {7}});
      all.push_back({at + "q_b_proj.weight", {kHeads * kHead, 7}});
    }
    all.push_back({at + "kv_a_proj_with_mqa.weight", {9, kHidden}});
    all.push_back({at + "kv_a_layernorm.weight", {5}});
    all.push_back({at + "kv_b_proj.weight", {kHeads * 3, 5}});
    all.push_back({at + "o_proj.weight", {kHidden, kHeads}});
    if (l == 0) {
      dense(all, layer(l) + "mlp.", kWide);
    } else {
      experts(all, layer(l));
      dense(all, layer(l) + "mlp.shared_experts.", kExpertWide);
      all.push_back({layer(l) + "mlp.gate.e_score_correction_bias", {kExperts}});
    }
    if (l < 2) continue;
    for (const char* name : {"enorm.weight", "hnorm.weight", "shared_head.norm.weight"}) all.push_back({layer(l) + name, {kHidden}});
    all.push_back({layer(l) + "eh_proj.weight", {kHidden, 2 * kHidden}});
  }
  return {config(", \"n_routed_experts\": 3", 2), all};
}

Published gpt_oss() {
  List all = outside();
  for (int64_t l = 0; l < 2; ++l) {
    attention(all, layer(l));
    norms(all, layer(l));
    const std::string at = layer(l) + "self_attn.", moe = layer(l) + "mlp.";
    all.push_back({at + "q_proj.bias", {kHeads * kHead}});
    for (const char* name : {"k_proj.bias", "v_proj.bias"}) all.push_back({at + name, {kGroups * kHead}});
    all.push_back({at + "o_proj.bias", {kHidden}});
    all.push_back({at + "sinks", {kHeads}});
    all.push_back({moe + "router.weight", {kExperts, kHidden}});
    all.push_back({moe + "router.bias", {kExperts}});
    all.push_back({moe + "experts.gate_up_proj", {kExperts, kHidden, 2 * kExpertWide}});
    all.push_back({moe + "experts.gate_up_proj_bias", {kExperts, 2 * kExpertWide}});
    all.push_back({moe + "experts.down_proj", {kExperts, kExpertWide, kHidden}});
    all.push_back({moe + "experts.down_proj_bias", {kExperts, kHidden}});
  }
  return {config(", \"num_local_experts\": 3", 2), all};
}

Trial trial_of(const Published& model, std::vector<std::string> sets = {}) {
  return {.map = {}, .config = model.config, .sets = std::move(sets), .options = {.are_published = true}};
}

// Published, the trainer's and published again.
MadeTensors there_and_back(const std::string& name, const Published& model, std::vector<std::string> sets = {}) {
  CAPTURE(name);
  const ModelMap map = builtin_map(name, {});
  Trial trial = trial_of(model, std::move(sets));
  const MadeTensors published = made(model.tensors);
  const Mapping to = trial.resolve(map, published);
  CHECK(to.from == Side::kRight);
  const MadeTensors trained = carried_out(to, published);
  trial.options.are_published = false;
  const Mapping from = trial.resolve(map, trained);
  CHECK(from.from == Side::kLeft);
  const MadeTensors back = carried_out(from, trained);
  CHECK(keys_of(back) == keys_of(published));
  for (const auto& [key, t] : published) {
    CAPTURE(key);
    CHECK((!back.contains(key) || back.at(key) == t));
  }
  return trained;
}

}  // namespace

TEST_CASE("every built-in map is proven, has families and is found by each of them") {
  for (const BuiltinMap& m : builtin_maps()) {
    CAPTURE(m.name);
    const ModelMap map = builtin_map(m.name, {});
    REQUIRE_FALSE(map.families.empty());
    const std::string dialect(m.name.substr(m.name.find('.')));
    for (const std::string& family : map.families) CHECK(builtin_map(family + dialect, {}).name == m.name);
    CHECK(m.text.starts_with("# "));
  }
  CHECK(error_line([] { builtin_map("nosuch.torchtitan", {}); }) ==
        "there is no such map (got nosuch.torchtitan, expected MODEL.torchtitan, MODEL.megatron or MODEL.transformers)");
  CHECK(error_line([] {
          builtin_map("qwen3.torchtitn", {});
        }).starts_with("there is no such map (got qwen3.torchtitn, expected one of qwen3."));
  CHECK(error_id([] { builtin_map("llama", {}); }) == "map_unknown");
}

TEST_CASE("torchtitan's Llama holds rotary pairs") {
  const MadeTensors trained = there_and_back("llama.torchtitan", llama());
  CHECK(trained.size() == 30);
  const MadeTensors published = made(llama().tensors);
  for (const auto& [ours, theirs, heads] : {std::tuple("wq", "q", kHeads), std::tuple("wk", "k", kGroups)}) {
    const MadeTensor& pairs = trained.at("layers.1.attention.qkv_linear." + std::string(ours) + ".weight");
    const MadeTensor& halves = published.at("model.layers.1.self_attn." + std::string(theirs) + "_proj.weight");
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t d = 0; d < kHead / 2; ++d)
        for (int64_t half = 0; half < 2; ++half) {
          const auto row = static_cast<size_t>((h * kHead + 2 * d + half) * kHidden),
                     from = static_cast<size_t>((h * kHead + half * kHead / 2 + d) * kHidden);
          CHECK(pairs.elements[row] == halves.elements[from]);
        }
  }
}

TEST_CASE("torchtitan's Qwen3 and gpt-oss keep their rotary halves, and stack experts") {
  const MadeTensors plain = there_and_back("qwen3.torchtitan", qwen3(2, 2));
  CHECK(plain.at("layers.0.attention.qkv_linear.wq.weight") == made(qwen3(2, 2).tensors).at("model.layers.0.self_attn.q_proj.weight"));
  const MadeTensors sparse = there_and_back("qwen3_moe.torchtitan", qwen3(1, 3));
  CHECK(sparse.at("layers.2.moe.routed_experts.inner_experts.w2_EDF").shape == Shape{kExperts, kHidden, kExpertWide});
  CHECK(sparse.at("layers.2.moe.routed_experts.inner_experts.w3_EFD").elements[kExpertWide * kHidden] ==
        made(qwen3(1, 3).tensors).at("model.layers.2.mlp.experts.1.up_proj.weight").elements[0]);
  CHECK(sparse.contains("layers.0.feed_forward.w1.weight"));
  const MadeTensors oss = there_and_back("gpt_oss.torchtitan", gpt_oss());
  const MadeTensor& mlp1 = oss.at("layers.1.moe.routed_experts.inner_experts.mlp1_weight_EGD");
  CHECK(mlp1.shape == Shape{kExperts, 2 * kExpertWide, kHidden});
  CHECK(mlp1.elements[1] == made(gpt_oss().tensors).at("model.layers.1.mlp.experts.gate_up_proj").elements[2 * kExpertWide]);  // transposed
}

TEST_CASE("DeepSeek's further layers are published behind the others") {
  CHECK(there_and_back("deepseek_v3.torchtitan", deepseek(0)).contains("layers.1.moe.expert_bias_E"));
  const MadeTensors trained = there_and_back("deepseek_v3.torchtitan", deepseek(2));
  CHECK(trained.contains("mtp_layers.1.eh_proj.weight"));
  CHECK(trained.contains("mtp_layers.0.moe.shared_experts.w1.weight"));
  CHECK_FALSE(trained.contains("layers.2.attention.wo.weight"));

  // Their copies of embeddings are compared with the one that is kept.
  Published copies = deepseek(1);
  copies.tensors.push_back({"model.layers.2.embed_tokens.weight", {kVocab, kHidden}});
  const Trial trial = trial_of(copies);
  CHECK(trial.resolve(builtin_map("deepseek_v3.torchtitan", {}), made(copies.tensors)).ties.size() == 1);

  // transformers holds none of them.
  const Mapping loaded = trial.resolve(builtin_map("deepseek_v3.transformers", {}), made(copies.tensors));
  CHECK(loaded.problems.empty());
  CHECK(std::ranges::none_of(loaded.targets, [](const IndexMap& m) { return m.key.find("layers.2.") != std::string::npos; }));
}

TEST_CASE("transformers holds experts stacked, gate and up in one tensor") {
  CHECK(there_and_back("llama.transformers", llama()) == made(llama().tensors));
  there_and_back("deepseek_v3.transformers", deepseek(0));
  CHECK(there_and_back("mixtral.transformers", mixtral()).contains("model.layers.1.mlp.gate.weight"));
  const MadeTensors held = there_and_back("qwen3_moe.transformers", qwen3(1, 2));
  const MadeTensor& both = held.at("model.layers.1.mlp.experts.gate_up_proj");
  CHECK(both.shape == Shape{kExperts, 2 * kExpertWide, kHidden});
  CHECK(both.elements[3 * kExpertWide * kHidden] ==
        made(qwen3(1, 2).tensors).at("model.layers.1.mlp.experts.1.up_proj.weight").elements[0]);
}

TEST_CASE("Megatron stacks layers, joins what belongs to a group, and pads the vocabulary") {
  const MadeTensors stacked = there_and_back("llama.megatron", llama(), {"pad=5"});
  CHECK(stacked.size() == 9);
  CHECK(stacked.at("embedding.word_embeddings.weight").shape == Shape{16, kHidden});
  const MadeTensor& qkv = stacked.at("decoder.layers.self_attention.linear_qkv.weight");
  CHECK(qkv.shape == Shape{3, (kHeads + 2 * kGroups) * kHead, kHidden});
  const MadeTensors published = made(llama().tensors);
  // Of each group two heads of queries, then one of keys and one of values.
  for (int64_t row = 0; row < 8 * kHead; ++row) {
    const int64_t group = row / (4 * kHead), at = row % (4 * kHead);
    const char* const from = at < 2 * kHead ? "q" : at < 3 * kHead ? "k" : "v";
    const int64_t its = at < 2 * kHead ? group * 2 * kHead + at : group * kHead + at % kHead;
    CHECK(qkv.elements[static_cast<size_t>((2 * 8 * kHead + row) * kHidden)] ==
          published.at("model.layers.2.self_attn." + std::string(from) + "_proj.weight").elements[static_cast<size_t>(its * kHidden)]);
  }
  CHECK(there_and_back("llama.megatron", llama(), {"pad=0", "layers=numbered"}).contains("decoder.layers.2.mlp.linear_fc1.weight"));
  there_and_back("qwen3_moe.megatron", qwen3(0, 2), {"pad=1"});
  // A dense layer among others cannot be stacked with them.
  CHECK(there_and_back("qwen3_moe.megatron", qwen3(1, 2), {"pad=1"}).contains("decoder.layers.0.mlp.linear_fc1.layer_norm_weight"));
}

TEST_CASE("auto looks for the map of the model_type whose left side has all keys") {
  const auto named = [](const std::string& type, const List& tensors, bool may_leave = false) {
    std::vector<std::string_view> keys;
    for (const auto& [key, shape] : tensors) keys.push_back(key);
    const Auto found = auto_map({.model_type = type, .config_path = "config.json", .keys = keys, .may_leave = may_leave}, {});
    if (found.none) throw Error(*found.none);
    return found.maps.empty() ? std::string() : found.maps[0].name;
  };
  const auto list = [](const MadeTensors& tensors) {
    List all;
    for (const auto& [key, t] : tensors) all.push_back({key, t.shape});
    return all;
  };
  CHECK(named("mistral", list(there_and_back("llama.torchtitan", llama()))) == "llama.torchtitan");
  CHECK(named("llama", list(there_and_back("llama.megatron", llama(), {"pad=1"}))) == "llama.megatron");
  CHECK(named("mixtral", list(there_and_back("mixtral.transformers", mixtral()))) == "mixtral.transformers");
  CHECK(named("mixtral", mixtral().tensors).empty());  // the names are the published ones
  CHECK(error_id([&] { named("qwen3", {{"a", {}}}); }) == "map_auto_none");
  CHECK(error_id([&] { named("nosuch", {{"a", {}}}); }) == "map_auto_none");
  CHECK(error_id([&] { named("", {{"a", {}}}); }) == "map_config");
  CHECK(error_id([&] { named("llama", {{"norm.weight", {}}, {"output_layer.weight", {}}}); }) == "map_auto_none");
  CHECK(error_id([&] { named("llama", {{"lm_head.weight", {}}}); }) == "map_auto_several");
  // With keys that may be left, the map that takes most.
  const List some{{"norm.weight", {}}, {"output.weight", {}}, {"other", {}}};
  CHECK(error_id([&] { named("llama", some); }) == "map_auto_none");
  CHECK(named("llama", some, true) == "llama.torchtitan");
  CHECK(named("mixtral", {{"model.layers.0.block_sparse_moe.gate.weight", {}}, {"other", {}}}, true).empty());
  CHECK(error_id([&] { named("llama", {{"other", {}}}, true); }) == "map_auto_none");
}

TEST_CASE("what is published has the shapes that the configuration gives") {
  const auto checked = [](const std::string& json, const List& tensors) {
    std::vector<MapSource> sources;
    for (const auto& [key, shape] : tensors) sources.push_back({.key = key, .shape = shape});
    std::string ids;
    for (const Problem& p : differences(Config::read(json, "config.json", {}), sources))
      ids += (ids.empty() ? "" : " ") + std::string(id_name(p.id));
    return ids;
  };
  const auto changed = [](std::string json, const std::string& size, const std::string& to) {
    const size_t at = json.find("\"" + size + "\": ") + size.size() + 4;
    return json.replace(at, json.find_first_of(",}", at) - at, to);
  };
  const Published p = llama();
  const std::string json = config(", \"intermediate_size\": 10, \"model_type\": \"llama\"", 3);
  CHECK(checked(json, p.tensors).empty());
  for (const char* size : {"vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size"}) {
    CHECK(checked(changed(json, size, "12"), p.tensors).starts_with("map_size_differs"));
  }
  for (const char* size : {"vocab_size", "hidden_size", "num_attention_heads", "intermediate_size"})
    CHECK(checked(changed(json, size, "null"), p.tensors).empty());  // what is not known is not compared
  // A family without a map of transformers: by names that all share.
  const std::string unknown = changed(json, "model_type", "\"nosuch\"");
  CHECK(checked(unknown, p.tensors).empty());
  CHECK(checked(changed(unknown, "vocab_size", "12"), p.tensors) == "map_config map_config");
  List cut = p.tensors;  // each that differs
  for (auto& [key, shape] : cut)
    if (key.ends_with("norm.weight")) --shape[0];
  const std::string all = checked(json, cut);
  CHECK(std::ranges::count(all, ' ') > 2);
  List mixed = p.tensors;  // layers may differ
  mixed.push_back({"model.layers.3.mlp.gate_proj.weight", {20, kHidden}});
  CHECK(checked(unknown, mixed).empty());
}
