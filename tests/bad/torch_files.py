"""torch.save files that are no state dict, contradict themselves, or are damaged."""
import pickle

from recipes import Op, Pairs, Record, archive, call, case, deflate, dump, glob, new, op, rebuild, storage, struct

COMMANDS = ["inspect m.pt", "consolidate m.pt out.pt"]


def put(c, made):
    c.written = True
    (c.folder.parent / "m.pt").write_bytes(made if isinstance(made, bytes) else made.bytes())


def tensor(count=2, **lies):
    return rebuild(storage(count=count), (count,), **lies)


def saved(state, *storages):
    return archive(dump(state, 2), *storages)


EIGHT = struct.pack("<2f", 1, 2)


@case("torch_no_state_dict")
def a_single_tensor(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: torch_no_state_dict (got a single tensor, expected a dict of tensors)
    hint: save it under a name: torch.save({'name': torch.load(FILE)}, NEW)
    """
    put(c, saved(tensor(), EIGHT))


@case("torch_no_state_dict")
def a_tuple(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: torch_no_state_dict (got a tuple of 2, expected a dict of tensors)
    hint: save it under a name: torch.save({'name': torch.load(FILE)}, NEW)
    """
    put(c, saved((1, 2)))


@case("torch_no_state_dict")
def a_whole_module(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: torch_no_state_dict (got an object of nets.Model, expected a dict of tensors)
    hint: save what is in it: torch.save(torch.load(FILE, weights_only=False).state_dict(), NEW)
    """
    put(c, saved(new("nets.Model", {"training": True})))


@case("state_dict_key_twice", "inspect m.pt", "verify m.pt", exit=0, says="findings")
def two_paths_of_one_key(c):
    """
    warning: m.pt: object 'a.b': state_dict_key_twice: here the second is a.b#2
    """
    put(c, saved({"a.b": 1, "a": {"b": 2}}))


@case("state_dict_key_twice", "inspect m.pt", "verify m.pt", exit=0, says="findings")
def a_key_and_its_text(c):
    """
    warning: m.pt: object '1': state_dict_key_twice: here the second is 1#2
    """
    put(c, saved(Pairs([(1, "x"), ("1", "y")])))


@case("keys_collide", "convert m.pt out --world-size 1", exit=2)
def a_key_and_its_text_in_a_folder(c):
    """
    dcpctl: m.pt: object '1#2': keys_collide: '1', which is also the name of '1'
    hint: its own
    """
    put(c, saved(Pairs([(1, "x"), ("1", "y")])))


@case("state_dict_cycle")
def a_dict_in_itself(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: tensor 'me': state_dict_cycle
    """
    put(c, saved(Op(pickle.EMPTY_DICT + b"q\0" + op("me") + b"h\0" + pickle.SETITEM)))


@case(None, "inspect m.pt", exit=0, says="findings")
def a_list_in_itself(c):
    put(c, saved({"l": Op(pickle.EMPTY_LIST + b"q\0" + b"h\0" + pickle.APPEND)}))


@case("over_limit")
def dicts_within_dicts(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: over_limit (got containers nested 1001 deep, expected at most 1000)
    """
    made = op(1)
    for _ in range(1100):
        made = Op(pickle.EMPTY_DICT + op("d") + made + pickle.SETITEM)
    put(c, saved(made))


@case("item_no_record")
def a_storage_that_is_not_there(c):
    """
    dcpctl: m.pt > data/0: tensor 'w': item_no_record
    """
    put(c, saved({"w": tensor()}))


@case("item_short_storage")
def a_storage_that_is_too_short(c):
    """
    dcpctl: m.pt > data/0 @ 0x180: tensor 'w': item_short_storage (got 8 bytes, expected 12)
    """
    put(c, saved({"w": tensor(3)}, EIGHT))


@case("item_long_storage")
def a_storage_that_is_too_long(c):
    """
    dcpctl: m.pt > data/0 @ 0x180: tensor 'w': item_long_storage (got 9 bytes, expected 8)
    """
    put(c, saved({"w": tensor()}, EIGHT + b"\0"))


@case("item_short_storage")
def an_object_whose_storage_is_too_short(c):
    """
    dcpctl: m.pt > data/1 @ 0x240: object 'o': item_short_storage (got 7 bytes, expected 8)
    """
    put(c, saved({"w": tensor(), "o": (rebuild(storage(key="1", count=2), (2,)),)}, EIGHT, EIGHT[1:]))


@case("item_no_record")
def an_object_whose_storage_is_not_there(c):
    """
    dcpctl: m.pt > data/1: object 'o': item_no_record
    """
    put(c, saved({"w": tensor(), "o": (rebuild(storage(key="1", count=2), (2,)),)}, EIGHT))


@case("item_short_storage")
def a_subclass_whose_storage_is_too_short(c):
    """
    dcpctl: m.pt > data/0 @ 0x240: tensor 'w': item_short_storage (got 7 bytes, expected 8)
    """
    put(c, saved({"w": wrapped("torchao.Int8", tensor())}, EIGHT[1:]))


@case("item_outside_storage")
def a_view_beyond_its_storage(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: tensor 'w': item_outside_storage (got element 2, expected less than 2)
    """
    put(c, saved({"v": tensor(), "w": tensor(offset=1)}, EIGHT))


@case("item_bad_tensor")
def a_tensor_of_two_arguments(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: tensor 'w': item_bad_tensor (got a tuple of 2, expected a tuple of 6 or 7 arguments)
    """
    put(c, saved({"w": call("torch._utils._rebuild_tensor_v2", storage(count=2), 0)}, EIGHT))


@case("item_unknown_dtype")
def a_storage_of_an_unknown_class(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: tensor 'w': item_unknown_dtype: torch.Float3Storage
    """
    put(c, saved({"w": rebuild(storage("torch.Float3Storage", count=2), (2,))}, EIGHT))


@case("pickle_storage_id", "consolidate m.pt out.pt")
def an_object_with_an_odd_persistent_id(c):
    """
    dcpctl: m.pt @ 0x40: object 'o': pickle_storage_id (got 7, expected ('storage', class, key, location, count))
    """
    put(c, saved({"o": (Op(op(7) + pickle.BINPERSID),)}))


@case("crc_mismatch")
def a_damaged_pickle(c):
    """
    dcpctl: m.pt > data.pkl @ 0x40: crc_mismatch
    hint: its own
    """
    made = saved({"w": tensor()}, EIGHT)
    made["data.pkl"].crc = 1
    put(c, made)


@case("crc_mismatch")
def a_damaged_format_version(c):
    """
    dcpctl: m.pt > .format_version @ 0x200: crc_mismatch (got CRC-32 83dcefb7 over 1 bytes, expected CRC-32 00000001)
    hint: its own
    """
    made = saved({"w": tensor()}, EIGHT)
    made.records.append(Record(".format_version", b"1", crc=1))
    put(c, made)


@case("deflate_broken")
def a_serialization_id_that_cannot_be_inflated(c):
    """
    dcpctl: m.pt > .data/serialization_id @ 0x240: deflate_broken: an end in the middle of it
    """
    made = saved({"w": tensor()}, EIGHT)
    made.records.append(Record(".data/serialization_id", b"0" * 40))
    deflate(made.records[-1])
    made.records[-1].data = made.records[-1].data[:-1]
    put(c, made)


@case("torch_compressed", "verify m.pt", "inspect m.pt", says="findings", exit=0)
def storages_that_are_compressed(c):
    """
    warning: m.pt: torch_compressed: data/0 and 1 more
    """
    made = saved({"w": tensor(), "v": rebuild(storage(key="1", count=2), (2,))}, EIGHT, EIGHT)
    deflate(made["data/0"])
    deflate(made["data/1"])
    put(c, made)


@case("crc_mismatch", "consolidate m.pt out.pt")
def a_damaged_storage(c):
    """
    dcpctl: m.pt @ 0x180: tensor 'w': crc_mismatch (got CRC-32 2e3fa576 over 8 bytes, expected CRC-32 00000001)
    hint: its own
    """
    made = saved({"w": tensor()}, EIGHT)
    made["data/0"].crc = 1
    put(c, made)


@case("crc_mismatch", "consolidate m.pt out.pt")
def a_damaged_storage_that_views_share(c):
    """
    dcpctl: m.pt @ 0x200: tensor 'v': crc_mismatch (got CRC-32 2e3fa576 over 8 bytes, expected CRC-32 00000001)
    hint: its own
    """
    made = saved({"v": rebuild(storage(count=2), (1,)), "w": rebuild(storage(count=2), (1,), offset=1)}, EIGHT)
    made["data/0"].crc = 1
    put(c, made)


@case("crc_mismatch", "consolidate m.pt out.pt")
def a_damaged_storage_of_an_object(c):
    """
    dcpctl: m.pt @ 0x180: object 'o': crc_mismatch (got CRC-32 2e3fa576 over 8 bytes, expected CRC-32 00000001)
    hint: its own
    """
    made = saved({"o": (tensor(),)}, EIGHT)
    made["data/0"].crc = 1
    put(c, made)


@case("zip_no_end")
def a_file_that_was_cut(c):
    """
    dcpctl: m.pt: zip_no_end
    hint: the file was cut short: restore it from the original
    """
    put(c, saved({"w": tensor()}, EIGHT).bytes()[:-30])


@case("item_compressed")
def a_compressed_storage(c):
    """
    dcpctl: m.pt > data/0 @ 0x146: item_compressed: method 12
    """
    made = saved({"w": tensor()}, EIGHT)
    made["data/0"].method = 12
    put(c, made)


@case("over_limit")
def tensors_that_share_a_bomb(c):
    """
    dcpctl: m.pt > data.pkl: tensor 't32': over_limit: many tensors in compressed storages: 2214592512 bytes to decode
    hint: save it again without compression: torch.save(torch.load(FILE), NEW)
    """
    made = saved({f"t{n}": rebuild(storage(count=1 << 24), (2,)) for n in range(40)}, bytes(64 << 20))
    deflate(made["data/0"])
    put(c, made)


@case("not_checkpoint")
def a_torchscript_archive(c):
    """
    dcpctl: m.pt: not_checkpoint (got a TorchScript archive, expected a torch.save file)
    hint: save its state dict: torch.save(torch.jit.load(FILE).state_dict(), NEW)
    """
    made = saved({})
    made.records.append(Record("constants.pkl", b"x"))
    put(c, made)


@case("not_checkpoint")
def a_zip_of_something_else(c):
    """
    dcpctl: m.pt: not_checkpoint (got a zip archive without data.pkl, expected a torch.save file)
    """
    made = saved({})
    made.records = [Record("readme.txt", b"x")]
    put(c, made)


@case("not_checkpoint")
def an_npz_file(c):
    """
    dcpctl: m.pt: not_checkpoint (got a zip archive that is not a torch.save file, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    """
    made = saved({})
    made.records = [Record("weight.npy", b"x")]
    data = made.bytes().replace(b"archive/weight.npy", b"weight.npy")
    put(c, data)


@case("not_checkpoint")
def a_bare_pickle(c):
    """
    dcpctl: m.pt: not_checkpoint (got a pickle, not a torch.save file, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    """
    put(c, dump({"w": 1}))


@case("output_in_source", "consolidate m.pt m.pt --force", exit=2)
def the_source_as_output(c):
    """
    dcpctl: m.pt: output_in_source
    hint: its own
    """
    put(c, saved({"w": tensor()}, EIGHT))


@case(None, "consolidate m.pt out.pt --quiet", exit=0, creates=["out.pt"])
def globals_that_nobody_knows(c):
    put(c, saved({"o": new("evil.Thing", {"x": (1,)}), "f": glob("os.system"), "w": tensor()}, EIGHT))


@case(None, "convert m.pt out --quiet", exit=0, creates=["out", "out/.metadata", "out/__0_0.distcp"])
def a_large_object_of_many_keys(c):
    put(c, saved(Op(pickle.EMPTY_DICT + pickle.MARK + op("k") + op(("x" * 10_000,)) + pickle.BINPUT + b"\0" + b"".join(op(f"k{i}") + pickle.BINGET + b"\0" for i in range(3000)) + pickle.SETITEMS)))


# ---- tensors that are not plain


def wrapped(cls, inner):
    """A wrapper subclass as torch saves it."""
    arguments = (glob(cls), glob("torch.float32"), (2,), (1,), 0, call("torch.serialization._get_layout", "torch.strided"), call("torch.device", "cpu"), False)
    return call("torch._tensor._rebuild_from_type_v2", glob("torch._utils._rebuild_wrapper_subclass"), glob(cls), arguments, {"inner": inner})


@case("torch_rank_part", "inspect m.pt", "verify m.pt", "consolidate m.pt out.pt", "convert m.pt out")
def what_one_rank_saved_of_its_dtensors(c):
    """
    dcpctl: m.pt: tensor 'w': torch_rank_part: torch.distributed.tensor.DTensor
    hint: its own
    """
    put(c, saved({"w": wrapped("torch.distributed.tensor.DTensor", tensor()), "b": tensor()}, EIGHT))


@case("torch_rank_part", "inspect model_world_size_2_rank_0.pt")
def what_verl_saved_of_a_rank(c):
    """
    dcpctl: model_world_size_2_rank_0.pt: tensor 'w': torch_rank_part: torch.distributed.tensor.DTensor
    hint: give the folder: the files of all ranks are one checkpoint
    """
    put(c, saved({"w": wrapped("torch.distributed.tensor.DTensor", tensor())}, EIGHT))
    (c.folder.parent / "m.pt").rename(c.folder.parent / "model_world_size_2_rank_0.pt")


@case("no_dtype_in_output", "consolidate m.pt out.safetensors")
def a_subclass_that_safetensors_cannot_hold(c):
    """
    dcpctl: m.pt: no_dtype_in_output: w (float32, in a class of its own)
    hint: its own
    """
    put(c, saved({"w": wrapped("torchao.Int8", [tensor(), tensor()]), "b": tensor()}, EIGHT))


@case("no_dtype_in_output", "consolidate m.pt out.safetensors", "consolidate m.pt out.safetensors --model-only", "consolidate m.pt out.safetensors --dry-run", "consolidate m.pt out --max-shard-size 1GB")
def weights_that_are_objects(c):
    """
    dcpctl: m.pt: no_dtype_in_output: model.w (an object that holds tensors)
    hint: its own
    """
    made = {"w": call("te.make_float8", tensor()), "v": tensor(), "l": {"x": call("te.make_float8", tensor())}}
    put(c, saved({"model": made, "optimizer": {"state": {}, "param_groups": [], "x": call("te.make_float8", tensor())}}, EIGHT))


@case("no_dtype_in_output", "consolidate m.pt out.safetensors", "convert m.pt out.safetensors")
def a_model_that_is_an_object(c):
    """
    dcpctl: m.pt: no_dtype_in_output: model (an object that holds tensors)
    hint: its own
    """
    optimizer = {"state": {0: {"exp_avg": tensor()}}, "param_groups": [{"lr": 1}]}
    put(c, saved({"model": call("te.Detector", tensor()), "optimizer": optimizer, "best_loss": tensor(), "ema": None}, EIGHT))


@case("nothing_selected", "consolidate m.pt out.pt --model-only", "consolidate m.pt out.safetensors --model-only", exit=2)
def no_model_beside_an_optimizer(c):
    """
    dcpctl: m.pt: nothing_selected: nothing that is model
    hint: see the keys with 'dcpctl inspect m.pt --keys'
    """
    put(c, saved({"optimizer": {"state": {0: {"exp_avg": tensor()}}, "param_groups": [{"lr": 1}]}, "steps": (1, 2), "model": call("te.Detector", 7)}, EIGHT))


@case("weights_left_out", "consolidate m.pt out.pt --tensors-only", "consolidate m.pt out.safetensors --tensors-only --model-only", "convert m.pt out --tensors-only", "consolidate m.pt out.pt --tensors-only --root model --dry-run")
def weights_that_are_objects_left_out_with_the_others(c):
    """
    dcpctl: m.pt: weights_left_out: model.w (an object that holds tensors)
    hint: its own
    """
    put(c, saved({"model": {"w": call("te.make_float8", tensor()), "v": tensor()}, "epoch": 3}, EIGHT))


@case(None, "consolidate m.pt out.pt --tensors-only --exclude model.w --quiet", exit=0, creates=["out.pt"])
def weights_that_are_objects_left_out_by_name(c):
    put(c, saved({"model": {"w": call("te.make_float8", tensor()), "v": tensor()}, "optimizer": {"param_groups": [], "x": call("te.make_float8", tensor())}}, EIGHT))


@case(None, "consolidate m.pt out.safetensors --model-only --quiet", exit=0, creates=["out.safetensors"])
def objects_with_tensors_that_are_no_weights(c):
    made = {"w": tensor(), "l._extra_state": call("te.meta", tensor()), "l.dtype": (1, 2)}
    put(c, saved({"model": made, "optimizer": {"param_groups": [], "x": call("te.make_float8", tensor())}, "rng": (tensor(),)}, EIGHT))


@case("layout_not_strided", "consolidate m.pt out.safetensors", "convert m.pt out")
def a_tensor_on_meta(c):
    """
    dcpctl: m.pt: tensor 'w': layout_not_strided: float32 on meta (not strided)
    hint: its own
    """
    put(c, saved({"w": call("torch._utils._rebuild_meta_tensor_no_storage", glob("torch.float32"), (3,), (1,), False), "b": tensor()}, EIGHT))


@case("layout_not_strided", "consolidate m.pt out.safetensors", "convert m.pt out")
def a_nested_tensor(c):
    """
    dcpctl: m.pt: tensor 'w': layout_not_strided: torch._utils._rebuild_nested_tensor (not strided)
    hint: its own
    """
    put(c, saved({"w": call("torch._utils._rebuild_nested_tensor", tensor(), tensor(), tensor(), tensor()), "b": tensor()}, EIGHT))


@case("cast_opaque", "consolidate m.pt out.pt --dtype bf16")
def a_subclass_to_be_cast(c):
    """
    dcpctl: m.pt: tensor 'w': cast_opaque: float32 that is quantized or a subclass
    hint: its own
    """
    put(c, saved({"w": wrapped("torchao.Int8", [tensor(), tensor()]), "b": tensor()}, EIGHT))


@case("cast_opaque", "consolidate m.pt out.pt --dtype bf16")
def several_subclasses_to_be_cast(c):
    """
    dcpctl: m.pt: tensor 'w': cast_opaque: float32 that is quantized or a subclass; also x, y
    hint: its own
    """
    put(c, saved({key: wrapped("torchao.Int8", [tensor(), tensor()]) for key in "wxy"} | {"b": tensor()}, EIGHT))


# ---- what torch does not load


@case("pickle_trailing", "inspect m.pt", "verify m.pt", exit=0, says="findings")
def bytes_behind_the_pickle(c):
    """
    warning: m.pt > data.pkl @ 0x51: pickle_trailing (23 bytes)
    """
    file = saved({"a": 1})
    file["data.pkl"].data += b"cos\nsystem\n(S'true'\ntR."
    put(c, file)


@case("pickle_unloaded", "inspect m.pt", "verify m.pt", exit=0, says="findings")
def another_pickle_in_the_archive(c):
    """
    warning: m.pt > more.pkl @ 0x140: pickle_unloaded: os.system
    """
    file = saved({"a": 1})
    file.records.append(Record("more.pkl", b"cos\nsystem\n(S'true'\ntR."))
    put(c, file)
