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
    dcpctl: ckpt/model.safetensors.index.json @ 0x15: hf_index_bad: no JSON
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": ')


@case("hf_index_bad")
def an_index_without_a_map(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: hf_index_bad: no weight_map
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 20}}')


@case("hf_index_bad")
def an_index_with_a_number_for_a_file(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: tensor 'a': hf_index_bad: no file name
    """
    folder(c, TWO, {"a": 7})


@case("hf_index_bad")
def an_index_with_a_tensor_twice(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: tensor 'a': hf_index_bad: the tensor twice
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x", "a": "y"}}')


@case("over_limit")
def an_index_nested_deep(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: over_limit (got JSON nested 65 deep, expected at most 64)
    """
    folder(c, TWO)
    (c.folder / "model.safetensors.index.json").write_text('{"metadata": ' + '{"a":' * 100 + "1" + "}" * 101 + "}")


@case("path_escapes")
def an_index_that_leads_elsewhere(c):
    """
    dcpctl: ckpt: path_escapes: '../model-00001-of-00002.safetensors'
    """
    folder(c, TWO, {"a": "../" + A})


@case("link_refused", "consolidate ckpt out.pt")
def a_link_that_is_not_of_the_cache(c):
    """
    dcpctl: ckpt/link.safetensors: link_refused
    hint: its own
    """
    folder(c, TWO, {"a": "link.safetensors"})
    (c.folder / "link.safetensors").symlink_to(A)


@case("file_missing", "inspect ckpt", exit=1, says="findings")
def a_file_of_the_index_is_missing(c):
    """
    damage: ckpt/model-00002-of-00002.safetensors: file_missing: 2 tensors of the index
    """
    folder(c, {A: TWO[A]}, {"a": A, "b": B, "c": B})


@case("file_missing", "consolidate ckpt out.pt", "consolidate ckpt out.pt")
def a_file_of_the_index_is_missing_to_a_writer(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors: file_missing: 2 tensors of the index
    hint: the folder is not complete: restore its files
    """
    folder(c, {A: TWO[A]}, {"a": A, "b": B, "c": B})


@case("file_missing", "consolidate ckpt out.pt")
def an_index_that_is_stale(c):
    """
    dcpctl: ckpt/model-00001-of-00002.safetensors: file_missing: 1 tensor of the index
    hint: the files that are here hold these tensors: the index is stale; give ckpt/model.safetensors
    """
    folder(c, {"model.safetensors": file_of({"a": (2,), "b": (3,)})}, {"a": A, "b": B})


@case("file_missing", "consolidate ckpt out.pt")
def an_index_of_other_shards(c):
    """
    dcpctl: ckpt/model-00001-of-00002.safetensors: file_missing: 1 tensor of the index
    hint: the files that are here hold these tensors: the index is stale; without ckpt/model.safetensors.index.json they are read as they are
    """
    folder(c, {"model-00001-of-00001.safetensors": TWO[A], "other.safetensors": TWO[B]}, {"a": A, "b": B})


@case("hf_index_other_file", "inspect ckpt", exit=0, says="findings")
def a_second_copy_of_another_shape(c):
    """
    warning: ckpt/model.safetensors.index.json: tensor 'a': a second copy of the tensor, in a file that the index names for others, is ignored (got shape [3] in model-00002-of-00002.safetensors, expected [2] as in model-00001-of-00002.safetensors)
    """
    folder(c, {A: TWO[A], B: file_of({"a": (3,), "b": (3,)})}, {"a": A, "b": B})


@case("hf_index_other_file", "inspect ckpt", exit=0, says="findings")
def a_second_copy(c):
    """
    warning: ckpt/model.safetensors.index.json: tensor 'a': a second copy of the tensor, in a file that the index names for others, is ignored: in model-00002-of-00002.safetensors
    """
    folder(c, {A: TWO[A], B: file_of({"a": (2,), "b": (3,)})}, {"a": A, "b": B})


@case("hf_index_no_tensor", "inspect ckpt", exit=1, says="findings")
def a_tensor_of_the_index_is_in_no_file(c):
    """
    damage: ckpt/model.safetensors.index.json: tensor 'c': hf_index_no_tensor (got this one and 1 more, expected model-00002-of-00002.safetensors)
    """
    folder(c, TWO, {"a": A, "b": B, "c": B, "d": A})


@case("hf_index_no_tensor", "consolidate ckpt out.pt")
def a_tensor_of_the_index_is_in_no_file_to_a_writer(c):
    """
    dcpctl: ckpt/model.safetensors.index.json: tensor 'c': hf_index_no_tensor (expected model-00002-of-00002.safetensors)
    hint: all files that the index names are here: it is stale, or a save of them was cut short
    """
    folder(c, TWO, {"a": A, "b": B, "c": B})


@case("hf_index_other_file", "inspect ckpt", exit=0, says="findings")
def a_tensor_is_in_another_file_than_the_index_says(c):
    """
    warning: ckpt/model.safetensors.index.json: tensor 'a': hf_index_other_file (got model-00001-of-00002.safetensors, and 1 more, expected model-00002-of-00002.safetensors)
    """
    folder(c, TWO, {"a": B, "b": B})
    (c.folder / A).write_bytes(TWO[A])
    (c.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": B, "b": A}}))


@case("hf_index_not_named", "inspect ckpt", exit=0, says="findings")
def a_tensor_that_the_index_does_not_name(c):
    """
    warning: ckpt/model.safetensors.index.json: tensor 'x': hf_index_not_named: model-00001-of-00002.safetensors, and 1 more
    """
    folder(c, {A: file_of({"a": (2,), "x": (1,), "y": (1,)}), B: TWO[B]}, {"a": A, "b": B})


@case("hf_index_total", "inspect ckpt", exit=0, says="findings")
def another_total_size(c):
    """
    warning: ckpt/model.safetensors.index.json: hf_index_total (got 21, expected 20)
    """
    folder(c, TWO, {"a": A, "b": B}, total=21)


@case("hf_file_ignored", "inspect ckpt", exit=0, says="findings")
def a_file_beside_the_index(c):
    """
    warning: ckpt/consolidated.safetensors: hf_file_ignored
    """
    folder(c, {**TWO, "consolidated.safetensors": file_of({"a": (2,), "b": (3,)})}, {"a": A, "b": B}, total=20)


@case("hf_scalars_doubtful", "inspect ckpt", exit=0, says="findings")
def scalars_that_torch_consolidated(c):
    """
    warning: ckpt: tensor 'step': hf_scalars_doubtful
    """
    folder(c, {"model-00001-of-00001.safetensors": file_of({"step": (), "w": (2,)})}, {"step": "model-00001-of-00001.safetensors", "w": "model-00001-of-00001.safetensors"})
    (c.folder / "sharded").mkdir()
    (c.folder / "sharded/shard-00001-model-00001-of-00001.safetensors").write_bytes(b"")


@case("not_checkpoint")
def two_indexes(c):
    """
    dcpctl: ckpt: not_checkpoint: a folder of several checkpoints
    hint: give one of their indexes: ckpt/one.safetensors.index.json, ckpt/two.safetensors.index.json
    """
    folder(c, TWO)
    (c.folder / "one.safetensors.index.json").write_text("{}")
    (c.folder / "two.safetensors.index.json").write_text("{}")


# ---- config.json beside them


@case("map_size_differs", "verify ckpt --quick", exit=1, says="findings")
def a_flat_shard_in_place_of_a_parameter(c):
    """
    damage: llama.transformers:12:35: tensor 'model.embed_tokens.weight': the model differs from its configuration and will not load (got [8], expected 2 dims)
    """
    folder(c, {"model.safetensors": file_of({"model.embed_tokens.weight": (8,)})})
    (c.folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 8, "hidden_size": 4}))


@case("map_config", "verify ckpt --quick", exit=1, says="findings")
def another_size_than_config_json_gives(c):
    """
    damage: ckpt/config.json: tensor 'model.embed_tokens.weight': the model differs from its configuration and will not load (got vocab_size = 9, expected 8, by the shape [8, 4])
    """
    folder(c, {"model.safetensors": file_of({"model.embed_tokens.weight": (8, 4)})})
    (c.folder / "config.json").write_text(json.dumps({"model_type": "unknown", "vocab_size": 9, "hidden_size": 4}))


@case("map_unused", "verify ckpt --quick", exit=0, says="findings")
def a_bias_that_config_json_switches_off(c):
    """
    warning: ckpt/config.json: map_unused (attention_bias is absent: 1 tensor, model.layers.0.self_attn.q_proj.bias)
    """
    folder(c, {"model.safetensors": file_of({"model.layers.0.self_attn.q_proj.bias": (4,)})})
    (c.folder / "config.json").write_text(json.dumps({"model_type": "llama"}))


@case(None, "verify ckpt --quick", exit=0, says="findings")
def a_config_of_something_else(c):
    """"""
    folder(c, {"model.safetensors": file_of({"model.embed_tokens.weight": (8, 4), "packed.weight": (8,)})})
    (c.folder / "config.json").write_text("[]")


# ---- without an index


@case("safetensors_twice", "consolidate ckpt out.pt")
def a_name_in_two_files(c):
    """
    dcpctl: ckpt/a.safetensors: tensor 'w': safetensors_twice (expected one of a.safetensors and b.safetensors)
    hint: its own
    """
    folder(c, {"a.safetensors": file_of({"w": (2,)}), "b.safetensors": file_of({"v": (1,), "w": (2,)})})


@case("shard_file_missing", "inspect ckpt", exit=1, says="findings")
def a_numbered_file_is_missing(c):
    """
    damage: ckpt: shard_file_missing: no model-00002-of-00002
    """
    folder(c, {A: TWO[A]})


@case("shard_file_missing", "consolidate ckpt out.pt")
def a_numbered_file_is_missing_to_a_writer(c):
    """
    dcpctl: ckpt: shard_file_missing: no model-00001-of-00002
    hint: its own
    """
    folder(c, {B: TWO[B]})


@case("lfs_pointer", "consolidate ckpt out.pt")
def a_git_lfs_pointer(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors: lfs_pointer
    hint: its own
    """
    folder(c, {A: TWO[A], B: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"})


@case("item_past_end", "consolidate ckpt out.pt")
def a_file_that_was_cut(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors @ 0x46: tensor 'b': item_past_end (got a file of 78 bytes, expected at least 82)
    hint: the file was cut short: restore it from the original; 'dcpctl verify ckpt' says what of it is whole
    """
    folder(c, {A: TWO[A], B: TWO[B][:-4]})


@case("safetensors_bad_length", "consolidate ckpt out.pt")
def a_file_that_was_cut_in_its_header(c):
    """
    dcpctl: ckpt/model-00002-of-00002.safetensors: safetensors_bad_length (got 62, expected at most 12)
    """
    folder(c, {A: TWO[A], B: TWO[B][:20]})


@case("safetensors_hole")
def tensors_that_overlap(c):
    """
    dcpctl: ckpt/w.safetensors @ 0x87: tensor 'w': safetensors_hole (got a start at 135, expected 139)
    """
    lie = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}
    folder(c, {"w.safetensors": file_of({"v": (2,)}, header=lie, data=bytes(12))})


@case("safetensors_unknown_dtype", "consolidate ckpt out.pt")
def a_dtype_of_tomorrow(c):
    """
    dcpctl: ckpt/w.safetensors: tensor 'w': safetensors_unknown_dtype: F3
    hint: kFewerKeys
    """
    lie = {"w": {"dtype": "F3", "shape": [2], "data_offsets": [0, 8]}}
    folder(c, {"w.safetensors": file_of({}, header=lie, data=bytes(8))})


# ---- files


@case("not_checkpoint", "inspect model.gguf")
def a_gguf_file(c):
    """
    dcpctl: model.gguf: not_checkpoint (got a GGUF file, expected a DCP folder, a torch.save or safetensors file, or a folder of safetensors files)
    """
    Path(c.folder.parent, "model.gguf").write_bytes(b"GGUF\3\0\0\0" + bytes(99))
    c.written = True


@case("lfs_pointer", "inspect model.safetensors")
def a_git_lfs_pointer_alone(c):
    """
    dcpctl: model.safetensors: lfs_pointer
    hint: its own
    """
    Path(c.folder.parent, "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    c.written = True


@case("safetensors_bad_length", "inspect model.safetensors")
def a_safetensors_file_of_nothing(c):
    """
    dcpctl: model.safetensors: safetensors_bad_length: 0 bytes in all
    """
    Path(c.folder.parent, "model.safetensors").write_bytes(b"")
    c.written = True


@case("output_in_source", "consolidate ckpt/model.safetensors ckpt/model.safetensors --force", "consolidate ckpt ckpt/model.safetensors --force", exit=2)
def the_source_as_output(c):
    """
    dcpctl: ckpt/model.safetensors: output_in_source
    hint: its own
    """
    folder(c, {"model.safetensors": TWO[A]})
