"""diff, extract, list, prune and edit on checkpoints that are damaged, absent or something else: the answer, and that nothing has changed."""
from recipes import Tensor, case, small


def damaged(c, key="model.w"):
    """The payload is not what its CRC says."""
    record = c.item(key).data["data/0"]
    record.crc = record.true_crc() ^ 1


def with_optimizer(c):
    """Its object is an optimizer's, which can be dropped."""
    c.item("step").key, c.blobs, c.paths["optimizer"] = "optimizer", ["optimizer"], ("optimizer",)
    del c.paths["step"]


def beside(c, name, change=lambda other: None):
    """Another checkpoint."""
    other = small(c.folder.parent / name)
    change(other)
    other.folder.parent.mkdir(parents=True, exist_ok=True)
    other.write()
    return other


# ---- diff


@case("no_such_path", "diff ckpt other", "diff other ckpt")
def a_side_that_is_not_there(c):
    """
    dcpctl: other: no_such_path
    """


@case("crc_mismatch", "diff ckpt other", "diff other ckpt")
def a_side_whose_bytes_are_not_what_was_saved(c):
    """
    dcpctl: other/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91e79017 over 24 bytes, expected CRC-32 91e79016)
    hint: its own
    """
    beside(c, "other", lambda o: (damaged(o), o.item("model.b")))


@case("tensor_hole", "diff ckpt other", "diff other ckpt")
def a_side_with_a_hole(c):
    """
    dcpctl: other/__1_0.distcp @ 0x0: tensor 'model.w': item_without_chunk
    dcpctl: other: tensor 'model.w': tensor_hole: [2:4, 0:3] in no chunk
    hint: its own
    """
    beside(c, "other", lambda o: o.tensors.update({"model.w": Tensor((4, 3), [((0, 0), (2, 3))])}))


@case("file_missing", "diff ckpt other", "diff other ckpt")
def a_side_that_lacks_a_file(c):
    """
    dcpctl: other/__1_0.distcp @ 0x0: tensor 'model.w': file_missing: chunk [2:4, 0:3]
    hint: its own
    """
    other = beside(c, "other")
    (other.folder / "__1_0.distcp").unlink()


@case("key_missing", "diff ckpt other --key model.x", exit=2)
def a_key_that_neither_side_has(c):
    """
    dcpctl: ckpt: key_missing: model.x
    hint: did you mean 'model.w'?
    """
    beside(c, "other")


@case("nothing_selected", "diff ckpt other --key step.inner", exit=2)
def a_key_inside_an_object_that_has_none(c):
    """
    dcpctl: ckpt: nothing_selected
    hint: see the keys with 'dcpctl inspect ckpt --keys'
    """
    beside(c, "other")


# ---- extract


@case("key_missing", "extract ckpt model.x", "extract ckpt model.x -o x.npy", "extract ckpt model.x --stats", exit=2)
def a_key_that_is_not_there(c):
    """
    dcpctl: ckpt: key_missing: model.x
    hint: did you mean 'model.w'?
    """


@case("crc_mismatch", "extract ckpt model.w", "extract ckpt model.w -o w.npy", "extract ckpt model.w -o w.pt", "extract ckpt model.w -o w.json",
      "extract ckpt model.w --stats")  # fmt: skip
def a_tensor_whose_bytes_are_not_what_was_saved(c):
    """
    dcpctl: ckpt/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91e79017 over 24 bytes, expected CRC-32 91e79016)
    hint: its own
    """
    damaged(c)


@case("item_past_end", "extract ckpt model.w --slice 3", "extract ckpt model.w -o w.npy", "extract ckpt model.w --stats")
def a_tensor_whose_file_ends_early(c):
    """
    dcpctl: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': item_past_end (got a file of 100 bytes, expected at least 782)
    hint: the file was cut short: restore it from the original; 'dcpctl verify ckpt' says what of it is whole
    """
    c.write()
    with open(c.folder / "__1_0.distcp", "r+b") as file:
        file.truncate(100)


@case("usage", "extract ckpt model.w --slice 4", exit=2)
def an_index_beyond_the_end(c):
    """
    dcpctl: got slice '4': index 4 of dim 0, expected -4 to 3
    """


@case("usage", "extract ckpt step --slice 0", exit=2)
def a_slice_of_an_object(c):
    """
    dcpctl: ckpt: object 'step': got a slice of an object, expected a tensor
    """


@case("usage", "extract ckpt step -o step.npy", "extract ckpt step -o step.safetensors", exit=2)
def an_object_as_an_array(c):
    """
    dcpctl: ckpt: object 'step': got an object, which has no elements, expected a .pt file, text or JSON for it
    """


@case("output_exists", "extract ckpt model.w -o w.npy", exit=2)
def a_file_that_exists(c):
    """
    dcpctl: w.npy: output_exists: a file
    hint: its own
    """
    (c.folder.parent / "w.npy").write_text("mine")


# ---- list and prune


@case("not_checkpoint", "list ckpt", "prune ckpt --keep-latest 1 --yes")
def a_checkpoint_in_the_place_of_a_run(c):
    """
    dcpctl: ckpt: is not a run (got a checkpoint, expected a folder of checkpoints)
    hint: give the folder around it; 'dcpctl inspect ckpt' looks into this one
    """


@case("no_such_path", "list run", "list run --latest", "prune run --keep-latest 1 --yes")
def a_run_that_is_not_there(c):
    """
    dcpctl: run: no_such_path
    """


@case("usage", "prune run", exit=2)
def a_prune_without_rules(c):
    """
    dcpctl: got neither --keep-latest nor --partial, expected one of them
    hint: --keep-latest 3 keeps the three newest steps and deletes the others, --partial deletes what interrupted saves left; with --dry-run it is only shown
    """
    beside(c, "run/step-1")


@case("usage", "prune run --keep-latest 1 --older-than soon --yes", exit=2)
def an_age_that_is_no_time(c):
    """
    dcpctl: got --older-than 'soon', expected a time such as 90s, 10min, 12h, 7d or 2w
    """
    beside(c, "run/step-1")


@case("crc_mismatch", "prune run --keep-latest 1 --drop-optimizer --no-verify --yes -q")
def a_step_whose_model_is_not_what_was_saved(c):
    """
    dcpctl: run/step-1/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91e79017 over 24 bytes, expected CRC-32 91e79016)
    dcpctl: 'run/step-1' is damaged, and is left alone
    """
    beside(c, "run/step-1", lambda other: (damaged(other), with_optimizer(other)))
    beside(c, "run/step-2", with_optimizer)
    (c.folder.parent / "run/.dcpctl-whole").mkdir()  # so that nothing can be noted


@case("whole_steps_lacking", "prune run --keep-latest 1 --yes -q", exit=1)
def a_newest_step_whose_data_is_damaged_and_no_other_to_keep(c):
    """
    dcpctl: run/step-2/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91e79017 over 24 bytes, expected CRC-32 91e79016)
    dcpctl: 'run/step-2' is damaged: it stays, and does not count
    dcpctl: run/step-1/__0_0.distcp @ 0x180: tensor 'model.w': crc_mismatch (got CRC-32 91e79017 over 24 bytes, expected CRC-32 91e79016)
    dcpctl: 'run/step-1' is damaged: it stays, and does not count
    dcpctl: run: whole_steps_lacking (got 0 whole steps, expected 1)
    hint: 'dcpctl verify run/step-2' shows the damage: restore that step, or give a smaller --keep-latest
    """
    beside(c, "run/step-1", damaged)
    beside(c, "run/step-2", damaged)
    (c.folder.parent / "run/.dcpctl-whole").mkdir()  # so that nothing can be noted


@case("step_ambiguous", "list run", "prune run --keep-latest 1 --yes", "inspect run --step latest", exit=2)
def a_folder_around_the_runs_of_two_experiments(c):
    """
    dcpctl: run: steps lie in several folders
    hint: give one of them: run/a, run/b
    """
    for experiment in ("a", "b"):
        for step in (1, 2):
            beside(c, f"run/{experiment}/step-{step}")


# ---- edit


@case("file_missing", "edit ckpt out --rename ^model=>net", "edit ckpt --in-place --rename ^model=>net")
def an_edit_of_what_lacks_a_file(c):
    """
    dcpctl: ckpt/__1_0.distcp @ 0x0: tensor 'model.w': file_missing: chunk [2:4, 0:3]
    hint: its own
    """
    c.write()
    (c.folder / "__1_0.distcp").unlink()


@case("keys_collide", "edit ckpt out --rename [wb]$=>x", "edit ckpt --in-place --rename [wb]$=>x", exit=2)
def an_edit_that_makes_one_key_of_two(c):
    """
    dcpctl: ckpt: tensor 'model.b': keys_collide: 'model.x', which is also the name of 'model.w'
    hint: its own
    """


@case("pickle_truncated", "edit ckpt out --exclude step", "edit ckpt --in-place --exclude step")
def an_edit_of_metadata_that_ends_early(c):
    """
    dcpctl: ckpt/.metadata @ 0x5c: pickle_truncated (got no line end, expected two lines for GLOBAL)
    hint: its own
    """
    c.metadata = c.pickle()[:100]


@case("usage", "edit ckpt", exit=2)
def an_edit_without_a_place_for_it(c):
    """
    dcpctl: ckpt: got neither OUT nor --in-place, expected one of them
    """


@case("output_exists", "edit ckpt out --exclude step", exit=2)
def an_edit_into_a_folder_that_is_not_empty(c):
    """
    dcpctl: out: output_exists: a folder that is not empty
    hint: its own
    """
    beside(c, "out")
