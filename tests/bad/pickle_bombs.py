"""Small pickles that stand for much, hold themselves, or would call: in `.metadata`, in an object, in a torch.save file."""
import pickle
import struct

from recipes import METADATA, Op, Tensor, archive, call, case, dump, glob, new, op

COMMANDS = ["inspect ckpt", "consolidate ckpt out.pt"]
OBJECT = ["consolidate ckpt out.pt"]
FILE = ["inspect m.pt", "consolidate m.pt out.pt"]
MEBI = (1 << 20) - 4096  # the file stays below 1 MiB


def file(c, made):
    c.written = True
    (c.folder.parent / "m.pt").write_bytes(archive(dump(made, 2)).bytes())


def doubled(make, times=40):
    """A value that holds the one before twice, which holds the one before it twice, and so on: 2^times leaves in a few opcodes each."""
    made = Op(op(1) + pickle.BINPUT + b"\0")
    for n in range(times):
        last = pickle.BINGET + bytes([n])
        made = Op(made + pickle.POP + make(last) + pickle.BINPUT + bytes([n + 1]))
    return made


def of_tuples(last):
    return last + last + pickle.TUPLE2


def of_lists(last):
    return pickle.EMPTY_LIST + pickle.MARK + last + last + pickle.APPENDS


def of_dicts(last):
    return pickle.EMPTY_DICT + pickle.MARK + op("a") + last + op("b") + last + pickle.SETITEMS


def of_calls(last):
    return glob("builtins.max") + last + last + pickle.TUPLE2 + pickle.REDUCE


# ---- bombs


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def tuples_that_double_in_the_planner_data(c):
    c.paths = {"model.w": doubled(of_tuples)}


@case("metadata_field", *COMMANDS)
def dicts_that_double_in_place_of_the_keys(c):
    """
    dcpctl: ckpt/.metadata @ 0x834: tensor 'a': metadata_field (got Metadata.state_dict_metadata: dict, expected TensorStorageMetadata or BytesStorageMetadata)
    """
    c.fields["state_dict_metadata"] = doubled(of_dicts)


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def calls_that_double(c):
    c.fields["storage_meta"] = doubled(of_calls)


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def tuples_that_double_in_an_object(c):
    c.item("step").data = archive(dump(doubled(of_tuples), 2))


@case("over_limit", *FILE)
def a_thousand_dicts_that_are_one(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: over_limit (got containers that are shared and add up to more values, expected at most 36772)
    """
    shared = Op(pickle.EMPTY_DICT + pickle.BINPUT + b"\1" + pickle.MARK + b"".join(op(n) + op(n) for n in range(1000)) + pickle.SETITEMS)
    file(c, {n: shared if n == 0 else Op(pickle.BINGET + b"\1") for n in range(1000)})


@case("over_limit", *FILE)
def long_paths_of_many_leaves(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: over_limit (got a state dict whose keys and paths take 29807745 bytes, expected at most 29807744)
    """
    leaves = Op(pickle.EMPTY_DICT + pickle.MARK + b"".join(op(n) + op(None) for n in range(100000)) + pickle.SETITEMS)
    file(c, Op((pickle.EMPTY_DICT + op("d")) * 900 + leaves + pickle.SETITEM * 900))


@case("over_limit", *FILE)
def dicts_that_double_in_a_state_dict(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: over_limit (got a state dict whose keys and paths take 16793163 bytes, expected at most 16792576)
    """
    file(c, doubled(of_dicts))


@case(None, "consolidate m.pt out.pt -q", exit=0, creates=["out.pt"])
def lists_that_double_in_a_state_dict(c):
    file(c, {"w": doubled(of_lists)})


@case(None, "consolidate m.pt out.pt -q", exit=0, creates=["out.pt"])
def tuples_that_double_in_a_state_dict(c):
    file(c, {"w": doubled(of_tuples)})


@case(None, "consolidate m.pt out.pt -q", exit=0, creates=["out.pt"])
def calls_that_double_in_a_state_dict(c):
    file(c, {"w": doubled(of_calls)})


@case("over_limit", *OBJECT)
def a_few_holes_too_many_in_each_of_three_lists(c):
    """
    dcpctl: ckpt: over_limit (got a list position of 400000, expected at most 1048576 holes in all)
    """
    c.tensors |= {f"t{n}": Tensor((0,), []) for n in range(3)}
    c.paths |= {f"t{n}": (f"list{n}", 400000) for n in range(3)}


@case("metadata_not_dcp", *COMMANDS)
def a_mebibyte_of_empty_dicts(c):
    """
    dcpctl: ckpt/.metadata @ 0xff002: metadata_not_dcp (got dict, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.metadata = dump(Op(pickle.EMPTY_DICT * MEBI))


@case("metadata_not_dcp", *COMMANDS)
def a_mebibyte_of_empty_tuples(c):
    """
    dcpctl: ckpt/.metadata @ 0xff002: metadata_not_dcp (got tuple, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.metadata = dump(Op(pickle.EMPTY_TUPLE * MEBI))


@case("metadata_not_dcp", *COMMANDS)
def a_mebibyte_of_memoized_copies(c):
    """
    dcpctl: ckpt/.metadata @ 0xff003: metadata_not_dcp (got None, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.metadata = dump(Op(pickle.NONE + (pickle.DUP + pickle.MEMOIZE) * (MEBI // 2)))


@case("metadata_not_dcp", *COMMANDS)
def a_mebibyte_of_calls(c):
    """
    dcpctl: ckpt/.metadata @ 0xff00e: metadata_not_dcp (got os.system, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.metadata = dump(Op(glob("os.system") + pickle.MEMOIZE + (pickle.BINGET + b"\0" + pickle.EMPTY_TUPLE + pickle.REDUCE) * (MEBI // 4)))


@case("metadata_number", *COMMANDS)
def an_integer_of_a_mebibyte_for_a_size(c):
    """
    dcpctl: ckpt/.metadata @ 0xff197: tensor 'model.w': metadata_number (got torch.Size with an integer of 1044480 bytes, expected integers)
    """
    c.tensors["model.w"].size = (Op(pickle.LONG4 + struct.pack("<i", MEBI) + b"\x7f" * MEBI), 3)


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def an_object_of_a_mebibyte_of_lists(c):
    c.item("step").data = archive(dump(Op(pickle.EMPTY_LIST + pickle.MARK + pickle.EMPTY_LIST * MEBI + pickle.APPENDS), 2))


@case(None, "consolidate m.pt out.pt -q", exit=0, creates=["out.pt"])
def a_state_dict_of_a_quarter_of_a_mebibyte_of_lists(c):
    file(c, {"w": Op(pickle.EMPTY_LIST + pickle.MARK + pickle.EMPTY_LIST * (MEBI // 4) + pickle.APPENDS)})


@case("over_limit", *FILE)
def a_state_dict_of_dicts_100000_deep(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: over_limit (got containers nested 1001 deep, expected at most 1000)
    """
    file(c, Op(pickle.EMPTY_DICT + (op("d") + pickle.EMPTY_DICT) * 100000 + pickle.SETITEM * 100000))


@case(None, "consolidate m.pt out.pt -q", exit=0, creates=["out.pt"])
def a_state_dict_of_tuples_100000_deep(c):
    file(c, {"w": Op(op(1) + pickle.TUPLE1 * 100000)})


# ---- cycles


@case("metadata_field", *COMMANDS)
def keys_that_hold_themselves(c):
    """
    dcpctl: ckpt/.metadata @ 0x4ca: tensor 'me': metadata_field (got Metadata.state_dict_metadata: dict, expected TensorStorageMetadata or BytesStorageMetadata)
    """
    c.fields["state_dict_metadata"] = Op(pickle.EMPTY_DICT + pickle.BINPUT + b"\1" + op("me") + pickle.BINGET + b"\1" + pickle.SETITEM)


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def a_path_that_holds_itself(c):
    cycle = Op(pickle.EMPTY_LIST + pickle.BINPUT + b"\1" + pickle.BINGET + b"\1" + pickle.TUPLE1 + pickle.APPEND)
    c.paths = {"model.w": Op(pickle.MARK + op("model") + cycle + pickle.TUPLE)}


@case("metadata_field", *COMMANDS)
def an_unfinished_object_in_its_own_state(c):
    """
    dcpctl: ckpt/.metadata @ 0x4c: metadata_field (got Metadata.state_dict_metadata: nothing, expected a dict)
    """
    cls = glob(METADATA + "Metadata")
    c.root = Op(cls + pickle.EMPTY_TUPLE + pickle.NEWOBJ + pickle.BINPUT + b"\1" + op({"planner_data": Op(pickle.BINGET + b"\1")}) + pickle.BUILD)


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def an_object_that_holds_itself(c):
    cycle = Op(pickle.EMPTY_LIST + pickle.BINPUT + b"\1" + pickle.BINGET + b"\1" + pickle.APPEND)
    c.item("step").data = archive(dump(cycle, 2))


# ---- frames


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def a_frame_that_ends_inside_an_opcode(c):
    whole = c.pickle()
    c.metadata = whole[:2] + pickle.FRAME + struct.pack("<Q", 3) + whole[2:]


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def frames_within_frames(c):
    whole = c.pickle()
    c.metadata = whole[:2] + pickle.FRAME + struct.pack("<Q", 100) + pickle.FRAME + struct.pack("<Q", 100) + whole[2:]


@case("pickle_frame", *COMMANDS)
def a_frame_of_all_that_64_bits_can_say(c):
    """
    dcpctl: ckpt/.metadata @ 0x2: pickle_frame (got 18446744073709551615 bytes, expected at most 2)
    hint: its own
    """
    c.metadata = b"\x80\x04" + pickle.FRAME + b"\xff" * 8 + pickle.NONE + pickle.STOP


# ---- what would call


@case("metadata_not_dcp", *COMMANDS)
def the_result_of_a_call_is_called(c):
    """
    dcpctl: ckpt/.metadata @ 0x47: metadata_not_dcp (got operator.attrgetter, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = Op(call("operator.attrgetter", "system") + op((glob("os.path"),)) + pickle.REDUCE + op(("touch executed",)) + pickle.REDUCE)


@case("metadata_not_dcp", *COMMANDS)
def a_repository_of_torch_hub(c):
    """
    dcpctl: ckpt/.metadata @ 0x37: metadata_not_dcp (got torch.hub.load, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = call("torch.hub.load", "stranger/repository", "model")


@case("metadata_not_dcp", *COMMANDS)
def a_process_by_its_class(c):
    """
    dcpctl: ckpt/.metadata @ 0x3f: metadata_not_dcp (got subprocess.Popen, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = Op(glob("subprocess.Popen") + op((["touch", "executed"],)) + op({"shell": False}) + pickle.NEWOBJ_EX)


@case("metadata_not_dcp", *COMMANDS)
def a_global_of_two_texts(c):
    """
    dcpctl: ckpt/.metadata @ 0x2b: metadata_not_dcp (got os.system, expected torch.distributed.checkpoint.metadata.Metadata with its fields)
    """
    c.root = Op(op("os") + op("system") + pickle.STACK_GLOBAL + op(("touch executed",)) + pickle.REDUCE)


@case("metadata_field", *COMMANDS)
def a_class_of_torchs_that_gets_a_state_of_calls(c):
    """
    dcpctl: ckpt/.metadata @ 0x5b0: tensor 'storage_data': metadata_field (got MetadataIndex: os.system, expected a dict of its fields)
    """
    c.fields["storage_data"] = new(METADATA + "MetadataIndex", call("os.system", "touch executed"))


@case("torch_no_state_dict", *FILE)
def a_state_dict_that_torch_hub_makes(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: torch_no_state_dict (got an object of torch.hub.load, expected a dict of tensors)
    hint: save what is in it: torch.save(torch.load(FILE, weights_only=False).state_dict(), NEW)
    """
    file(c, call("torch.hub.load", "stranger/repository", "model"))


@case(None, "consolidate m.pt out.pt -q", exit=0, creates=["out.pt"])
def a_state_dict_with_a_call_for_a_tensor(c):
    file(c, {"w": call("builtins.exec", "open('executed', 'w')")})


@case("item_unknown_dtype", *FILE)
def a_storage_class_that_is_a_function(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: tensor 'w': item_unknown_dtype (got os.system)
    """
    stored = Op(op(("storage", glob("os.system"), "0", "cpu", 2)) + pickle.BINPERSID)
    file(c, {"w": call("torch._utils._rebuild_tensor_v2", stored, 0, (2,), (1,), False, call("collections.OrderedDict"))})
