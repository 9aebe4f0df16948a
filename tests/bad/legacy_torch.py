"""torch.save files in the form before torch 1.6 that contradict themselves, are damaged, or run something."""
import pickle
import struct

from recipes import MAGIC, SYS_INFO, Op, call, case, glob, old_file, old_storage, op, rebuild

COMMANDS = ["inspect m.pt", "verify m.pt", "consolidate m.pt out.pt"]
EIGHT = struct.pack("<2f", 1, 2)
W = {"0": EIGHT}


def put(c, data):
    c.written = True
    (c.folder.parent / "m.pt").write_bytes(data)


def w(count=2, shape=(2,), **stored):
    return {"w": rebuild(old_storage(count=count, **stored), shape)}


# ---- the beginning


@case("legacy_header")
def another_protocol(c):
    """
    dcpctl: m.pt @ 0xf: legacy_header (got 1002, expected protocol version 1001)
    hint: its own
    """
    put(c, old_file(w(), W, protocol=1002))


@case("legacy_header", *COMMANDS, "verify m.pt --fail-on unsafe", "inspect m.pt --fail-on unsafe")
def a_protocol_that_is_computed(c):
    """
    dcpctl: m.pt @ 0xf: legacy_header (got posix.system, expected plain values)
    hint: its own
    """
    put(c, old_file(w(), W, protocol=call("posix.system", "true")))


@case("legacy_header", *COMMANDS, "verify m.pt --fail-on unsafe")
def sizes_of_types_that_run_something(c):
    """
    dcpctl: m.pt @ 0x17: legacy_header (got posix.system, expected plain values)
    hint: its own
    """
    put(c, old_file(w(), W, info={**SYS_INFO, "type_sizes": call("posix.system", "true")}))


@case("legacy_header", *COMMANDS, "verify m.pt --fail-on unsafe")
def a_list_of_storages_that_runs_something(c):
    """
    dcpctl: m.pt @ 0x11d: legacy_header (got posix.system, expected plain values)
    hint: its own
    """
    put(c, old_file(w(), W, keys=["0", call("posix.system", "true")]))


@case("legacy_big_endian")
def saved_on_a_big_endian_machine(c):
    """
    dcpctl: m.pt @ 0x17: legacy_big_endian
    hint: its own
    """
    put(c, old_file(w(), W, info={**SYS_INFO, "little_endian": False}))


@case(None, "inspect m.pt", exit=0, says="findings")
def sizes_of_types_that_nobody_needs(c):
    put(c, old_file(w(), W, info={}))


@case("pickle_unloadable", *COMMANDS)
def a_function_whose_name_has_a_flipped_bit(c):
    """
    dcpctl: m.pt @ 0x86: pickle_unloadable (got torch._utils._rebuild_tdnsor_v2, expected torch._utils._rebuild_tensor_v2)
    hint: its own
    """
    put(c, old_file(w(), W).replace(b"_rebuild_tensor_v2", b"_rebuild_tdnsor_v2"))


@case("pickle_unloadable", *COMMANDS)
def a_module_whose_name_has_a_flipped_bit(c):
    """
    dcpctl: m.pt @ 0x86: pickle_unloadable (got uorch._utils._rebuild_tensor_v2, expected torch._utils._rebuild_tensor_v2)
    hint: its own
    """
    put(c, old_file(w(), W).replace(b"torch._utils", b"uorch._utils"))


@case(None, "inspect m.pt", exit=0, says="findings")
def a_function_of_a_later_torch(c):
    """
    warning: m.pt @ 0x86: tensor 'w': pickle_unsafe: torch._utils._rebuild_tensor_v4
    """
    put(c, old_file(w(), W).replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v4"))


@case("pickle_truncated")
def an_object_that_is_cut_short(c):
    """
    dcpctl: m.pt @ 0xbf: pickle_truncated (got no line end, expected two lines for GLOBAL)
    hint: its own
    """
    put(c, old_file(w(), W)[:200])


@case("pickle_truncated")
def a_text_longer_than_the_file(c):
    """
    dcpctl: m.pt @ 0x90: pickle_truncated (got 30 bytes left, expected 1073741824 for BINUNICODE)
    hint: its own
    """
    put(c, old_file({"w": Op(pickle.BINUNICODE + struct.pack("<I", 1 << 30))}, W))


@case("not_checkpoint")
def a_pickle_of_another_number(c):
    """
    dcpctl: m.pt: not_checkpoint (got a pickle, not a torch.save file, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    """
    put(c, old_file(w(), W).replace(pickle.dumps(MAGIC, 2), pickle.dumps(MAGIC + 1, 2)))


@case("not_checkpoint")
def the_tar_of_torch_0_1(c):
    """
    dcpctl: m.pt: not_checkpoint (got a torch.save file in the tar form of torch 0.1, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    hint: if you trust it, rewrite it with torch: torch.save(torch.load(FILE, weights_only=False), NEW)
    """
    import io
    import tarfile
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("sys_info", "pickle", "tensors", "storages"):
            tar.addfile(tarfile.TarInfo(name))
    put(c, made.getvalue())


# ---- what the object says of storages


@case("pickle_storage_id")
def an_id_of_the_newer_form(c):
    """
    dcpctl: m.pt @ 0xe7: pickle_storage_id (got a tuple of 5, expected ('storage', class, key, location, count, view) or ('module', class, file, source))
    """
    put(c, old_file({"w": rebuild(Op(op(("storage", glob("torch.FloatStorage"), "0", "cpu", 2)) + pickle.BINPERSID), (2,))}, W))


@case("pickle_storage_id")
def an_id_of_another_kind(c):
    """
    dcpctl: m.pt @ 0xe8: pickle_storage_id (got a tuple of 6, expected ('storage', class, key, location, count, view) or ('module', class, file, source))
    """
    put(c, old_file(w(kind="stowage"), W))


@case("item_unknown_dtype")
def a_class_of_tomorrow(c):
    """
    dcpctl: m.pt @ 0x86: item_unknown_dtype: torch.Float5Storage
    """
    put(c, old_file(w(cls="torch.Float5Storage"), W))


@case("item_bad_storage")
def a_key_that_is_no_text(c):
    """
    dcpctl: m.pt @ 0x86: item_bad_storage (got 7, expected a storage's key)
    """
    put(c, old_file(w(key=7), W))


@case("over_limit")
def a_key_of_a_novel(c):
    """
    dcpctl: m.pt @ 0x86: over_limit (got a storage's key of 5000 bytes, expected at most 64)
    """
    put(c, old_file(w(key="x" * 5000), W))


@case("item_bad_storage")
def a_negative_count(c):
    """
    dcpctl: m.pt @ 0x86: item_bad_storage (got -1, expected a storage's size)
    """
    put(c, old_file(w(count=-1), W))


@case("number_overflow")
def a_count_that_overflows(c):
    """
    dcpctl: m.pt @ 0x86: number_overflow: 4611686018427387904 * 4
    """
    put(c, old_file(w(count=1 << 62), W, counts={"0": 1 << 62}))


@case("legacy_storage_twice")
def counts_that_disagree(c):
    """
    dcpctl: m.pt > storage 0 @ 0x86: legacy_storage_twice: 8 and 4 bytes
    """
    put(c, old_file({**w(), "v": rebuild(old_storage(count=1), (1,))}, W))


@case("legacy_storage_twice")
def classes_that_disagree(c):
    """
    dcpctl: m.pt > storage 0 @ 0x86: legacy_storage_twice: two classes
    """
    put(c, old_file({**w(), "v": rebuild(old_storage("torch.IntStorage", count=2), (2,))}, W))


@case("item_outside_storage")
def a_tensor_beyond_its_storage(c):
    """
    dcpctl: m.pt @ 0x86: tensor 'w': item_outside_storage (got element 2, expected less than 2)
    """
    put(c, old_file(w(shape=(3,)), W))


# ---- views, as torch wrote them before 0.4


def viewed(*views, count=2):
    return {f"v{i}": rebuild(old_storage(count=count, view=view), (1,)) for i, view in enumerate(views)}


@case(None, "inspect m.pt", exit=0, says="findings")
def parts_of_one_storage(c):
    put(c, old_file({**viewed(("8", 0, 1), ("9", 1, 1), ("9", 1, 1), ("10", 0, 2)), **w()}, W))


@case("legacy_view")
def a_part_beyond_its_storage(c):
    """
    dcpctl: m.pt > storage 8 @ 0x86: legacy_view (got 2 elements at 1, expected within 2)
    """
    put(c, old_file(viewed(("8", 1, 2)), W))


@case("legacy_view")
def a_part_before_its_storage(c):
    """
    dcpctl: m.pt > storage 8 @ 0x86: legacy_view (got 2 elements at -1, expected within 2)
    """
    put(c, old_file(viewed(("8", -1, 2)), W))


@case("legacy_view")
def a_part_far_beyond(c):
    """
    dcpctl: m.pt > storage 8 @ 0x86: legacy_view (got 1 element at 4611686018427387905, expected within 2)
    """
    put(c, old_file(viewed(("8", (1 << 62) + 1, 1)), W))


@case("item_bad_storage")
def a_part_of_no_size(c):
    """
    dcpctl: m.pt @ 0x86: item_bad_storage (got None, expected a storage's size)
    """
    put(c, old_file(viewed(("8", 0, None)), W))


@case("pickle_storage_id")
def a_part_that_is_no_tuple(c):
    """
    dcpctl: m.pt @ 0xee: pickle_storage_id (got text '8', expected None or (view key, offset, view count))
    """
    put(c, old_file(viewed("8"), W))


@case("legacy_storage_twice")
def parts_that_disagree(c):
    """
    dcpctl: m.pt > storage 8 @ 0x86: legacy_storage_twice: two parts
    """
    put(c, old_file(viewed(("8", 0, 1), ("8", 1, 1)), W))


@case("legacy_storage_twice")
def a_part_with_the_key_of_a_storage(c):
    """
    dcpctl: m.pt > storage 0 @ 0x86: legacy_storage_twice: a whole one and a part of one
    """
    put(c, old_file({**viewed(("0", 0, 1)), **w()}, W))


# ---- storages


@case("item_long_storage")
def a_storage_that_is_longer(c):
    """
    dcpctl: m.pt > storage 0 @ 0x129: item_long_storage (got 3, expected 2 elements)
    """
    put(c, old_file(w(), {"0": bytes(12)}))


@case("item_short_storage")
def a_storage_that_is_shorter(c):
    """
    dcpctl: m.pt > storage 0 @ 0x129: item_short_storage (got 1, expected 2 elements)
    """
    put(c, old_file(w(), {"0": bytes(4)}))


@case("item_short_storage")
def a_storage_of_a_negative_count(c):
    """
    dcpctl: m.pt > storage 0 @ 0x129: item_short_storage (got -2, expected 2 elements)
    """
    put(c, old_file(w(), W, counts={"0": -2}))


@case("short_file")
def a_storage_that_is_cut_short(c):
    """
    dcpctl: m.pt > storage 0 @ 0x129: short_file (got 5 bytes, expected 8)
    hint: its own
    """
    put(c, old_file(w(), W)[:-3])


@case("short_file")
def a_file_that_ends_before_a_storage(c):
    """
    dcpctl: m.pt > storage 0 @ 0x129: short_file
    hint: its own
    """
    put(c, old_file(w(), W)[:-12])


@case("short_file")
def a_storage_of_exabytes(c):
    """
    dcpctl: m.pt > storage 0 @ 0x133: short_file (got 8 bytes, expected 1152921504606846976)
    hint: its own
    """
    put(c, old_file(w(count=1 << 58, shape=(1 << 58,)), W, counts={"0": 1 << 58}))


@case("legacy_keys")
def a_storage_that_is_not_listed(c):
    """
    dcpctl: m.pt @ 0x11d: legacy_keys (got 0 storages, without 0, expected 1)
    """
    put(c, old_file(w(), {}))


@case("legacy_keys")
def a_storage_that_nothing_names(c):
    """
    dcpctl: m.pt @ 0x11d: legacy_keys (got text '1', expected a storage of the object)
    """
    put(c, old_file(w(), {**W, "1": EIGHT}))


@case("legacy_keys")
def a_storage_that_is_listed_twice(c):
    """
    dcpctl: m.pt @ 0x11d: legacy_keys (got 0 twice, expected each storage once)
    """
    put(c, old_file(w(), W, keys=["0", "0"]) + struct.pack("<q", 2) + EIGHT)


@case("legacy_keys")
def a_part_that_is_listed(c):
    """
    dcpctl: m.pt @ 0x12f: legacy_keys (got text '8', expected a storage of the object)
    """
    put(c, old_file(viewed(("8", 0, 1)), W, keys=["0", "8"]))


@case("legacy_keys")
def a_list_that_is_a_dict(c):
    """
    dcpctl: m.pt @ 0x11d: legacy_keys (got a dict, expected a list of the keys of storages)
    """
    put(c, old_file(w(), W, keys={"0": 0}))


@case("legacy_trailing", "inspect m.pt", exit=0, says="findings")
def bytes_after_the_last_storage(c):
    """
    warning: m.pt @ 0x139: legacy_trailing (1 byte)
    """
    put(c, old_file(w(), W) + b"\0")


@case("legacy_trailing", "inspect m.pt --fail-on unsafe", exit=1, says="findings")
def a_pickle_after_the_last_storage(c):
    """
    warning: m.pt @ 0x139: legacy_trailing (24 bytes)
    """
    put(c, old_file(w(), W) + pickle.dumps(print, 2))


# ---- what the object runs


@case("pickle_unsafe", "verify m.pt --fail-on unsafe", says="findings", exit=1)
def an_object_that_runs_something(c):
    """
    warning: m.pt: crc_absent (1 record)
    warning: m.pt @ 0x86: object 'x': pickle_unsafe: posix.system
    """
    put(c, old_file({**w(), "x": call("posix.system", "true")}, W))


@case("pickle_unsafe", "verify m.pt --fail-on unsafe", says="findings", exit=1)
def the_class_of_a_module(c):
    """
    warning: m.pt: crc_absent (1 record)
    warning: m.pt @ 0x86: object 'net': pickle_unsafe: nets.Net
    """
    cls = Op(op(("module", glob("nets.Net"), "nets.py", "class Net: pass")) + pickle.BINPERSID)
    put(c, old_file({**w(), "net": Op(cls + pickle.EMPTY_TUPLE + pickle.NEWOBJ + op({"training": True}) + pickle.BUILD)}, W))


@case("torch_no_state_dict")
def a_whole_module(c):
    """
    dcpctl: m.pt @ 0x86: torch_no_state_dict (got an object of nets.Net, expected a dict of tensors)
    hint: save what is in it: torch.save(torch.load(FILE, weights_only=False).state_dict(), NEW)
    """
    cls = Op(op(("module", glob("nets.Net"), "nets.py", "class Net: pass")) + pickle.BINPERSID)
    put(c, old_file(Op(cls + pickle.EMPTY_TUPLE + pickle.NEWOBJ + op({"training": True}) + pickle.BUILD)))


@case("torch_no_state_dict")
def a_single_tensor(c):
    """
    dcpctl: m.pt @ 0x86: torch_no_state_dict (got a single tensor, expected a dict of tensors)
    hint: save it under a name: torch.save({'name': torch.load(FILE)}, NEW)
    """
    put(c, old_file(w()["w"], W))
