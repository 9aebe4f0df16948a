"""Rank-local metadata (a `__R.metadata` for each rank), and run folders."""
import pickle
import shutil
import struct

from recipes import Op, Size, Tensor, case, chunk, small, tensor_item

COMMANDS = ["inspect ckpt", "consolidate ckpt out.pt"]


def ranks(c, other=None, number=1):
    """The checkpoint as two ranks wrote it: rank 0 has what `c` says, the other one what `other` says."""
    c.write()
    (c.folder / ".metadata").rename(c.folder / "__0.metadata")
    (c.folder / f"__{number}.metadata").write_bytes((other or c).pickle())


def chunks_of_one(count):
    """The pickled chunks [n:n+1], faster than through Python's objects."""
    one = chunk(Size((1 << 30,)), Size((1,)))
    at = one.index(struct.pack("<i", 1 << 30))
    return Op(pickle.EMPTY_LIST + pickle.MARK + b"".join(one[:at] + struct.pack("<i", n) + one[at + 4 :] for n in range(count)) + pickle.APPENDS)


@case("rank_missing", "inspect ckpt", exit=0, says="findings")
def the_metadata_of_a_rank_is_missing(c):
    """
    warning: ckpt: rank_missing: no __1.metadata beside __2.metadata
    """
    ranks(c, number=2)


@case("ranks_disagree", "consolidate ckpt out.pt", "reshard ckpt out --world-size 2")
def two_ranks_say_two_shapes(c):
    """
    dcpctl: ckpt: tensor 'model.b': ranks_disagree: two shapes
    hint: its own
    """
    other = small(c.folder)
    other.tensors["model.b"] = Tensor((3,), [((0,), (3,))])
    ranks(c, other)


@case("ranks_disagree", "consolidate ckpt out.pt", "reshard ckpt out --world-size 2")
def two_ranks_say_two_dtypes(c):
    """
    dcpctl: ckpt: tensor 'model.b': ranks_disagree: float32 and float16
    hint: its own
    """
    other = small(c.folder)
    other.tensors["model.b"].dtype = "torch.float16"
    ranks(c, other)


@case("ranks_disagree", "consolidate ckpt out.pt", "reshard ckpt out --world-size 2")
def a_tensor_on_one_rank_and_an_object_on_another(c):
    """
    dcpctl: ckpt: tensor 'model.b': ranks_disagree: a tensor on one rank, an object on another
    hint: its own
    """
    other = small(c.folder)
    other.blobs.append("model.b")
    del other.tensors["model.b"]
    ranks(c, other)


@case("duplicates_differ", "consolidate ckpt out.pt")
def two_ranks_wrote_different_values(c):
    """
    dcpctl: ckpt/__1_0.distcp @ 0x30e: tensor 'model.b': duplicates_differ: a value different from that in ckpt/__0_0.distcp
    hint: its own
    """
    other = small(c.folder)
    for item in other.items:
        item.file = "__1_0.distcp"
    other.item("model.b").data = tensor_item([7, 9], (2,))
    other.write()
    moved = other.folder.rename(c.folder.parent / "other")
    ranks(c, other)
    (moved / "__1_0.distcp").rename(c.folder / "__1_0.distcp")
    (c.folder / "__0_0.distcp").write_bytes(c.files()[0]["__0_0.distcp"])
    c.item("model.w", 1).file = "__0_0.distcp"
    (c.folder / "__0.metadata").write_bytes(c.pickle())
    (c.folder / "__0_0.distcp").write_bytes(c.files()[0]["__0_0.distcp"])


@case("pickle_no_stop", "consolidate ckpt out.pt")
def one_rank_with_broken_metadata(c):
    """
    dcpctl: ckpt/__1.metadata @ 0x0: pickle_no_stop
    hint: its own
    """
    ranks(c)
    (c.folder / "__1.metadata").write_bytes(b"")


@case("step_missing", "inspect . --step 7", "consolidate . out.pt --step 7")
def a_step_that_is_not_there(c):
    """
    dcpctl: .: step_missing (got 7, expected one of 6)
    """
    c.write()
    c.folder.rename(c.folder.parent / "step-6")


@case("step_ambiguous", "inspect . --step 6", "consolidate . out.pt --step latest", exit=2)
def two_folders_of_one_step(c):
    """
    dcpctl: .: folders whose names differ in more than their numbers are not the steps of one run: model_6, optimizer_6
    hint: --pattern '^model_([0-9]+)$' takes those that are named like the first of these; or give one folder itself
    """
    c.write()
    shutil.copytree(c.folder, c.folder.parent / "model_6")
    c.folder.rename(c.folder.parent / "optimizer_6")


@case("step_missing", "inspect . --step latest", "consolidate . out.pt --step latest")
def no_step_is_complete(c):
    """
    dcpctl: .: step_missing (got no complete step, expected one of 6)
    """
    c.write()
    (c.folder / ".metadata").unlink()
    c.folder.rename(c.folder.parent / "step-6")


@case("usage", "consolidate . out.pt --step 1 --pattern ((", exit=2)
def a_pattern_that_is_no_regular_expression(c):
    """
    dcpctl: got --pattern '((', expected a regular expression with one group, for the step's number
    """


@case("usage", "consolidate ckpt out.pt --rename ((=>x", exit=2)
def a_rename_that_is_no_regular_expression(c):
    """
    dcpctl: got --rename '((', expected a regular expression
    """


@case("over_limit", "consolidate ckpt out.pt --rename ^(.*)\\\\.w$=>\\\\1.v")
def a_regular_expression_on_a_name_of_5000_bytes(c):
    """
    dcpctl: tensor 'model.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...(5006 bytes)...xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx': over_limit (got a name of 5006 bytes, expected at most 4096 with --rename)
    """
    key = "model." + "x" * 5000
    c.tensors[key] = c.tensors.pop("model.b")
    c.item("model.b").key = key
    c.paths = None


@case("chunk_without_item", "consolidate ckpt out.pt")
def a_rank_with_40000_chunks_of_one_tensor(c):
    """
    dcpctl: ckpt: tensor 'model.b': chunk_without_item: chunk [1:2]
    hint: its own
    """
    c.tensors["model.b"] = Tensor((40000,), [], fields={"chunks": chunks_of_one(40000)})
    ranks(c)


@case("step_in_parts", "consolidate . out.pt --step latest", "consolidate --step=7 . out.pt")
def a_step_of_two_checkpoints(c):
    """
    dcpctl: ./checkpoint-7: step_in_parts
    hint: dcpctl consolidate ./checkpoint-7/pytorch_model_fsdp_0 out.pt, or dcpctl consolidate ./checkpoint-7/optimizer_0 out.pt
    """
    c.write()
    for step in ("checkpoint-3", "checkpoint-7"):
        for part in ("optimizer_0", "pytorch_model_fsdp_0"):
            shutil.copytree(c.folder, c.folder.parent / step / part)
    shutil.rmtree(c.folder)
