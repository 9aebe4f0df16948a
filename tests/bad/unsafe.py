"""Pickles that do more than hold data: in the place of a tensor, in objects, in torch.save files; what loading them would run is named."""
import pickle
import struct
from fractions import Fraction

from recipes import Item, Op, archive, call, case, compressed, data_pkl, dump, glob, old_file, op, rebuild, storage, zstd

COMMANDS = ["consolidate ckpt out.pt"]


# ---- what is no tensor


@case("item_not_tensor", "consolidate ckpt out.pt", "consolidate ckpt out.safetensors", "reshard ckpt out --world-size 2")
def a_call_in_the_place_of_a_tensor(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_not_tensor (got posix.system, expected a tensor)
    """
    data_pkl(c, call("posix.system", "true"))


@case("item_not_tensor", "verify ckpt", "verify ckpt --quick", "verify ckpt --fail-on unsafe", "inspect ckpt --fail-on unsafe", says="findings", exit=1)
def a_call_that_verify_meets(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_not_tensor (got posix.system, expected a tensor)
    """
    data_pkl(c, call("posix.system", "true"))


@case("item_not_tensor")
def a_function_that_is_not_called(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_not_tensor (got torch._utils._rebuild_tensor_v2, expected a tensor)
    """
    data_pkl(c, glob("torch._utils._rebuild_tensor_v2"))


@case("item_refused")
def a_call_among_the_arguments_of_a_tensor(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_refused (got posix.system, expected what torch.load(weights_only=True) takes)
    hint: its own
    """
    stored = storage(count=6)
    data_pkl(c, call("torch._utils._rebuild_tensor_v2", stored, 0, (2, 3), (3, 1), False, call("posix.system", "true")))


@case("item_refused")
def a_call_that_is_thrown_away(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_refused (got posix.system, expected what torch.load(weights_only=True) takes)
    hint: its own
    """
    c.item("model.w").data = archive(pickle.PROTO + b"\x02" + call("posix.system", "true") + pickle.POP + rebuild(storage(count=6), (2, 3)) + pickle.STOP, bytes(24))


@case("item_refused")
def a_blocked_module_inside_a_subclass(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x40: tensor 'model.w': item_refused (got posix.system, expected what torch.load(weights_only=True) takes)
    hint: its own
    """
    inner = rebuild(storage(count=6), (2, 3))
    data_pkl(c, call("torch._tensor._rebuild_from_type_v2", glob("torch._utils._rebuild_wrapper_subclass"), glob("mine.Class"), (glob("mine.Class"),), {"inner": inner, "x": call("posix.system", "true")}))


@case("item_refused", "verify ckpt", "verify ckpt --quick", says="findings", exit=1)
def an_opcode_of_protocol_4(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x42: tensor 'model.w': item_refused (got the opcode FRAME, expected what torch.load(weights_only=True) takes)
    """
    body = rebuild(storage(count=6), (2, 3)) + pickle.STOP
    c.item("model.w").data = archive(pickle.PROTO + b"\x04" + pickle.FRAME + struct.pack("<Q", len(body)) + body, bytes(24))


@case("item_refused", "verify ckpt", says="findings", exit=1)
def an_opcode_of_protocol_4_in_protocol_2(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x42: tensor 'model.w': item_refused (got the opcode SHORT_BINUNICODE, expected what torch.load(weights_only=True) takes)
    """
    c.item("model.w").data = archive(pickle.PROTO + b"\x02" + pickle.SHORT_BINUNICODE + b"\x01x" + pickle.BINPUT + b"\0" + rebuild(storage(count=6), (2, 3)) + pickle.STOP, bytes(24))


@case("pickle_unsafe", "verify ckpt --fail-on unsafe", says="findings", exit=1)
def a_subclass_that_a_program_may_allow(c):
    """
    warning: ckpt/__0_0.distcp @ 0x0: tensor 'model.w': pickle_unsafe (got mine.Class)
    """
    inner = rebuild(storage(count=6), (2, 3))
    data_pkl(c, call("torch._tensor._rebuild_from_type_v2", glob("torch._utils._rebuild_wrapper_subclass"), glob("mine.Class"), (glob("mine.Class"),), {"inner": inner}))


# ---- what loading an object would run


@case("pickle_unsafe", "verify ckpt --fail-on unsafe", "verify ckpt --strict", "inspect ckpt --fail-on unsafe", "inspect ckpt --fail-on warnings", says="findings", exit=1)
def an_object_that_is_a_call(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got posix.system)
    """
    c.item("step").data = archive(dump(call("posix.system", "true"), 2))


CALLED = {"unsafe": [{"object": "step", "path": "ckpt/__0_0.distcp", "globals": ["os.system"]}]}


@case("pickle_unsafe", "verify ckpt", says="findings", exit=1, json=CALLED)
def an_object_that_python_2_called_by_name(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5e8: object 'step': pickle_refused_opcode (got INST)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = archive(dump(Op(pickle.MARK + op("true") + pickle.INST + b"os\nsystem\n"), 2))


@case("pickle_unsafe", "verify ckpt", says="findings", exit=1, json=CALLED)
def an_object_that_calls_behind_a_line(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5de: object 'step': pickle_refused_opcode (got INT)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = archive(dump(Op(pickle.INT + b"1\n" + pickle.POP + call("os.system", "true")), 2))


@case("pickle_unsafe", "verify ckpt", says="findings", exit=1, json=CALLED)
def an_object_that_python_2_called(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5f3: object 'step': pickle_refused_opcode (got OBJ)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = archive(dump(Op(pickle.MARK + glob("os.system") + op("true") + pickle.OBJ), 2))


@case("pickle_unsafe", "verify ckpt", says="findings", exit=1, json=CALLED)
def an_object_that_runs_something_before_its_fault(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5f6: object 'step': pickle_underflow (got 0 values, expected 2 for APPEND)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = archive(dump(Op(call("os.system", "true") + pickle.POP + pickle.APPEND), 2))


MANY = [*(f"mine.f{n}" for n in range(18)), "mine.a, b"]


@case(
    "pickle_unsafe", "verify ckpt", "inspect ckpt", says="findings", exit=0,
    json={"unsafe": [{"object": "step", "path": "ckpt/__0_0.distcp", "globals": MANY}]},
)
def an_object_that_is_more_calls_than_one_line_holds(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got mine.f0, mine.f1, mine.f2, mine.f3, mine.f4, mine.f5, mine.f6, mine.f7, mine.f8, mine.f9, mine.f10, mine.f11, mine.f12, mine.f13, mine.f14, mine.f15 and 3 more)
    """
    c.item("step").data = archive(dump([call(name, "x") for name in MANY], 2))


@case("pickle_unsafe", "verify ckpt", "inspect ckpt", says="findings", exit=0)
def an_object_that_is_a_call_and_nobody_asked(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got posix.system, builtins.eval)
    """
    c.item("step").data = archive(dump([call("posix.system", "true"), call("builtins.eval", "1")], 2))


@case("pickle_unsafe", "verify m.pt --fail-on unsafe", "inspect m.pt --fail-on unsafe", says="findings", exit=1)
def a_call_in_a_torch_file(c):
    """
    warning: m.pt > data.pkl @ 0x40: pickle_unsafe (got builtins.exec)
    warning: m.pt > data.pkl @ 0x40: object 'epoch': pickle_unsafe (got posix.system)
    """
    thrown_away = Op(call("builtins.exec", "1") + pickle.POP)
    state = dump({"w": rebuild(storage(count=2), (2,)), "epoch": [call("posix.system", "true")]}, 2)
    c.written = True
    (c.folder.parent / "m.pt").write_bytes(archive(state[:2] + thrown_away + state[2:], struct.pack("<2f", 1, 2)).bytes())


@case("pickle_unseen", "inspect ckpt", says="findings", exit=0)
def an_object_too_large_for_inspect(c):
    """
    note: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unseen (got a pickle of 1048613 bytes, expected at most 1048576)
    """
    c.item("step").data = archive(dump(["x" * (1 << 20), call("posix.system", "true")], 2))


@case("pickle_unsafe", "inspect ckpt --fail-on unsafe", says="findings", exit=1)
def a_large_object_that_inspect_was_asked_about(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got posix.system)
    """
    c.item("step").data = archive(dump(["x" * (1 << 20), call("posix.system", "true")], 2))


@case("pickle_unseen", "inspect ckpt", says="findings", exit=0)
def a_compressed_object_too_large_for_inspect(c):
    """
    note: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unseen (got an object that decodes to 1310720 bytes or more, expected at most 1048576)
    """
    compressed(c, "step", zstd(*[(b"\0", 1 << 17)] * 80000))


@case("pickle_unsafe", "inspect ckpt", says="findings", exit=0)
def the_last_of_many_compressed_objects(c):
    """
    warning: ckpt/__0_0.distcp @ 0x24acca: object 'e': pickle_unsafe (got posix.system)
    """
    c.paths = None
    for key in ["a", "b", "c", "d", "e"]:
        c.blobs.append(key)
        c.items.append(Item(key, None, "__0_0.distcp", b""))
        compressed(c, key, blocks(archive(dump(["x" * 600_000, *([call("posix.system", "true")] if key == "e" else [])], 2))))


def blocks(item):
    whole = item.bytes()
    return zstd(*(whole[at : at + (1 << 17)] for at in range(0, len(whole), 1 << 17)))


# ---- objects that are no archives: torch.load takes them for its format before 1.6, and runs the first pickle whatever it is

EXAMINED = ("verify ckpt", "verify ckpt --fail-on unsafe", "inspect ckpt --fail-on unsafe")


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_that_runs_something(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got posix.system)
    """
    c.item("step").data = dump(call("posix.system", "true"), 2)


@case("pickle_unsafe", "inspect ckpt", says="findings", exit=1)
def a_bare_pickle_that_inspect_meets(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got posix.system)
    """
    c.item("step").data = dump(call("posix.system", "true"), 2)


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_of_names_on_the_stack(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got fractions.Fraction)
    """
    c.item("step").data = pickle.dumps([Fraction(1, 3)], 4)


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_that_is_cut(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got fractions.Fraction)
    """
    c.item("step").data = pickle.dumps([Fraction(1, 3), "x" * 300], 2)[:-100]


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_of_lines(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = b"I1\n0L2L\n0F.5\n0S'x'\np7\n0Vy\n0g7\n0P9\n0cos\nsystem\n(S'true'\ntR."


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_that_python_2_called_by_name(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = b"(S'true'\nios\nsystem\n."


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_of_names_in_quotes(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = b"S'os'\nVsystem\n\x93(S'true'\ntR."


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_that_an_extension_ends(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = b"\x80\x02cos\nsystem\n(X\4\0\0\0truetR\x82\1cos\nabort\n."


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_that_computes_a_name(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got a name that the pickle computes)
    """
    module = call("_codecs.encode", "bf", "rot13")
    c.item("step").data = dump(Op(module + op("system") + pickle.STACK_GLOBAL + op(("true",)) + pickle.REDUCE), 4)


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_with_a_memo_slot_that_is_made_up(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = dump(Op(call("os.system", "true") + pickle.PUT + b"70000000\n"), 2)


@case("pickle_unsafe", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_that_a_text_without_quotes_ends(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got os.system)
    """
    c.item("step").data = dump(Op(call("os.system", "true") + b"S'\n" + glob("os.abort")), 2)


@case("pickle_unsafe", "verify ckpt --fail-on unsafe", "inspect ckpt --fail-on unsafe", says="findings", exit=1)
def an_object_that_changes_a_class(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got collections.Counter)
    """
    changed = Op(glob("collections.Counter") + op((None, {"update": glob("torch.device")})) + pickle.BUILD + pickle.POP)
    c.item("step").data = archive(dump(Op(changed + op(17)), 2))


@case("pickle_unsafe", "verify m.pt --fail-on unsafe", "inspect m.pt --fail-on unsafe", says="findings", exit=1)
def a_name_that_leads_out_of_the_modules_of_dtensors(c):
    """
    warning: m.pt > data.pkl @ 0x40: object 'e': pickle_unsafe (got torch.distributed.tensor._api.torch.os.system)
    """
    c.written = True
    made = Op(b"ctorch.distributed.tensor._api\ntorch.os.system\n" + op(("true",)) + pickle.REDUCE)
    (c.folder.parent / "m.pt").write_bytes(archive(dump({"w": rebuild(storage(count=2), (2,)), "e": made}, 4), bytes(8)).bytes())


@case("blob_not_archive", *EXAMINED, says="findings", exit=1)
def a_bare_pickle_that_only_holds_data(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    """
    c.item("step").data = pickle.dumps(17)


@case("pickle_unsafe", "inspect ckpt --fail-on unsafe", "verify ckpt --fail-on unsafe", says="findings", exit=1)
def an_object_in_the_old_format_that_runs_something(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got torch's format before 1.6, which dcp.load reads)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got posix.system)
    """
    c.item("step").data = old_file(call("posix.system", "true"))


@case("pickle_unsafe", "inspect ckpt", "verify ckpt", says="findings", exit=0)
def an_object_in_the_old_format_that_runs_something_is_named(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got torch's format before 1.6, which dcp.load reads)
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': pickle_unsafe (got posix.system)
    """
    c.item("step").data = old_file(call("posix.system", "true"))


@case("blob_not_archive", "inspect ckpt", *EXAMINED, says="findings", exit=0)
def an_object_in_the_old_format(c):
    """
    warning: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got torch's format before 1.6, which dcp.load reads)
    """
    c.item("step").data = old_file({"a": 1})
