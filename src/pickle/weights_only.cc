// The globals that torch.load(weights_only=True) accepts by default. Source: torch 2.15, torch/_weights_only_unpickler.py
// _get_allowed_globals and _blocklisted_modules; and CPython's Lib/_compat_pickle.py for the names that protocol 2 gives to what is in
// `builtins`.
#include "pickle/weights_only.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/text.h"
#include "pickle/shadow.h"
#include "pickle/tokens.h"

namespace dcp {
namespace {

using std::string_view;

constexpr std::array kOwn = {
    string_view("collections.OrderedDict"),
    string_view("collections.Counter"),
    string_view("torch.nn.parameter.Parameter"),
    string_view("torch.serialization._get_layout"),
    string_view("torch.Size"),
    string_view("torch.Tensor"),
    string_view("torch.device"),
    string_view("_codecs.encode"),
    string_view("builtins.bytearray"),
    string_view("builtins.set"),
    string_view("builtins.complex"),
    string_view("__builtin__.bytearray"),
    string_view("__builtin__.set"),
    string_view("__builtin__.complex"),
    string_view("torch.storage.TypedStorage"),
    string_view("torch.storage.UntypedStorage"),
    string_view("torch._tensor._rebuild_from_type_v2"),
};
constexpr std::array kRebuild = {
    string_view("torch._utils._rebuild_parameter"),
    string_view("torch._utils._rebuild_parameter_with_state"),
    string_view("torch._utils._rebuild_qtensor"),
    string_view("torch._utils._rebuild_tensor"),
    string_view("torch._utils._rebuild_tensor_v2"),
    string_view("torch._utils._rebuild_tensor_v3"),
    string_view("torch._utils._rebuild_sparse_tensor"),
    string_view("torch._utils._rebuild_meta_tensor_no_storage"),
    string_view("torch._utils._rebuild_wrapper_subclass"),
    string_view("torch._utils._rebuild_device_tensor_from_numpy"),
    string_view("torch._utils._rebuild_device_tensor_from_cpu_tensor"),
};
constexpr std::array kDTypes = {
    // torch.*
    string_view("float64"),
    string_view("float32"),
    string_view("float16"),
    string_view("bfloat16"),
    string_view("float8_e4m3fn"),
    string_view("float8_e5m2"),
    string_view("float8_e4m3fnuz"),
    string_view("float8_e5m2fnuz"),
    string_view("float8_e8m0fnu"),
    string_view("float4_e2m1fn_x2"),
    string_view("bool"),
    string_view("complex128"),
    string_view("complex64"),
    string_view("complex32"),
    string_view("bcomplex32"),
    string_view("int64"),
    string_view("int32"),
    string_view("int16"),
    string_view("int8"),
    string_view("int7"),
    string_view("int6"),
    string_view("int5"),
    string_view("int4"),
    string_view("int3"),
    string_view("int2"),
    string_view("int1"),
    string_view("uint64"),
    string_view("uint32"),
    string_view("uint16"),
    string_view("uint8"),
    string_view("uint7"),
    string_view("uint6"),
    string_view("uint5"),
    string_view("uint4"),
    string_view("uint3"),
    string_view("uint2"),
    string_view("uint1"),
    string_view("bits16"),
    string_view("bits8"),
    string_view("bits1x8"),
    string_view("bits2x4"),
    string_view("bits4x2"),
    string_view("qint32"),
    string_view("qint8"),
    string_view("quint8"),
    string_view("quint4x2"),
    string_view("quint2x4"),
    string_view("per_tensor_affine"),
    string_view("per_tensor_symmetric"),
    string_view("per_channel_affine"),
    string_view("per_channel_symmetric"),
    string_view("per_channel_affine_float_qparams"),
};
// Element types of legacy storage and tensor classes: torch.FloatStorage, torch.cuda.sparse.HalfTensor, ...
constexpr std::array kSparse = {string_view("BFloat16"), string_view("Byte"),  string_view("Char"),
                                string_view("Double"),   string_view("Float"), string_view("Half"),
                                string_view("Int"),      string_view("Long"),  string_view("Short")};
constexpr std::array kDense = {string_view("Bool")};
constexpr std::array kStorageOnly = {string_view("ComplexDouble"), string_view("ComplexFloat")};
constexpr std::array kCpuStorageOnly = {string_view("QInt32"), string_view("QInt8"), string_view("QUInt2x4"), string_view("QUInt4x2"),
                                        string_view("QUInt8")};

template <size_t N>
constexpr bool has(const std::array<string_view, N>& list, string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool take(string_view& text, string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool is_legacy_class(string_view name) {
  const bool cuda = take(name, "cuda.");
  const bool sparse = take(name, "sparse.");
  const bool tensor = name.ends_with("Tensor");
  if (!tensor && (sparse || !name.ends_with("Storage"))) return false;
  name.remove_suffix(tensor ? 6 : 7);
  if (has(kSparse, name)) return true;
  if (sparse) return false;
  if (has(kDense, name)) return true;
  return !tensor && (has(kStorageOnly, name) || (!cuda && has(kCpuStorageOnly, name)));
}

}  // namespace

bool weights_only_allows(string_view global) {
  if (has(kOwn, global) || has(kRebuild, global)) return true;
  if (!take(global, "torch.")) return false;
  return has(kDTypes, global) || is_legacy_class(global);
}

string_view misspelt(string_view global) {
  if (weights_only_allows(global) || global == "torch.tensor") return {};
  const auto is_off_by_one = [&](string_view known, string_view text) {
    if (known.size() != text.size()) return false;
    const auto [a, b] = std::ranges::mismatch(known, text);
    const bool is_release = is_digit(*a) && is_digit(*b);  // another torch's _rebuild_tensor_v4
    return !is_release && std::equal(a + 1, known.end(), b + 1);
  };
  for (const string_view known : kOwn)
    if (is_off_by_one(known, global)) return known;
  for (const string_view known : kRebuild)
    if (is_off_by_one(known, global)) return known;
  return {};
}

bool weights_only_blocks(string_view global) {
  constexpr std::array kModules = {string_view("os."), string_view("posix."), string_view("nt."), string_view("sys.")};
  return std::ranges::any_of(kModules, [&](string_view module) { return global.starts_with(module); });
}

std::vector<std::string> refused_globals(Bytes pickle, const Place& place, const Limits& limits) {
  std::vector<std::string> refused;
  std::unordered_set<std::string> known;
  const auto meet = [&](string_view module, string_view name) {
    std::string global = std::string(module) + "." + std::string(name);
    if (!weights_only_allows(global) && known.insert(global).second) refused.push_back(std::move(global));
  };
  bool names_on_stack = false;
  TokenReader reader(pickle, place);
  Token t;
  do {
    reader.next(t);
    if (t.op == Op::GLOBAL) meet(t.text, t.name);
    if (is_text(t.op) && !is_pickled_text(t.text))
      fail(ProblemId::pickle_unloadable, at_offset(place, t.offset), "text '" + std::string(t.text.substr(0, 200)) + "'", "UTF-8");
    names_on_stack = names_on_stack || t.op == Op::STACK_GLOBAL;
  } while (t.op != Op::STOP);
  if (!names_on_stack) return refused;
  refused.clear();
  known.clear();
  ShadowStack shadow(pickle, place, limits, StorageIds::kAny);
  TokenReader again(pickle, place);
  do {
    again.next(t);
    shadow.step(t);
    if (t.op == Op::GLOBAL || t.op == Op::STACK_GLOBAL) meet(shadow.module(), shadow.name());
  } while (t.op != Op::STOP);
  return refused;
}

}  // namespace dcp
