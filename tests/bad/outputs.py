"""Outputs: what exists, what cannot be written, what does not fit."""
import fcntl
import os

from recipes import case

COMMANDS = ["consolidate ckpt out.pt"]


def beside(c, name, text="the old output"):
    path = c.folder.parent / name
    path.write_text(text)
    return path


@case("output_exists", exit=2)
def an_output_that_exists(c):
    """
    dcpctl: out.pt: output_exists: a file
    hint: its own
    """
    beside(c, "out.pt")


@case("output_exists", exit=2)
def an_output_that_is_a_link_to_nowhere(c):
    """
    dcpctl: out.pt: output_exists: a link
    hint: its own
    """
    (c.folder.parent / "out.pt").symlink_to("nowhere")


@case("output_exists", "consolidate ckpt out --max-shard-size 1MB", exit=2)
def an_output_folder_that_is_not_empty(c):
    """
    dcpctl: out: output_exists: a folder that is not empty
    hint: its own
    """
    (c.folder.parent / "out").mkdir()
    beside(c, "out/notes.txt")


@case("output_exists", "consolidate ckpt out.pt --force", exit=2)
def an_output_that_is_a_folder(c):
    """
    dcpctl: out.pt: output_exists: a folder
    hint: give another name
    """
    (c.folder.parent / "out.pt").mkdir()


@case("output_busy", exit=2)
def an_output_that_somebody_writes(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: out.pt: output_busy
    hint: its own
    """
    lock = open(beside(c, ".out.pt.dcpctl-lock", ""), "rb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@case("leftover_foreign", exit=2)
def a_file_of_somebody_where_a_leftover_may_be(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: .out.pt.dcpctl-lock: leftover_foreign (got a file of 5 bytes, expected an empty file)
    hint: its own
    """
    beside(c, ".out.pt.dcpctl-lock", "notes")


@case("leftover_foreign", "consolidate ckpt out --max-shard-size 1MB", exit=2)
def a_folder_of_somebody_where_a_leftover_may_be(c):
    """
    dcpctl: left out 1 object (not tensors): step
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: .out.dcpctl-partial/thesis.tex: leftover_foreign: a file that is not part of a checkpoint
    hint: its own
    """
    (c.folder.parent / ".out.dcpctl-partial").mkdir()
    beside(c, ".out.dcpctl-partial/thesis.tex")


@case("output_in_source", "consolidate ckpt ckpt --max-shard-size 1MB --force", exit=2)
def an_output_that_is_the_checkpoint(c):
    """
    dcpctl: ckpt: output_in_source
    hint: its own
    """


@case("output_exists", "consolidate ckpt . --max-shard-size 1MB --force", exit=2)
def an_output_that_holds_the_checkpoint(c):
    """
    dcpctl: .: output_exists: a folder that is not empty
    hint: give another name
    """


@case("io_create", "consolidate ckpt no/such/out.pt", exit=4)
def a_folder_that_is_not_there(c):
    """
    dcpctl: no/such/out.pt: io_create: no folder 'no/such'
    """


@case("io_create", "consolidate ckpt ckpt/.metadata/out.pt", exit=4)
def a_file_where_the_folder_should_be(c):
    """
    dcpctl: ckpt/.metadata/out.pt: io_create: no folder but a file at 'ckpt/.metadata'
    """


@case("io_create", "consolidate ckpt closed/out.pt", exit=4, user="nobody")
def a_folder_that_cannot_be_written(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: closed/out.pt: io_create: permission denied
    """
    (c.folder.parent / "closed").mkdir(mode=0o555)


@case("io_open", "inspect ckpt", "consolidate ckpt out.pt", exit=4, user="nobody")
def metadata_that_cannot_be_read(c):
    """
    dcpctl: ckpt/.metadata: io_open: permission denied
    """
    c.write()
    (c.folder / ".metadata").chmod(0)


@case("io_open", exit=4, user="nobody")
def a_data_file_that_cannot_be_read(c):
    """
    dcpctl: ckpt/__1_0.distcp: io_open: permission denied
    """
    c.write()
    (c.folder / "__1_0.distcp").chmod(0)


@case("io_list", "inspect closed", exit=4, user="nobody")
def a_folder_that_cannot_be_listed(c):
    """
    dcpctl: closed: io_list: permission denied
    """
    (c.folder.parent / "closed").mkdir(mode=0o311)


@case("io_write", exit=4, limits={"FSIZE": 500})
def a_limit_on_the_size_of_files(c):
    """
    dcpctl: kept everything, nested as it was saved; --model-only gives what model.load_state_dict takes
    dcpctl: out.pt: io_write: file too large
    """


@case("io_write", "inspect ckpt", exit=4, stdout="/dev/full")
def a_full_disk_under_stdout(c):
    """
    dcpctl: standard output: io_write: no space left on device
    """


@case("memory_cap", "consolidate ckpt out.pt --max-memory 500MiB", exit=4)
def metadata_larger_than_the_cap(c):
    """
    dcpctl: ckpt/.metadata: memory_cap: 10239 MiB for 4096 MiB of metadata
    hint: give --max-memory NMiB
    """
    metadata_larger_than_the_address_space(c)


@case("memory_out", "inspect ckpt", exit=4, limits={"AS": 1 << 30})
def metadata_larger_than_the_address_space(c):
    """
    dcpctl: memory_out
    """
    c.write()
    os.truncate(c.folder / ".metadata", 4 << 30)


@case("memory_cap", "consolidate ckpt out.pt --max-memory 1MiB", exit=4)
def too_little_memory(c):
    """
    dcpctl: ckpt: memory_cap (got 1.0 MiB, expected N MiB or more)
    hint: give --max-memory NMiB
    """


@case("no_dtype_in_output", "consolidate ckpt out.safetensors")
def a_dtype_that_safetensors_lacks(c):
    """
    dcpctl: ckpt: no_dtype_in_output: model.b (complex128)
    hint: its own
    """
    c.tensors["model.b"].dtype = "torch.complex128"


@case("nothing_selected", "consolidate ckpt out.safetensors --key step", exit=2)
def objects_only_for_safetensors(c):
    """
    dcpctl: ckpt: nothing_selected: no tensor
    hint: see the keys with 'dcpctl inspect ckpt --keys'
    """


@case("keys_collide", "consolidate ckpt out.safetensors --root a", exit=2)
def two_keys_of_one_name_without_their_root(c):
    """
    dcpctl: ckpt: tensor 'model.b': keys_collide: 'x.y', which is also the name of 'model.w'
    hint: its own
    """
    c.paths.update({"model.w": ("a", "x.y"), "model.b": ("a", "x", "y")})


@case("safetensors_bad_name", "consolidate ckpt out.safetensors")
def a_name_that_is_no_text(c):
    r"""
    dcpctl: tensor 'w\xff': safetensors_bad_name: text that is not UTF-8
    hint: its own
    """
    c.tensors["w\udcff"] = c.tensors.pop("model.b")
    c.item("model.b").key = "w\udcff"
    c.paths = None


@case("safetensors_bad_name", "consolidate ckpt out.safetensors")
def a_tensor_named_as_the_header_of_safetensors(c):
    """
    dcpctl: tensor '__metadata__': safetensors_bad_name: the header's own name
    hint: its own
    """
    c.tensors["__metadata__"] = c.tensors.pop("model.b")
    c.item("model.b").key = "__metadata__"
    c.paths = None


# ---- --expect, --assets


def listed(c, *lines):
    c.write()
    (c.folder.parent / "list.txt").write_text("\n".join(lines) + "\n")


@case("expect_differs", "consolidate ckpt out.safetensors -q --expect list.txt --expect-dtypes", exit=1)
def another_model_is_expected(c):
    """
    dcpctl: missing: model.c []
    dcpctl: other shape: model.w (got [4, 3], expected [3, 4])
    dcpctl: other dtype: model.b (got float32, expected float16)
    dcpctl: list.txt: expect_differs: 1 missing, 1 other shape, 1 other dtype
    """
    listed(c, "# key dtype shape", "model.w  float32  [3, 4]", "model.b float16 [2] 4 B whole", "model.c float32 []", "step  object   3 B")


@case(None, "consolidate ckpt out.safetensors -q --expect list.txt", exit=0, creates=["out.safetensors"])
def the_model_is_what_is_expected(c):
    """
    """
    listed(c, "model.w float32 [4, 3]", "model.b float16 [2]")


@case("expect_line", "consolidate ckpt out.safetensors --expect list.txt", exit=2)
def a_list_with_nonsense(c):
    """
    dcpctl: list.txt: expect_line (got line 2: model.b: [2], expected key dtype [2, 3])
    hint: write one as 'dcpctl inspect ckpt --keys' does
    """
    listed(c, "model.w float32 [4, 3]", "model.b: [2]")


@case("no_such_path", "consolidate ckpt out.safetensors --expect nowhere")
def a_list_that_is_not_there(c):
    """
    dcpctl: nowhere: no_such_path
    """


@case("no_assets", "consolidate ckpt out --tensors-only --max-shard-size 1k --assets empty", exit=2)
def a_folder_without_assets(c):
    """
    dcpctl: empty: no_assets
    """
    (c.folder.parent / "empty").mkdir()
    (c.folder.parent / "empty" / "model.safetensors").write_text("weights")


@case("model_differs", "consolidate ckpt out --tensors-only --max-shard-size 1k --assets base", exit=1)
def assets_of_another_model(c):
    """
    dcpctl: warning: base lacks a tokenizer, which inference servers need
    dcpctl: base/config.json: model_differs (got w and 1 other, expected names such as model.embed_tokens.weight (llama.transformers), or tok_embeddings.weight (llama.torchtitan), or embedding.word_embeddings.weight (llama.megatron))
    hint: its own
    """
    (c.folder.parent / "base").mkdir()
    (c.folder.parent / "base" / "config.json").write_text('{"model_type": "llama"}')


@case("no_assets", "consolidate ckpt out.pt --assets ckpt", exit=2)
def assets_beside_one_file(c):
    """
    dcpctl: ckpt: no_assets
    """
