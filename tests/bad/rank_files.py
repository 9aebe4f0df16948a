"""Files that every rank saved with torch.save: names, DTensors, the metadata of torch_checkpointing."""
from recipes import archive, call, case, dump, glob, new, rebuild, storage, struct

COMMANDS = ["inspect ranks", "verify ranks", "consolidate ranks out.pt", "convert ranks out"]
DTENSOR = "torch.distributed.tensor.DTensor"


def placement(name, **state):
    return new(f"torch.distributed.tensor.placement_types.{name}", state)


def shard(dim=0):
    return placement("Shard", dim=dim)


def dtensor(sizes, placements, coordinate, local=None, ranks=None):
    """What a rank had: two rows of a float32 [4, 2], unless `local` says otherwise; `ranks` are those of a mesh of one dim."""
    arguments = (glob(DTENSOR), glob("torch.float32"), sizes, (1,), 0, call("torch.serialization._get_layout", "torch.strided"), call("torch.device", "cpu"), False)
    axis = new("torch.distributed._mesh_layout._FlatLayout", {"shape": (len(ranks or ()),), "stride": (1,)})
    layout = new("torch.distributed._mesh_layout._MeshLayout", {"axes": (axis,)})
    mesh = {"_coordinate_on_dim": coordinate} | ({"_flatten_rank_map": ranks, "_layout": layout} if ranks else {})
    mesh = new("torch.distributed.device_mesh.DeviceMesh", mesh)
    spec = new("torch.distributed.tensor._dtensor_spec.DTensorSpec", {"mesh": mesh, "placements": placements})
    local = (2, 2) if local is None else local
    state = (None, {"_local_tensor": rebuild(storage(count=4), local), "_spec": spec})
    return call("torch._tensor._rebuild_from_type_v2", glob("torch._utils._rebuild_wrapper_subclass"), glob(DTENSOR), arguments, state)


DATA = struct.pack("<4f", 1, 2, 3, 4)


def put(c, files):
    """Files of a folder `ranks`; what is not bytes is a state dict."""
    c.written = True
    folder = c.folder.parent / "ranks"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else archive(dump(content, 2), DATA).bytes())


def ranks(c, *states):
    put(c, {f"model_world_size_{len(states)}_rank_{n}.pt": {"w": state} for n, state in enumerate(states)})


@case(None, "inspect ranks", "verify ranks", exit=0)
def two_ranks_that_agree(c):
    ranks(c, dtensor((4, 2), (shard(),), (0,)), dtensor((4, 2), (shard(),), (1,)))


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def the_file_of_a_rank_is_missing(c):
    """
    dcpctl: ranks/model_world_size_2_rank_0.pt: file_missing
    hint: its own
    """
    put(c, {"model_world_size_2_rank_1.pt": {}})


@case("file_missing", "verify ranks", exit=1, says="findings")
def the_file_of_a_rank_is_missing_is_damage(c):
    """
    damage: ranks/model_world_size_2_rank_0.pt: file_missing
    """
    the_file_of_a_rank_is_missing(c)


@case("file_missing")
def what_is_left_where_the_model_was_removed(c):
    """
    dcpctl: ranks/model_world_size_1_rank_0.pt: file_missing
    hint: its own
    """
    put(c, {"optim_world_size_1_rank_0.pt": {}})


@case("not_checkpoint")
def two_worlds_in_one_folder(c):
    """
    dcpctl: ranks: not_checkpoint (got model_world_size_2_rank_0.pt beside model_world_size_1_rank_0.pt, expected files of one save)
    hint: move the files of one world size into a folder of their own
    """
    put(c, {"model_world_size_1_rank_0.pt": {}, "model_world_size_2_rank_0.pt": {}, "model_world_size_2_rank_1.pt": {}})


@case("ranks_disagree", "consolidate ranks out.pt", "convert ranks out")
def two_lists_of_placements(c):
    """
    dcpctl: ranks: tensor 'model.w': ranks_disagree: two lists of placements
    hint: its own
    """
    ranks(c, dtensor((4, 2), (shard(0),), (0,)), dtensor((4, 2), (shard(1),), (1,)))


@case("ranks_disagree", "consolidate ranks out.pt", "convert ranks out")
def two_shapes_of_one_tensor(c):
    """
    dcpctl: ranks: tensor 'model.w': ranks_disagree: two shapes
    hint: its own
    """
    ranks(c, dtensor((4, 2), (shard(),), (0,)), dtensor((5, 2), (shard(),), (1,)))


@case("ranks_disagree", "verify ranks", "verify ranks --quick", exit=1, says="findings")
def two_shapes_are_damage(c):
    """
    damage: ranks: tensor 'model.w': ranks_disagree: two shapes
    """
    two_shapes_of_one_tensor(c)


@case("ranks_disagree", "consolidate ranks out.pt", "convert ranks out")
def a_list_on_one_rank_and_a_dict_on_another(c):
    """
    dcpctl: ranks: object 'model.w.0.a': ranks_disagree: a list on one rank, a dict on another
    hint: its own
    """
    ranks(c, [{"a": 1}, {"b": 2}], {"x": 1})


@case("ranks_disagree", "verify ranks", "verify ranks --quick", exit=1, says="findings")
def a_list_and_a_dict_are_damage(c):
    """
    damage: ranks: object 'model.w.0.a': ranks_disagree: a list on one rank, a dict on another
    """
    a_list_on_one_rank_and_a_dict_on_another(c)


@case(None, "verify ranks --exclude model.w.0.a --exclude model.w.1.b", exit=0)
def the_dict_without_the_list(c):
    a_list_on_one_rank_and_a_dict_on_another(c)


@case("rank_place_taken", "consolidate ranks out.pt", "convert ranks out")
def a_file_that_is_a_copy_of_another(c):
    """
    dcpctl: ranks/model_world_size_2_rank_1.pt: tensor 'model.w': rank_place_taken (got [0], where model_world_size_2_rank_0.pt is, expected a place of its own)
    hint: its own
    """
    ranks(c, *(dtensor((4, 2), (shard(),), (0,)) for n in range(2)))


@case("rank_place_taken", "verify ranks", "verify ranks --quick", exit=1, says="findings")
def a_copy_is_damage(c):
    """
    damage: ranks/model_world_size_4_rank_3.pt: tensor 'model.w': rank_place_taken (got [2], where model_world_size_4_rank_2.pt is, expected a place of its own)
    """
    ranks(c, *(dtensor((8, 2), (shard(),), (n,)) for n in (0, 1, 2, 2)))


@case("rank_lacks_key", "consolidate ranks out.pt", "convert ranks out")
def a_key_that_the_last_rank_lacks(c):
    """
    dcpctl: ranks/model_world_size_3_rank_2.pt: tensor 'model.w': rank_lacks_key
    """
    files = {f"model_world_size_3_rank_{n}.pt": {"w": dtensor((6, 2), (shard(),), (n,))} for n in range(2)}
    put(c, files | {"model_world_size_3_rank_2.pt": {"v": 1}})


@case("rank_lacks_key", "verify ranks", exit=1, says="findings")
def a_key_that_a_rank_lacks_is_damage(c):
    """
    damage: ranks/model_world_size_3_rank_1.pt: tensor 'model.w': rank_lacks_key
    """
    files = {f"model_world_size_3_rank_{n}.pt": {"w": dtensor((6, 2), (shard(),), (n,))} for n in (0, 2)}
    put(c, files | {"model_world_size_3_rank_1.pt": {"v": 1}})


@case("not_checkpoint")
def two_files_of_one_rank(c):
    """
    dcpctl: ranks: not_checkpoint (got model_world_size_1_rank_00.pt beside model_world_size_1_rank_0.pt, expected one file of rank 0)
    """
    put(c, {"model_world_size_1_rank_0.pt": {}, "model_world_size_1_rank_00.pt": {}})


def plain(*sizes):
    return rebuild(storage(count=4), sizes)


def state(rank, **values):
    return {"a": plain(2), "step": 3, **{key: value[rank] for key, value in values.items()}}


DISAGREE = {f"model_world_size_2_rank_{n}.pt": state(n, a=[plain(3), plain(2, 1)], lr=[5, 5]) for n in range(2)}


@case("ranks_disagree", "verify ranks", "verify ranks --quick", exit=1, says="findings")
def what_follows_a_key_with_two_shapes_is_its_own(c):
    """
    damage: ranks: tensor 'model.a': ranks_disagree: two shapes
    """
    put(c, DISAGREE)


def parts(c, *contents):
    """Each rank's file with tensors of two rows of what lies in its own storage."""
    files = {}
    for n, (w, b) in enumerate(contents):
        values = {"w": rebuild(storage(key="0", count=4), (2, 2)), "b": rebuild(storage(key="1", count=4), (4,))}
        files[f"model_world_size_{len(contents)}_rank_{n}.pt"] = archive(dump(values, 2), bytes([w]) * 16, bytes([b]) * 16).bytes()
    put(c, files)


@case("ranks_are_shards", "consolidate ranks out.pt", "convert ranks out", "consolidate ranks out.pt --prefer-rank 0")
def parts_that_do_not_say_which(c):
    """
    dcpctl: ranks: ranks_are_shards: model.b, model.w
    hint: --shards-on-dim 0 joins them
    """
    parts(c, (1, 2), (3, 4))


def shards(c, *states, **same):
    """Tensors of float32 with bytes of their rank, beside those whose bytes are the same on all."""
    files = {}
    for n, state in enumerate(states):
        values = {key: rebuild(storage(key=str(i), count=32), sizes) for i, (key, sizes) in enumerate({**state, **same}.items())}
        data = [bytes(range(first, first + 128)) for first in [n * (i < len(state)) for i in range(len(values))]]
        files[f"model_world_size_{len(states)}_rank_{n}.pt"] = archive(dump(values, 2), *data).bytes()
    put(c, files)


@case("ranks_are_shards", "consolidate ranks out.pt", "convert ranks out")
def parts_beside_what_is_the_same(c):
    """
    dcpctl: ranks: ranks_are_shards: model.w; the same on all ranks: model.pos
    hint: --shards-on-dim 0 joins them
    """
    shards(c, {"w": (4, 8)}, {"w": (4, 8)}, pos=(32,))


@case("ranks_are_shards", "consolidate ranks out.pt", "convert ranks out")
def most_bytes_differ_beside_a_matrix_that_does_not(c):
    """
    dcpctl: ranks: ranks_are_shards: model.b, model.rng; the same on all ranks: model.w
    hint: --shards-on-dim 0 joins them
    """
    shards(c, {"b": (8,), "rng": (16,)}, {"b": (8,), "rng": (16,)}, w=(4, 8))


@case("ranks_are_shards", "verify ranks", exit=1, says="findings")
def parts_on_two_dims(c):
    """
    damage: ranks: ranks_are_shards: model.b
    damage: ranks: ranks_are_shards: model.w
    """
    shards(c, {"w": (4, 8), "b": (8,)}, {"w": (4, 6), "b": (8,)})


@case("ranks_are_shards", "consolidate ranks out.pt --shards-on-dim 1", "convert ranks out --shards-on-dim 1")
def parts_on_another_dim(c):
    """
    dcpctl: ranks: the ranks' tensors are shards, but not along dim 1: model.b
    hint: kFewerKeys
    """
    parts_on_two_dims(c)


@case(None, "consolidate ranks out.pt --shards-on-dim 1 --exclude model.b -q", exit=0, creates=["out.pt"])
def parts_without_those_on_another_dim(c):
    parts_on_two_dims(c)


@case("ranks_are_shards", "consolidate ranks out.pt --shards-on-dim 0", "convert ranks out --shards-on-dim 0")
def parts_that_the_other_dim_joins(c):
    """
    dcpctl: ranks: the ranks' tensors are shards, but not along dim 0: model.w
    hint: --shards-on-dim 1 joins them
    """
    shards(c, {"w": (4, 8)}, {"w": (4, 6)})


@case("ranks_disagree", "verify ranks", "verify ranks --prefer-rank 2", exit=1, says="findings")
def shards_on_some_ranks_and_a_plain_tensor_on_another(c):
    """
    damage: ranks/model_world_size_3_rank_2.pt: tensor 'model.w': ranks_disagree (got a plain tensor, expected a DTensor, as in model_world_size_3_rank_0.pt)
    """
    ranks(c, *(dtensor((2, 2), (shard(),), (n,), (1, 2), (0, 1)) for n in range(2)), rebuild(storage(count=4), (2, 2)))


@case(None, "consolidate ranks out.pt --exclude model.w -q", exit=0, creates=["out.pt"])
def all_but_shards_on_some_ranks(c):
    w = [dtensor((2, 2), (shard(),), (0,), (1, 2)), rebuild(storage(count=4), (2, 2))]
    put(c, {f"model_world_size_2_rank_{n}.pt": {"w": w[n], "b": rebuild(storage(count=4), (4,))} for n in range(2)})


def own_state(c):
    plain = {f"model_world_size_2_rank_{n}.pt": {"w": rebuild(storage(count=4), (4,))} for n in range(2)}
    put(c, plain | {f"extra_state_world_size_2_rank_{n}.pt": {"lr": dtensor((4, 2), (shard(),), (n,))} for n in range(2)})


@case("tensor_hole", "verify ranks", exit=1, says="findings")
def shards_in_what_is_each_ranks_own(c):
    """
    damage: ranks: tensor 'extra_state.rank_1.lr': tensor_hole: [0:2, 0:2] in no chunk
    damage: ranks/extra_state_world_size_2_rank_0.pt: tensor 'extra_state.rank_0.lr': chunk_shape_differs (got [2, 2], expected [4, 2])
    """
    own_state(c)


@case(None, "consolidate ranks out.pt --exclude 'extra_state*' -q", "consolidate ranks out.pt --key model.w -q", exit=0, creates=["out.pt"])
def all_but_shards_in_what_is_each_ranks_own(c):
    own_state(c)


def partial_state(c):
    own_state(c)
    for n in range(2):
        state = {"loss": dtensor((4, 2), (placement("Partial", reduce_op="sum"),), (n,))}
        (c.folder.parent / "ranks" / f"extra_state_world_size_2_rank_{n}.pt").write_bytes(archive(dump(state, 2), DATA).bytes())


@case("torch_rank_part", "verify ranks", exit=1, says="findings")
def partial_sums_in_what_is_each_ranks_own(c):
    """
    damage: ranks/extra_state_world_size_2_rank_0.pt: tensor 'extra_state.rank_0.loss': torch_rank_part: a torch.distributed.tensor.DTensor whose mesh or placements are not known
    damage: ranks/extra_state_world_size_2_rank_1.pt: tensor 'extra_state.rank_1.loss': torch_rank_part: a torch.distributed.tensor.DTensor whose mesh or placements are not known
    """
    partial_state(c)


@case("torch_rank_part", "consolidate ranks out.pt", "convert ranks out")
def partial_sums_beside_a_model(c):
    """
    dcpctl: ranks/extra_state_world_size_2_rank_0.pt: tensor 'extra_state.rank_0.loss': torch_rank_part: a torch.distributed.tensor.DTensor whose mesh or placements are not known
    hint: its own
    """
    partial_state(c)


@case(None, "consolidate ranks out.pt --exclude 'extra_state*' -q", "consolidate ranks out.pt --key model.w -q", exit=0, creates=["out.pt"])
def all_but_partial_sums(c):
    partial_state(c)


@case("ranks_are_shards", "verify ranks", "verify ranks --quick", exit=1, says="findings")
def parts_that_do_not_say_which_are_damage(c):
    """
    damage: ranks: ranks_are_shards: model.b, model.w
    """
    parts(c, (1, 2), (3, 4))


@case("shards_equal", "consolidate ranks out.pt --shards-on-dim 0", "convert ranks out --shards-on-dim 0", exit=1)
def whole_on_each_rank_or_equal_parts(c):
    """
    dcpctl: ranks: shards_equal (model.b)
    hint: its own
    """
    parts(c, (1, 2), (3, 2))


@case("replicated_differs", "consolidate ranks out.pt --shards-on-dim 0 --replicated '*.w'", "convert ranks out --shards-on-dim 0 --replicated '*.w'")
def a_shard_that_is_named_as_replicated(c):
    """
    dcpctl: ranks: tensor 'model.w': replicated_differs
    hint: its own
    """
    parts(c, (1, 2), (3, 2))


@case("shards_joined", "verify ranks --shards-on-dim 0 --replicated '*.b'", "inspect ranks --shards-on-dim 0 --replicated '*.b'", exit=0, says="findings")
def parts_beside_what_is_whole(c):
    """
    note: ranks: shards_joined: 1 tensor of 2 ranks on dim 0; replicated: model.b
    """
    parts(c, (1, 2), (3, 2))


@case("shards_equal", "verify ranks --shards-on-dim 0", exit=0, says="findings")
def what_is_equal_beside_parts_of_its_shape(c):
    """
    warning: ranks: these tensors are the same on all ranks, and joined, since others of their shape are shards: model.norm
    note: ranks: shards_joined: 2 tensors of 2 ranks on dim 0
    """
    files = {}
    for n in range(2):
        values = {"bias": rebuild(storage(key="0", count=4), (4,)), "norm": rebuild(storage(key="1", count=4), (4,))}
        files[f"model_world_size_2_rank_{n}.pt"] = archive(dump(values, 2), bytes([n + 1]) * 16, bytes([9]) * 16).bytes()
    put(c, files)


@case("shards_repeated", "consolidate ranks out.pt --shards-on-dim 0", "convert ranks out --shards-on-dim 0")
def parts_of_a_replica(c):
    """
    dcpctl: ranks/model_world_size_4_rank_2.pt: shards_repeated (got all that model_world_size_4_rank_0.pt has, expected shards of its own)
    """
    parts(c, (1, 2), (3, 4), (1, 2), (3, 4))


@case("usage", "consolidate ranks out.pt --shards-on-dim 0 --replicated 'c*'", exit=2)
def a_name_of_no_tensor(c):
    """
    dcpctl: ranks: got --replicated 'c*', expected a glob that matches a tensor's whole key
    hint: a glob matches the whole key: '*.b*'
    """
    parts(c, (1, 2), (3, 4))


@case("model_empty", "consolidate ranks/m.pt out.pt", "convert ranks/m.pt out", "consolidate ranks/m.pt out.pt --model-only")
def a_model_of_nothing(c):
    """
    dcpctl: ranks/m.pt: model_empty (2 empty tensors, such as 'a.weight')
    hint: its own
    """
    put(c, {"m.pt": {"a.weight": plain(0), "b.bias": plain(0), "rope": plain(4)}})


@case("model_empty", "consolidate ranks/m.pt out.pt --model-only", "convert ranks/m.pt out --exclude 'optimizer*'")
def a_model_of_nothing_by_other_names(c):
    """
    dcpctl: ranks/m.pt: model_empty (1 empty tensor, such as 'model.gamma')
    hint: its own
    """
    put(c, {"m.pt": {"model": {"gamma": plain(0)}, "optimizer": {"state": {"gamma": {"exp_avg": plain(4)}}}}})


@case(None, "consolidate ranks/m.pt out.pt -q", exit=0, creates=["out.pt"])
def one_tensor_of_nothing(c):
    """"""
    put(c, {"m.pt": {"w": plain(0), "step": 3}})


@case(None, "consolidate ranks/m.pt out.pt -q", exit=0, creates=["out.pt"])
def a_dict_of_nothing_beside_a_model(c):
    """"""
    put(c, {"m.pt": {"model": {"a.weight": plain(4)}, "cache": {"0.key": plain(0), "0.value": plain(0)}}})


FLAT = [rebuild(storage(count=4), (4,)), rebuild(storage(count=4), (3,))]


@case("ranks_kept_apart", "verify ranks", "inspect ranks", exit=0, says="findings")
def flat_shards_of_an_optimizer(c):
    """
    warning: ranks/optim_world_size_2_rank_0.pt: ranks_kept_apart (optim.rank_0 and 1 more)
    """
    files = {f"model_world_size_2_rank_{n}.pt": {"w": dtensor((4, 2), (shard(),), (n,))} for n in range(2)}
    put(c, files | {f"optim_world_size_2_rank_{n}.pt": {"state": {0: {"exp_avg": FLAT[n]}}} for n in range(2)})


@case("torch_rank_part", "verify ranks", "consolidate ranks out.pt", "convert ranks out")
def partial_sums(c):
    """
    dcpctl: ranks/model_world_size_2_rank_0.pt: tensor 'model.w': torch_rank_part: a torch.distributed.tensor.DTensor whose mesh or placements are not known
    hint: its own
    """
    ranks(c, *(dtensor((4, 2), (placement("Partial", reduce_op="sum"),), (n,)) for n in range(2)))


@case("torch_rank_part")
def a_dim_that_the_tensor_does_not_have(c):
    """
    dcpctl: ranks: tensor 'model.w': torch_rank_part: placements that its shape does not have
    hint: its own
    """
    ranks(c, *(dtensor((4, 2), (shard(2),), (n,)) for n in range(2)))


@case("torch_rank_part", "verify ranks", "consolidate ranks out.pt", "convert ranks out")
def a_coordinate_for_another_mesh(c):
    """
    dcpctl: ranks/model_world_size_2_rank_0.pt: tensor 'model.w': torch_rank_part: a torch.distributed.tensor.DTensor whose mesh or placements are not known
    hint: its own
    """
    ranks(c, *(dtensor((4, 2), (shard(),), (n, 0)) for n in range(2)))


@case("chunk_shape_differs", "consolidate ranks out.pt", "convert ranks out")
def a_part_of_another_shape(c):
    """
    dcpctl: ranks/model_world_size_2_rank_1.pt: tensor 'model.w': chunk_shape_differs (got [1, 4], expected [2, 2])
    """
    ranks(c, dtensor((4, 2), (shard(),), (0,)), dtensor((4, 2), (shard(),), (1,), local=(1, 4)))


@case("chunk_shape_differs", "verify ranks", exit=1, says="findings")
def a_part_of_another_shape_is_damage(c):
    """
    damage: ranks/model_world_size_2_rank_1.pt: tensor 'model.w': chunk_shape_differs (got [1, 4], expected [2, 2])
    """
    a_part_of_another_shape(c)


@case("tensor_hole", "consolidate ranks out.pt", "convert ranks out")
def a_coordinate_that_no_rank_has(c):
    """
    dcpctl: ranks: tensor 'model.w': tensor_hole: [2:4, 0:2] in no chunk
    hint: its own
    """
    ranks(c, dtensor((6, 2), (shard(),), (0,)), dtensor((6, 2), (shard(),), (2,)))


@case("duplicates_differ", "consolidate ranks out.pt", "convert ranks out")
def copies_that_differ(c):
    """
    dcpctl: ranks/model_world_size_2_rank_1.pt @ 0x40: object 'model.w': duplicates_differ: a value different from that in ranks/model_world_size_2_rank_0.pt
    hint: its own
    """
    ranks(c, 1, 2)


@case("not_checkpoint")
def a_metadata_pkl_of_something_else(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got a pickle of something else, expected metadata of torch_checkpointing, version 2.0)
    """
    put(c, {"metadata.pkl": dump({"a": 1})})


def metadata(**changes):
    return dump({"metadata": {"model": {"rank_to_layout_info": {0: None, 1: None}}}, "world_size": 2, "version": "2.0"} | changes)


@case("not_checkpoint")
def an_older_version_of_torch_checkpointing(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got version 1.0 of torch_checkpointing's metadata without rank_to_layout_info_mappings, expected metadata of torch_checkpointing, version 2.0)
    """
    put(c, {"metadata.pkl": metadata(version="1.0")})


@case("not_checkpoint")
def a_rank_without_a_layout(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got no file of rank 2 for model, expected metadata of torch_checkpointing, version 2.0)
    """
    put(c, {"metadata.pkl": metadata(world_size=3)})


def at(path, format="TorchSerialization"):
    return {"file_path": path, "serialization_format": {"type": format}}


def items(**layouts):
    return {name: {"rank_to_layout_info": dict(enumerate(files))} for name, files in layouts.items()}


@case("not_checkpoint")
def one_file_for_all_ranks(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got model_rank_0.pt for rank 0 of model and for rank 1 of model, expected metadata of torch_checkpointing, version 2.0)
    """
    put(c, {"metadata.pkl": metadata(metadata=items(model=[at("model_rank_0.pt"), at("model_rank_0.pt")])), "model_rank_0.pt": {"w": 1}})


@case("not_checkpoint")
def one_file_for_two_items(c):
    """
    dcpctl: ranks/metadata.pkl: not_checkpoint (got shared.pt for rank 0 of model and for rank 0 of optim, expected metadata of torch_checkpointing, version 2.0)
    """
    shared = [at("shared.pt")]
    put(c, {"metadata.pkl": metadata(world_size=1, metadata=items(model=shared, optim=shared)), "shared.pt": {"w": 1}})


@case("pickle_unsafe", "verify ranks --fail-on unsafe", "verify ranks --quick --fail-on unsafe", "inspect ranks --fail-on unsafe", says="findings", exit=1)
def a_call_in_metadata_pkl(c):
    """
    warning: ranks/metadata.pkl: pickle_unsafe: posix.system
    """
    put(c, {"metadata.pkl": metadata(world_size=1, metadata=items(model=[None]), more=call("posix.system", "true")), "model_0.pt": {"w": 1}})


@case("file_missing", "consolidate ranks out.pt", "convert ranks out")
def an_item_file_is_missing(c):
    """
    dcpctl: ranks/model_1.pt: file_missing
    hint: its own
    """
    put(c, {"metadata.pkl": metadata(), "model_0.pt": {"w": 1}})


@case("file_missing", "verify ranks", exit=1, says="findings")
def an_item_file_is_missing_is_damage(c):
    """
    damage: ranks/model_1.pt: file_missing
    """
    an_item_file_is_missing(c)


@case("duplicates_differ", "verify ranks", says="findings", exit=1)
def copies_that_differ_are_damage(c):
    """
    damage: ranks/model_world_size_2_rank_1.pt @ 0x40: object 'model.w': duplicates_differ: a value different from that in ranks/model_world_size_2_rank_0.pt
    """
    ranks(c, 1, 2)


LISTED = dict(model=[at("model.safetensors", "SafetensorsSerialization")], optim=[None])


@case(None, "inspect ranks/metadata.pkl", "verify ranks/metadata.pkl", "diff ranks ranks/metadata.pkl", exit=0)
def metadata_pkl_stands_for_its_folder(c):
    put(c, {"metadata.pkl": metadata(), "model_0.pt": {"w": 1}, "model_1.pt": {"w": 1}})




@case("duplicates_differ", "extract ranks model", "extract ranks model.w")
def a_group_whose_copies_differ(c):
    """
    dcpctl: ranks/model_world_size_2_rank_1.pt @ 0x40: object 'model.w': duplicates_differ: a value different from that in ranks/model_world_size_2_rank_0.pt
    hint: its own
    """
    ranks(c, 1, 2)


@case("duplicates_differ", "inspect ranks", exit=1, says="findings")
def copies_that_differ_are_seen_where_they_are_shown(c):
    """
    damage: ranks/model_world_size_2_rank_1.pt @ 0x40: object 'model.w': duplicates_differ: a value different from that in ranks/model_world_size_2_rank_0.pt
    """
    ranks(c, 1, 2)
