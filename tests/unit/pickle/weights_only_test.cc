// What torch.load(weights_only=True) takes and refuses.
#include "pickle/weights_only.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/error_line.h"
#include "pickle/opcodes.h"

namespace dcp {
namespace {

using namespace test;

std::vector<std::string> names_refused(const std::string& opcodes) {
  const std::string pickle = proto(4) + opcodes + kStop;
  return refused_globals(as_bytes(pickle), {.path = "x"}, {});
}

TEST_CASE("what weights_only takes") {
  for (const char* name : {"torch._utils._rebuild_tensor_v2",
                           "torch._utils._rebuild_tensor_v3",
                           "torch._utils._rebuild_qtensor",
                           "torch._tensor._rebuild_from_type_v2",
                           "collections.OrderedDict",
                           "collections.Counter",
                           "torch.Size",
                           "torch.float32",
                           "torch.float4_e2m1fn_x2",
                           "torch.bool",
                           "torch.uint1",
                           "torch.per_tensor_affine",
                           "torch.FloatStorage",
                           "torch.cuda.HalfTensor",
                           "torch.sparse.LongTensor",
                           "torch.cuda.sparse.ByteTensor",
                           "torch.storage.UntypedStorage",
                           "torch.QUInt4x2Storage",
                           "torch.ComplexFloatStorage",
                           "torch.cuda.BoolTensor",
                           "__builtin__.set",
                           "builtins.set",
                           "__builtin__.bytearray",
                           "_codecs.encode",
                           "torch.nn.parameter.Parameter",
                           "torch.device"}) {
    CAPTURE(name);
    CHECK(weights_only_allows(name));
  }
  for (const char* name : {"__builtin__.bytes", "builtins.eval", "collections.defaultdict", "torch.load", "torch._utils._rebuild_",
                           "torch._utils._rebuild_nested_tensor", "torch.half", "torch.sparse.BoolTensor", "torch.cuda.QInt8Storage",
                           "torch.ComplexFloatTensor", "torch.sparse.FloatStorage", "torch.Storage", "torch.Tensor2", "torch.", "",
                           "numpy._core.multiarray.scalar", "torch.cuda.cuda.FloatTensor", "torch.sparse.cuda.FloatTensor"}) {
    CAPTURE(name);
    CHECK_FALSE(weights_only_allows(name));
  }
}

TEST_CASE("all that a pickle imports is found, used or not, whatever opcode imports it") {
  using Names = std::vector<std::string>;
  CHECK(names_refused(num(1)).empty());
  CHECK(names_refused(global("collections", "OrderedDict") + kEmptyTuple + kReduce).empty());
  CHECK(names_refused(global("posix", "system") + text("x") + op(Op::TUPLE1) + kReduce) == Names{"posix.system"});
  CHECK(names_refused(global("posix", "system") + op(Op::POP) + num(1)) == Names{"posix.system"});
  CHECK(names_refused(kList + global("b", "c") + kAppend + global("a", "b") + kAppend + global("b", "c") + kAppend) == Names{"b.c", "a.b"});
  CHECK(names_refused(stack_global("posix", "system") + op(Op::POP) + global("a", "b")) == Names{"posix.system", "a.b"});
  // The names come from the memo, and what lies between them is gone again.
  CHECK(names_refused(text("system") + put(0) + op(Op::POP) + text("posix") + kNone + op(Op::POP) + get(0) + op(Op::STACK_GLOBAL)) ==
        Names{"posix.system"});
  CHECK(names_refused(text("a") + kPersId + op(Op::POP) + stack_global("a", "b")) == Names{"a.b"});
  CHECK(error_id([] { names_refused(num(1) + text("x") + op(Op::STACK_GLOBAL)); }) == "pickle_operand");
  CHECK(error_id([] { names_refused(op(Op::EXT1) + num(1)); }) == "pickle_refused_opcode");
}

TEST_CASE("modules whose functions no program can allow") {
  for (const char* name : {"os.system", "posix.system", "nt.system", "sys.exit"}) CHECK(weights_only_blocks(name));
  for (const char* name : {"osx.system", "builtins.eval", "torch.os", "system", ""}) CHECK_FALSE(weights_only_blocks(name));
}

TEST_CASE("a name that is off by one byte from one that makes tensors is damage") {
  CHECK(misspelt("torch._utils._rebuild_tensos_v2") == "torch._utils._rebuild_tensor_v2");
  CHECK(misspelt("uorch._utils._rebuild_parameter") == "torch._utils._rebuild_parameter");
  CHECK(misspelt("collections.OsderedDict") == "collections.OrderedDict");
  CHECK(misspelt("torch._tensor._rebuild_from_type_vr") == "torch._tensor._rebuild_from_type_v2");
  for (const char* name : {"torch._utils._rebuild_tensor_v4", "torch._utils._rebuild_tensor_v2", "torch.tensor",
                           "torch._utils._rebuild_xla_tensor", "", "builtins.eval", "uorch._utils._rebuild_tensos_v2"})
    CHECK(misspelt(name).empty());
}

}  // namespace
}  // namespace dcp
