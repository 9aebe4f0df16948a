#include "select/quantized.h"

#include <set>
#include <utility>

#include "catalog/catalog.h"

namespace dcp {
namespace {

// How the names of the two end, behind what they share.
struct Ending {
  std::string_view numbers, companion;
  bool is_packed = true;
  bool is_plain = false;  // other tensors have such names, too: a pair if the numbers are no floats of a model
};
constexpr Ending kEndings[] = {
    {"", ".absmax"},                       // bitsandbytes, 4 bits: in any dtype, as FSDP shards only floats
    {".weight", ".SCB"},                   // bitsandbytes, 8 bits
    {".state1", ".absmax1"},               // its optimizers
    {".state1", ".qmap1"},                 //
    {".state2", ".absmax2"},               //
    {".state2", ".qmap2"},                 //
    {"_blocks", "_scales"},                // MXFP4
    {"_packed", "_scale"},                 // compressed-tensors, 4 bits
    {"_packed", "_global_scale"},          //
    {".qweight", ".scales"},               // GPTQ, AWQ
    {".W_q", ".scale"},                    // HQQ
    {".W_q", ".zero"},                     //
    {".W_q", ".scales"},                   // SINQ
    {".W_q", ".zeros"},                    //
    {".W_q", ".scale2"},                   //
    {".W_q", ".meta.scale"},               //
    {".W_q", ".meta.scale2"},              //
    {".W_q", ".meta.zero"},                //
    {".qweight", ".weight_global_scale"},  // FP-Quant
    {".qweight", ".act_global_scale"},     //
    {".qweight", ".forward_hadamard_matrix"},
    {".qweight", ".backward_hadamard_matrix"},
    {"_data", "_scale"},                  // quanto
    {"_data", "_shift"},                  //
    {"_data", "_scale_inv"},              // Transformer Engine
    {"_qdata", "_scale"},                 // torchao
    {"_qdata", "_scale_and_zero"},        //
    {"_qdata", "_zero_point"},            //
    {"_qdata", "_per_tensor_scale"},      //
    {"_qdata", "_act_pre_scale"},         //
    {".codes", ".codebooks"},             // AQLM
    {".codes", ".scales"},                //
    {"", "_scale_inv", false},            // blocks of float8
    {"", "_scale", false},                // float8 and int8
    {"", "_scales", false},               //
    {"", "_scale_2", false},              //
    {".weight", ".scale_weight", false},  // float8 of ComfyUI
    {".weight", ".scale", false, true},   // DeepSeek's own names
    {".weight", ".scales", false, true},  // and Metal's
    {".weight", ".biases", false, true},
    {".weight", ".qbiases", false, true},
    {".weight", ".tables", false, true},  // HIGGS
    {".weight", ".tables2", false, true},
    {".weight", ".scale_inv", false, true},
    {"", ".scale", false, true},
    {"", ".scales", false, true},
    {"", ".scale_inv", false, true},
};

std::optional<QuantizedPair> pair_of(std::string_view key, std::string_view Ending::* its, std::string_view Ending::* others,
                                     const HasKey& has_key, bool are_plain = false) {
  for (const Ending& e : kEndings) {
    if (e.is_plain != are_plain || !key.ends_with(e.*its)) continue;
    std::string other = std::string(key.substr(0, key.size() - (e.*its).size())) + std::string(e.*others);
    if (!has_key(other)) continue;
    const bool is_numbers = its == &Ending::numbers;
    QuantizedPair pair{.numbers = std::string(key), .companion = std::move(other), .is_packed = e.is_packed};
    if (!is_numbers) std::swap(pair.numbers, pair.companion);
    return pair;
  }
  return {};
}

}  // namespace

std::optional<QuantizedPair> pair_of_numbers(std::string_view key, const HasKey& has_key) {
  return pair_of(key, &Ending::numbers, &Ending::companion, has_key);
}

std::optional<QuantizedPair> pair_of_bytes(std::string_view key, const HasKey& has_key) {
  if (auto pair = pair_of_numbers(key, has_key)) return pair;
  return pair_of(key, &Ending::numbers, &Ending::companion, has_key, true);
}

std::optional<QuantizedPair> pair_of_companion(std::string_view key, const HasKey& has_key) {
  if (auto pair = pair_of(key, &Ending::companion, &Ending::numbers, has_key)) return pair;
  // Whatever lies below packed numbers: weight.quant_state.bitsandbytes__nf4
  for (size_t dot = key.rfind('.'); dot != key.npos && dot > 0; dot = key.rfind('.', dot - 1)) {
    const std::string_view above = key.substr(0, dot);
    if (!has_key(above)) continue;
    const auto pair = pair_of_numbers(above, has_key);
    if (pair && pair->is_packed) return QuantizedPair{.numbers = std::string(above), .companion = std::string(key), .is_packed = true};
  }
  return {};
}

bool is_packed(std::string_view key, const HasKey& has_key) {
  const auto numbers = pair_of_numbers(key, has_key);
  if (numbers && numbers->is_packed) return true;
  const auto companion = pair_of_companion(key, has_key);
  return companion && companion->is_packed;
}

bool is_scale_of_bytes(std::string_view key, const HasKey& has_bytes) {
  return pair_of(key, &Ending::companion, &Ending::numbers, has_bytes) ||
         pair_of(key, &Ending::companion, &Ending::numbers, has_bytes, true);
}

static bool may_be_quantized(DType dtype) { return bytes_of(dtype) == 1 || facts_of(dtype).kind == DTypeKind::kInt; }

HasKey bytes_of_catalog(const Catalog& catalog) {
  std::set<std::string_view> keys;
  for (const Tensor& t : catalog.tensors)
    if (t.dtype_known && may_be_quantized(t.dtype)) keys.insert(catalog.key(t));
  return [keys = std::move(keys)](std::string_view key) { return keys.contains(key); };
}

bool is_quantized(std::string_view key, DType dtype, const HasKey& has_key) {
  return is_packed(key, has_key) || (may_be_quantized(dtype) && pair_of_bytes(key, has_key));
}

}  // namespace dcp
