"""Items that hold objects, and what their tensors name."""
import pickle

from recipes import Item, Op, Record, archive, call, case, deflate, dump, op, rebuild, storage, tensor_item

COMMANDS = ["consolidate ckpt out.pt"]
SIX = range(6)


@case("blob_not_archive")
def an_object_that_is_no_archive(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive
    """
    c.item("step").data = pickle.dumps(17)


@case("no_dtype_in_output", "consolidate ckpt out.safetensors", "consolidate ckpt out.safetensors --model-only", "consolidate ckpt out.safetensors --dry-run")
def a_weight_that_is_an_object(c):
    """
    dcpctl: ckpt: no_dtype_in_output (got model.v (an object that holds tensors))
    hint: its own
    """
    c.blobs += ["model.v"]
    c.paths["model.v"] = ("model", "v")
    c.items.append(Item("model.v", None, "__0_0.distcp", archive(dump(call("te.make_float8", rebuild(storage(count=6), (2, 3))), 2), bytes(24))))


@case("blob_big_endian")
def a_big_endian_tensor_in_an_object(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_big_endian
    hint: its own
    """
    c.item("step").data = tensor_item([1], (1,))
    c.item("step").data["byteorder"].data = b"big"


@case("item_no_record")
def an_object_that_names_a_missing_storage(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/../0 @ 0x59c: object 'step': item_no_record
    """
    c.item("step").data = tensor_item([1], (1,), stored=storage(key="../0", count=1))


TENSOR = {"t": rebuild(storage(count=3), (3,)), "k": 1}


@case("item_short_storage", "consolidate ckpt out.pt", "convert ckpt out")
def an_object_whose_storage_is_short(c):
    """
    dcpctl: ckpt/__0_0.distcp > data/0 @ 0x71c: object 'step': item_short_storage (got 8 bytes, expected 12)
    """
    c.item("step").data = archive(dump(TENSOR, 2), bytes(8))


@case("item_short_storage", "verify ckpt", "verify ckpt --quick", says="findings", exit=1)
def an_object_whose_storage_is_short_verified(c):
    """
    damage: ckpt/__0_0.distcp > data/0 @ 0x71c: object 'step': item_short_storage (got 8 bytes, expected 12)
    """
    c.item("step").data = archive(dump(TENSOR, 2), bytes(8))


@case("item_long_storage", "verify ckpt", says="findings", exit=1)
def an_object_whose_storage_is_long(c):
    """
    damage: ckpt/__0_0.distcp > data/0 @ 0x71c: object 'step': item_long_storage (got 13 bytes, expected 12)
    """
    c.item("step").data = archive(dump(TENSOR, 2), bytes(13))


@case("item_no_record", "verify ckpt", says="findings", exit=1)
def an_object_whose_storage_is_missing(c):
    """
    damage: ckpt/__0_0.distcp > data/0 @ 0x59c: object 'step': item_no_record
    """
    c.item("step").data = archive(dump(TENSOR, 2))


@case("pickle_underflow", "verify ckpt", "inspect ckpt --fail-on unsafe", says="findings", exit=1)
def an_object_that_is_nothing(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5de: object 'step': pickle_underflow (got 0 values, expected 1 for STOP)
    """
    c.item("step").data = archive(pickle.PROTO + b"\2" + pickle.STOP)


@case("pickle_operand", "verify ckpt", says="findings", exit=1)
def an_object_with_a_key_without_a_value(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5e5: object 'step': pickle_operand (got an odd number of values for SETITEMS, expected keys and values)
    """
    c.item("step").data = archive(dump(Op(pickle.EMPTY_DICT + pickle.MARK + op(1) + pickle.SETITEMS), 2))


@case("pickle_no_mark", "verify ckpt", says="findings", exit=1)
def an_object_without_a_mark(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5e4: object 'step': pickle_no_mark (got APPENDS)
    """
    c.item("step").data = archive(dump(Op(pickle.EMPTY_LIST + op(1) + pickle.APPENDS), 2))


@case("item_outside_storage", "verify ckpt", "verify ckpt --quick", says="findings", exit=1)
def a_tensor_in_an_object_past_its_storage(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x66f: object 'step': item_outside_storage (got element 3, expected less than 3)
    """
    c.item("step").data = archive(dump({"t": rebuild(storage(count=3), (4,))}, 2), bytes(12))


@case("item_outside_storage", "consolidate ckpt out.pt", "reshard ckpt out --world-size 2")
def a_tensor_in_an_object_past_its_storage_copied(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x66f: object 'step': item_outside_storage (got element 3, expected less than 3)
    """
    c.item("step").data = archive(dump({"t": rebuild(storage(count=3), (4,))}, 2), bytes(12))


@case("blob_not_archive", "verify ckpt", says="findings", exit=1)
def bytes_before_the_archive_of_an_object(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': blob_not_archive (got a bare pickle, which dcp.load runs before it fails)
    """
    c.item("step").data.before = b"\x80\2K\7."


@case("item_not_archive", "consolidate ckpt out.pt")
def bytes_before_the_archive_of_an_object_that_is_copied(c):
    r"""
    dcpctl: ckpt/__0_0.distcp @ 0x59c: object 'step': item_not_archive (got text '\x80\x02K\x07' at its begin, expected 'PK\x03\x04')
    """
    c.item("step").data.before = b"\x80\2K\7."


@case("item_not_archive", "verify ckpt", says="findings", exit=1)
def a_torchscript_archive_for_an_object(c):
    """
    damage: ckpt/__0_0.distcp @ 0x59c: object 'step': item_not_archive (got constants.pkl, as TorchScript has)
    """
    c.item("step").data.records.append(Record("constants.pkl", b"\x80\2)."))


@case("pickle_protocol", "verify ckpt", says="findings", exit=1)
def an_object_of_protocol_104(c):
    """
    damage: ckpt/__0_0.distcp > data.pkl @ 0x5dc: object 'step': pickle_protocol (got 104, expected at most 5)
    """
    c.item("step").data = archive(dump(1, 104))


@case("pickle_memo_unset")
def an_object_with_a_dangling_memo(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x5de: object 'step': pickle_memo_unset (got slot 7)
    """
    c.item("step").data = archive(dump(Op(pickle.BINGET + b"\7"), 2))


@case("over_limit")
def an_object_nested_100000_deep(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x9c6: object 'step': over_limit (got containers nested 1001 deep, expected at most 1000)
    """
    c.item("step").data = archive(dump(Op(pickle.MARK * 100000 + op(None) + pickle.TUPLE * 100000), 2))


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def os_system_in_an_object_is_copied_and_not_called(c):
    """
    """
    c.item("step").data = archive(dump(call("os.system", "touch executed"), 2))


@case("crc_mismatch")
def a_flipped_byte_in_the_pickle_of_an_object(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x5dc: object 'step': crc_mismatch
    hint: its own
    """
    c.item("step").data["data.pkl"].crc = 7


@case("pickle_leftover")
def an_object_that_leaves_a_key_and_a_value_for_the_dict_around_it(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x600: object 'step': pickle_leftover (got 4 values and 0 marks, expected one value)
    hint: its own
    """
    c.item("step").data = archive(dump(Op(op("model.w") + op(0) + op("model.x") + op(17)), 2))


@case("pickle_storage_id")
def a_persistent_id_that_is_no_storage_in_an_object(c):
    """
    dcpctl: ckpt/__0_0.distcp > data.pkl @ 0x5e9: object 'step': pickle_storage_id (got text 'module', expected ('storage', class, key, location, count))
    """
    c.item("step").data = archive(dump(Op(op("module") + pickle.BINPERSID), 2))


@case("pickle_unseen", "inspect ckpt", says="findings", exit=0)
def objects_that_are_small_only_until_they_are_unpacked(c):
    """
    note: ckpt/__1_0.distcp @ 0x30e: object 'k0': pickle_unseen (got a pickle of 8388616 bytes, expected at most 1048576)
    note: ckpt/__1_0.distcp @ 0x24a0: object 'k1': pickle_unseen (got a pickle of 8388616 bytes, expected at most 1048576)
    note: ckpt/__1_0.distcp @ 0x4632: object 'k2': pickle_unseen (got a pickle of 8388616 bytes, expected at most 1048576)
    """
    packed = archive(dump("z" * (8 << 20), 2))
    deflate(packed["data.pkl"])
    item = packed.bytes()
    for n in range(100):
        c.blobs.append(f"k{n}")
        c.paths[f"k{n}"] = (f"k{n}",)
        c.items.append(Item(f"k{n}", None, "__1_0.distcp", item))


# ---- objects that lie in one another


def overlap(c, count):
    """At one place, each a byte longer than the one before."""
    c.paths = None
    c.blobs += [f"k{i}" for i in range(count)]
    data = archive(dump(17, 2)).bytes()
    c.items += [Item(f"k{i}", None, "k.distcp", b"", fields={"offset": 0, "length": len(data) + i}) for i in range(count)]
    c.items[-1].data = data + bytes(count - 1)


@case(None, "consolidate ckpt out.pt -q", exit=0, creates=["out.pt"])
def some_objects_that_overlap(c):
    """
    """
    overlap(c, 16)


@case("items_overlap", "consolidate ckpt out.pt", "reshard ckpt out --world-size 2", "diff ckpt ckpt")
def objects_that_overlap_many_times(c):
    """
    dcpctl: ckpt/k.distcp: items_overlap (got so many that they add up to 16 times the file's 419 bytes; no more of them are read)
    hint: its own
    """
    overlap(c, 18)
