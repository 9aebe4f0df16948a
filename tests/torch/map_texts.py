#!/usr/bin/env python3
"""Makes the text of a map from what a tiny model of transformers holds in memory and what it publishes; or says why it does not.

    map_texts.py DCPCTL check FOLDER           the maps in FOLDER that say `made by tests/torch/map_texts.py` are those that are made now, and hold
    map_texts.py DCPCTL make FOLDER [MODEL...] makes those of all models of transformers' conversion_mapping, or of these, and lists what is left out
    map_texts.py DCPCTL load FOLDER [MODEL...] what dcpctl publishes by them is what from_pretrained loads, without a stray key, and computes the same

Nothing is taken from transformers' regexes. Each element in memory gets a number of its own, so that what save_pretrained writes shows where each
has gone; a line is a guess from that, and dcpctl then has to publish the model bit for bit by all of them, and to bring it back. Not looked
for are models for which FOLDER has a map that was written by hand. Exits 77 (skipped) where transformers is not installed.
"""
import bisect
import collections
import importlib.util
import json
import re
import string
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
sys.path.append(str(Path(__file__).resolve().parent.parent.parent / ".venv-maps"))  # ./dev test makes it
DCPCTL, WHAT, FOLDER, ONLY = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
if importlib.util.find_spec("transformers") is None:
    print("skipped: transformers not installed")
    sys.exit(77)

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner  # noqa: E402
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # noqa: E402
from transformers.conversion_mapping import _MODEL_TO_CONVERSION_PATTERN, _build_checkpoint_conversion_mapping  # noqa: E402
from transformers.models.auto import modeling_auto as auto  # noqa: E402

from case import check, finish  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
MADE_BY = "made by tests/torch/map_texts.py"
# Sizes of tiny models; no two of those that may meet in one tensor are the same, and there are layers enough for each of their kinds.
TINY = {"vocab_size": 80, "hidden_size": 32, "d_model": 32, "intermediate_size": 48, "ffn_dim": 48, "num_hidden_layers": 9, "num_layers": 9, "n_layer": 9,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "moe_intermediate_size": 20, "expert_ffn_hidden_size": 20,
        "shared_expert_intermediate_size": 24, "num_experts": 5, "num_local_experts": 5, "n_routed_experts": 5, "moe_num_experts": 5,
        "num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 12,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1, "max_position_embeddings": 64, "pad_token_id": 0,
        "depth": 2, "num_heads": 2, "patch_size": 2, "image_size": 8, "embed_dim": 16, "out_hidden_size": 32, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_position_embeddings": 16, "spatial_merge_size": 1,
        "index_n_heads": 2, "index_head_dim": 8, "num_nextn_predict_layers": 0, "encoder_layers": 2, "decoder_layers": 3, "bos_token_id": 1,
        "eos_token_id": 2, "image_token_id": 3, "video_token_id": 4, "tie_word_embeddings": False, "mlp_only_layers": [], "layer_types": None,
        "fullatt_block_indexes": [1], "deepstack_visual_indexes": [0], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_expand": 2, "mamba_d_state": 16,
        "shared_intermediate_size": 24, "num_dense_layers": 1, "moe_num_shared_experts": 1, "moe_layer_start_index": 1, "image_token_index": 3,
        "vision_feature_layer": -1, "projection_dim": 16, "text_hidden_size": 32}  # fmt: skip
VISION = {"num_hidden_layers": 2, "num_layers": 2, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 2,
          "head_dim": 8, "d_model": 16}  # fmt: skip
OPTIONS = ("attention_bias", "mlp_bias", "use_qk_norm", "qkv_bias", "use_bias", "add_bias_linear")  # give a model tensors that another has not
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "depth", "encoder_layers", "decoder_layers")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


CLASSES = {"shieldgemma2": "ShieldGemma2ForImageClassification"}  # where the first that transformers lists is not the published one


class LeftOut(Exception):
    pass


def tiny(config_class, more, is_vision=False):
    """Arguments for a tiny configuration: what it has of TINY, and the same of configurations in it."""
    default = config_class()
    wanted = {**TINY, **(VISION if is_vision else {}), **more}
    arguments = {k: v for k, v in wanted.items() if k in default.to_dict() or getattr(default, k, None) is not None}
    if "layer_types" not in getattr(config_class, "__dataclass_fields__", {}):
        arguments.pop("layer_types", None)  # made of other arguments
    for name, inner in getattr(config_class, "sub_configs", {}).items():
        inner = type(getattr(default, name)) if getattr(default, name, None) is not None else inner
        if inner is not transformers.AutoConfig:
            arguments[name] = tiny(inner, more, is_vision or not re.search("text|llm|language", name)) | {"model_type": inner.model_type}
    return arguments


def built(model_type, more):
    config_class = transformers.CONFIG_MAPPING[model_type]
    config = config_class(**tiny(config_class, more))
    if model_type in CLASSES:
        return getattr(transformers, CLASSES[model_type])(config)
    for tasks in (auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, auto.MODEL_FOR_PRETRAINING_MAPPING, auto.MODEL_MAPPING):
        if config_class in tasks:
            model_class = tasks[config_class]
            model_class = model_class[0] if isinstance(model_class, tuple) else model_class
            break
    else:
        raise LeftOut("no model of its own")
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class(config).parameters())
    if size > 12e6:
        raise LeftOut(f"a tiny one still has {size} elements")
    return model_class(config)


def numbered(model):
    """Each element of the state dict gets a number of its own; what is tied has the same."""
    next_number, state = 1, model.state_dict()
    for key, t in state.items():
        if not t.is_floating_point():
            continue
        t.data.copy_(torch.arange(next_number, next_number + t.numel(), dtype=torch.float64).reshape(t.shape))
        next_number += t.numel()
    return {k: v.clone() for k, v in model.state_dict().items() if v.is_floating_point()}


def where(numbers, of):
    """The box of `of` that the tensor is: (offsets, extents, dims of the tensor in the order of those of `of`), or None."""
    start = int(of.flatten()[0])
    flat = numbers.to(torch.int64).flatten() - start
    if flat.min() < 0 or flat.max() >= of.numel():
        return None
    at = torch.stack(torch.unravel_index(flat, of.shape)) if of.dim() else torch.zeros(0, 1)
    at = at.reshape(of.dim(), *numbers.shape)
    offsets = [int(a.min()) for a in at]
    extents = [int(a.max()) - o + 1 for a, o in zip(at, offsets)]
    order = []
    for d, extent in enumerate(extents):
        if extent == 1:
            continue
        along = [j for j in range(numbers.dim()) if numbers.shape[j] > 1 and not torch.equal(at[d].narrow(j, 0, 1), at[d].narrow(j, 1, 1))]
        if len(along) != 1 or numbers.shape[along[0]] != extent:
            return None
        order.append((d, along[0]))
    if torch.Size([numbers.shape[j] for _, j in order]).numel() != numbers.numel():
        return None
    expected = torch.stack([torch.full(numbers.shape, o) for o in offsets]) if offsets else at
    for d, j in order:
        expected[d] += torch.arange(extents[d]).reshape([-1 if k == j else 1 for k in range(numbers.dim())])
    return (offsets, extents, order) if torch.equal(expected, at.to(expected.dtype)) else None


class Texts:
    """The lines of one model."""

    def __init__(self, config):
        self.config, self.letters, self.sizes, self.lines = config, {}, {}, collections.OrderedDict()

    def index(self, word, count, nth):
        """The letter for `count` numbers behind a word; `nth`: of several of as many in one name."""
        is_expert = "expert" in word
        key = count, nth, is_expert
        if key not in self.letters:
            is_layer = re.search("layer|block", word) is not None
            taken = set(self.letters.values()) | set("dgiuvwxyz")
            wish = ("e" if is_expert else "l" if is_layer else "") + "bcmnpstahjk"
            self.letters[key] = next(c for c in [*wish, *(f"n{n}" for n in range(99))] if c not in taken)
            self.sizes[self.letters[key]] = self.path_of(LAYERS if is_layer else EXPERTS if is_expert else (), count)
        return self.letters[key]

    def path_of(self, names, count):
        found = []
        def look(config, at):
            for key, value in config.items():
                if isinstance(value, dict) and key.endswith("config"):
                    look(value, f"{at}{key}.")
                elif key in names and value == count:
                    found.append(at + key)
        look(self.config, "")
        return found[0] if len(found) == 1 else None


def template(name):
    """Its parts and numbers: model.layers.3.norm is ('model.layers.', '.norm'), (3,)"""
    parts = re.split(r"(?<=\.)(\d+)(?=\.|$)", name)
    return tuple(parts[::2]), tuple(int(n) for n in parts[1::2])


def families():
    """Entries of conversion_mapping, and the type of model of each; those by class among them."""
    by_class = {}
    for names in (auto.MODEL_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES):
        for model_type, classes in names.items():
            for one in classes if isinstance(classes, tuple) else (classes,):
                by_class.setdefault(one, model_type)
    entries = [*_build_checkpoint_conversion_mapping(), *_MODEL_TO_CONVERSION_PATTERN]
    return {e: e if e in transformers.CONFIG_MAPPING else by_class.get(e) for e in entries}


class Maker:
    def __init__(self, model_type):
        self.model_type = model_type
        self.variants = []  # config, memory, published
        base = built(model_type, {})
        self.model_class = type(base).__name__
        options = [o for o in OPTIONS if isinstance(self.find(base.config.to_dict(), o), bool)]
        self.add(base)
        for option in options:
            self.add(built(model_type, {option: not self.find(base.config.to_dict(), option)}))
        self.texts = Texts(self.variants[0][0])
        self.ties = self.tied(base)
        _, memory, published = self.variants[0]
        published_as = {int(t.flatten()[0]): k for k, t in published.items()}
        self.names = {k: published_as.get(int(memory[k].flatten()[0]), k) for pair in self.ties[0].items() for k in pair}

    def find(self, config, key):
        for k, v in config.items():
            if k == key:
                return v
            if isinstance(v, dict) and (found := self.find(v, key)) is not None:
                return found
        return None

    def add(self, model):
        memory = numbered(model.float())
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            published = {}
            for file in Path(folder).glob("*.safetensors"):
                published.update(load_file(file))
            config = json.loads((Path(folder) / "config.json").read_text())
        self.variants.append((config, memory, {k: v for k, v in published.items() if v.is_floating_point()}))

    def tied(self, model):
        keys = model._tied_weights_keys or {}
        keys = keys if isinstance(keys, dict) else {}
        if set(keys) - {"lm_head.weight"}:
            raise LeftOut(f"ties of its own: {sorted(keys)[:3]}")
        where = "tie_word_embeddings" if "tie_word_embeddings" in type(model.config)().to_dict() else None
        if keys and where is None:
            raise LeftOut("ties that config.json does not show")
        default = getattr(type(model.config)(), "tie_word_embeddings", False)
        return keys, "tie_word_embeddings | true" if default else "tie_word_embeddings"

    # --- groups of tensors that hold the same elements

    def groups(self, memory, published):
        starts = sorted((int(t.flatten()[0]), k) for k, t in memory.items() if t.numel())
        firsts = [s for s, _ in starts]
        owner = lambda number: starts[bisect.bisect_right(firsts, int(number)) - 1][1]
        parent = {}
        def root(x):
            while parent.setdefault(x, x) != x:
                x = parent[x]
            return x
        for name, t in published.items():
            for key in {owner(n) for n in (t.flatten()[0], t.flatten()[-1], *t.flatten()[:: max(1, t.numel() // 64)])}:
                parent[root(("p", name))] = root(("m", key))
        groups = collections.defaultdict(lambda: ([], []))
        for side, name in list(parent):
            groups[root((side, name))][side == "p"].append(name)
        lost = set(memory) - {n for g in groups.values() for n in g[0]}
        if lost:
            raise LeftOut(f"not published: {sorted(lost)[:3]}")
        return groups.values()

    def numbers(self, names, parts, position):
        return {n[position] for p, n in map(template, names) if p[: position + 1] == parts and len(n) > position}

    def spelled(self, name, names):
        """The name with letters, and {letter: number}. Numbers that do not run from 0 are left as they are."""
        parts, numbers = template(name)
        text, values, seen = parts[0], {}, collections.Counter()
        for i, (number, part) in enumerate(zip(numbers, parts[1:])):
            all_numbers = self.numbers(names, parts[: i + 1], i)
            if len(all_numbers) < 2 or all_numbers != set(range(len(all_numbers))):
                text += f"{number}{part}"
                continue
            letter = self.texts.index(parts[i].rstrip(".").split(".")[-1], len(all_numbers), seen[len(all_numbers)])
            seen[len(all_numbers)] += 1
            values[letter] = number
            text += "{%s}%s" % (letter, part)
        return text, values

    def line(self, group, memory, published):
        keys, names = group
        left_all, right_all = list(memory), list(published)
        if len(keys) == 1 and len(names) == 1 and torch.equal(memory[keys[0]], published[names[0]]) if memory[keys[0]].shape == published[names[0]].shape else False:
            (left, a), (right, b) = self.spelled(keys[0], left_all), self.spelled(names[0], right_all)
            if a != b:
                raise LeftOut(f"{keys[0]} becomes {names[0]}")
            return f"{left} = {right}", a
        if len(keys) == 1:
            whole, parts = self.joined(keys[0], names, memory, published, left_all, right_all)
            return f"{whole[0]} = {parts}", whole[1]
        if len(names) == 1:
            whole, parts = self.joined(names[0], keys, published, memory, right_all, left_all)
            return f"{parts} = {whole[0]}", whole[1]
        raise LeftOut(f"many become many: {sorted(keys)[:2]}, {sorted(names)[:2]}")

    def joined(self, one, many, ones, manys, one_names, many_names):
        """One tensor in which each of many is a box."""
        whole = ones[one]
        boxes = {}
        for name in many:
            # numbers are those in memory, in order: `ones` may be the published side, whose numbers are not
            found = self.box(manys[name], whole)
            if found is None:
                raise LeftOut(f"{name} is no box of {one}")
            boxes[name] = found
        text, values = self.spelled(one, one_names)
        forms = collections.OrderedDict()  # template of a part -> its boxes
        for name in sorted(many, key=lambda n: boxes[n][0]):
            spelled, numbers = self.spelled(name, many_names)
            inner = {k: v for k, v in numbers.items() if k not in values}
            if any(values[k] != v for k, v in numbers.items() if k in values):
                raise LeftOut(f"{name} in {one}")
            forms.setdefault(spelled, []).append((inner, boxes[name], manys[name].shape))
        axes = [f"d{d}" for d in range(whole.dim())]
        dims, parts = [None] * whole.dim(), {form: {} for form in forms}
        for d in range(whole.dim()):
            spans = {form: {(b[0][d], b[1][d]) for _, b, _ in its} for form, its in forms.items()}
            if all(s == {(0, whole.shape[d])} for s in spans.values()):
                dims[d] = axes[d]
                for form in forms:
                    parts[form][d] = axes[d]
                continue
            letters = {next((k for k in its[0][0] if all(b[1][d] == 1 and b[0][d] == inner[k] for inner, b, _ in its)), None) for its in forms.values()}
            if len(letters) == 1 and None not in letters:
                dims[d] = letters.pop()
                continue
            if not all(len(s) == 1 for s in spans.values()):
                raise LeftOut(f"parts of {one} along dim {d}")
            ordered = sorted((next(iter(s)), form) for form, s in spans.items())
            if len({span for span, _ in ordered}) != len(ordered) or sum(span[1] for span, _ in ordered) != whole.shape[d]:
                raise LeftOut(f"parts of {one} along dim {d}")
            if len({span[1] for span, _ in ordered}) != 1:
                raise LeftOut(f"unequal parts of {one} along dim {d}")
            letters = [self.part_letter(n) for n in range(len(ordered))]
            dims[d] = "(" + " + ".join(letters) + ")"
            for letter, (_, form) in zip(letters, ordered):
                parts[form][d] = letter
        told = []
        for form, its in forms.items():
            _, (_, extents, order), shape = its[0]
            by_dim = {j: parts[form].get(d) for d, j in order}
            told.append(form + " [" + " ".join(by_dim.get(j) or "1" for j in range(len(shape))) + "]")
        return (f"{text} [{' '.join(dims)}]", values), ", ".join(told)

    def part_letter(self, n):
        self.texts.parts = max(getattr(self.texts, "parts", 0), n + 1)
        return "guvwxyz"[n]

    @staticmethod
    def box(part, whole):
        base = whole.to(torch.int64)
        order = base.flatten().argsort()
        if torch.equal(order, torch.arange(order.numel())) and int(base.max()) - int(base.min()) + 1 == base.numel():
            return where(part, base)
        place = {int(v): i for i, v in enumerate(base.flatten())}  # a published tensor: numbers by their places
        flat = [place.get(int(v)) for v in part.flatten()]
        if None in flat:
            return None
        return where(torch.tensor(flat).reshape(part.shape), torch.arange(base.numel()).reshape(base.shape))

    # --- the text

    def run(self):
        all_lines, present = collections.OrderedDict(), []
        for config, memory, published in self.variants:
            found = collections.defaultdict(set)
            tied = self.ties[0]
            for group in self.groups({k: v for k, v in memory.items() if k not in tied},
                                                {k: v for k, v in published.items() if k not in {self.names[t] for t in tied}}):
                text, values = self.line(group, memory, published)
                outer = values.get("l") if "{l}" in text else None
                found[text].add(outer)
                all_lines.setdefault(text, None)
            present.append(found)
        base = present[0]
        order = list(all_lines)
        text = [t for t in order if "l" not in re.findall(r"\{(\w+)\}", t)]
        layered = [t for t in order if t not in text]
        layers = set().union(*(base[t] for t in layered if t in base)) if layered else set()
        everywhere = [t for t in layered if base.get(t) == layers]
        partly = [t for t in layered if t in base and t not in everywhere]
        more = [t for t in order if t not in base]
        rare = {t for t in order if any(t not in found for found in present)}  # a variant lacks it
        lines = [t + (" optional" if t in rare else "") for t in text if t not in layered]
        begin = [t for t in lines if "embed" in t]
        lines = begin + [t + (" optional" if t in rare else "") for t in everywhere] + self.branches(partly, base, layers) + [t + " optional" for t in layered if t in more] + [
            t for t in lines if t not in begin]  # fmt: skip
        return self.head() + lines + self.tie_lines()

    def branches(self, partly, base, layers):
        """What only some layers have: one branch for each kind of layer."""
        kinds = collections.OrderedDict()
        for n in sorted(layers):
            kinds.setdefault(tuple(t for t in partly if n in base[t]), None)
        kinds = [k for k in kinds if k]
        if not kinds:
            return []
        whole = len({n for t in partly for n in base[t]}) == len(layers)
        if len(kinds) == 1:
            return ["optional", *("  " + t for t in kinds[0]), "end"]
        text = []
        for i, kind in enumerate(kinds):
            text += ["either  # layers differ" if i == 0 else "or"] + ["  " + t for t in kind]
        text += ["end"]
        return text if whole else ["optional", *("  " + t for t in text), "end"]

    def head(self):
        head = []
        for letter, path in self.texts.sizes.items():
            if path:
                head.append(f"size   {letter} = {path}")
        for n in range(1, getattr(self.texts, "parts", 0)):
            head.append(f"size   {'guvwxyz'[n]} = g")
        return head + [""]

    def tie_lines(self):
        keys, condition = self.ties
        lines = []
        for copy, of in keys.items():
            out, same = self.names[copy], self.names[of]
            lines += [f"{copy} = {out} unless {condition}", f"{copy} = {out} same as {same} when {condition}"]
        return lines

    def hold(self, path):
        """dcpctl publishes each variant bit for bit, and brings it back."""
        for config, memory, published in self.variants:
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                (folder / "config.json").write_text(json.dumps(config))
                dcp.save(memory, checkpoint_id=folder / "ckpt", no_dist=True)
                self.dcpctl("consolidate", folder / "ckpt", folder / "out.safetensors", "--map", path, "--config", folder / "config.json")
                self.same(published, load_file(folder / "out.safetensors"), "what is published")
                self.dcpctl("convert", folder / "out.safetensors", folder / "back", "--map", path, "--config", folder / "config.json", "--map-from", "right")
                back = {}
                _load_state_dict(back, storage_reader=dcp.FileSystemReader(folder / "back"), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
                self.same(memory, back, "what comes back")

    def same(self, wanted, got, what):
        if odd := sorted(set(wanted) ^ set(got)):
            raise LeftOut(f"{what}: {odd[:3]}")
        for key in wanted:
            if not torch.equal(wanted[key], got[key]):
                raise LeftOut(f"{what}: {key}")

    def dcpctl(self, *arguments):
        result = subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
        if result.returncode != 0:
            raise LeftOut(result.stderr.strip().splitlines()[0])


TOKENS = torch.arange(5, 17).reshape(2, 6)
# What a model is called with where token ids alone will not do, and what a tiny one needs to be called at all.
INPUTS = {"granitemoehybrid": {"input_ids": TOKENS, "use_cache": False},
          "lfm3_vl_vision": {"pixel_values": torch.rand(4, 24), "grid_thw": torch.tensor([[1, 2, 2]])},
          "pi0": {"state": torch.rand(2, 32), "noise": torch.rand(2, 50, 32), "timestep": torch.rand(2), "pixel_values": torch.rand(2, 1, 3, 8, 8),
                  "input_ids": torch.cat([torch.full((2, 16), 3), TOKENS], 1), "attention_mask": torch.ones(2, 22, dtype=torch.long),
                  "pixel_attention_mask": torch.ones(2, 1, dtype=torch.bool)},
          "timesfm2_5": {"past_values": torch.rand(2, 64)},
          "videomae": {"pixel_values": torch.rand(1, 16, 3, 8, 8), "bool_masked_pos": torch.arange(128).reshape(1, -1) % 2 == 0}}  # fmt: skip
CALLABLE = {"paddleocr_vl": {"head_dim": 128}, "shieldgemma2": {"vocab_size": 10800}}


def outputs(model):
    """Each tensor that the model computes of some input."""
    with torch.no_grad():
        torch.manual_seed(1)
        made = model.eval()(**INPUTS.get(model.config.model_type, {"input_ids": TOKENS}))
        return {k: v for k, v in made.items() if isinstance(v, torch.Tensor)}


def loads(model_type, folder):
    """What dcpctl publishes of a model with random weights is that model for transformers."""
    torch.manual_seed(len(model_type))
    latent = "kv_lora_rank" in transformers.CONFIG_MAPPING[model_type]().to_dict()
    model = built(model_type, CALLABLE.get(model_type, {"num_key_value_heads": 4} if latent else {})).float()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    model.save_pretrained(folder / "hf")
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder / "ckpt", no_dist=True)
    run = lambda *arguments: subprocess.run([DCPCTL, *map(str, arguments)], capture_output=True, text=True)
    made = run("consolidate", folder / "ckpt", folder / "out", "--model-only", "--map", "auto", "--assets", folder / "hf", "--max-shard-size", "1MB")
    check(made.returncode == 0, f"{model_type}: {made.stderr}")
    told = run("verify", folder / "out", "--map", "auto")
    check(told.returncode == 0 and "architectures" not in made.stderr + told.stderr, f"{model_type}: verify: {made.stderr} {told.stderr}")
    loaded, info = type(model).from_pretrained(folder / "out", output_loading_info=True)
    check(not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"{model_type}: every key is loaded, and no other: {info}")
    ours, theirs = loaded.state_dict(), model.state_dict()
    check(ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in theirs), f"{model_type}: the same weights")
    ours, theirs = outputs(loaded), outputs(model)
    check(len(theirs) > 0 and all(torch.allclose(ours[k], theirs[k], atol=1e-6) for k in theirs), f"{model_type}: computes the same")


def load():
    for file in there():
        for model_type in next(line for line in file.read_text().splitlines() if line.startswith("family ")).split()[1:]:
            if not ONLY or model_type in ONLY:
                with tempfile.TemporaryDirectory() as folder:
                    loads(model_type, Path(folder))


def by_hand():
    names = set()
    for file in FOLDER.glob("*.transformers.map"):
        if MADE_BY not in (text := file.read_text()):
            names |= {w for line in text.splitlines() if line.startswith("family ") for w in line.split()[1:]}
    return names


def made(model_type, scratch):
    """Its class, and the text of its map without its first lines; throws LeftOut."""
    maker = Maker(model_type)
    if all(set(m) == set(p) and all(m[k].shape == p[k].shape for k in m) for _, m, p in maker.variants) and not ONLY and WHAT == "make":
        raise LeftOut("its names and shapes are alike in memory and published")
    lines = maker.run()
    path = scratch / f"{model_type}.transformers.map"
    path.write_text("\n".join([f"# {model_type}", f"family {model_type}", *lines]) + "\n")
    maker.hold(path)
    return maker.model_class, "\n".join(lines) + "\n"


def main():
    entries, hand = families(), by_hand()
    texts, left_out = collections.OrderedDict(), []
    wanted = ONLY or sorted({t for t in entries.values() if t})
    if WHAT == "check":  # those that are there
        wanted = sorted({t for f in there() for line in f.read_text().splitlines() if line.startswith("family ") for t in line.split()[1:]})
    left_out += [(e, "no model that this transformers builds by its name") for e, t in entries.items() if t is None and not ONLY]
    with tempfile.TemporaryDirectory() as scratch:
        for model_type in wanted:
            if model_type in hand:
                continue
            try:
                model_class, text = made(model_type, Path(scratch))
                texts.setdefault(text, []).append((model_type, model_class))
            except LeftOut as x:
                left_out.append((model_type, str(x)))
            except Exception as x:  # its configuration or model does not take tiny sizes
                left_out.append((model_type, f"{type(x).__name__}: {str(x).splitlines()[0] if str(x) else ''}"[:150]))
    files = {}
    for text, models in texts.items():
        types, classes = zip(*models)
        title = f"# transformers 5.23's {', '.join(types)}: in memory on the left, as published on the right; {MADE_BY}"
        files[f"{types[0]}.transformers.map"] = f"{title}\nfamily {' '.join(types)}\nclass  {' '.join(classes)}\n{text}"
    return files, left_out


def there():
    return [f for f in FOLDER.glob("*.map") if MADE_BY in f.read_text()]


if WHAT == "load":
    load()
    finish()
files, left_out = main()
if WHAT == "make":
    for name, text in files.items():
        (FOLDER / name).write_text(text)
        print(f"made: {name}")
    for name, why in left_out:
        print(f"left out: {name}: {why}")
else:
    texts = {f.name: f.read_text() for f in there()}
    check(sorted(files) == sorted(texts), f"the same maps: {sorted(set(files) ^ set(texts))}")
    for name in files.keys() & texts.keys():
        check(files[name] == texts[name], f"{name}: the same text")
    finish()
