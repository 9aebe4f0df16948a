#!/usr/bin/env python3
"""Makes the text of a map from what a tiny model of transformers holds in memory and what it publishes; or says why it does not.

    map_texts.py DCPCTL check FOLDER           the maps in FOLDER that say `made by tests/torch/map_texts.py` are those that are made now, and hold
    map_texts.py DCPCTL make FOLDER [MODEL...] makes those of all models of transformers' conversion_mapping, or of these, and lists what is left out

Nothing is taken from transformers' regexes. Each element in memory gets a number of its own, so that what save_pretrained writes shows where each
has gone; a line is a guess from that, and dcpctl then has to publish the model bit for bit by all of them, and to bring it back. Not looked
for are models for which FOLDER has a map that was written by hand. Exits 77 (skipped) where transformers is not installed.
"""
import bisect
import collections
import functools
import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from case import check, finish
from tiny_models import MADE_BY, LeftOut, built, configured, families, families_of, keep_lines, leaves, made_maps, numbered, shapes_of, where

DCPCTL, WHAT, FOLDER, ONLY = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
# They give a model tensors that another has not: booleans, and sizes that may be 0.
OPTIONS = ("attention_bias", "mlp_bias", "use_qk_norm", "qkv_bias", "use_bias", "add_bias_linear", "use_attention_gate")
SIZES = ("shared_intermediate_size", "num_shared_experts", "n_shared_experts", "moe_num_shared_experts")
# Of these, a model has other tensors in place of some.
INSTEAD = {"q_lora_rank": lambda was: None, "mlp_only_layers": lambda was: [1, 3], "first_k_dense_replace": lambda was: 4,
           "mlp_layer_types": lambda was: ["sparse" if i % 3 else "dense" for i in range(len(was))]}  # fmt: skip
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "depth", "encoder_layers", "decoder_layers")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


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


@functools.cache
def template(name):
    """Its parts and numbers: model.layers.3.norm is ('model.layers.', '.norm'), (3,)"""
    parts = re.split(r"(?<=\.)(\d+)(?=\.|$)", name)
    return tuple(parts[::2]), tuple(int(n) for n in parts[1::2])


@functools.cache
def numbers_in(names):
    """{parts up to a number: all numbers that follow them}"""
    found = collections.defaultdict(set)
    for parts, numbers in map(template, names):
        for i, number in enumerate(numbers):
            found[parts[: i + 1]].add(number)
    return found


class Sizes:
    """The dims of what a tiny model has in memory, as products of what config.json says: what each of its numbers changes when it is doubled shows it."""

    def __init__(self, model_type, on):
        self.on = on
        base = configured(model_type, {}, self.on)
        says, self.values, self.lines, self.changes = leaves(base.to_dict()), {}, {}, {}
        heads = {p[: -len("num_attention_heads")] for p in says if p.endswith("num_attention_heads") and says[p]}
        given = {at + "head_dim": says[at + "hidden_size"] // says[at + "num_attention_heads"] for at in heads if at + "hidden_size" in says and not says.get(at + "head_dim")}
        self.shapes = shapes_of(base)
        given = {p: v for p, v in given.items() if self.at(model_type, {p: v}) == self.shapes}
        self.unsure = set()
        for path, value in {**says, **given}.items():
            if base.attribute_map.get(path) in says:  # another name of that
                continue
            if isinstance(value, bool):
                if path.split(".")[-1] != "tie_word_embeddings":
                    self.unsure |= {k for k, s in (self.at(model_type, {path: not value}) or {}).items() if k in self.shapes and s != self.shapes[k]}
            elif isinstance(value, int) and value > 0 and not re.search("layers|depth|token|per_tok|topk", path):
                if shapes := self.at(model_type, {**given, path: 2 * value}):
                    self.values[path], self.changes[path] = value, {k: s for k, s in shapes.items() if s != self.shapes.get(k)}
        self.fallback = {p: f"{p} | {p[:-8]}hidden_size / {p[:-8]}num_attention_heads" for p in given}

    def at(self, model_type, at):
        try:
            return shapes_of(configured(model_type, {}, {**self.on, **at}))
        except Exception:  # it does not go with the others
            return None

    def take(self, other):
        """What another has that is not here."""
        more = set(other.shapes) - set(self.shapes)
        for path, value in other.values.items():
            self.values.setdefault(path, value)
            self.changes.setdefault(path, {}).update({k: s for k, s in other.changes[path].items() if k in more})
        self.fallback |= other.fallback
        self.unsure |= other.unsure & more
        self.shapes |= {k: other.shapes[k] for k in more}

    def dims(self, key):
        """A text for each, None where nothing says it."""
        if key not in self.shapes or key in self.unsure:
            return None
        return [self.dim(key, d) for d in range(len(self.shapes[key]))]

    def dim(self, key, d):
        size = self.shapes[key][d]
        if size == 1:
            return "1"
        change = {p: s[key][d] - size for p, s in self.changes.items() if key in s and len(s[key]) > d and s[key][d] != size}
        common = [p for p, more in change.items() if more == size]
        under = [p for p, more in change.items() if more < 0]
        rest, factors = size, []
        for path in under:  # a size by heads
            over = next((p for p in common if self.values[p] % self.values[path] == 0 and p.endswith(("size", "dim", "model"))), None)
            if over is None or change[path] * 2 != -size:
                return None
            common.remove(over)
            factors.append(f"{over} / {path}")
            rest, change = rest * self.values[path] / self.values[over], {p: m for p, m in change.items() if p not in (path, over)}
        for path in common:
            factors.append(path)
            rest /= self.values[path]
        parts, left = collections.defaultdict(list), size
        for path, more in change.items():
            if path not in common:
                parts[more].append(path)
        terms = []
        for more, paths in sorted(parts.items()):
            portion, product = more * rest / size, 1
            for path in paths:
                product *= self.values[path]
            each = [(portion / self.values[p], [p]) for p in paths]
            terms += [(portion / product, paths)] if portion % product == 0 else each
        left = rest - sum(n * functools.reduce(lambda a, p: a * self.values[p], paths, 1) for n, paths in terms)
        if terms and left:
            return None
        if not all(n == int(n) and 1 <= n <= 4 for n, _ in terms) or (not terms and not (factors and rest == int(rest) and 1 <= rest <= 4)):
            return None
        spelled = lambda n, paths: " ".join([*(str(int(n)) for _ in [0] if n != 1), *(self.word(p) for p in paths)])
        if not terms:
            text = spelled(rest, sorted(factors))
        elif len(terms) == 1:
            text = spelled(terms[0][0], sorted([*factors, *terms[0][1]]))
        else:
            inner = " + ".join(spelled(*t) for t in terms)
            text = f"({inner}) {spelled(1, sorted(factors))}" if factors else inner
        return f"({text})" if " " in text else text

    def word(self, expression):
        """The name of a size."""
        path = expression.split(" ")[0]
        word = path.split(".")[-1]
        if "/" in expression:
            word = f"{word}_per_{expression.split('.')[-1].split(' ')[-1]}"
        value = self.fallback.get(expression, expression)
        while self.lines.setdefault(word, value) != value:
            word = "_".join(path.split(".")[:-1]).removesuffix("_config") + "_" + word
        return word

    def dims_of(self, keys):
        """Those of several tensors; None: they differ, or nothing is known."""
        told = {tuple(self.dims(k) or ()) for k in keys}
        dims = list(told.pop()) if len(told) == 1 else []
        return dims if any(dims) else None

    def bracketed(self, keys):
        """The axes of tensors that a line has the same way."""
        dims, seen = self.dims_of(keys), set()
        for d, text in enumerate(dims or []):
            words = re.findall(r"\w+", text or "")
            again = [w for w in words if w in seen and w != "1"]
            twice = any(len(set(ws)) != len(ws) for ws in (re.findall(r"\w+", part) for part in (text or "").split("+")))
            if not text or twice or any(w.isdigit() for w in again):
                dims[d] = f"d{d}"
                continue
            for w in again:  # an axis stands once in a tensor
                self.lines.setdefault(f"other_{w}", w)
                dims[d] = re.sub(rf"\b{w}\b", f"other_{w}", dims[d])
            seen |= set(words)
        return dims


class Maker:
    def __init__(self, model_type):
        self.model_type = model_type
        self.variants = []  # config, memory, published
        self.part_sizes = set()  # of whole dims that are several parts
        self.alike = collections.defaultdict(list)  # keys of lines that move nothing
        base = built(model_type, {})
        self.model_class, self.keeps = type(base).__name__, keep_lines(base)
        says = leaves(base.config.to_dict())
        word = lambda path: path.split(".")[-1]
        defaults = leaves(type(base.config)().to_dict())
        self.options = {p: v for p, v in says.items() if word(p) in OPTIONS and isinstance(v, bool)}
        self.options |= {p: v for p, v in says.items() if word(p) in SIZES and isinstance(v, int) and self.differs(base, {p: 0 if v else 2})}
        self.by_default = {p: bool(defaults.get(p)) for p in self.options}
        self.instead = [at for p, v in says.items() if word(p) in INSTEAD and (v or v == []) and self.differs(base, at := {p: INSTEAD[word(p)](v)})]
        self.add(base)
        for path, value in self.options.items():
            self.add(built(model_type, {}, {path: self.other(path, value)}))
        on = {p: v or self.other(p, v) for p, v in self.options.items()}
        on = on if self.shapes_at(on) else {}
        self.axes = Sizes(model_type, on)
        self.alternatives = [({}, 0)]  # and where in `variants`: the one with fewest tensors, then with all
        for at in self.instead:
            self.alternatives.append((at, len(self.variants)))
            self.add(built(model_type, {}, at))
            self.axes.take(Sizes(model_type, {**on, **at}))
        for at, _ in self.alternatives if on else []:
            self.add(built(model_type, {}, {**on, **at}))
        self.texts = Texts(self.variants[0][0])
        self.ties = self.tied(base)
        _, memory, published = self.variants[0]
        published_as = {int(t.flatten()[0]): k for k, t in published.items()}
        self.names = {k: published_as.get(int(memory[k].flatten()[0]), k) for pair in self.ties[0].items() for k in pair}

    @staticmethod
    def other(path, value):
        return not value if isinstance(value, bool) else 0 if value else 2

    def shapes_at(self, at):
        try:
            return shapes_of(configured(self.model_type, {}, at))
        except Exception:  # it does not go with the others
            return None

    def differs(self, base, at):
        return (shapes := self.shapes_at(at)) is not None and set(shapes) != set(base.state_dict())

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
            flat = t.flatten()
            for key in {owner(n) for n in [*flat[:: max(1, t.numel() // 64)].tolist(), flat[-1].item()]}:
                parent[root(("p", name))] = root(("m", key))
        groups = collections.defaultdict(lambda: ([], []))
        for side, name in list(parent):
            groups[root((side, name))][side == "p"].append(name)
        lost = set(memory) - {n for g in groups.values() for n in g[0]}
        if lost:
            raise LeftOut(f"not published: {sorted(lost)[:3]}")
        return groups.values()

    def spelled(self, name, names):
        """The name with letters, and {letter: number}. Numbers that do not run from 0 are left as they are."""
        parts, numbers = template(name)
        text, values, seen = parts[0], {}, collections.Counter()
        for i, (number, part) in enumerate(zip(numbers, parts[1:])):
            all_numbers = numbers_in(names)[parts[: i + 1]]
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
        left_all, right_all = tuple(memory), tuple(published)
        if len(keys) == 1 and len(names) == 1 and torch.equal(memory[keys[0]], published[names[0]]) if memory[keys[0]].shape == published[names[0]].shape else False:
            (left, a), (right, b) = self.spelled(keys[0], left_all), self.spelled(names[0], right_all)
            if a != b:
                raise LeftOut(f"{keys[0]} becomes {names[0]}")
            self.alike[f"{left} = {right}"].append(keys[0])
            return f"{left} = {right}", a
        if len(keys) == 1:
            whole, parts = self.joined(keys[0], names, memory, published, left_all, right_all, memory)
            return f"{whole[0]} = {parts}", whole[1]
        if len(names) == 1:
            whole, parts = self.joined(names[0], keys, published, memory, right_all, left_all, memory)
            return f"{parts} = {whole[0]}", whole[1]
        raise LeftOut(f"many become many: {sorted(keys)[:2]}, {sorted(names)[:2]}")

    def joined(self, one, many, ones, manys, one_names, many_names, memory):
        """One tensor in which each of many is a box."""
        whole = ones[one]
        boxes, place = {}, self.places(whole)
        for name in many:
            found = self.box(manys[name], whole, place)
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
        known = self.axes.dims_of([k for k in memory if template(k)[0] == template(one)[0]]) if ones is memory else []
        known = known or [None] * whole.dim()
        axes = [k if k and k.isidentifier() and known.count(k) == 1 else f"d{d}" for d, k in enumerate(known)]
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
            self.part_sizes.add(known[d])
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
    def places(whole):
        """Where each number is in a published tensor; None for one in memory, whose numbers are in order."""
        flat = whole.to(torch.int64).flatten()
        if torch.equal(flat, torch.arange(flat.numel()) + flat[0]):
            return None
        return {v: i for i, v in enumerate(flat.tolist())}

    @staticmethod
    def box(part, whole, place):
        if place is None:
            return where(part, whole.to(torch.int64))
        flat = [place.get(v) for v in part.to(torch.int64).flatten().tolist()]
        if None in flat:
            return None
        return where(torch.tensor(flat).reshape(part.shape), torch.arange(whole.numel()).reshape(whole.shape))

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
        base, order = present[0], list(all_lines)
        text = [t for t in order if "l" not in re.findall(r"\{(\w+)\}", t)]
        layered = [t for t in order if t not in text]
        layers = set().union(*(base[t] for t in layered if t in base)) if layered else set()
        fewest = [present[at] for _, at in self.alternatives]
        most = present[len(present) - len(fewest) :] if len(present) > len(fewest) + len(self.options) else fewest
        spots_of = lambda t, founds: frozenset((a, n) for a, found in enumerate(founds) for n in found.get(t, ()))
        spots, all_spots = {t: spots_of(t, fewest) for t in layered}, frozenset((a, n) for a in range(len(fewest)) for n in layers)
        everywhere = [t for t in layered if spots[t] == all_spots]
        partly = [t for t in layered if spots[t] and t not in everywhere]
        toggled = present[: 1 + len(self.options)]
        rare = {t for t in order if any(t in found for found in toggled) and any(t not in found for found in toggled)}
        self.when = {t: self.required(t, toggled) if t in rare else "" for t in order}
        if odd := [t for t in text if t not in rare and any(t not in found for found in present)]:
            raise LeftOut(f"some models alone have {odd[0]}")
        lines = [t for t in text if t not in layered]
        begin = [t for t in lines if "embed" in t]
        more = [t for t in layered if not spots[t]]  # by an option alone
        self.inner = {t: at for t in more if partly and (at := spots_of(t, most)) and at != all_spots}
        branches, placed = [], set()
        if partly:
            kinds = collections.OrderedDict()
            for t in sorted(partly, key=lambda t: min(spots[t])):
                kinds.setdefault(spots[t], []).append(t)
            branches = self.blocks(kinds, all_spots, placed)
        told = lambda ts: [self.with_axes(t) + self.when[t] for t in ts]
        lines = told([*begin, *everywhere]) + branches + told([t for t in more if t not in placed]) + told([t for t in lines if t not in begin])
        ties = self.tie_lines()
        return self.head(lines + ties) + lines + ties

    def required(self, text, present):
        """By which option there is such a tensor."""
        base = present[0]
        by = [(path, value) for (path, value), found in zip(self.options.items(), present[1:]) if (text in found) != (text in base)]
        if len(by) != 1:
            return " optional"
        path, value = by[0]
        told = f" required {'when' if (text in base) == bool(value) else 'unless'} {self.said(path)}"
        at = {path: value if text in base else self.other(path, value)}
        return told + "".join(f" {'when' if v else 'unless'} {self.said(p)}" for p, v in self.options.items() if p != path and self.lacks(text, {**at, p: self.other(p, v)}))

    def said(self, path):
        return path + (" | true" if self.by_default[path] else "")

    def lacks(self, text, at):
        """Whether a model of these options has no tensor of this name."""
        shapes = self.shapes_at(at)
        name = re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(text.split(" ")[0]))
        return bool(shapes) and not any(re.fullmatch(name, key) for key in shapes)

    def blocks(self, kinds, all_spots, placed):
        """What only some layers have: {where: lines}. Kinds of which each layer has one are branches; what is within one of these lies in it."""
        left, groups = dict(kinds), []
        whole = lambda group: sum(map(len, group)) == len(all_spots) == len(frozenset().union(*group))
        while group := next((g for n in (2, 3, 4) for g in itertools.combinations(left, n) if whole(g)), None):
            groups.append(group)
            left = {at: of for at, of in left.items() if at not in group}
        within = collections.defaultdict(dict)
        for at in list(left):
            if around := [kind for group in groups for kind in group if at < kind]:
                within[min(around, key=len)][at] = left.pop(at)
        while left:  # a layer may have none of these
            group = []
            for at in left:
                if all(at.isdisjoint(other) for other in group):
                    group.append(at)
            groups.append(tuple(group))
            left = {at: of for at, of in left.items() if at not in group}
        options = collections.defaultdict(list)
        for text, at in self.inner.items():
            for group in groups:
                if (its := [kind for kind in group if kind <= at]) and frozenset().union(*its) == at and text not in placed:
                    placed.add(text)
                    for kind in its:
                        options[kind].append(text)
        lines = []
        for group in sorted(groups, key=lambda g: list(kinds).index(g[0])):
            its = [["  " + self.with_axes(t) + self.when[t] for t in [*kinds[k], *options[k]]] + ["  " + b for b in self.blocks(within[k], k, placed)] for k in group]
            text = [line for i, one in enumerate(its) for line in ["either  # layers differ" if i == 0 else "or", *one]] + ["end"]
            if not whole(group):
                text = ["optional", *(its[0] if len(its) == 1 else ("  " + line for line in text)), "end"]
            lines += text
        return lines

    def with_axes(self, text):
        """A line that moves nothing, with the sizes that config.json gives."""
        dims = self.axes.bracketed(self.alike[text]) if text in self.alike else None
        return " = ".join(f"{side} [{' '.join(dims)}]" for side in text.split(" = ")) if dims else text

    def head(self, lines):
        head = []
        for letter, path in self.texts.sizes.items():
            if path:
                head.append(f"size   {letter} = {path}")
        used = set(re.findall(r"\w+", " ".join(re.findall(r"\[.*?\]", " ".join(lines)))))
        sizes = self.axes.lines
        count, parts = getattr(self.texts, "parts", 0), []
        if len(self.part_sizes) == 1 and (of := self.part_sizes.pop()) and of.startswith(f"({count} ") and of[3:-1].isidentifier():
            parts, used = [f"size   g = {of[3:-1]}"], used | {of[3:-1]}
        used |= {sizes[w] for w in used if w.startswith("other_")}
        head += [f"size   {word} = {value}" for word, value in sizes.items() if word in used] + parts
        for n in range(1, count):
            head.append(f"size   {'guvwxyz'[n]} = g")
        return head + [""]

    def tie_lines(self):
        keys, condition = self.ties
        lines = []
        for copy, of in keys.items():
            out, same = self.names[copy], self.names[of]
            self.alike[f"{copy} = {out}"].append(copy)
            lines += [f"{self.with_axes(f'{copy} = {out}')} unless {condition}", f"{copy} = {out} same as {same} when {condition}"]
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


def made(model_type, scratch):
    """Its class, and the text of its map without its first lines; throws LeftOut."""
    maker = Maker(model_type)
    if all(set(m) == set(p) and all(m[k].shape == p[k].shape for k in m) for _, m, p in maker.variants) and not ONLY and WHAT == "make":
        raise LeftOut("its names and shapes are alike in memory and published")
    lines = maker.run()
    path = scratch / f"{model_type}.transformers.map"
    path.write_text("\n".join([f"# {model_type}", f"family {model_type}", *lines]) + "\n")
    maker.hold(path)
    return maker.model_class, "\n".join([*maker.keeps, *lines]) + "\n"


def main():
    entries = families()
    by_hand = {t for f in FOLDER.glob("*.transformers.map") if MADE_BY not in (text := f.read_text()) for t in families_of(text)}
    texts, left_out = collections.OrderedDict(), []
    wanted = ONLY or sorted({t for t in entries.values() if t})
    if WHAT == "check":  # those that are there
        wanted = sorted({t for f in made_maps(FOLDER) for t in families_of(f.read_text())})
    left_out += [(e, "no model that this transformers builds by its name") for e, t in entries.items() if t is None and not ONLY]
    with tempfile.TemporaryDirectory() as scratch:
        for model_type in wanted:
            if model_type in by_hand:
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
        title = f"# transformers 5.24, in memory → published: {', '.join(types)}\n# {MADE_BY}"
        files[f"{types[0]}.transformers.map"] = f"{title}\nfamily {' '.join(types)}\nclass  {' '.join(classes)}\n{text}"
    return files, left_out


files, left_out = main()
if WHAT == "make":
    for name, text in files.items():
        (FOLDER / name).write_text(text)
        print(f"made: {name}")
    for name, why in left_out:
        print(f"left out: {name}: {why}")
else:
    texts = {f.name: f.read_text() for f in made_maps(FOLDER)}
    check(sorted(files) == sorted(texts), f"the same maps: {sorted(set(files) ^ set(texts))}")
    for name in files.keys() & texts.keys():
        check(files[name] == texts[name], f"{name}: the same text")
    finish()
