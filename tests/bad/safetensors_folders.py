"""Folders of safetensors files: an index that lies, shards that are missing or do not fit together, files that are something else."""
import json
import struct
from pathlib import Path

from recipes import case

BOTH = ["inspect ckpt", "consolidate ckpt out.pt"]
COMMANDS = BOTH


def file_of(tensors, metadata=None, header=None, data=None):
    """A safetensors file of float32 tensors {name: shape}, all ones."""
    entries, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, shape in tensors.items():
        count = 4
        for size in shape:
            count *= size
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + count]}
        at += count
    text = json.dumps({**entries, **(header or {})}).encode()
    return struct.pack("<Q", len(text)) + text + (struct.pack("<f", 1) * (at // 4) if data is None else data)


def shard(tensors, **how):
    """A shard of torch's writer: {name: (shape, saved_offsets)}."""
    info = {name: {"saved_offsets": list(offsets)} for name, (_, offsets) in tensors.items()}
    info = how.pop("info", json.dumps(info))
    return file_of({name: shape for name, (shape, _) in tensors.items()}, {"DCP_SHARDING_INFO": info, "format": "pt"}, **how)


def folder(c, files, weight_map=None, total=None):
    c.folder.mkdir()
    c.written = True
    for name, content in files.items():
        (c.folder / name).write_bytes(content)
    if weight_map is not None:
        index = {"metadata": {} if total is None else {"total_size": total}, "weight_map": weight_map}
        (c.folder / "model.safetensors.index.json").write_text(json.dumps(index))


A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
TWO = {A: file_of({"a": (2,)}), B: file_of({"b": (3,)})}


# ---- the index


@case("hf_index_bad")
def an_index_that_is_no_json(c):
    """
    dcpctl: ckpt/model.safetensors.index.json @ 0x15: the index is not a map of tensors to files (got no JSON)
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": ')


@case("hf_index_bad")
def an_index_without_a_map(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: the index is not a map of tensors to files (got no weight_map)
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 20}}')


@case("hf_index_bad")
def an_index_with_a_number_for_a_file(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: tensor 'a': the index is not a map of tensors to files (got no file name)
    """
    folder(c, TWO, {"a": 7})


@case("hf_index_bad")
def an_index_with_a_tensor_twice(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: tensor 'a': the index is not a map of tensors to files (got the tensor twice)
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x", "a": "y"}}')


@case("over_limit")
def an_index_nested_deep(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: a number in the file is over the limit (got JSON nested 65 deep, expected at most 64)
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"metadata": ' + '{"a":' * 100 + "1" + "}" * 101 + "}")


@case("path_escapes")
def an_index_that_leads_elsewhere(c):
    """
    dcpctl: ckpt: a file name in the checkpoint leads outside its folder (got '../model-00001-of-00002.safetensors')
    """
    folder(c, TWO, {"a": "../" + A})


@case("link_refused")
def a_link_that_is_not_of_the_cache(c):
    """
    dcpctl: ckpt/link.safetensors: is a symbolic link
    hint: give --follow-links if you trust where it points
    """
    folder(c, TWO, {"a": "link.safetensors"})
    (c.folder / "link.safetensors").symlink_to(A)


@case("file_missing", "inspect ckpt", exit=1, says="findings")
def a_file_of_the_index_is_missing(c):
    """
    damage: ckpt/model-00002-of-00002.safetensors: a data file of the checkpoint is missing (got 2 tensors of the index)
    """
    folder(c, {A: TWO[A]}, {"a": A, "b": B, "c": B})


@case("file_missing", "consolidate ckpt out.pt", "consolidate ckpt out.pt --key a")
def a_file_of_the_index_is_missing_to_a_writer(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors: a data file of the checkpoint is missing (got 2 tensors of the index)
    hint: bring the files of all ranks into one folder
    """
    folder(c, {A: TWO[A]}, {"a": A, "b": B, "c": B})


@case("hf_index_no_tensor", "inspect ckpt", exit=0, says="findings")
def a_tensor_of_the_index_is_in_no_file(c):
    """
    damage: ckpt/model.safetensors.index.json: tensor 'c': the index names a tensor that no file holds (got and 1 more, expected model-00002-of-00002.safetensors)
    """
    folder(c, TWO, {"a": A, "b": B, "c": B, "d": A})


@case("hf_index_no_tensor", "consolidate ckpt out.pt")
def a_tensor_of_the_index_is_in_no_file_to_a_writer(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: tensor 'c': the index names a tensor that no file holds (expected model-00002-of-00002.safetensors)
    hint: the folder is not complete: restore its files
    """
    folder(c, TWO, {"a": A, "b": B, "c": B})


@case("hf_index_other_file", "inspect ckpt", exit=0, says="findings")
def a_tensor_is_in_another_file_than_the_index_says(c):
    """
    warning: ckpt/model.safetensors.index.json: tensor 'a': the tensor is in another file than the index says (got model-00001-of-00002.safetensors, and 1 more, expected model-00002-of-00002.safetensors)
    """
    folder(c, TWO, {"a": B, "b": B})
    (c.folder / A).write_bytes(TWO[A])
    (c.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": B, "b": A}}))


@case("hf_index_not_named", "inspect ckpt", exit=0, says="findings")
def a_tensor_that_the_index_does_not_name(c):
    """
    warning: ckpt/model.safetensors.index.json: tensor 'x': the index does not name a tensor that its files hold (got model-00001-of-00002.safetensors, and 1 more)
    """
    folder(c, {A: file_of({"a": (2,), "x": (1,), "y": (1,)}), B: TWO[B]}, {"a": A, "b": B})


@case("hf_index_total", "inspect ckpt", exit=0, says="findings")
def another_total_size(c):
    """
    warning: ckpt/model.safetensors.index.json: the index says another total size than the tensors have (got 21, expected 20)
    """
    folder(c, TWO, {"a": A, "b": B}, total=21)


@case("hf_file_ignored", "inspect ckpt", exit=0, says="findings")
def a_file_beside_the_index(c):
    """
    warning: ckpt/consolidated.safetensors: the index does not name this safetensors file: it is ignored
    """
    folder(c, {**TWO, "consolidated.safetensors": file_of({"a": (2,), "b": (3,)})}, {"a": A, "b": B}, total=20)


@case("hf_scalars_doubtful", "inspect ckpt", exit=0, says="findings")
def scalars_that_torch_consolidated(c):
    """
    warning: ckpt: tensor 'step': torch's consolidation writes 0.0 for tensors without dims
    """
    folder(c, {"model-00001-of-00001.safetensors": file_of({"step": (), "w": (2,)})}, {"step": "model-00001-of-00001.safetensors", "w": "model-00001-of-00001.safetensors"})
    (c.folder / "sharded").mkdir()
    (c.folder / "sharded/shard-00001-model-00001-of-00001.safetensors").write_bytes(b"")


@case("not_checkpoint")
def two_indexes(c):
    """
    dcpctl: ckpt: is not a checkpoint (got a folder of several checkpoints)
    hint: give one of their indexes: ckpt/one.safetensors.index.json, ckpt/two.safetensors.index.json
    """
    folder(c, TWO)
    (c.folder / "one.safetensors.index.json").write_text("{}")
    (c.folder / "two.safetensors.index.json").write_text("{}")


# ---- without an index


@case("safetensors_twice")
def a_name_in_two_files(c):
    """
    dcpctl: ckpt/a.safetensors: tensor 'w': two files of the folder hold a tensor of this name (expected one of a.safetensors and b.safetensors)
    hint: give the file itself, or restore the index of the files
    """
    folder(c, {"a.safetensors": file_of({"w": (2,)}), "b.safetensors": file_of({"v": (1,), "w": (2,)})})


@case("shard_file_missing", "inspect ckpt", exit=0, says="findings")
def a_numbered_file_is_missing(c):
    """
    damage: ckpt: the files are numbered, and one is missing (got no model-00002-of-00002)
    """
    folder(c, {A: TWO[A]})


@case("shard_file_missing", "consolidate ckpt out.pt")
def a_numbered_file_is_missing_to_a_writer(c):
    """
    dcpctl: ckpt: the files are numbered, and one is missing (got no model-00001-of-00002)
    hint: bring all files of the save into one folder
    """
    folder(c, {B: TWO[B]})


@case("lfs_pointer")
def a_git_lfs_pointer(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors: is a Git LFS pointer, not the file itself
    hint: fetch the files with 'git lfs pull'
    """
    folder(c, {A: TWO[A], B: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"})


@case("safetensors_hole")
def a_file_that_was_cut(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors: the tensors' bytes do not follow each other to the end of the file (got a file of 78 bytes, expected 82)
    """
    folder(c, {A: TWO[A], B: TWO[B][:-4]})


@case("safetensors_bad_length")
def a_file_that_was_cut_in_its_header(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors: the header's length is impossible (got 62, expected at most 12)
    """
    folder(c, {A: TWO[A], B: TWO[B][:20]})


@case("safetensors_hole")
def tensors_that_overlap(c):
    """
    dcpctl: ckpt/w.safetensors @ 0x87: tensor 'w': the tensors' bytes do not follow each other to the end of the file (got a start at 135, expected 139)
    """
    lie = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}
    folder(c, {"w.safetensors": file_of({"v": (2,)}, header=lie, data=bytes(12))})


@case("safetensors_unknown_dtype")
def a_dtype_of_tomorrow(c):
    """
    dcpctl: ckpt/w.safetensors: tensor 'w': the header names an unknown element type (got F3)
    """
    lie = {"w": {"dtype": "F3", "shape": [2], "data_offsets": [0, 8]}}
    folder(c, {"w.safetensors": file_of({}, header=lie, data=bytes(8))})


# ---- shards of torch


def name(rank):
    return f"shard-0000{rank}-model-00001-of-00001.safetensors"


@case("sharding_info_bad")
def sharding_info_that_is_no_json(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors > DCP_SHARDING_INFO: DCP_SHARDING_INFO in the header is not what torch writes (got no JSON object)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}, info="no JSON")})


@case("sharding_info_bad")
def sharding_info_with_a_negative_offset(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors > DCP_SHARDING_INFO: tensor 'w': DCP_SHARDING_INFO in the header is not what torch writes (got saved_offsets that are no list of numbers)
    """
    folder(c, {name(1): shard({"w": ((2,), (-1,))})})


@case("sharding_info_bad")
def sharding_info_of_another_rank(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors: tensor 'w': DCP_SHARDING_INFO in the header is not what torch writes (got 2 saved_offsets, expected 1)
    """
    folder(c, {name(1): shard({"w": ((2,), (0, 0))})})


@case("sharding_info_bad")
def sharding_info_that_is_a_list(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors > DCP_SHARDING_INFO: tensor 'w': DCP_SHARDING_INFO in the header is not what torch writes (got no object)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}, info='{"w": [0]}')})


@case("number_overflow")
def offsets_that_overflow(c):
    """
    dcpctl: ckpt/shard-00001-model-00001-of-00001.safetensors: a size overflows 64 bits (got 9223372036854775807 + 2)
    """
    folder(c, {name(1): shard({"w": ((2,), ((1 << 63) - 1,))})})


@case("number_overflow")
def a_tensor_of_too_many_bytes(c):
    """
    dcpctl: ckpt: tensor 'w': a size overflows 64 bits (got 4 * 4611686018427387906)
    """
    folder(c, {name(1): shard({"w": ((2, 2), (1 << 62, 1 << 62))})})


@case("shards_disagree")
def shards_of_two_ranks_of_dims(c):
    """
    dcpctl: ckpt/shard-00002-model-00001-of-00001.safetensors: tensor 'w': the shards of the tensor have different dtypes or numbers of dimensions (got float32 of 2 dims, expected float32 of 1 dims as in shard-00001-model-00001-of-00001.safetensors)
    hint: the files are of different saves: restore the folder
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(2): shard({"w": ((2, 1), (2, 0))})})


@case("shard_twice")
def one_shard_in_two_files(c):
    """
    dcpctl: ckpt/shard-00002-model-00001-of-00001.safetensors: tensor 'w': two files hold the same shard of the tensor (got a second one)
    hint: the files are of different saves: restore the folder
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(2): shard({"w": ((2,), (0,))})})


@case("tensor_hole", "inspect ckpt", exit=0, says="findings")
def the_first_shard_is_missing(c):
    """
    damage: ckpt: tensor 'w': the chunks of the tensor leave a hole (got [0:2] in no chunk)
    warning: ckpt: a numbered file is not there: nothing was to be written to it, or what only it held is missing, which --expect with another checkpoint of the model would show (got no shard-00001 beside shard-00002)
    """
    folder(c, {name(2): shard({"w": ((2,), (2,))})})


@case("tensor_hole", "consolidate ckpt out.pt")
def a_shard_in_the_middle_is_missing_to_a_writer(c):
    """
    dcpctl: ckpt: tensor 'w': the chunks of the tensor leave a hole (got [2:4] in no chunk)
    hint: torch would load garbage there; leave the key out with --exclude
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(3): shard({"w": ((2,), (4,))})})


@case("shard_gap", "inspect ckpt", exit=0, says="findings")
def the_shard_of_a_rank_is_missing(c):
    """
    warning: ckpt: a numbered file is not there: nothing was to be written to it, or what only it held is missing, which --expect with another checkpoint of the model would show (got no shard-00002 beside shard-00003)
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(3): shard({"v": ((2,), (0,))})})


def shards_of_two_ranks(c):
    """Each rank writes two files; rank 2's share of the first is not there, and nothing in rank 1's says that w had four rows."""
    files = {(1, 1): {"w": ((2,), (0,))}, (1, 2): {"v": ((2,), (0,))}, (2, 2): {"v": ((2,), (2,))}}
    folder(c, {f"shard-0000{rank}-model-0000{number}-of-00002.safetensors": shard(tensors) for (rank, number), tensors in files.items()})


@case("shard_gap", "inspect ckpt", exit=0, says="findings")
def one_file_of_a_rank_is_missing(c):
    """
    warning: ckpt: a numbered file is not there: nothing was to be written to it, or what only it held is missing, which --expect with another checkpoint of the model would show (got no shard-00002-model-00001-of-00002 beside other ranks' shards of it)
    """
    shards_of_two_ranks(c)


@case("shard_gap", "inspect ckpt", exit=0, says="findings")
def a_file_that_no_rank_wrote(c):
    """
    warning: ckpt: a numbered file is not there: nothing was to be written to it, or what only it held is missing, which --expect with another checkpoint of the model would show (got no model-00002-of-00003)
    """
    files = {1: {"w": ((2,), (0,))}, 3: {"v": ((2,), (0,))}}
    folder(c, {f"shard-00001-model-0000{number}-of-00003.safetensors": shard(tensors) for number, tensors in files.items()})


@case("tensor_hole", "consolidate ckpt out.pt")
def the_shard_of_a_rank_whose_empty_neighbour_tells_it(c):
    """
    dcpctl: ckpt: tensor 'w': the chunks of the tensor leave a hole (got [2:4] in no chunk)
    hint: torch would load garbage there; leave the key out with --exclude
    """
    folder(c, {name(1): shard({"w": ((2,), (0,))}), name(3): shard({"w": ((0,), (4,))})})


@case("shard_lost", "inspect ckpt", exit=0, says="findings")
def a_chunk_that_torch_replaced(c):
    """
    damage: ckpt/__0_0.distcp: tensor 'model.w': a chunk of the tensor is not in its file (expected chunk [0:2, 0:3])
    damage: ckpt: tensor 'model.w': storage_data names no item for this (got chunk [0:2, 0:3])
    warning: ckpt/__0_0.distcp: tensors of a data file are a safetensors file: dcp.load of no torch reads them, dcpctl does
    """
    replaced(c)


@case("shard_lost", "consolidate ckpt out.pt")
def a_chunk_that_torch_replaced_to_a_writer(c):
    """
    dcpctl: ckpt/__0_0.distcp: tensor 'model.w': a chunk of the tensor is not in its file (expected chunk [0:2, 0:3])
    hint: torch wrote two chunks of one tensor under one name: the earlier one is lost
    """
    replaced(c)


@case("safetensors_items", "inspect ckpt --key model.b", exit=0, says="findings")
def a_file_of_the_metadata_that_is_a_safetensors_file(c):
    """
    warning: ckpt/__0_0.distcp: tensors of a data file are a safetensors file: dcp.load of no torch reads them, dcpctl does
    """
    as_safetensors(c, {"model.w": ((4, 3), (0, 0)), "model.b": ((2,), (0,))})


@case("safetensors_items", "verify ckpt", exit=0, says="findings")
def a_file_of_the_metadata_that_is_a_safetensors_file_to_verify(c):
    """
    warning: ckpt/__0_0.distcp: tensors of a data file are a safetensors file: dcp.load of no torch reads them, dcpctl does
    note: ckpt: records without a CRC: their writer computed none, so that damage of their bytes cannot be seen (got 2 records)
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


# ---- files


@case("not_checkpoint", "inspect model.pt", "consolidate model.pt out.pt")
def a_file_of_the_old_torch(c):
    """
    dcpctl: model.pt: is not a checkpoint (got a torch.save file of the form before torch 1.6, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    hint: write it anew with torch: torch.save(torch.load(FILE), NEW)
    """
    Path(c.folder.parent, "model.pt").write_bytes(bytes.fromhex("80028a0a6cfc9c46f9206aa850192e80024de9032e") + bytes(99))
    c.written = True


@case("not_checkpoint", "inspect model.gguf")
def a_gguf_file(c):
    """
    dcpctl: model.gguf: is not a checkpoint (got a GGUF file, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    """
    Path(c.folder.parent, "model.gguf").write_bytes(b"GGUF\3\0\0\0" + bytes(99))
    c.written = True


@case("lfs_pointer", "inspect model.safetensors")
def a_git_lfs_pointer_alone(c):
    """
    dcpctl: model.safetensors: is a Git LFS pointer, not the file itself
    hint: fetch the files with 'git lfs pull'
    """
    Path(c.folder.parent, "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    c.written = True


@case("safetensors_bad_length", "inspect model.safetensors")
def a_safetensors_file_of_nothing(c):
    """
    dcpctl: model.safetensors: the header's length is impossible (got 0 bytes in all)
    """
    Path(c.folder.parent, "model.safetensors").write_bytes(b"")
    c.written = True


@case("output_in_source", "consolidate ckpt/model.safetensors ckpt/model.safetensors --force", "consolidate ckpt ckpt/model.safetensors --force", exit=2)
def the_source_as_output(c):
    """
    dcpctl: ckpt/model.safetensors: the output would replace the source checkpoint
    hint: give another name
    """
    folder(c, {"model.safetensors": TWO[A]})
