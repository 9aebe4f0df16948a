"""Wrong command lines."""
from recipes import Item, Tensor, case, tensor_item


def wrong(problem, *commands):
    return case(problem, *commands, exit=2)


@wrong("usage", "--quiet")
def no_command(c):
    """
    dcpctl: a command is missing
    hint: see 'dcpctl --help'
    """


@wrong("usage", "inspekt ckpt")
def an_unknown_command(c):
    """
    dcpctl: 'inspekt' is not a command of dcpctl
    hint: did you mean inspect?
    """


@wrong("usage", "transmogrify ckpt")
def an_unknown_command_like_no_other(c):
    """
    dcpctl: 'transmogrify' is not a command of dcpctl
    hint: see 'dcpctl --help'
    """


@wrong("usage", "consolidate ckpt out.pt --modell-only")
def an_unknown_option(c):
    """
    dcpctl: unknown option '--modell-only'
    hint: did you mean --model-only?
    """


@wrong("usage", "consolidate ckpt out.pt --frobnicate=7")
def an_unknown_option_like_no_other(c):
    """
    dcpctl: unknown option '--frobnicate'
    hint: see 'dcpctl consolidate --help'
    """


@wrong("usage", "consolidate ckpt")
def no_output(c):
    """
    dcpctl: OUT is missing
    hint: see 'dcpctl consolidate --help'
    """


@wrong("usage", "consolidate ckpt out.pt more")
def an_argument_too_many(c):
    """
    dcpctl: unexpected argument 'more'
    hint: see 'dcpctl consolidate --help'
    """


@wrong("usage", "consolidate ckpt out.zip")
def an_unknown_ending(c):
    """
    dcpctl: out.zip: '.zip' is no ending that says what to write: .safetensors, .pt, .npz
    """


@wrong("usage", "consolidate ckpt out")
def no_ending(c):
    """
    dcpctl: out: no ending that says what to write: .safetensors, .pt, .npz
    hint: 'dcpctl convert ckpt out' writes a DCP folder, --assets BASE one for transformers and vLLM, --max-shard-size SIZE shards
    """


@wrong("usage", "consolidate ckpt out.pt --max-shard-size 1MB")
def a_file_where_a_folder_is_written(c):
    """
    dcpctl: out.pt: got a file name together with --max-shard-size, expected a folder name
    """


@wrong("usage", "consolidate ckpt out.pt --root ''", "inspect ckpt --root ''")
def a_value_that_is_empty(c):
    """
    dcpctl: got --root '', expected a value
    hint: leave --root out, or give it a value; a variable in a script may be empty
    """


@wrong("several_models", "consolidate ckpt out.pt --model-only", "cast ckpt out.pt --dtype bf16 --model-only")
def models_of_which_none_is_chosen(c):
    """
    dcpctl: ckpt: several_models: --root ema, --root model
    hint: its own
    """
    c.tensors["ema.w"], c.paths["ema.w"] = Tensor((2,), [((0,), (2,))]), ("ema", "w")
    c.items.append(Item("ema.w", (0,), "__0_0.distcp", tensor_item([7, 8], (2,))))


@wrong("usage", "consolidate ckpt out.pt --max-memory 12XB")
def a_size_with_an_unknown_unit(c):
    """
    dcpctl: got size '12XB', expected a number with B, k, KiB, MB, MiB, GB or GiB
    """


@wrong("usage", "consolidate ckpt out.pt --max-memory 99999999999999GiB")
def a_size_that_overflows(c):
    """
    dcpctl: got size '99999999999999GiB', expected a number with B, k, KiB, MB, MiB, GB or GiB
    """


@wrong("usage", "consolidate ckpt out.pt -j 0")
def no_threads(c):
    """
    dcpctl: -j '0' is not a number from 1 to 1024
    hint: see 'dcpctl consolidate --help'
    """


@wrong("usage", "inspect ckpt --keys --chunks")
def two_views_at_once(c):
    """
    dcpctl: --keys and --chunks cannot be combined
    hint: see 'dcpctl inspect --help'
    """


RESHARD = "reshard ckpt out "


@wrong("usage", RESHARD + "--mesh 2y4", RESHARD + "--mesh 2y4 --placements '*=shard(0),shard(0)'")
def a_mesh_that_is_none(c):
    """
    dcpctl: got mesh '2y4', expected sizes with x between, such as 2x4, of at most 65536 ranks
    """


@wrong("usage", RESHARD + "--mesh 512x512")
def a_mesh_that_is_too_large(c):
    """
    dcpctl: got mesh '512x512', expected sizes with x between, such as 2x4, of at most 65536 ranks
    """


@wrong("usage", RESHARD + "--mesh 2x4 --world-size 6")
def a_mesh_of_another_number_of_ranks(c):
    """
    dcpctl: got mesh 2x4 of 8 ranks with a world size of 6, expected as many
    """


@wrong("usage", RESHARD + "--mesh 2x4 --mesh-dims dp")
def fewer_names_than_mesh_dims(c):
    """
    dcpctl: got 1 names 'dp' for mesh 2x4, expected 2
    """


@wrong("usage", RESHARD + "--mesh 2x4 --mesh-dims dp,dp")
def two_mesh_dims_of_one_name(c):
    """
    dcpctl: got mesh dims 'dp,dp', expected distinct names with commas between
    """


@wrong("usage", RESHARD + "--mesh 2x4 --mesh-dims dp,tp --placements *=cp:shard(0)")
def an_unknown_mesh_dim(c):
    """
    dcpctl: got mesh dim 'cp', expected one of dp, tp
    """


@wrong("usage", RESHARD + "--mesh 2x4 --placements *=tp:shard(0)")
def a_mesh_dim_without_names(c):
    """
    dcpctl: got mesh dim 'tp', expected names given with --mesh-dims
    """


@wrong("usage", RESHARD + "--mesh 2x4 --mesh-dims dp,tp --placements *=tp:shard(0),tp:shard(1)")
def a_mesh_dim_placed_twice(c):
    """
    dcpctl: got two placements on mesh dim 'tp', expected one
    """


@wrong("usage", RESHARD + "--mesh 2x4 --placements *=shard(0)")
def fewer_placements_than_mesh_dims(c):
    """
    dcpctl: got 1 placements 'shard(0)', expected 2, one a mesh dim
    """


@wrong("usage", RESHARD + "--world-size 2 --placements *=partial")
def an_unknown_placement(c):
    """
    dcpctl: got placement 'partial', expected shard(DIM), strided(DIM) or replicate
    """


@wrong("usage", RESHARD + "--world-size 2 --placements shard(0)")
def a_placement_for_no_name(c):
    """
    dcpctl: got --placements 'shard(0)', expected GLOB=PLACEMENTS, such as '*.weight=shard(0),replicate'
    """


@wrong("usage", RESHARD + "--placements *=shard(0)")
def placements_without_a_mesh(c):
    """
    dcpctl: got placements without a mesh, expected --mesh, such as 2x4, or --world-size N for a one-dimensional one
    """


@wrong("usage", RESHARD + "--mesh-dims dp")
def names_without_a_mesh(c):
    """
    dcpctl: got --mesh-dims without a mesh, expected --mesh, such as 2x4
    """


@wrong("usage", RESHARD + "--layout l.json --world-size 2")
def a_layout_file_and_more(c):
    """
    dcpctl: --layout and --world-size cannot be combined
    hint: see 'dcpctl reshard --help'
    """


def layout(c, text):
    (c.folder.parent / "l.json").write_text(text)


@wrong("usage", RESHARD + "--layout l.json")
def a_layout_file_that_is_no_json(c):
    """
    dcpctl: l.json: got a file that is not a JSON object, expected a layout: see 'dcpctl reshard --help'
    """
    layout(c, "{'mesh': 2}")


@wrong("usage", RESHARD + "--layout l.json")
def a_layout_file_with_an_unknown_member(c):
    """
    dcpctl: l.json: got member 'world-size', expected world_size, mesh, mesh_dims, placements or like
    """
    layout(c, '{"world-size": 2}')


@wrong("usage", RESHARD + "--layout l.json")
def a_layout_file_whose_mesh_is_an_object(c):
    """
    dcpctl: l.json: got member 'mesh': an object, expected a text, or an array of texts or numbers
    """
    layout(c, '{"mesh": {"dp": 2}}')


@wrong("usage", RESHARD + "--layout l.json")
def a_layout_file_with_a_wrong_placement(c):
    """
    dcpctl: l.json: got placement 'split(1)', expected shard(DIM), strided(DIM) or replicate
    """
    layout(c, '{"mesh": [2, 2], "placements": {"*": ["shard(0)", "split(1)"]}}')


@wrong("usage", RESHARD + "--layout l.json")
def a_layout_file_without_a_number_of_ranks(c):
    """
    dcpctl: l.json: neither world_size, mesh nor like
    hint: kWorldSize
    """
    layout(c, "{}")


@wrong("usage", RESHARD + "--layout l.json")
def a_layout_file_of_no_ranks(c):
    """
    dcpctl: l.json: got world_size 0, expected 1 to 65536
    """
    layout(c, '{"world_size": 0}')


@wrong("placement_no_dim", RESHARD + "--world-size 2 --placements *=shard(7)")
def a_placement_on_a_dim_that_is_not_there(c):
    """
    dcpctl: ckpt: placement_no_dim: model.w, model.b for '*'
    """


@wrong("usage", RESHARD + "--world-size 2 --for-torch 2", RESHARD + "--world-size 2 --for-torch 2", "convert ckpt out --for-torch 2")
def a_release_that_is_none(c):
    """
    dcpctl: got --for-torch '2', expected X.Y, 2.0 or later
    """


@wrong("usage", "convert ckpt out.pt --for-torch 2.4")
def a_release_for_a_model_file(c):
    """
    dcpctl: out.pt: got --for-torch with an output that is not a DCP folder, expected a folder name
    """


@wrong("key_missing", "consolidate ckpt out.pt --key model.q", "inspect ckpt --key model.q")
def a_key_that_is_not_there(c):
    """
    dcpctl: ckpt: key_missing: model.q
    hint: did you mean 'model.w'?
    """


WRITERS = ["consolidate ckpt out.pt", "reshard ckpt out --world-size 2", "edit ckpt out", "edit ckpt --in-place", "verify ckpt --manifest m.json"]


@wrong("key_missing", *[w + " --exclude mod" for w in WRITERS], *[w + " --exclude mod --strict" for w in WRITERS])
def an_exclude_that_matches_nothing(c):
    """
    dcpctl: ckpt: no key matches: --exclude 'mod'
    hint: a glob matches the whole key: 'model*'
    """


@wrong("key_missing", *[w + " --include model --include modle.*" for w in WRITERS])
def an_include_that_matches_nothing(c):
    """
    dcpctl: ckpt: no key matches: --include 'modle.*'
    hint: did you mean 'model.*'?
    """


@wrong("key_missing", *[w + " --exclude vision* --exclude audio*" for w in WRITERS])
def excludes_that_match_nothing(c):
    """
    dcpctl: ckpt: no key matches: --exclude 'vision*'
    hint: see the keys with 'dcpctl inspect ckpt --keys'
    """


@wrong("key_missing", *[w + " --root model --rename ^model=>x" for w in WRITERS])
def a_rename_that_matches_nothing(c):
    """
    dcpctl: ckpt: no key matches: --rename '^model=>x'
    hint: names to be renamed are such as 'w'
    """


@wrong("root_missing", "consolidate ckpt out.pt --root modell")
def a_root_that_is_not_there(c):
    """
    dcpctl: ckpt: root_missing (got modell, expected one of model)
    hint: did you mean 'model'?
    """


@wrong("nothing_selected", "consolidate ckpt out.pt --exclude *", "inspect ckpt --include nothing.*")
def nothing_is_left(c):
    """
    dcpctl: ckpt: nothing_selected
    hint: see the keys with 'dcpctl inspect ckpt --keys'
    """
