"""`.metadata` as a pickle: opcodes, lengths, stack, memo. Nothing in it is ever called."""
import os
import pickle
import struct

from recipes import METADATA, Op, Size, Tensor, call, case, chunk, dump, glob, new, op

COMMANDS = ["inspect ckpt", "consolidate ckpt out.pt"]
PROTO4 = b"\x80\x04"


@case("pickle_no_stop")
def empty_file(c):
    """
    dcpctl: ckpt/.metadata @ 0x0: pickle_no_stop
    hint: its own
    """
    c.metadata = b""


@case("pickle_no_stop")
def cut_before_stop(c):
    """
    dcpctl: ckpt/.metadata @ 0x953: pickle_no_stop
    hint: its own
    """
    c.metadata = c.pickle()[:-1]


@case("pickle_truncated")
def cut_inside_an_opcode(c):
    """
    dcpctl: ckpt/.metadata @ 0x947: pickle_truncated (got 2 bytes left, expected 5 for BINUNICODE)
    hint: its own
    """
    c.metadata = c.pickle()[:-6]


@case("pickle_truncated")
def a_length_past_the_end(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_truncated (got 5 bytes left, expected 4294967295 for BINUNICODE)
    hint: its own
    """
    c.metadata = PROTO4 + pickle.BINUNICODE + struct.pack("<I", 0xFFFFFFFF) + b"short"


@case("pickle_truncated")
def a_64_bit_length_past_the_end(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_truncated (got 5 bytes left, expected 4611686018427387904 for BINUNICODE8)
    hint: its own
    """
    c.metadata = PROTO4 + pickle.BINUNICODE8 + struct.pack("<Q", 1 << 62) + b"short"


@case("pickle_truncated")
def a_giant_integer(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_truncated (got 101 bytes left, expected 2147483647 for LONG4)
    hint: its own
    """
    c.metadata = PROTO4 + pickle.LONG4 + struct.pack("<i", 0x7FFFFFFF) + b"\1" * 100 + pickle.STOP


@case("pickle_negative_length")
def a_negative_integer_length(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_negative_length (got -1)
    """
    c.metadata = PROTO4 + pickle.LONG4 + struct.pack("<i", -1) + pickle.STOP


@case("pickle_frame")
def a_frame_longer_than_the_file(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_frame (got 1099511627776 bytes, expected at most 2)
    hint: its own
    """
    c.metadata = PROTO4 + pickle.FRAME + struct.pack("<Q", 1 << 40) + pickle.NONE + pickle.STOP


@case("pickle_unknown_opcode")
def an_unknown_opcode(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_unknown_opcode (got 0xff)
    """
    c.metadata = PROTO4 + b"\xff" + pickle.STOP


@case("pickle_unknown_opcode")
def a_text_file(c):
    """
    dcpctl: ckpt/.metadata @ 0x0: pickle_unknown_opcode (got 0x76)
    """
    c.metadata = b"version 2 of some other text\n"


@case("lfs_pointer")
def a_git_lfs_pointer(c):
    """
    dcpctl: ckpt/.metadata: lfs_pointer
    hint: its own
    """
    c.metadata = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 1528\n"


@case("pickle_refused_opcode")
def an_opcode_that_loads_by_code(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_refused_opcode (got EXT1)
    """
    c.metadata = PROTO4 + pickle.EXT1 + b"\1" + pickle.STOP


@case("pickle_protocol")
def a_protocol_of_the_future(c):
    """
    dcpctl: ckpt/.metadata @ 0x0: pickle_protocol (got 6, expected at most 5)
    """
    c.metadata = dump(op(None), protocol=6)


@case("pickle_underflow")
def stop_without_a_value(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_underflow (got 0 values, expected 1 for STOP)
    """
    c.metadata = PROTO4 + pickle.STOP


@case("pickle_underflow")
def reduce_without_arguments(c):
    """
    dcpctl: ckpt/.metadata @ 0xe: pickle_underflow (got 1 value, expected 2 for REDUCE)
    """
    c.metadata = dump(Op(glob("torch.Size") + pickle.REDUCE))


@case("pickle_no_mark")
def a_tuple_without_its_mark(c):
    """
    dcpctl: ckpt/.metadata @ 0x7: pickle_no_mark (got TUPLE)
    """
    c.metadata = dump(Op(op(1) + pickle.TUPLE))


@case("pickle_operand")
def append_to_a_number(c):
    """
    dcpctl: ckpt/.metadata @ 0xc: pickle_operand (got 1 for APPEND, expected a list)
    """
    c.metadata = dump(Op(op(1) + op(2) + pickle.APPEND))


@case("pickle_operand")
def a_key_without_a_value(c):
    """
    dcpctl: ckpt/.metadata @ 0xc: pickle_operand (got an odd number of values for SETITEMS, expected keys and values)
    """
    c.metadata = dump(Op(pickle.EMPTY_DICT + pickle.MARK + op("key") + pickle.SETITEMS))


@case("pickle_operand")
def a_global_named_by_numbers(c):
    """
    dcpctl: ckpt/.metadata @ 0xc: pickle_operand (got 1 for STACK_GLOBAL, expected a module's name)
    """
    c.metadata = dump(Op(op(1) + op(2) + pickle.STACK_GLOBAL))


@case("pickle_memo_unset")
def a_dangling_memo(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_memo_unset (got slot 7)
    """
    c.metadata = dump(Op(pickle.BINGET + b"\x07"))


@case("over_limit")
def a_memo_slot_of_gigabytes(c):
    """
    dcpctl: ckpt/.metadata @ 0x3: over_limit (got memo slot 4000000000, expected below 256)
    """
    c.metadata = dump(Op(op(None) + pickle.LONG_BINPUT + struct.pack("<I", 4000000000) + pickle.LONG_BINGET + struct.pack("<I", 4000000000)))


@case("over_limit")
def marks_nested_a_million_deep(c):
    """
    dcpctl: ckpt/.metadata @ 0x3ea: over_limit (got containers nested 1001 deep, expected at most 1000)
    """
    c.metadata = dump(Op(pickle.MARK * 1000000 + op(None) + pickle.TUPLE * 1000000))


@case("metadata_not_dcp")
def lists_nested_200000_deep(c):
    """
    dcpctl: ckpt/.metadata @ 0x61a81: metadata_not_dcp (got list, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.metadata = dump(Op(pickle.EMPTY_LIST * 200000 + pickle.APPEND * 199999))


@case("metadata_not_dcp")
def a_list_that_holds_itself(c):
    """
    dcpctl: ckpt/.metadata @ 0x7: metadata_not_dcp (got list, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.metadata = dump(Op(pickle.EMPTY_LIST + pickle.MEMOIZE + pickle.BINGET + b"\0" + pickle.APPEND))


@case("over_limit")
def a_billion_chunks_by_sharing_one_list(c):
    """
    dcpctl: ckpt/.metadata @ 0x3258a: tensor 't17': over_limit (got lists that are shared and add up to more values, expected at most 3560316)
    """
    chunks = Op(pickle.EMPTY_LIST + pickle.MARK + chunk(Size((0,)), Size((1,))) + pickle.BINPUT + b"\0")
    chunks = Op(chunks + (pickle.BINGET + b"\0") * 100000 + pickle.APPENDS + pickle.BINPUT + b"\1")
    c.tensors = {"t0": Tensor((1,), [], fields={"chunks": chunks})}
    for n in range(1, 10000):
        c.tensors[f"t{n}"] = Tensor((1,), [], fields={"chunks": Op(pickle.BINGET + b"\1")})


@case("metadata_not_dcp")
def a_persistent_id(c):
    """
    dcpctl: ckpt/.metadata @ 0x9: metadata_not_dcp (got a persistent id: text 'id', expected a pickle without them)
    """
    c.metadata = dump(Op(op("id") + pickle.BINPERSID))


@case("metadata_not_dcp")
def another_programs_pickle(c):
    """
    dcpctl: ckpt/.metadata @ 0x21: metadata_not_dcp (got dict, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = op({"model": [1, 2, 3]})


@case("metadata_not_dcp")
def metadata_that_never_got_its_fields(c):
    """
    dcpctl: ckpt/.metadata @ 0x34: metadata_not_dcp (got torch.distributed.checkpoint.metadata.Metadata, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = Op(glob(METADATA + "Metadata") + pickle.EMPTY_TUPLE + pickle.NEWOBJ)


@case("metadata_not_dcp")
def metadata_inside_metadata(c):
    """
    dcpctl: ckpt/.metadata @ 0x964: metadata_not_dcp (got a second Metadata object, expected one)
    """
    c.fields["planner_data"] = new(METADATA + "Metadata", {"state_dict_metadata": {}, "storage_data": {}})


@case("metadata_not_dcp")
def os_system_in_place_of_the_metadata(c):
    """
    dcpctl: ckpt/.metadata @ 0x23: metadata_not_dcp (got os.system, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = call("os.system", "touch executed")


@case("metadata_not_dcp")
def eval_in_place_of_the_metadata(c):
    """
    dcpctl: ckpt/.metadata @ 0x2e: metadata_not_dcp (got builtins.eval, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = call("builtins.eval", "open('executed', 'w')")


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def os_system_in_a_field_that_is_not_used(c):
    """
    """
    c.fields["storage_meta"] = call("os.system", "touch executed")


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def eval_reached_through_getattr_in_the_planner_data(c):
    """
    """
    builtins = Op(call("builtins.__import__", "builtins"))
    evil = Op(glob("builtins.getattr") + op((builtins, "eval")) + pickle.REDUCE + op(("open('executed', 'w')",)) + pickle.REDUCE)
    c.paths = {"model.w": evil}


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def a_list_that_doubles_forty_times(c):
    """
    """
    lists = Op(pickle.EMPTY_LIST + pickle.BINPUT + b"\0")
    for n in range(40):
        last = pickle.BINGET + bytes([n])
        lists = Op(lists + pickle.POP + pickle.EMPTY_LIST + pickle.MARK + last + last + pickle.APPENDS + pickle.BINPUT + bytes([n + 1]))
    c.fields["planner_data"] = {"model.w": lists}


# ---- what Python cannot load


def path_object(*parts, name="PosixPath"):
    cls = Op(pickle.GLOBAL + b"pathlib\n" + name.encode(errors="surrogateescape") + b"\n")
    return new(METADATA + "StorageMeta", {"checkpoint_id": Op(cls + op(parts) + pickle.REDUCE)})


@case("pickle_unloadable", "verify ckpt --quick", "inspect ckpt --fail-on damage", says="findings", exit=1)
def a_class_whose_name_is_not_utf8(c):
    r"""
    damage: ckpt/.metadata @ 0x983: pickle_unloadable (got name 'Posix\xffath', expected UTF-8)
    warning: ckpt/.metadata: pickle_unsafe (got pathlib.Posix\xffath)
    """
    c.fields["storage_meta"] = path_object("/", name="Posix\udcffath")


@case("pickle_unloadable", "verify ckpt --quick", "inspect ckpt --fail-on damage", says="findings", exit=1)
def a_path_of_a_number(c):
    """
    damage: ckpt/.metadata @ 0x9a3: pickle_unloadable (got pathlib.PosixPath of 4, expected text)
    """
    c.fields["storage_meta"] = path_object("/", 4)


@case("pickle_unloadable", "verify ckpt --quick", "inspect ckpt --fail-on damage", says="findings", exit=1)
def an_offset_that_is_a_list(c):
    """
    damage: ckpt/.metadata @ 0x6c5: tensor 'model.b': pickle_unloadable (got MetadataIndex.offset: a list, expected torch.Size)
    """
    c.item("model.b").index["offset"] = [0]


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def an_offset_that_is_a_list_consolidated(c):
    """
    """
    c.item("model.b").index["offset"] = [0]


@case("pickle_unknown_opcode", *COMMANDS, "verify ckpt", "ranks ckpt")
def a_gigabyte_of_zeros(c):
    """
    dcpctl: ckpt/.metadata @ 0x0: pickle_unknown_opcode (got 0x00)
    """
    c.metadata = b""
    c.write()
    os.truncate(c.folder / ".metadata", 1 << 30)
