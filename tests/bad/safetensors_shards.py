"""Shards that torch's own writers make: which part of a tensor each holds, and parts that are missing or do not fit."""
import json

from recipes import case
from safetensors_folders import file_of, folder

BOTH = ["inspect ckpt", "consolidate ckpt out.pt"]
COMMANDS = BOTH


def shard(tensors, **how):
    """A shard of torch's writer: {name: (shape, saved_offsets)}."""
    info = {name: {"saved_offsets": list(offsets)} for name, (_, offsets) in tensors.items()}
    info = how.pop("info", json.dumps(info))
    return file_of({name: shape for name, (shape, _) in tensors.items()}, {"DCP_SHARDING_INFO": info, "format": "pt"}, **how)


def name(rank):
    return f"shard-0000{rank}-model-00001-of-00001.safetensors"


@case("sharding_info_bad")
def sharding_info_that_is_no_json(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors > DCP_SHARDING_INFO: sharding_info_bad (got no JSON object)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}, info="no JSON")})


@case("sharding_info_bad")
def sharding_info_with_a_negative_offset(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors > DCP_SHARDING_INFO: tensor 'w': sharding_info_bad (got saved_offsets that are not a list of numbers)
    """
    folder(c, {name(1): shard({"w": ((2,), (-1,))})})


@case("sharding_info_bad")
def sharding_info_of_another_rank(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors: tensor 'w': sharding_info_bad (got 2 saved_offsets, expected 1)
    """
    folder(c, {name(1): shard({"w": ((2,), (0, 0))})})


@case("sharding_info_bad")
def sharding_info_that_is_a_list(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors > DCP_SHARDING_INFO: tensor 'w': sharding_info_bad (got no object)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}, info='{"w": [0]}')})


@case("number_overflow")
def offsets_that_overflow(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors: number_overflow (got 9223372036854775807 + 2)
    """
    folder(c, {name(1): shard({"w": ((2,), ((1 << 63) - 1,))})})


@case("number_overflow")
def a_tensor_of_too_many_bytes(c):
    """
    dcpctl: ckpt: tensor 'w': number_overflow (got 4 * 4611686018427387906)
    """
    folder(c, {name(1): shard({"w": ((2, 2), (1 << 62, 1 << 62))})})


@case("shards_disagree", "consolidate ckpt out.pt")
def shards_of_two_ranks_of_dims(c):
    """
    dcpctl: ckpt/shard-00002-model-00001-of-00001.safetensors: tensor 'w': shards_disagree (got float32 of 2 dims, expected float32 of 1 dims as in shard-00001-model-00001-of-00001.safetensors)
    hint: its own
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(2): shard({"w": ((2, 1), (2, 0))})})


@case("shard_twice", "consolidate ckpt out.pt")
def one_shard_in_two_files(c):
    """
    dcpctl: ckpt/shard-00002-model-00001-of-00001.safetensors: tensor 'w': shard_twice (got a second one)
    hint: its own
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(2): shard({"w": ((2,), (0,))})})


@case("tensor_hole", "inspect ckpt", exit=1, says="findings")
def the_first_shard_is_missing(c):
    """
    damage: ckpt: tensor 'w': tensor_hole (got [0:2] in no chunk)
    warning: ckpt: shard_gap (got no shard-00001 beside shard-00002)
    """
    folder(c, {name(2): shard({"w": ((2,), (2,))})})


@case("tensor_hole", "consolidate ckpt out.pt")
def a_shard_in_the_middle_is_missing_to_a_writer(c):
    """
    dcpctl: ckpt: tensor 'w': tensor_hole (got [2:4] in no chunk)
    hint: its own
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(3): shard({"w": ((2,), (4,))})})


@case("shard_gap", "inspect ckpt", exit=0, says="findings")
def the_shard_of_a_rank_is_missing(c):
    """
    warning: ckpt: shard_gap (got no shard-00002 beside shard-00003)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(3): shard({"v": ((2,), (0,))})})


def shards_of_two_ranks(c):
    """Each rank writes two files; rank 2's share of the first is not there, and nothing in rank 1's says that w had four rows."""
    files = {(1, 1): {"w": ((2,), (0,))}, (1, 2): {"v": ((2,), (0,))}, (2, 2): {"v": ((2,), (2,))}}
    folder(c, {f"shard-0000{rank}-model-0000{number}-of-00002.safetensors": shard(tensors) for (rank, number), tensors in files.items()})


@case("shard_gap", "inspect ckpt", exit=0, says="findings")
def one_file_of_a_rank_is_missing(c):
    """
    warning: ckpt: shard_gap (got no shard-00002-model-00001-of-00002 beside other ranks' shards of it)
    """
    shards_of_two_ranks(c)


@case("shard_gap", "inspect ckpt", exit=0, says="findings")
def a_file_that_no_rank_wrote(c):
    """
    warning: ckpt: shard_gap (got no model-00002-of-00003)
    """
    files = {1: {"w": ((2,), (0,))}, 3: {"v": ((2,), (0,))}}
    folder(c, {f"shard-00001-model-0000{number}-of-00003.safetensors": shard(tensors) for number, tensors in files.items()})


@case(None, "consolidate ckpt out.pt", exit=0, creates=["out.pt"])
def the_shard_of_the_last_rank_is_missing(c):
    """
    dcpctl: note: ckpt: shard_count_unknown (got shard-00001 to shard-00002)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(2): shard({"w": ((2,), (2,)), "v": ((2,), (0,))})})


@case("shard_count_unknown", "inspect ckpt", exit=0, says="findings")
def the_shard_of_the_last_rank_is_missing_to_inspect(c):
    """
    note: ckpt: shard_count_unknown (got shard-00001 to shard-00002)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(2): shard({"w": ((2,), (2,)), "v": ((2,), (0,))})})


@case("tensor_hole", "consolidate ckpt out.pt")
def the_shard_of_a_rank_whose_empty_neighbour_tells_it(c):
    """
    dcpctl: ckpt: tensor 'w': tensor_hole (got [2:4] in no chunk)
    hint: its own
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(3): shard({"w": ((0,), (4,))})})


@case("shard_lost", "inspect ckpt", exit=1, says="findings")
def a_chunk_that_torch_replaced(c):
    """
    damage: ckpt/__0_0.distcp: tensor 'model.w': shard_lost (expected chunk [0:2, 0:3])
    damage: ckpt: tensor 'model.w': chunk_without_item (got chunk [0:2, 0:3])
    warning: ckpt/__0_0.distcp: safetensors_items
    """
    replaced(c)


@case("shard_lost", "consolidate ckpt out.pt")
def a_chunk_that_torch_replaced_to_a_writer(c):
    """
    dcpctl: ckpt/__0_0.distcp: tensor 'model.w': shard_lost (expected chunk [0:2, 0:3])
    hint: its own
    """
    replaced(c)


@case("safetensors_items", "inspect ckpt --key model.b", exit=0, says="findings")
def a_file_of_the_metadata_that_is_a_safetensors_file(c):
    """
    warning: ckpt/__0_0.distcp: safetensors_items
    """
    as_safetensors(c, {"model.w": ((4, 3), (0, 0)), "model.b": ((2,), (0,))})


@case("safetensors_items", "verify ckpt", exit=0, says="findings")
def a_file_of_the_metadata_that_is_a_safetensors_file_to_verify(c):
    """
    warning: ckpt/__0_0.distcp: safetensors_items
    note: ckpt: crc_absent (got 2 records)
    """
    as_safetensors(c, {"model.w": ((4, 3), (0, 0)), "model.b": ((2,), (0,))})


def as_safetensors(c, tensors):
    """The small checkpoint as FileSystemWriter(serialization_format=SAFETENSORS) would write it: model.w whole or in two chunks."""
    c.blobs, c.paths = [], {"model.w": ("model", "w"), "model.b": ("model", "b")}
    c.items = [i for i in c.items if i.key != "step"]
    if tensors["model.w"][0] == (4, 3):
        c.tensors["model.w"].chunks = [((0, 0), (4, 3))]
        del c.items[-1]
    for item in c.items:
        item.file = "__0_0.distcp"
        item.fields = {"offset": 0, "length": 8 if item.key == "model.b" else 48 if len(c.items) == 2 else 24}
    c.write()
    (c.folder / "__0_0.distcp").write_bytes(shard(tensors))


def replaced(c):
    as_safetensors(c, {"model.w": ((2, 3), (2, 0)), "model.b": ((2,), (0,))})
