#include "staging/workload.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/text.h"
#include "catalog/data_files.h"

namespace dcp {
namespace {

// The tensors of a few well-known models, as their published configurations give them.

// A decoder like Llama's: grouped-query attention, gated MLP, no biases.
struct Decoder {
  std::string_view name;
  int64_t layers, hidden, key_value, intermediate, vocabulary;
  bool tied;  // the output is the embedding
};
constexpr std::array<Decoder, 4> kDecoders{{
    {"llama-1b", 16, 2048, 512, 8192, 128256, true},     // Llama 3.2 1B
    {"llama-8b", 32, 4096, 1024, 14336, 128256, false},  // Llama 3.1 8B
    {"llama-70b", 80, 8192, 1024, 28672, 128256, false},
    {"qwen-7b", 28, 3584, 512, 18944, 152064, false},  // Qwen 2.5 7B, its biases left out
}};

using Tensors = std::vector<FolderTensor>;

Tensors decoder(const Decoder& d, DType dtype) {
  Tensors t;
  const auto add = [&](const std::string& name, std::vector<int64_t> dims) { t.push_back({"model." + name, dtype, std::move(dims)}); };
  add("tok_embeddings.weight", {d.vocabulary, d.hidden});
  for (int64_t l = 0; l < d.layers; ++l) {
    const std::string layer = "layers." + std::to_string(l) + ".";
    add(layer + "attention.wq.weight", {d.hidden, d.hidden});
    add(layer + "attention.wk.weight", {d.key_value, d.hidden});
    add(layer + "attention.wv.weight", {d.key_value, d.hidden});
    add(layer + "attention.wo.weight", {d.hidden, d.hidden});
    add(layer + "feed_forward.w1.weight", {d.intermediate, d.hidden});
    add(layer + "feed_forward.w2.weight", {d.hidden, d.intermediate});
    add(layer + "feed_forward.w3.weight", {d.intermediate, d.hidden});
    add(layer + "attention_norm.weight", {d.hidden});
    add(layer + "ffn_norm.weight", {d.hidden});
  }
  add("norm.weight", {d.hidden});
  if (!d.tied) add("output.weight", {d.vocabulary, d.hidden});
  return t;
}

// GPT-2 small: many small tensors with biases. `tiny` has the same tensors, and is for trying things out.
Tensors gpt2(DType dtype, int64_t layers, int64_t hidden, int64_t vocabulary) {
  Tensors t;
  const auto add = [&](const std::string& name, std::vector<int64_t> dims) { t.push_back({"model." + name, dtype, std::move(dims)}); };
  add("wte.weight", {vocabulary, hidden});
  add("wpe.weight", {1024, hidden});
  for (int64_t l = 0; l < layers; ++l) {
    const std::string layer = "h." + std::to_string(l) + ".";
    for (const std::string norm : {"ln_1", "ln_2"}) add(layer + norm + ".weight", {hidden}), add(layer + norm + ".bias", {hidden});
    add(layer + "attn.c_attn.weight", {hidden, 3 * hidden}), add(layer + "attn.c_attn.bias", {3 * hidden});
    add(layer + "attn.c_proj.weight", {hidden, hidden}), add(layer + "attn.c_proj.bias", {hidden});
    add(layer + "mlp.c_fc.weight", {hidden, 4 * hidden}), add(layer + "mlp.c_fc.bias", {4 * hidden});
    add(layer + "mlp.c_proj.weight", {4 * hidden, hidden}), add(layer + "mlp.c_proj.bias", {hidden});
  }
  add("ln_f.weight", {hidden}), add("ln_f.bias", {hidden});
  return t;
}

Tensors weights_of(const ModelSpec& spec) {
  if (spec.name == "tiny") return gpt2(spec.dtype, 2, 64, 512);
  if (spec.name == "gpt2") return gpt2(spec.dtype, 12, 768, 50257);
  const auto known = std::ranges::find(kDecoders, spec.name, &Decoder::name);
  if (known != kDecoders.end()) return decoder(*known, spec.dtype);
  fail(ProblemId::usage, {.setting = "model"}, "'" + std::string(spec.name) + "'", joined(model_names(), ", "));
}

// Cuts dim 0 to a rank's part, as torch.chunk does. A tensor without dims is on every rank.
void shard(Tensors& tensors, uint32_t world_size, uint32_t rank) {
  for (FolderTensor& t : tensors) {
    if (t.dims.empty()) continue;
    const int64_t each = (t.dims[0] + world_size - 1) / world_size;
    t.dims[0] = std::clamp<int64_t>(t.dims[0] - each * rank, 0, each);
  }
  std::erase_if(tensors, [](const FolderTensor& t) { return !t.dims.empty() && t.dims[0] == 0; });
}

}  // namespace

uint64_t tensor_bytes(const FolderTensor& t) {
  uint64_t bytes = bytes_of(t.dtype);
  for (const int64_t d : t.dims) bytes = mul_or_fail(bytes, static_cast<uint64_t>(d), {.tensor = t.key});
  return bytes;
}

uint64_t Workload::bytes() const {
  uint64_t sum = 0;
  for (const FolderTensor& t : tensors) sum = add_or_fail(sum, tensor_bytes(t), {.tensor = t.key});
  return sum;
}

uint64_t Workload::largest() const {
  uint64_t max = 0;
  for (const FolderTensor& t : tensors) max = std::max(max, tensor_bytes(t));
  return max;
}

std::vector<uint64_t> offsets_of(const std::vector<FolderTensor>& tensors, uint64_t alignment) {
  std::vector<uint64_t> offsets;
  uint64_t end = 0;
  for (const FolderTensor& t : tensors) {
    offsets.push_back(end);
    end += (tensor_bytes(t) + alignment - 1) / alignment * alignment;
  }
  offsets.push_back(end);
  return offsets;
}

Workload many_of(uint64_t count, uint64_t bytes) {
  Workload w;
  for (uint64_t i = 0; i < count; ++i) w.tensors.push_back({"tensor." + std::to_string(i), DType::uint8, {static_cast<int64_t>(bytes)}});
  return w;
}

std::vector<Workload> size_curve(uint64_t first, uint64_t last) {
  std::vector<Workload> curve;
  for (uint64_t bytes = first; bytes < last && bytes > 0; bytes = bytes > last / 4 ? last : bytes * 4) curve.push_back(many_of(1, bytes));
  curve.push_back(many_of(1, last));
  return curve;
}

Workload checkpoint_workload(const Catalog& catalog, std::optional<uint32_t> rank) {
  Workload w;
  for (const Tensor& t : catalog.tensors) {
    if (!t.dtype_known || facts_of(t.dtype).kind == DTypeKind::kQuantized) continue;
    const std::string key(catalog.key(t));
    if (!rank) {
      w.tensors.push_back({key, t.dtype, catalog.shape(t)});
      continue;
    }
    uint32_t chunks = 0;
    for (uint32_t c = 0; c < t.chunk_count; ++c) {
      const uint32_t file = catalog.items[catalog.item_of(t, c)].file;
      if (file == kNone || rank_of_file(catalog.file_name(file)) != rank) continue;
      const Dims sizes = catalog.box(t, c).sizes;
      w.tensors.push_back({chunks == 0 ? key : key + ".chunk" + std::to_string(chunks), t.dtype, {sizes.begin(), sizes.end()}});
      ++chunks;
    }
  }
  std::erase_if(w.tensors, [](const FolderTensor& t) { return volume(t.dims) == 0; });
  if (w.tensors.empty())
    fail(ProblemId::nothing_selected, {.path = catalog.path}, rank ? "no tensor of rank " + std::to_string(*rank) : "no tensor");
  return w;
}

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names{"tiny", "gpt2"};
  for (const Decoder& d : kDecoders) names.push_back(d.name);
  return names;
}

Workload model_workload(const ModelSpec& spec) {
  Workload w{.name = std::string(spec.name), .tensors = weights_of(spec)};
  if (spec.rank >= spec.world_size) {
    throw Error(with_remedy(make_problem(ProblemId::usage, {.setting = "rank"}, std::to_string(spec.rank), std::to_string(spec.world_size)),
                            Remedy::kBelowWorldSize));
  }
  if (spec.optimizer) {
    const size_t weights = w.tensors.size();
    for (size_t i = 0; i < weights; ++i) {
      const std::string state = "optimizer.state." + w.tensors[i].key.substr(w.tensors[i].key.find('.') + 1);
      for (const char* moment : {".exp_avg", ".exp_avg_sq"}) w.tensors.push_back({state + moment, DType::float32, w.tensors[i].dims});
      w.tensors.push_back({state + ".step", DType::float32, {}});
    }
    w.name += " with AdamW";
  }
  if (spec.world_size > 1) w.name += ", rank " + std::to_string(spec.rank) + " of " + std::to_string(spec.world_size);
  shard(w.tensors, spec.world_size, spec.rank);
  return w;
}

}  // namespace dcp
