"""What the planner data say: the path of each key, how paths fit together, data of other planners."""
from recipes import case, new


@case("path_conflict", "consolidate ckpt out.pt")
def a_path_that_is_a_dict_and_a_list(c):
    """
    dcpctl: ckpt: tensor 'model.b': path_conflict
    hint: its own
    """
    c.paths = {"model.w": ("model", "w"), "model.b": ("model", 0), "step": ("step",)}


@case("path_conflict", "consolidate ckpt out.pt")
def a_path_through_a_tensor(c):
    """
    dcpctl: ckpt: tensor 'model.b': path_conflict
    hint: its own
    """
    c.paths = {"model.w": ("model",), "model.b": ("model", "b"), "step": ("step",)}


@case("path_conflict", "verify ckpt", "inspect ckpt", exit=0, says="findings")
def a_path_that_is_a_dict_and_a_list_verified(c):
    """
    warning: ckpt: tensor 'model.b': path_conflict
    """
    c.paths = {"model.w": ("model", "w"), "model.b": ("model", 0), "step": ("step",)}


@case("path_conflict", "verify ckpt", "inspect ckpt", exit=0, says="findings")
def a_path_through_a_tensor_verified(c):
    """
    warning: ckpt: tensor 'model.w': path_conflict
    """
    c.paths = {"model.w": ("model", "w"), "model.b": ("model", "w", "b"), "step": ("step",)}


@case("path_conflict", "verify ckpt", "inspect ckpt", exit=0, says="findings")
def a_path_of_the_dict_of_others(c):
    """
    warning: ckpt: object 'step': path_conflict
    """
    c.paths = {"model.w": ("model", "w"), "model.b": ("model", "b"), "step": ("model",)}


@case(None, "verify ckpt", "inspect ckpt", exit=0, says="findings")
def paths_that_begin_alike_at_different_places(c):
    """
    """
    c.paths = {"model.w": ("a", 0, "w"), "model.b": ("a", 1, "a", 0), "step": ("b", "a", "w")}


@case("keys_collide", "consolidate ckpt out.pt", exit=2)
def two_keys_with_one_path(c):
    """
    dcpctl: ckpt: tensor 'model.b': keys_collide: 'model.b', which is also the name of 'model.w'
    hint: its own
    """
    c.paths = {"model.w": ("model", "w"), "model.b": ("model", "w"), "step": ("step",)}


@case("over_limit", "consolidate ckpt out.pt")
def a_list_with_10_to_the_18_holes(c):
    """
    dcpctl: ckpt: over_limit (got a list position of 1000000000000000000, expected at most 1048576 holes in all)
    """
    c.paths["model.w"] = ("list", 10**18)


@case("over_limit", "consolidate ckpt out.pt")
def a_path_of_5000_components(c):
    """
    dcpctl: ckpt: tensor 'model.w': over_limit (got 5000 path components, expected at most 1000)
    """
    c.paths["model.w"] = ("a",) * 5000


# ---- planner data of others


@case("planner_data_foreign", "inspect ckpt", exit=0, says="findings")
def planner_data_of_another_planner(c):
    """
    warning: ckpt: planner_data_foreign (got dict with text 'model.w' for list, expected a dict of keys to paths)
    """
    c.paths = {"model.w": ["model", "w"]}


@case("planner_data_foreign", "inspect ckpt", "verify ckpt", exit=0, says="findings")
def a_path_without_elements(c):
    """
    warning: ckpt: planner_data_foreign (got dict with text 'model.w' for tuple, expected a dict of keys to paths)
    """
    c.paths = {"model.w": ()}


@case("planner_data_foreign", "inspect ckpt", exit=0, says="findings")
def planner_data_that_is_an_object(c):
    """
    warning: ckpt: planner_data_foreign (got my.planner.Data, expected a dict of keys to paths)
    warning: ckpt/.metadata: pickle_unsafe: my.planner.Data
    """
    c.paths = new("my.planner.Data", {"x": 1})


@case(None, "consolidate ckpt out.pt", exit=0, creates=["out.pt"])
def planner_data_of_another_planner_consolidated(c):
    """
    dcpctl: warning: ckpt: planner_data_foreign (got dict with text 'model.w' for list, expected a dict of keys to paths)
    dcpctl: kept everything; --model-only gives what model.load_state_dict takes
    """
    c.paths = {"model.w": ["model", "w"]}


@case("optimizer_form", "reshard ckpt out --world-size 1 --optimizer flat", "reshard ckpt out --world-size 1 --optimizer nested")
def an_optimizer_to_reshape_that_is_not_there(c):
    """
    dcpctl: ckpt: optimizer_form (got no param_groups, expected an optimizer's state)
    """


@case("optimizer_form", "reshard ckpt out --world-size 1 --optimizer flat")
def groups_of_an_optimizer_in_one_object(c):
    """
    dcpctl: ckpt: object 'step': optimizer_form (got groups in one object, as torch before 2.4 saves them, expected a key for each hyperparameter)
    hint: kSplitObjects
    """
    c.paths = {"model.w": ("model", "w"), "model.b": ("model", "b"), "step": ("optim", "param_groups")}
