"""Casts that mean nothing, or that lose too much."""
from recipes import Tensor, archive, call, case, dump, glob, storage, tensor_item

HALF = ["consolidate ckpt out.pt --model-only --dtype float16 --strict-cast", "consolidate ckpt out.safetensors --model-only --dtype fp16 --strict-cast -j 1"]


def one_tensor(c, values):
    c.tensors["model.w"] = Tensor((2, 3), [((0, 0), (2, 3))])
    c.items = [i for i in c.items if i.file == "__0_0.distcp"]
    c.item("model.w").data = tensor_item(values, (2, 3))


def float8(c, name):
    """`model.w` in float8, and a tensor of that name beside it."""
    one_tensor(c, [1] * 6)
    c.tensors["model.w"].dtype = "torch.float8_e4m3fn"
    c.tensors[name] = c.tensors.pop("model.b")
    c.item("model.b").key = name
    c.paths = {"model.w": ("model", "w"), name: ("model", name[6:]), "step": ("step",)}


@case("cast_scaled", "consolidate ckpt out.pt --dtype bf16", "inspect ckpt --dtype bf16", "consolidate ckpt out.pt --dtype-rule *.w=bf16 --exclude *_inv", exit=2)
def float8_with_a_scale(c):
    """
    dcpctl: ckpt: tensor 'model.w': cast_scaled: float8_e4m3fn with its scale 'model.w_scale_inv'
    hint: its own
    """
    float8(c, "model.w_scale_inv")


@case("cast_scaled", "consolidate ckpt out.pt --dtype bf16", exit=2)
def float8_with_a_scale_below_it(c):
    """
    dcpctl: ckpt: tensor 'model.w': cast_scaled: float8_e4m3fn with its scale 'model.w.scale'
    hint: its own
    """
    float8(c, "model.w.scale")


@case("cast_opaque", "consolidate ckpt out.pt --dtype bf16")
def a_tensor_subclass(c):
    """
    dcpctl: ckpt: tensor 'model.w': cast_opaque: float32 that is quantized or a subclass
    hint: its own
    """
    one_tensor(c, [1] * 6)
    subclass = call("torch._utils._rebuild_wrapper_subclass", glob("torchao.dtypes.AffineQuantizedTensor"), storage(count=6))
    c.item("model.w").data = archive(dump(subclass, 2), bytes(24))


@case("cast_opaque", "consolidate ckpt out.pt --dtype-rule model.w=bf16", "inspect ckpt --dtype-rule model.?=bf16")
def a_rule_for_a_quantized_tensor(c):
    """
    dcpctl: ckpt: tensor 'model.w': cast_opaque: qint8
    hint: its own
    """
    one_tensor(c, [1] * 6)
    c.tensors["model.w"].dtype = "torch.qint8"


@case("cast_overflow", *HALF, exit=1)
def values_that_are_too_large(c):
    """
    dcpctl: kept 2 model keys; left out 1 non-model key under step
    dcpctl: stripped the root 'model'
    dcpctl: cast 2 tensors: 32 B become 16 B
    dcpctl: ckpt: tensor 'model.w': cast_overflow: 2 values, float32 to float16
    hint: its own
    """
    one_tensor(c, [65519, 65520, -1e30, float("inf"), float("nan"), 1e-30])


@case("cast_overflow", "consolidate ckpt out.pt --dtype f8e4m3 --strict-cast", "consolidate ckpt out.pt --dtype f8e4m3 --strict-cast --fp8-overflow nan", exit=1)
def values_that_float8_has_no_room_for(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: cast 2 tensors: 32 B become 8 B
    dcpctl: ckpt: tensor 'model.b': cast_overflow: 1 value, float32 to float8_e4m3fn
    dcpctl: ckpt: tensor 'model.w': cast_overflow: 3 values, float32 to float8_e4m3fn
    hint: its own
    """
    one_tensor(c, [464, 465, -1e30, float("inf"), float("nan"), 1e-30])
    c.item("model.b").data = tensor_item([500, 8], (2,))


@case("dtype_needs_torch", "reshard ckpt out --world-size 2 --for-torch 2.1", "cast ckpt out --dtype bf16 --dtype-scope all --dtype-rule model.w=keep --for-torch 2.1")
def a_dtype_that_the_release_lacks(c):
    """
    dcpctl: ckpt: tensor 'model.w': dtype_needs_torch (got float8_e4m3fn, expected torch 2.2 or later)
    hint: its own
    """
    one_tensor(c, [1] * 6)
    c.tensors["model.w"].dtype = "torch.float8_e4m3fn"
