"""Items of torch_checkpointing: what metadata.pkl says of tensors, what their files hold instead, and items in JSON or as bytes; accelerate's files."""
import json
import struct

from rank_files import DATA, at, dtensor, put, shard
from recipes import archive, call, case, dump, glob, new, rebuild, storage

SAFETENSORS = "SafetensorsSerialization"
COMMANDS = ["inspect ranks", "verify ranks", "consolidate ranks out.pt", "convert ranks out"]
READ = ["inspect ranks", "verify ranks"]
FOUND = ["consolidate ranks out.pt", "convert ranks out"]


def mesh(**changes):
    return {"device_type": "cpu", "mesh_shape": (2,), "mesh_data": (0, 1), "mesh_dim_names": None} | changes


def sharding(mesh=mesh(), placements=({"type": "Shard", "dim": 0},), **changes):
    """A float32 [4, 2] of which each of two ranks has two rows, unless `changes` say otherwise."""
    data = {"global_shape": [4, 2], "dtype": "torch.float32", "stride": [2, 1], "mesh_spec": mesh, "placements": list(placements)} | changes
    return {"type": "DTensorShardingMetadata", "data": data}


def group(packed=None, ranks=(0, 1), **changes):
    return {"sharding_metadata": packed or sharding(**changes), "ranks": ranks}


def metadata(paths, files=None, item="model", **changes):
    listed = {item: {"nested_path_to_metadata": paths, "rank_to_layout_info": files or {0: None, 1: None}}}
    return dump({"metadata": listed, "world_size": 2, "version": "2.0"} | changes)


def tensors(shape=(2, 2), names=("w",), dtype="F32"):
    """A safetensors file of tensors of one shape."""
    size = {"F32": 4, "BF16": 2}[dtype]
    for n in shape:
        size *= n
    entries = {name: {"dtype": dtype, "shape": shape, "data_offsets": [n * size, (n + 1) * size]} for n, name in enumerate(names)}
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + b"\1" * (size * len(names))


def whole(c, *groups, files=None, item_files=None, path='["w"]', **changes):
    """Two ranks, each with two rows in a torch.save file of a plain tensor."""
    plain = rebuild(storage(count=4), (2, 2))
    put(c, {"metadata.pkl": metadata({path: list(groups)}, files, **changes)} | (item_files or {f"model_{n}.pt": {"w": plain} for n in range(2)}))


def in_safetensors(c, first=None, second=None, **changes):
    files = {n: at(f"model_{n}.safetensors", SAFETENSORS) for n in range(2)}
    whole(c, group(**changes), files=files, item_files={"model_0.safetensors": first or tensors(), "model_1.safetensors": second or tensors()})


@case(None, *READ, "diff ranks ranks", exit=0)
def plain_tensors_whose_layout_is_in_the_metadata(c):
    whole(c, group())


@case(None, *READ, "diff ranks ranks", exit=0)
def safetensors_whose_layout_is_in_the_metadata(c):
    in_safetensors(c)


# ---- metadata.pkl


@case("not_checkpoint")
def a_rank_outside_the_world(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got rank 2, expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), files={0: None, 1: None, 2: None})


@case("not_checkpoint")
def a_rank_whose_file_is_named_twice(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got rank 0 twice for model, expected metadata of torch_checkpointing, version 2.0)
    """
    put(c, {"metadata.pkl": metadata({'["w"]': [group()]}).replace(b"J\1\0\0\0N", b"J\0\0\0\0N")})


@case("not_checkpoint")
def a_world_of_no_rank(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got a world of 0 ranks, expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), world_size=0)


@case("not_checkpoint")
def a_world_of_2_to_the_40_ranks(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got a world of 1099511627776 ranks, expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), world_size=1 << 40)


@case("not_checkpoint")
def a_negative_world(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got a world of -2 ranks, expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), world_size=-2)


@case("pickle_truncated")
def metadata_pkl_that_was_cut(c):
    """
    dcpctl: ranks/metadata.pkl @ 0x1df: pickle_truncated (got 2 bytes left, expected 5 for BINUNICODE)
    hint: its own
    """
    put(c, {"metadata.pkl": metadata({'["w"]': [group()]})[:-20]})


@case("metadata_field")
def a_mesh_of_other_ranks_than_its_shape(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got 2 ranks in mesh_data, expected 3, as mesh_shape says)
    """
    whole(c, group(mesh=mesh(mesh_shape=(3,))))


@case("metadata_field")
def a_mesh_with_a_rank_twice(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got rank 0 twice in mesh_data, expected each once)
    """
    whole(c, group(mesh=mesh(mesh_data=(0, 0))))


@case("metadata_field")
def a_mesh_with_a_rank_outside_the_world(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got rank 2 in mesh_data, expected a rank of the world)
    """
    whole(c, group(mesh=mesh(mesh_data=(0, 2))))


@case("metadata_field")
def fewer_placements_than_dims(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got 0 placements, expected 1, one a mesh dim)
    """
    whole(c, group(placements=()))


@case("metadata_field")
def a_shard_on_a_dim_that_is_not_there(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got a shard on dim 2, expected a dim of 2)
    """
    whole(c, group(placements=({"type": "Shard", "dim": 2},)))


@case("metadata_field")
def a_split_factor_of_0(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got split_factor 0, expected a number of shards)
    """
    whole(c, group(placements=({"type": "StridedShard", "dim": 0, "split_factor": 0},)))


@case("metadata_field")
def a_negative_split_factor(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got split_factor -1, expected a number of shards)
    """
    whole(c, group(placements=({"type": "StridedShard", "dim": 0, "split_factor": -1},)))


@case("metadata_field")
def a_split_factor_of_2_to_the_62(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got split_factor 4611686018427387904, expected 1, the shards that later placements make: with another one it is not known what each rank holds)
    """
    whole(c, group(placements=({"type": "StridedShard", "dim": 0, "split_factor": 1 << 62},)))


@case("metadata_field")
def a_shape_that_overflows(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got a shape of more bytes than there can be, expected a shape)
    """
    whole(c, group(global_shape=[1 << 62, 1 << 62]))


@case("metadata_field")
def a_negative_size(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got global_shape with -4, expected at most 64 numbers from 0)
    """
    whole(c, group(global_shape=[-4, 2]))


@case("metadata_field")
def a_dtype_that_torch_does_not_have(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got dtype 'torch.float7', expected one of torch's)
    """
    whole(c, group(dtype="torch.float7"))


@case("metadata_field")
def a_placement_that_is_a_sum(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got placement Partial, expected Shard, StridedShard or Replicate)
    """
    whole(c, group(placements=({"type": "Partial"},)))


@case("metadata_field")
def metadata_of_an_unknown_type(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got metadata of type ColumnMetadata, expected DTensorShardingMetadata or default_tensor_v1)
    """
    whole(c, group({"type": "ColumnMetadata", "data": sharding()["data"]}))


@case("metadata_field")
def a_group_without_ranks(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got a group without ranks, expected ranks)
    """
    whole(c, group(ranks=()))


@case("metadata_field")
def a_tensor_of_no_group(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got no group of ranks, expected groups of ranks)
    """
    whole(c)


@case("metadata_field")
def a_group_with_a_rank_twice(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got rank 1 twice, expected each once)
    """
    whole(c, group(ranks=(1, 1)))


@case("metadata_field")
def two_groups_with_two_shapes(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got two shapes, expected one for all groups of ranks)
    """
    whole(c, group(ranks=(0,)), group(ranks=(1,), global_shape=[5, 2]))


@case("metadata_field")
def a_rank_in_two_groups(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got rank 1 in two groups, expected one)
    """
    whole(c, group(), group(ranks=(1,)))


@case("metadata_field")
def a_box_outside_the_tensor(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got a box outside the tensor, expected one inside)
    """
    boxes = {"global_shape": [4, 2], "dtype": "torch.float32", "global_offsets": [[3, 0]], "local_offsets": [[0, 0]], "local_sizes": [[2, 2]]}
    whole(c, group({"type": "default_tensor_v1", "data": boxes}))


@case("metadata_field")
def more_offsets_than_sizes(c):
    """
    dcpctl: ranks/metadata.pkl: tensor 'model.w': metadata_field (got lists of boxes of different lengths, expected one length)
    """
    boxes = {"global_shape": [4, 2], "dtype": "torch.float32", "global_offsets": [[0, 0], [2, 0]], "local_offsets": [[0, 0]], "local_sizes": [[2, 2]]}
    whole(c, group({"type": "default_tensor_v1", "data": boxes}))


@case("not_checkpoint")
def a_path_that_is_no_list(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got the path '{"w": 1}', expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), path='{"w": 1}')


@case("not_checkpoint")
def a_path_that_is_no_json(c):
    """
    dcpctl: ranks/metadata.pkl @ 0x4: not_checkpoint: no JSON
    """
    whole(c, group(), path="w")


@case("not_checkpoint")
def a_path_that_ends_early(c):
    """
    dcpctl: ranks/metadata.pkl @ 0xa: not_checkpoint: no JSON
    """
    whole(c, group(), path='["w"]}, {"a": [1')


@case("not_checkpoint")
def a_path_of_a_million_names(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got the path '[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0', expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), path="[" + "0," * 999_999 + "0]")


@case("rank_lacks_key", *FOUND)
def a_tensor_that_is_a_dict(c):
    """
    dcpctl: ranks/model_0.pt: tensor 'model': rank_lacks_key (expected [4, 2])
    """
    whole(c, group(), path="[]")


@case("rank_lacks_key", *READ, exit=1, says="findings")
def a_tensor_that_is_a_dict_is_damage(c):
    """
    damage: ranks/model_0.pt: tensor 'model': rank_lacks_key (expected [4, 2])
    """
    a_tensor_that_is_a_dict(c)


@case(None, *READ, "diff ranks ranks", exit=0)
def an_item_that_is_a_tensor(c):
    whole(c, group(), path="[]", item_files={f"model_{n}.pt": archive(dump(rebuild(storage(count=4), (2, 2)), 2), DATA).bytes() for n in range(2)})


@case("not_checkpoint")
def an_item_in_an_unknown_form(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got rank 1's file of model in NumpySerialization, expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), files={0: None, 1: at("model_1.npz", "NumpySerialization")})


@case("not_checkpoint")
def one_file_for_two_ranks(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got model_0.pt for rank 0 of model and for rank 1 of model, expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), files={n: at("model_0.pt") for n in range(2)})


@case("not_checkpoint")
def one_file_for_two_ranks_by_two_names(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got model_0.pt for rank 0 of model and for rank 1 of model, expected metadata of torch_checkpointing, version 2.0)
    """
    whole(c, group(), files={0: at("model_0.pt"), 1: at(".//model_0.pt")})


@case(None, *READ, "diff ranks ranks", exit=0)
def files_in_this_folder(c):
    whole(c, group(), files={n: at(f"./model_{n}.pt") for n in range(2)})


@case("path_escapes")
def a_file_above_the_folder(c):
    """
    dcpctl: ranks: path_escapes: '../model_0.pt'
    """
    whole(c, group(), files={0: at("../model_0.pt"), 1: None})


@case("path_escapes")
def a_file_at_an_absolute_path(c):
    """
    dcpctl: ranks: path_escapes: '/etc/passwd'
    """
    whole(c, group(), files={0: at("/etc/passwd"), 1: None})


@case("link_refused", "consolidate ranks out.pt", "convert ranks out")
def a_file_that_is_a_link(c):
    """
    dcpctl: ranks/model_0.pt: link_refused
    hint: its own
    """
    whole(c, group(), item_files={"model_1.pt": {"w": rebuild(storage(count=4), (2, 2))}})
    (c.folder.parent / "ranks/model_0.pt").symlink_to("/etc/passwd")


@case("link_refused", "verify ranks", exit=1, says="findings")
def a_file_that_is_a_link_is_damage(c):
    """
    damage: ranks/model_0.pt: link_refused
    """
    a_file_that_is_a_link(c)


# ---- what the files hold


@case("chunk_shape_differs", *FOUND)
def a_safetensors_file_of_another_shape(c):
    """
    dcpctl: ranks/model_1.safetensors: tensor 'model.w': chunk_shape_differs (got [1, 2], expected [2, 2])
    """
    in_safetensors(c, second=tensors((1, 2)))


@case("shards_disagree", *FOUND)
def a_safetensors_file_of_another_dtype(c):
    """
    dcpctl: ranks/model_1.safetensors: tensor 'model.w': shards_disagree (got bfloat16, expected float32)
    hint: its own
    """
    in_safetensors(c, second=tensors(dtype="BF16"))


@case("tensors_unlisted", "inspect ranks", exit=0, says="findings")
def a_name_too_many(c):
    """
    note: ranks/model_1.safetensors: tensors_unlisted: model.v
    """
    in_safetensors(c, second=tensors(names=("w", "v")))


@case("ranks_are_shards", *FOUND)
def a_name_too_many_that_is_not_one_value(c):
    """
    dcpctl: ranks: ranks_are_shards: model.v
    hint: --shards-on-dim 0 joins them
    """
    in_safetensors(c, tensors(names=("w", "v")), tensors(names=("w", "v"))[:-1] + b"\2")


@case("rank_lacks_key", *FOUND)
def a_name_that_is_missing(c):
    """
    dcpctl: ranks/model_1.safetensors: tensor 'model.w': rank_lacks_key (expected [4, 2])
    """
    in_safetensors(c, second=tensors(names=()))


@case("rank_lacks_key", "verify ranks", "verify ranks --quick", exit=1, says="findings")
def a_name_that_is_missing_is_damage(c):
    """
    damage: ranks/model_1.safetensors: tensor 'model.w': rank_lacks_key (expected [4, 2])
    """
    in_safetensors(c, second=tensors(names=()))


@case("chunk_shape_differs", "verify ranks", "verify ranks --quick", exit=1, says="findings")
def another_shape_is_damage(c):
    """
    damage: ranks/model_0.safetensors: tensor 'model.w': chunk_shape_differs (got [1, 2], expected [2, 2])
    """
    in_safetensors(c, first=tensors((1, 2)))


@case("ranks_disagree", *FOUND)
def a_dtensor_that_the_metadata_describes_otherwise(c):
    """
    dcpctl: ranks/model_0.pt: tensor 'model.w': ranks_disagree (got a DTensor of (Shard(1)) of [4, 2], expected (Shard(0)) of [4, 2])
    hint: its own
    """
    parts = {f"model_{n}.pt": archive(dump({"w": dtensor((4, 2), (shard(1),), (n,))}, 2), DATA).bytes() for n in range(2)}
    whole(c, group(), item_files=parts)


@case("ranks_disagree", *FOUND)
def a_dtensor_of_another_rank(c):
    """
    dcpctl: ranks/model_0.pt: tensor 'model.w': ranks_disagree (got a DTensor of (Shard(0)) at another place of the mesh, expected (Shard(0)) of [4, 2])
    hint: its own
    """
    parts = {f"model_{n}.pt": archive(dump({"w": dtensor((4, 2), (shard(),), (1 - n,))}, 2), DATA).bytes() for n in range(2)}
    whole(c, group(), item_files=parts)


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def the_file_of_a_rank_that_a_group_names(c):
    """
    dcpctl: ranks/model_1.pt: file_missing
    hint: its own
    """
    whole(c, group(), item_files={"model_0.pt": {"w": rebuild(storage(count=4), (2, 2))}})


@case("file_missing", "verify ranks", exit=1, says="findings")
def the_file_of_a_rank_that_a_group_names_is_damage(c):
    """
    damage: ranks/model_1.pt: file_missing
    """
    the_file_of_a_rank_that_a_group_names(c)


@case(None, *READ, exit=0)
def no_file_of_a_rank_that_no_group_names(c):
    alone = group(mesh=mesh(mesh_shape=(1,), mesh_data=(1,)), ranks=(1,), global_shape=[2, 2])
    whole(c, alone, item_files={"model_1.pt": {"w": rebuild(storage(count=4), (2, 2))}})


REPLICATED = ({"type": "Replicate"},)


@case(None, *READ, exit=0)
def a_copy_on_one_rank_of_what_is_replicated(c):
    files = {"model_0.pt": {"w": rebuild(storage(count=4), (2, 2))}, "model_1.pt": {"step": 1}}
    whole(c, group(placements=REPLICATED, global_shape=[2, 2]), item_files=files)


@case("rank_lacks_key", *FOUND)
def no_copy_of_what_is_replicated(c):
    """
    dcpctl: ranks/model_0.pt: tensor 'model.w': rank_lacks_key
    """
    whole(c, group(placements=REPLICATED, global_shape=[2, 2]), item_files={f"model_{n}.pt": {"step": 1} for n in range(2)})


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def no_file_of_what_is_replicated(c):
    """
    dcpctl: ranks/model_0.pt: file_missing
    hint: its own
    """
    whole(c, group(placements=REPLICATED, global_shape=[2, 2]), item_files={"step_0.pt": {"n": 1}})


@case("file_missing", "verify ranks", exit=1, says="findings")
def no_file_of_what_is_replicated_is_damage(c):
    """
    damage: ranks/model_0.pt: file_missing
    """
    no_file_of_what_is_replicated(c)


@case("item_format_unread", *FOUND)
def safetensors_that_nothing_describes(c):
    """
    dcpctl: ranks/model_0.safetensors: item_format_unread: model, whose tensors no metadata says the layout of
    """
    put(c, {"metadata.pkl": dump({"metadata": {}, "world_size": 2, "version": "2.0"}), "model_0.safetensors": tensors(), "model_1.safetensors": tensors(), "step_0.pt": {"n": 1}})


@case("item_format_unread", *READ, exit=1, says="findings")
def safetensors_that_nothing_describes_are_damage(c):
    """
    damage: ranks/model_0.safetensors: item_format_unread: model, whose tensors no metadata says the layout of
    """
    safetensors_that_nothing_describes(c)


@case(None, "verify ranks --exclude model.*", "inspect ranks --exclude model.*", exit=0)
def all_but_safetensors_that_nothing_describes(c):
    safetensors_that_nothing_describes(c)


@case("not_checkpoint")
def items_in_json_alone(c):
    """
    dcpctl: ranks: not_checkpoint (got a folder with config_0.json, config_1.json, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    hint: if they are files of ranks, metadata.pkl is missing, which says how their tensors are parts
    """
    put(c, {f"config_{n}.json": b"{}" for n in range(2)})


@case("item_of_some_ranks", *READ, exit=0, says="findings")
def an_item_of_some_ranks(c):
    """
    warning: ranks: item_of_some_ranks: step, which rank 1 lacks and 2 ranks have
    """
    layout = group(mesh=mesh(mesh_shape=(3,), mesh_data=(0, 1, 2)), global_shape=[6, 2], ranks=(0, 1, 2))
    files = {f"model_{n}.pt": {"w": rebuild(storage(count=4), (2, 2))} for n in range(3)} | {f"step_{n}.pt": {"n": 1} for n in (0, 2)}
    whole(c, layout, files={n: None for n in range(3)}, item_files=files, world_size=3)


@case("ranks_own_objects", *READ, exit=0, says="findings")
def objects_of_a_model_that_differ(c):
    """
    note: ranks/model_0.pt: ranks_own_objects (model.w._extra_state.amax)
    """
    whole(c, group(), item_files={f"model_{n}.pt": {"w": rebuild(storage(count=4), (2, 2)), "w._extra_state": {"amax": n}} for n in range(2)})


@case("hf_file_ignored", "verify ranks", "inspect ranks", exit=0, says="findings")
def files_of_no_item(c):
    """
    note: ranks: hf_file_ignored (config.json, model-00001-of-00001.safetensors)
    """
    plain = {f"model_{n}.pt": {"w": rebuild(storage(count=4), (2, 2))} for n in range(2)}
    whole(c, group(), item_files=plain | {"config.json": b"{}", "model-00001-of-00001.safetensors": tensors()})


# ---- items without tensors


def beside_a_model(c, **files):
    plain = {f"model_{n}.pt": {"w": rebuild(storage(count=4), (2, 2))} for n in range(2)}
    whole(c, group(), item_files=plain | files)


@case("not_checkpoint", "consolidate ranks out.pt", "convert ranks out")
def an_item_that_is_no_json(c):
    """
    dcpctl: ranks/config_0.json @ 0x1: not_checkpoint: no JSON
    """
    beside_a_model(c, **{"config_0.json": b"{'a': 1}"})


@case("not_checkpoint", "verify ranks", exit=1, says="findings")
def an_item_that_is_no_json_is_damage(c):
    """
    damage: ranks/config_0.json @ 0x1: not_checkpoint: no JSON
    """
    an_item_that_is_no_json(c)


@case("not_checkpoint", *READ, exit=1, says="findings")
def an_item_of_the_metadata_that_is_no_json_is_damage(c):
    """
    damage: ranks/0.json @ 0x1: not_checkpoint: no JSON
    damage: ranks/1.json @ 0x1: not_checkpoint: no JSON
    """
    listed = {name: {"rank_to_layout_info": files} for name, files in [("model", {0: None, 1: None}), ("config", {n: at(f"{n}.json", "JsonSerialization") for n in range(2)})]}
    plain = {f"model_{n}.pt": {"w": dtensor((4, 2), (shard(),), (n,))} for n in range(2)}
    put(c, {"metadata.pkl": dump({"metadata": listed, "world_size": 2, "version": "2.0"}), "0.json": b"{", "1.json": b"{"} | plain)


@case("over_limit", "consolidate ranks out.pt", "convert ranks out")
def json_of_10_to_the_5_levels(c):
    """
    dcpctl: ranks/config_0.json: over_limit (got JSON nested 1001 deep, expected at most 1000)
    """
    beside_a_model(c, **{"config_0.json": b"[" * 100_000 + b"]" * 100_000})


@case("over_limit", "verify ranks", exit=1, says="findings")
def json_of_10_to_the_5_levels_is_damage(c):
    """
    damage: ranks/config_0.json: over_limit (got JSON nested 1001 deep, expected at most 1000)
    """
    json_of_10_to_the_5_levels(c)


@case("not_checkpoint", "consolidate ranks out.pt", "convert ranks out")
def json_with_a_key_twice(c):
    """
    dcpctl: ranks/config_0.json: not_checkpoint: the key 'a' twice
    """
    beside_a_model(c, **{"config_0.json": b'{"a": 1, "a": 2}'})


@case("not_checkpoint", "verify ranks", exit=1, says="findings")
def json_with_a_key_twice_is_damage(c):
    """
    damage: ranks/config_0.json: not_checkpoint: the key 'a' twice
    """
    json_with_a_key_twice(c)


@case(None, *READ, "diff ranks ranks", exit=0)
def json_that_python_alone_reads(c):
    beside_a_model(c, **{"config_0.json": b'{"a": [Infinity, NaN], "b": 18446744073709551616, "c": "\\udcff", "d": ' + b"[" * 65 + b"]" * 65 + b"}"})


@case(None, "verify ranks --exclude config", "verify ranks --include model*", "verify ranks --model-only", exit=0)
def all_but_an_item_that_is_no_json(c):
    an_item_that_is_no_json(c)


@case(None, *READ, "diff ranks ranks", exit=0)
def bytes_of_none(c):
    beside_a_model(c, **{"tokenizer_0.bin": b""})


# ---- accelerate, and items without metadata


def of_mesh(n, world=2):
    """What a rank had, with a mesh that says how many ranks it has."""
    return dtensor((2 * world, 2), (shard(),), (n,), ranks=tuple(range(world)))


def accelerate(c, model=(0, 1), optimizer=(0, 1), world=2, **more):
    files = {f"pytorch_model_fsdp_0_rank{n}.bin": {"w": of_mesh(n, world)} for n in model}
    files |= {f"optimizer_0_rank{n}.bin": {"state": {"w": {"exp_avg": of_mesh(n, world)}}} for n in optimizer}
    put(c, files | more)


@case(None, *READ, "diff ranks ranks", exit=0)
def files_of_accelerate(c):
    accelerate(c, **{"scheduler.bin": {"last_epoch": 1}, "random_states_0.pkl": dump({"step": 1})})


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def accelerates_first_rank_is_missing(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank0.bin: file_missing
    hint: its own
    """
    accelerate(c, model=(1,))


@case("file_missing", "verify ranks", exit=1, says="findings")
def accelerates_first_rank_is_missing_is_damage(c):
    """
    damage: ranks/pytorch_model_fsdp_0_rank0.bin: file_missing
    """
    accelerates_first_rank_is_missing(c)


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def accelerates_middle_rank_is_missing(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank1.bin: file_missing
    hint: its own
    """
    accelerate(c, model=(0, 2), optimizer=(0, 1, 2), world=3)


@case("file_missing", "verify ranks", exit=1, says="findings")
def accelerates_middle_rank_is_missing_is_damage(c):
    """
    damage: ranks/pytorch_model_fsdp_0_rank1.bin: file_missing
    """
    accelerates_middle_rank_is_missing(c)


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def accelerates_last_rank_is_missing(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank1.bin: file_missing
    hint: its own
    """
    accelerate(c, model=(0,), optimizer=(0,))


@case("file_missing", "verify ranks", exit=1, says="findings")
def accelerates_last_rank_is_missing_is_damage(c):
    """
    damage: ranks/optimizer_0_rank1.bin: file_missing
    damage: ranks/pytorch_model_fsdp_0_rank1.bin: file_missing
    """
    accelerates_last_rank_is_missing(c)


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def accelerates_optimizer_lacks_a_rank(c):
    """
    dcpctl: ranks/optimizer_0_rank1.bin: file_missing
    hint: its own
    """
    accelerate(c, optimizer=(0,))


@case("file_missing", "verify ranks", exit=1, says="findings")
def accelerates_optimizer_lacks_a_rank_is_damage(c):
    """
    damage: ranks/optimizer_0_rank1.bin: file_missing
    """
    accelerates_optimizer_lacks_a_rank(c)


@case("not_checkpoint")
def accelerates_files_of_two_worlds(c):
    """
    dcpctl: ranks: not_checkpoint (got pytorch_model_fsdp_1_rank3.bin beside pytorch_model_fsdp_0_rank0.bin, which is of 2 ranks, expected files of one save)
    """
    accelerate(c, **{"pytorch_model_fsdp_1_rank3.bin": {"w": of_mesh(1)}})


@case("not_checkpoint")
def accelerates_rank_twice(c):
    """
    dcpctl: ranks: not_checkpoint (got pytorch_model_fsdp_0_rank00.bin beside pytorch_model_fsdp_0_rank0.bin, expected one file of rank 0)
    """
    accelerate(c, **{"pytorch_model_fsdp_0_rank00.bin": {"w": of_mesh(0)}})


@case("torch_rank_part")
def a_flat_parameter_of_accelerate(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank0.bin: torch_rank_part: a flat parameter of LOCAL_STATE_DICT: its parameters' names and shapes are in no file
    hint: its own
    """
    put(c, {"pytorch_model_fsdp_0_rank0.bin": {"_flat_param": rebuild(storage(count=4), (4,))}})


def accelerates_plain(c, *states):
    put(c, {f"pytorch_model_fsdp_0_rank{n}.bin": state for n, state in enumerate(states)})


@case(None, "consolidate ranks out.pt --exclude model.a -q", exit=0, creates=["out.pt"])
def accelerates_plain_tensors_without_the_one_that_differs(c):
    accelerates_plain(c, *({"a": rebuild(storage(count=4), sizes), "b": rebuild(storage(count=4), (4,)), "step": 5} for sizes in [(3,), (2, 1)]))


@case("shards_joined", "verify ranks --shards-on-dim 0", "inspect ranks --shards-on-dim 0", exit=0, says="findings")
def accelerates_plain_shards(c):
    """
    note: ranks: shards_joined: 1 tensor of 2 ranks on dim 0
    """
    accelerates_plain(c, *({"w": rebuild(storage(count=4), sizes)} for sizes in [(2, 2), (1, 2)]))


@case("torch_rank_part")
def accelerates_plain_tensors_of_one_rank(c):
    """
    dcpctl: ranks: torch_rank_part: tensors that do not say of how many ranks they are parts
    hint: its own
    """
    accelerates_plain(c, {"w": rebuild(storage(count=4), (2, 2))})


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def accelerates_plain_tensors_without_a_rank(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank1.bin: file_missing
    hint: its own
    """
    put(c, {f"pytorch_model_fsdp_0_rank{n}.bin": {"w": rebuild(storage(count=4), (2, 2))} for n in (0, 2)})


@case(None, *READ, exit=0)
def items_without_metadata(c):
    put(c, {f"model_{n}.pt": {"w": of_mesh(n)} for n in range(2)} | {"step_0.pt": {"n": 1}, "step_1.pt": {"n": 1}})


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def items_without_metadata_and_a_rank(c):
    """
    dcpctl: ranks/model_1.pt: file_missing
    hint: its own
    """
    put(c, {"model_0.pt": {"w": of_mesh(0)}})


@case("file_missing", "verify ranks", exit=1, says="findings")
def items_without_metadata_and_a_rank_is_damage(c):
    """
    damage: ranks/model_1.pt: file_missing
    """
    items_without_metadata_and_a_rank(c)


@case("not_checkpoint")
def files_that_only_have_numbers(c):
    """
    dcpctl: ranks: not_checkpoint (got a folder with torch.save files, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    hint: give one of them: ranks/epoch_0.pt, ranks/epoch_1.pt
    """
    put(c, {f"epoch_{n}.pt": {"w": rebuild(storage(count=4), (2, 2))} for n in range(2)})


# ---- files of another world, whose parts have the shapes that this one's have


def three_rows(n, world=3):
    """A float32 [3, 2] of three ranks, or what the second of two has of it: one row, too, but the last."""
    local = (2, 2) if (n, world) == (0, 2) else (1, 2)
    return dtensor((3, 2), (shard(),), (n,), local, tuple(range(world)))


def of_another_world(c, name, **more):
    put(c, {name.format(n): {"w": three_rows(n, 2 if n == 1 else 3)} for n in range(3)} | more)


@case("ranks_disagree", *FOUND)
def a_model_of_another_world(c):
    """
    dcpctl: ranks/model_1.pt: tensor 'model.w': ranks_disagree (got a DTensor on the mesh [0, 1], expected [0, 1, 2], as in model_0.pt)
    hint: its own
    """
    of_another_world(c, "model_{}.pt")


@case("ranks_disagree", *FOUND)
def a_model_of_another_world_than_its_metadata(c):
    """
    dcpctl: ranks/model_1.pt: tensor 'model.w': ranks_disagree (got a DTensor on the mesh [0, 1], expected [0, 1, 2], as the metadata has it)
    hint: its own
    """
    three = mesh(mesh_shape=(3,), mesh_data=(0, 1, 2))
    listed = {'["w"]': [group(sharding(three, global_shape=[3, 2]), (0, 1, 2))]}
    of_another_world(c, "model_{}.pt", **{"metadata.pkl": metadata(listed, dict.fromkeys(range(3)), world_size=3)})


@case("ranks_disagree", *FOUND)
def a_model_of_accelerate_of_another_world(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank1.bin: tensor 'model.w': ranks_disagree (got a DTensor on the mesh [0, 1], expected [0, 1, 2], as in pytorch_model_fsdp_0_rank0.bin)
    hint: its own
    """
    of_another_world(c, "pytorch_model_fsdp_0_rank{}.bin")


@case("ranks_disagree", *FOUND)
def a_model_of_verl_of_another_world(c):
    """
    dcpctl: ranks/model_world_size_3_rank_1.pt: tensor 'model.w': ranks_disagree (got a DTensor on the mesh [0, 1], expected [0, 1, 2], as in model_world_size_3_rank_0.pt)
    hint: its own
    """
    of_another_world(c, "model_world_size_3_rank_{}.pt")


@case("ranks_disagree", *FOUND)
def a_rank_where_its_mesh_has_another(c):
    """
    dcpctl: ranks/model_1.pt: tensor 'model.w': ranks_disagree (got a DTensor at place [2] of the mesh [0, 1, 2], expected rank 1 there)
    hint: its own
    """
    put(c, {f"model_{n}.pt": {"w": three_rows((0, 2, 1)[n])} for n in range(3)})


SHARDED = "torch.distributed._shard.sharded_tensor"


def sharded_tensor(n, world, rank=None):
    """A row of a float32 [world, 2] under FSDP1."""
    kind = glob(f"{SHARDED}.api.ShardedTensor")
    where = new("torch.distributed._shard.metadata.ShardMetadata", {"shard_offsets": [n, 0], "shard_sizes": [1, 2], "placement": None})
    own = new(f"{SHARDED}.shard.Shard", {"tensor": rebuild(storage(count=4), (1, 2)), "metadata": where})
    ranks = {"local_rank": n, "global_rank": n if rank is None else rank, "local_world_size": world, "global_world_size": world}
    state = ([own], None, new(f"{SHARDED}.api.ShardedTensor.ProcessGroupState", ranks), None, False)
    arguments = (kind, glob("torch.float32"), (3, 2), (2, 1), 0, None, None, False)
    return call("torch._tensor._rebuild_from_type_v2", glob("torch._utils._rebuild_wrapper_subclass"), kind, arguments, state)


@case(None, *READ, exit=0)
def files_of_fsdp1(c):
    put(c, {f"pytorch_model_fsdp_0_rank{n}.bin": {"w": sharded_tensor(n, 3)} for n in range(3)})


@case("ranks_disagree", *FOUND)
def a_sharded_tensor_of_another_world(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank1.bin: tensor 'model.w': ranks_disagree (got a ShardedTensor of 2 ranks, expected 3, as in pytorch_model_fsdp_0_rank0.bin)
    hint: its own
    """
    put(c, {f"pytorch_model_fsdp_0_rank{n}.bin": {"w": sharded_tensor(n, 2 if n == 1 else 3)} for n in range(3)})


@case("ranks_disagree", *FOUND)
def a_sharded_tensor_of_another_rank(c):
    """
    dcpctl: ranks/pytorch_model_fsdp_0_rank1.bin: tensor 'model.w': ranks_disagree (got a ShardedTensor of rank 2, expected rank 1)
    hint: its own
    """
    put(c, {f"pytorch_model_fsdp_0_rank{n}.bin": {"w": sharded_tensor(n, 3, (0, 2, 2)[n])} for n in range(3)})
