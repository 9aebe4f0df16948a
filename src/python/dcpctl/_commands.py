"""The program's commands as functions. Generated from `dcpctl help --json` (./dev generate): do not edit."""

from __future__ import annotations

from ._program import run as _run
from ._records import Cast, Consolidate, Convert, Diff, Edit, Inspect, List, Maps, Prune, Reshard, Verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Literal

    Path = str | os.PathLike[str]
    Value = str | int | float | Path


def list(
    run: Path,
    *,
    pattern: Value | None = None,
    follow_links: bool = False,
    threads: Value | None = None,
    max_memory: Value | None = None,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    last: Value | None = None,
    long: bool = False,
    html: Path | None = None,
    reverse: bool = False,
    latest: bool = False,
    latest_full: bool = False,
    latest_model: bool = False,
    after: Value | None = None,
    wait: Value | None = None,
    fields: Value | None = None,
) -> List:
    """The steps of a run: which are complete, and which is the latest.

    run: A folder whose folders are checkpoints, with the number of a step in their names
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    follow_links: Follow symbolic links inside the checkpoints
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default: half of the machine's, at most 16GiB)
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    last: The N newest steps alone
    long: Date and time of each step beside its age
    html: Also write a page with pictures to FILE: the run over time, and what prune would take
    reverse: Oldest first at a terminal, newest first elsewhere
    latest: Print the path of the newest complete step
    latest_full: The newest complete one to resume from: full, or where no step has an optimizer, with other state
    latest_model: The newest complete one that has the model alone
    after: Only a step with a number above N, or above that of the current newest one
    wait: Wait that long for one (or 10min, 12h), with --after latest for the next; exit code 1 if none appears
    fields: Of each row these alone, in this order (default: all): step, path, name, state, content, bytes, files, modified, age_seconds, wrong
    """
    options = {
        "--pattern": pattern,
        "--follow-links": follow_links,
        "--threads": threads,
        "--max-memory": max_memory,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--last": last,
        "--long": long,
        "--html": html,
        "--reverse": reverse,
        "--latest": latest,
        "--latest-full": latest_full,
        "--latest-model": latest_model,
        "--after": after,
        "--wait": wait,
        "--fields": fields,
    }
    return _run(List, "list", [run], options)


def inspect(
    ckpt: Path,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    max_memory: Value | None = None,
    summary: bool = False,
    depth: Value | None = None,
    tree: bool = False,
    keys: bool = False,
    top: Value | None = None,
    chunks: bool = False,
    files: bool = False,
    ranks: bool = False,
    sort: Literal["name", "size"] | None = None,
    stats: bool | Value = False,
    threads: Value | None = None,
    fields: Value | None = None,
    html: Path | None = None,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    map: Path | None = None,
    to_map: Path | None = None,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
    unmapped: Literal["error", "keep", "drop"] | None = None,
    map_from: Literal["left", "right"] | None = None,
    model_root: Value | None = None,
    fail_on: Literal["unsafe", "damage", "warnings"] | Iterable[Literal["unsafe", "damage", "warnings"]] = (),
    dtype: Value | None = None,
    dtype_scope: Literal["model", "all"] | None = None,
    dtype_rule: Value | Iterable[Value] = (),
    raw: bool = False,
) -> Inspect:
    """What is in a checkpoint.

    ckpt: DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step; words behind it that are no paths are
        keys or globs, as of --include
    step: CKPT is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    max_memory: Hard cap on memory (default: half of the machine's, at most 16GiB)
    summary: The lines above the keys alone
    depth: Show N components of keys, layers apart, and totals of what is below them
    tree: Every key, in the tree of their components
    keys: Flat list of keys
    top: The N largest tensors, the largest first
    chunks: Each chunk with its box, file and byte range
    files: Each data file: bytes, items, unreferenced bytes
    ranks: What each rank holds, which of them the most, and of which keys
    sort: Order of what is shown: name (default) or size
    stats: Read the tensors, or those whose keys match GLOB, and print statistics of their values
    threads: Worker threads (default: cores, at least 4, at most 16)
    fields: Of each row these alone, in this order (default: all): key, kind, dtype, shape, elements, bytes, sharding, chunks, files, part_of,
        value, path
    html: Also write a page with pictures to FILE: the layout of each file, how each tensor is sharded; with --map, which tensors become which
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, under its names
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    map: Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none
    to_map: Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP
    config: The model's config.json, for the sizes and conditions of the map; default: that of --assets, or beside CKPT
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    unmapped: What to do with keys that the map does not match: error (default), keep or drop
    map_from: The side of the map that CKPT is on, if its names do not decide it: left or right
    model_root: Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)
    fail_on: Also exit with 1 for findings of these classes: unsafe (a pickle runs what torch.load(weights_only=True) refuses), damage, warnings
    dtype: Cast the model's floating-point tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other state
        stays
    dtype_scope: What --dtype casts: model (default), or all, optimizer and other state included
    dtype_rule: Floating-point tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first match
        wins, before --dtype
    raw: Also cast quantized tensors, ignoring their scales: packed weights, and float8 that has a scale
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--max-memory": max_memory,
        "--summary": summary,
        "--depth": depth,
        "--tree": tree,
        "--keys": keys,
        "--top": top,
        "--chunks": chunks,
        "--files": files,
        "--ranks": ranks,
        "--sort": sort,
        "--stats": stats,
        "--threads": threads,
        "--fields": fields,
        "--html": html,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--map": map,
        "--to-map": to_map,
        "--config": config,
        "--set": set,
        "--unmapped": unmapped,
        "--map-from": map_from,
        "--model-root": model_root,
        "--fail-on": fail_on,
        "--dtype": dtype,
        "--dtype-scope": dtype_scope,
        "--dtype-rule": dtype_rule,
        "--raw": raw,
    }
    return _run(Inspect, "inspect", [ckpt], options)


def diff(
    a: Path,
    b: Path,
    word: Path | None = None,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    step_b: Value | None = None,
    max_memory: Value | None = None,
    threads: Value | None = None,
    rtol: Value | None = None,
    atol: Value | None = None,
    equal_nan: bool = False,
    compare_as: Value | None = None,
    raw: bool = False,
    keys_only: bool = False,
    summary: bool = False,
    html: Path | None = None,
    fields: Value | None = None,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    strict: bool = False,
    map: Path | None = None,
    to_map: Path | None = None,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
    unmapped: Literal["error", "keep", "drop"] | None = None,
    map_from: Literal["left", "right"] | None = None,
    model_root: Value | None = None,
) -> Diff:
    """Whether two checkpoints are equal, and where they differ.

    a: DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step
    b: The checkpoint to compare with, of any kind
    word: A key or a glob, as of --include: the others are not compared
    step: A is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    step_b: Like --step, for B
    max_memory: Hard cap on memory (default: half of the machine's, at most 16GiB)
    threads: Worker threads (default: cores, at least 4, at most 16)
    rtol: Values may differ by this fraction of B's (default: 0)
    atol: Plus this absolute amount (default: 0)
    equal_nan: Any two NaNs are equal
    compare_as: Convert floating-point tensors of both sides to DTYPE first
    raw: Convert quantized tensors, too: packed weights, and float8 that has a scale
    keys_only: Compare keys, dtypes, shapes and objects alone: no tensor is read
    summary: The verdict alone
    html: Also write a page with pictures to FILE: which layers changed, and by how much
    fields: Of each row these alone, in this order (default: all): key, kind, dtype_a, dtype_b, shape_a, shape_b, elements, differing, max_abs,
        max_rel, text
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, its root stripped
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    strict: Accepted for older scripts; does nothing
    map: Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none
    to_map: Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP
    config: The model's config.json, for the sizes and conditions of the map; default: that of --assets, or beside CKPT
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    unmapped: What to do with keys that the map does not match: error (default), keep or drop
    map_from: The side of the map that CKPT is on, if its names do not decide it: left or right
    model_root: Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--step-b": step_b,
        "--max-memory": max_memory,
        "--threads": threads,
        "--rtol": rtol,
        "--atol": atol,
        "--equal-nan": equal_nan,
        "--compare-as": compare_as,
        "--raw": raw,
        "--keys-only": keys_only,
        "--summary": summary,
        "--html": html,
        "--fields": fields,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--strict": strict,
        "--map": map,
        "--to-map": to_map,
        "--config": config,
        "--set": set,
        "--unmapped": unmapped,
        "--map-from": map_from,
        "--model-root": model_root,
    }
    return _run(Diff, "diff", [a, b, word], options)


def verify(
    ckpt: Path,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    quick: bool = False,
    sample: Value | None = None,
    all_data: bool = False,
    strict: bool = False,
    fail_on: Literal["unsafe", "damage", "warnings", "nan"] | Iterable[Literal["unsafe", "damage", "warnings", "nan"]] = (),
    stats: Value | None = None,
    html: Path | None = None,
    threads: Value | None = None,
    max_memory: Value | None = None,
    manifest: Path | None = None,
    against: Path | None = None,
    subset: bool = False,
    no_files: bool = False,
    force: bool = False,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    allow_unmatched: bool = False,
    map: Path | None = None,
    to_map: Path | None = None,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
    unmapped: Literal["error", "keep", "drop"] | None = None,
    map_from: Literal["left", "right"] | None = None,
    model_root: Value | None = None,
    transport: Literal["auto", "file", "gloo", "nccl"] | None = None,
    timeout: Value | None = None,
    alone: bool = False,
) -> Verify:
    """Whether a checkpoint is whole.

    ckpt: DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step, or the run folder itself: all its steps
    step: CKPT is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    quick: Skip tensor data: check metadata, item headers and small records only
    sample: Check only this much of the data, always the same part
    all_data: Of a run, read the data of all steps, as is done of a single checkpoint
    strict: Exit with 1 for warnings too: --fail-on warnings; with 2 if --include, --exclude, --key or --rename matches nothing
    fail_on: Also exit with 1 for findings of these classes: unsafe (a pickle runs what torch.load(weights_only=True) refuses), damage,
        warnings, nan (NaN or inf in a tensor, which --stats finds)
    stats: Also print statistics of the tensors whose keys match GLOB (default: of all)
    html: Also write a page with pictures to FILE: findings on the map of the files
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default: half of the machine's, at most 16GiB)
    manifest: Write digests of all tensors, objects and files to FILE; - is stdout
    against: Compare with the manifest in FILE
    subset: With --against: the checkpoint may lack keys of the manifest
    no_files: Do not digest whole files, which takes a second read
    force: Replace the file of --manifest
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, its root stripped
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    allow_unmatched: An --include, --exclude, --key or --rename that matches nothing is a warning, no error
    map: Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none
    to_map: Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP
    config: The model's config.json, for the sizes and conditions of the map; default: that of --assets, or beside CKPT
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    unmapped: What to do with keys that the map does not match: error (default), keep or drop
    map_from: The side of the map that CKPT is on, if its names do not decide it: left or right
    model_root: Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)
    transport: How ranks exchange bytes: auto, file (every rank can see every file), gloo or nccl
    timeout: Give up on a rank that has been silent for SECONDS (default 60)
    alone: Work alone, whatever a launcher's variables say
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--quick": quick,
        "--sample": sample,
        "--all-data": all_data,
        "--strict": strict,
        "--fail-on": fail_on,
        "--stats": stats,
        "--html": html,
        "--threads": threads,
        "--max-memory": max_memory,
        "--manifest": manifest,
        "--against": against,
        "--subset": subset,
        "--no-files": no_files,
        "--force": force,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--allow-unmatched": allow_unmatched,
        "--map": map,
        "--to-map": to_map,
        "--config": config,
        "--set": set,
        "--unmapped": unmapped,
        "--map-from": map_from,
        "--model-root": model_root,
        "--transport": transport,
        "--timeout": timeout,
        "--alone": alone,
    }
    return _run(Verify, "verify", [ckpt], options)


def consolidate(
    ckpt: Path,
    out: Path,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    allow_unmatched: bool = False,
    strict: bool = False,
    map: Path | None = None,
    to_map: Path | None = None,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
    unmapped: Literal["error", "keep", "drop"] | None = None,
    map_from: Literal["left", "right"] | None = None,
    model_root: Value | None = None,
    expect: Path | None = None,
    expect_tensors: bool = False,
    expect_dtypes: bool = False,
    dtype: Value | None = None,
    dtype_scope: Literal["model", "all"] | None = None,
    dtype_rule: Value | Iterable[Value] = (),
    raw: bool = False,
    fp8_overflow: Literal["saturate", "nan"] | None = None,
    strict_cast: bool = False,
    weights_only_safe: bool = False,
    max_shard_size: Value | None = None,
    like_index: Path | None = None,
    assets: Path | None = None,
    mcore_shapes: bool = False,
    fill_from: Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    threads: Value | None = None,
    max_memory: Value | None = None,
    no_verify: bool = False,
    verify_after: bool = False,
    no_sync: bool = False,
    gather: Literal["rank0", "none"] | None = None,
    transport: Literal["auto", "file", "gloo", "nccl"] | None = None,
    timeout: Value | None = None,
    alone: bool = False,
) -> Consolidate:
    """One full-model file from a sharded checkpoint.

    ckpt: DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step
    out: Output: .pt, .pth, .bin, .safetensors, .npz, or a folder with --max-shard-size or --assets
    step: CKPT is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, its root stripped
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    allow_unmatched: An --include, --exclude, --key or --rename that matches nothing is a warning, no error
    strict: Accepted for older scripts; does nothing
    map: Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none
    to_map: Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP
    config: The model's config.json, for the sizes and conditions of the map; default: that of --assets, or beside CKPT
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    unmapped: What to do with keys that the map does not match: error (default), keep or drop
    map_from: The side of the map that CKPT is on, if its names do not decide it: left or right
    model_root: Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)
    expect: Write only if keys and shapes are those of REF, a checkpoint or a list as 'inspect --keys' prints it, and no object of REF is
        missing
    expect_tensors: With --expect: tensors alone, whatever objects REF has
    expect_dtypes: With --expect: the dtypes too
    dtype: Cast the model's floating-point tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other state
        stays
    dtype_scope: What --dtype casts: model (default), or all, optimizer and other state included
    dtype_rule: Floating-point tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first match
        wins, before --dtype
    raw: Also cast quantized tensors, ignoring their scales: packed weights, and float8 that has a scale
    fp8_overflow: What float8_e4m3fn makes of numbers beyond 448: saturate (default, as torch 2.15) or nan (as torch 2.11)
    strict_cast: Exit 1 and write nothing if a value is too large for its new dtype
    weights_only_safe: Leave out objects that torch.load(weights_only=True) refuses
    max_shard_size: Write a folder of safetensors shards of at most SIZE
    like_index: Write a folder of safetensors files, each tensor in the same file as in the index of the model REF
    assets: A model for transformers and vLLM: copy configuration, tokenizer and generation files from the folder DIR; implies --map auto and
        --max-shard-size 5GB, and --model-only without --root
    mcore_shapes: Give tensors the shapes of Megatron's mcore_data, not those that torch sees
    fill_from: Take what the model in CKPT lacks from MODEL, as it is stored there, and what --exclude leaves out, such as a damaged tensor;
        what CKPT has must be in MODEL, too, in the same shape. Implies --model-only, and --map auto where MODEL has a config.json
    dry_run: Print the plan; create nothing
    force: Replace OUT when the new one is complete
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default 1GiB)
    no_verify: Do not check CRCs
    verify_after: Read the output back before it appears and compare it with what was written
    no_sync: Do not wait for the disk before OUT appears, and leave OUT in the page cache
    gather: Who writes: rank0 (default; the others send to it), or none: each rank writes its part of an OUT that all share
    transport: How ranks exchange bytes: auto, file (every rank can see every file), gloo or nccl
    timeout: Give up on a rank that has been silent for SECONDS (default 60)
    alone: Work alone, whatever a launcher's variables say
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--allow-unmatched": allow_unmatched,
        "--strict": strict,
        "--map": map,
        "--to-map": to_map,
        "--config": config,
        "--set": set,
        "--unmapped": unmapped,
        "--map-from": map_from,
        "--model-root": model_root,
        "--expect": expect,
        "--expect-tensors": expect_tensors,
        "--expect-dtypes": expect_dtypes,
        "--dtype": dtype,
        "--dtype-scope": dtype_scope,
        "--dtype-rule": dtype_rule,
        "--raw": raw,
        "--fp8-overflow": fp8_overflow,
        "--strict-cast": strict_cast,
        "--weights-only-safe": weights_only_safe,
        "--max-shard-size": max_shard_size,
        "--like-index": like_index,
        "--assets": assets,
        "--mcore-shapes": mcore_shapes,
        "--fill-from": fill_from,
        "--dry-run": dry_run,
        "--force": force,
        "--threads": threads,
        "--max-memory": max_memory,
        "--no-verify": no_verify,
        "--verify-after": verify_after,
        "--no-sync": no_sync,
        "--gather": gather,
        "--transport": transport,
        "--timeout": timeout,
        "--alone": alone,
    }
    return _run(Consolidate, "consolidate", [ckpt, out], options)


def convert(
    ckpt: Path,
    out: Path,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    allow_unmatched: bool = False,
    strict: bool = False,
    map: Path | None = None,
    to_map: Path | None = None,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
    unmapped: Literal["error", "keep", "drop"] | None = None,
    map_from: Literal["left", "right"] | None = None,
    model_root: Value | None = None,
    expect: Path | None = None,
    expect_tensors: bool = False,
    expect_dtypes: bool = False,
    dtype: Value | None = None,
    dtype_scope: Literal["model", "all"] | None = None,
    dtype_rule: Value | Iterable[Value] = (),
    raw: bool = False,
    fp8_overflow: Literal["saturate", "nan"] | None = None,
    strict_cast: bool = False,
    world_size: Value | None = None,
    to: Literal["dcp", "torch_checkpointing"] | None = None,
    model_form: Literal["torch", "safetensors"] | None = None,
    device_type: Value | None = None,
    for_torch: Value | None = None,
    weights_only_safe: bool = False,
    max_shard_size: Value | None = None,
    like_index: Path | None = None,
    assets: Path | None = None,
    mcore_shapes: bool = False,
    fill_from: Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    threads: Value | None = None,
    max_memory: Value | None = None,
    no_verify: bool = False,
    verify_after: bool = False,
    no_sync: bool = False,
    gather: Literal["rank0", "none"] | None = None,
    transport: Literal["auto", "file", "gloo", "nccl"] | None = None,
    timeout: Value | None = None,
    alone: bool = False,
) -> Convert:
    """A checkpoint of any kind as a DCP folder or another kind of file.

    ckpt: DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step
    out: Output: a folder, .pt, .pth, .bin, .safetensors or .npz
    step: CKPT is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, its root stripped
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    allow_unmatched: An --include, --exclude, --key or --rename that matches nothing is a warning, no error
    strict: Accepted for older scripts; does nothing
    map: Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none
    to_map: Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP
    config: The model's config.json, for the sizes and conditions of the map; default: that of --assets, or beside CKPT
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    unmapped: What to do with keys that the map does not match: error (default), keep or drop
    map_from: The side of the map that CKPT is on, if its names do not decide it: left or right
    model_root: Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)
    expect: Write only if keys and shapes are those of REF, a checkpoint or a list as 'inspect --keys' prints it, and no object of REF is
        missing
    expect_tensors: With --expect: tensors alone, whatever objects REF has
    expect_dtypes: With --expect: the dtypes too
    dtype: Cast the model's floating-point tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other state
        stays
    dtype_scope: What --dtype casts: model (default), or all, optimizer and other state included
    dtype_rule: Floating-point tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first match
        wins, before --dtype
    raw: Also cast quantized tensors, ignoring their scales: packed weights, and float8 that has a scale
    fp8_overflow: What float8_e4m3fn makes of numbers beyond 448: saturate (default, as torch 2.15) or nan (as torch 2.11)
    strict_cast: Exit 1 and write nothing if a value is too large for its new dtype
    world_size: Number of ranks of a folder (default 1)
    to: Form of a folder: DCP's (default), or that of torch_checkpointing, a file for each item and rank
    model_form: With --to torch_checkpointing: files of the model's item, ITEM_RANK.pt (default) or ITEM_RANK.safetensors
    device_type: With --to torch_checkpointing: write DTensors for a job on devices of this type, such as cuda, which reads its own files if it
        has this layout
    for_torch: Oldest torch that must load OUT, 2.0 or later (default 2.4, or what the dtypes need)
    weights_only_safe: Leave out objects that torch.load(weights_only=True) refuses
    max_shard_size: Write a folder of safetensors shards of at most SIZE
    like_index: Write a folder of safetensors files, each tensor in the same file as in the index of the model REF
    assets: A model for transformers and vLLM: copy configuration, tokenizer and generation files from the folder DIR; implies --map auto and
        --max-shard-size 5GB
    mcore_shapes: Give tensors the shapes of Megatron's mcore_data, not those that torch sees
    fill_from: Take what the model in CKPT lacks from MODEL, as it is stored there, and what --exclude leaves out, such as a damaged tensor;
        what CKPT has must be in MODEL, too, in the same shape. Implies --model-only, and --map auto where MODEL has a config.json
    dry_run: Print the plan; create nothing
    force: Replace OUT when the new one is complete
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default 1GiB)
    no_verify: Do not check CRCs
    verify_after: Read the output back before it appears and compare it with what was written
    no_sync: Do not wait for the disk before OUT appears, and leave OUT in the page cache
    gather: Who writes: rank0 (default; the others send to it), or none: each rank writes its part of an OUT that all share
    transport: How ranks exchange bytes: auto, file (every rank can see every file), gloo or nccl
    timeout: Give up on a rank that has been silent for SECONDS (default 60)
    alone: Work alone, whatever a launcher's variables say
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--allow-unmatched": allow_unmatched,
        "--strict": strict,
        "--map": map,
        "--to-map": to_map,
        "--config": config,
        "--set": set,
        "--unmapped": unmapped,
        "--map-from": map_from,
        "--model-root": model_root,
        "--expect": expect,
        "--expect-tensors": expect_tensors,
        "--expect-dtypes": expect_dtypes,
        "--dtype": dtype,
        "--dtype-scope": dtype_scope,
        "--dtype-rule": dtype_rule,
        "--raw": raw,
        "--fp8-overflow": fp8_overflow,
        "--strict-cast": strict_cast,
        "--world-size": world_size,
        "--to": to,
        "--model-form": model_form,
        "--device-type": device_type,
        "--for-torch": for_torch,
        "--weights-only-safe": weights_only_safe,
        "--max-shard-size": max_shard_size,
        "--like-index": like_index,
        "--assets": assets,
        "--mcore-shapes": mcore_shapes,
        "--fill-from": fill_from,
        "--dry-run": dry_run,
        "--force": force,
        "--threads": threads,
        "--max-memory": max_memory,
        "--no-verify": no_verify,
        "--verify-after": verify_after,
        "--no-sync": no_sync,
        "--gather": gather,
        "--transport": transport,
        "--timeout": timeout,
        "--alone": alone,
    }
    return _run(Convert, "convert", [ckpt, out], options)


def reshard(
    ckpt: Path,
    out: Path,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    allow_unmatched: bool = False,
    strict: bool = False,
    map: Path | None = None,
    to_map: Path | None = None,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
    unmapped: Literal["error", "keep", "drop"] | None = None,
    map_from: Literal["left", "right"] | None = None,
    model_root: Value | None = None,
    expect: Path | None = None,
    expect_tensors: bool = False,
    expect_dtypes: bool = False,
    dtype: Value | None = None,
    dtype_scope: Literal["model", "all"] | None = None,
    dtype_rule: Value | Iterable[Value] = (),
    raw: bool = False,
    fp8_overflow: Literal["saturate", "nan"] | None = None,
    strict_cast: bool = False,
    world_size: Value | None = None,
    mesh: Value | None = None,
    mesh_dims: Value | None = None,
    placements: Value | Iterable[Value] = (),
    like: Path | None = None,
    layout: Path | None = None,
    to: Literal["dcp", "torch_checkpointing"] | None = None,
    model_form: Literal["torch", "safetensors"] | None = None,
    device_type: Value | None = None,
    for_torch: Value | None = None,
    optimizer: Literal["flat", "nested"] | None = None,
    dry_run: bool = False,
    force: bool = False,
    threads: Value | None = None,
    max_memory: Value | None = None,
    no_verify: bool = False,
    verify_after: bool = False,
    no_sync: bool = False,
    gather: Literal["rank0", "none"] | None = None,
    transport: Literal["auto", "file", "gloo", "nccl"] | None = None,
    timeout: Value | None = None,
    alone: bool = False,
) -> Reshard:
    """The same checkpoint laid out for another number of ranks.

    ckpt: DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step
    out: Folder to write
    step: CKPT is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, its root stripped
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    allow_unmatched: An --include, --exclude, --key or --rename that matches nothing is a warning, no error
    strict: Accepted for older scripts; does nothing
    map: Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none
    to_map: Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP
    config: The model's config.json, for the sizes and conditions of the map; default: that of --assets, or beside CKPT
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    unmapped: What to do with keys that the map does not match: error (default), keep or drop
    map_from: The side of the map that CKPT is on, if its names do not decide it: left or right
    model_root: Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)
    expect: Write only if keys and shapes are those of REF, a checkpoint or a list as 'inspect --keys' prints it, and no object of REF is
        missing
    expect_tensors: With --expect: tensors alone, whatever objects REF has
    expect_dtypes: With --expect: the dtypes too
    dtype: Cast the model's floating-point tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other state
        stays
    dtype_scope: What --dtype casts: model (default), or all, optimizer and other state included
    dtype_rule: Floating-point tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first match
        wins, before --dtype
    raw: Also cast quantized tensors, ignoring their scales: packed weights, and float8 that has a scale
    fp8_overflow: What float8_e4m3fn makes of numbers beyond 448: saturate (default, as torch 2.15) or nan (as torch 2.11)
    strict_cast: Exit 1 and write nothing if a value is too large for its new dtype
    world_size: Ranks to write for (default: as many as CKPT has)
    mesh: Device mesh of the ranks, such as 2x4, for --placements
    mesh_dims: Names of its dims, such as dp,tp
    placements: Tensors whose name in the output matches GLOB get these placements, one for each mesh dim from left to right: shard(D),
        strided(D) or replicate; repeatable, the first match wins
    like: Shard tensors as CKPT2 does where name and shape are the same
    layout: All of the above, from a JSON file
    to: Form of a folder: DCP's (default), or that of torch_checkpointing, a file for each item and rank
    model_form: With --to torch_checkpointing: files of the model's item, ITEM_RANK.pt (default) or ITEM_RANK.safetensors
    device_type: With --to torch_checkpointing: write DTensors for a job on devices of this type, such as cuda, which reads its own files if it
        has this layout
    for_torch: Oldest torch that must load OUT, 2.0 or later (default 2.4, or what the dtypes need)
    optimizer: Give the optimizer's state this form of torch's get_optimizer_state_dict: flat (flatten_optimizer_state_dict=True, which
        torchtitan saves) or nested (its default)
    dry_run: Print the plan; create nothing
    force: Replace OUT when the new one is complete
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default 1GiB)
    no_verify: Do not check CRCs
    verify_after: Read the output back before it appears and compare it with what was written
    no_sync: Do not wait for the disk before OUT appears, and leave OUT in the page cache
    gather: Who writes: rank0 (default; the others send to it), or none: each rank writes its part of an OUT that all share
    transport: How ranks exchange bytes: auto, file (every rank can see every file), gloo or nccl
    timeout: Give up on a rank that has been silent for SECONDS (default 60)
    alone: Work alone, whatever a launcher's variables say
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--allow-unmatched": allow_unmatched,
        "--strict": strict,
        "--map": map,
        "--to-map": to_map,
        "--config": config,
        "--set": set,
        "--unmapped": unmapped,
        "--map-from": map_from,
        "--model-root": model_root,
        "--expect": expect,
        "--expect-tensors": expect_tensors,
        "--expect-dtypes": expect_dtypes,
        "--dtype": dtype,
        "--dtype-scope": dtype_scope,
        "--dtype-rule": dtype_rule,
        "--raw": raw,
        "--fp8-overflow": fp8_overflow,
        "--strict-cast": strict_cast,
        "--world-size": world_size,
        "--mesh": mesh,
        "--mesh-dims": mesh_dims,
        "--placements": placements,
        "--like": like,
        "--layout": layout,
        "--to": to,
        "--model-form": model_form,
        "--device-type": device_type,
        "--for-torch": for_torch,
        "--optimizer": optimizer,
        "--dry-run": dry_run,
        "--force": force,
        "--threads": threads,
        "--max-memory": max_memory,
        "--no-verify": no_verify,
        "--verify-after": verify_after,
        "--no-sync": no_sync,
        "--gather": gather,
        "--transport": transport,
        "--timeout": timeout,
        "--alone": alone,
    }
    return _run(Reshard, "reshard", [ckpt, out], options)


def cast(
    ckpt: Path,
    out: Path,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    allow_unmatched: bool = False,
    strict: bool = False,
    map: Path | None = None,
    to_map: Path | None = None,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
    unmapped: Literal["error", "keep", "drop"] | None = None,
    map_from: Literal["left", "right"] | None = None,
    model_root: Value | None = None,
    expect: Path | None = None,
    expect_tensors: bool = False,
    expect_dtypes: bool = False,
    dtype: Value | None = None,
    dtype_scope: Literal["model", "all"] | None = None,
    dtype_rule: Value | Iterable[Value] = (),
    raw: bool = False,
    fp8_overflow: Literal["saturate", "nan"] | None = None,
    strict_cast: bool = False,
    weights_only_safe: bool = False,
    for_torch: Value | None = None,
    dry_run: bool = False,
    force: bool = False,
    threads: Value | None = None,
    max_memory: Value | None = None,
    no_verify: bool = False,
    verify_after: bool = False,
    no_sync: bool = False,
    gather: Literal["rank0", "none"] | None = None,
    transport: Literal["auto", "file", "gloo", "nccl"] | None = None,
    timeout: Value | None = None,
    alone: bool = False,
) -> Cast:
    """The same checkpoint in another dtype.

    ckpt: DCP folder, torch.save or safetensors file, folder of such files, or a run folder with --step
    out: Output, of the same kind as CKPT
    step: CKPT is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, its root stripped
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    allow_unmatched: An --include, --exclude, --key or --rename that matches nothing is a warning, no error
    strict: Accepted for older scripts; does nothing
    map: Convert the model to another form: a map of 'dcpctl maps', a map file, auto (which --assets implies), or none
    to_map: Then convert to another trainer's form: apply MAP2, right to left, to the result of MAP
    config: The model's config.json, for the sizes and conditions of the map; default: that of --assets, or beside CKPT
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    unmapped: What to do with keys that the map does not match: error (default), keep or drop
    map_from: The side of the map that CKPT is on, if its names do not decide it: left or right
    model_root: Root of the model in OUT beside an optimizer's state, '.' for the top (default: as in CKPT)
    expect: Write only if keys and shapes are those of REF, a checkpoint or a list as 'inspect --keys' prints it, and no object of REF is
        missing
    expect_tensors: With --expect: tensors alone, whatever objects REF has
    expect_dtypes: With --expect: the dtypes too
    dtype: Cast the model's floating-point tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other state
        stays
    dtype_scope: What --dtype casts: model (default), or all, optimizer and other state included
    dtype_rule: Floating-point tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first match
        wins, before --dtype
    raw: Also cast quantized tensors, ignoring their scales: packed weights, and float8 that has a scale
    fp8_overflow: What float8_e4m3fn makes of numbers beyond 448: saturate (default, as torch 2.15) or nan (as torch 2.11)
    strict_cast: Exit 1 and write nothing if a value is too large for its new dtype
    weights_only_safe: Leave out objects that torch.load(weights_only=True) refuses
    for_torch: Oldest torch that must load OUT, 2.0 or later (default 2.4, or what the dtypes need)
    dry_run: Print the plan; create nothing
    force: Replace OUT when the new one is complete
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default 1GiB)
    no_verify: Do not check CRCs
    verify_after: Read the output back before it appears and compare it with what was written
    no_sync: Do not wait for the disk before OUT appears, and leave OUT in the page cache
    gather: Who writes: rank0 (default; the others send to it), or none: each rank writes its part of an OUT that all share
    transport: How ranks exchange bytes: auto, file (every rank can see every file), gloo or nccl
    timeout: Give up on a rank that has been silent for SECONDS (default 60)
    alone: Work alone, whatever a launcher's variables say
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--allow-unmatched": allow_unmatched,
        "--strict": strict,
        "--map": map,
        "--to-map": to_map,
        "--config": config,
        "--set": set,
        "--unmapped": unmapped,
        "--map-from": map_from,
        "--model-root": model_root,
        "--expect": expect,
        "--expect-tensors": expect_tensors,
        "--expect-dtypes": expect_dtypes,
        "--dtype": dtype,
        "--dtype-scope": dtype_scope,
        "--dtype-rule": dtype_rule,
        "--raw": raw,
        "--fp8-overflow": fp8_overflow,
        "--strict-cast": strict_cast,
        "--weights-only-safe": weights_only_safe,
        "--for-torch": for_torch,
        "--dry-run": dry_run,
        "--force": force,
        "--threads": threads,
        "--max-memory": max_memory,
        "--no-verify": no_verify,
        "--verify-after": verify_after,
        "--no-sync": no_sync,
        "--gather": gather,
        "--transport": transport,
        "--timeout": timeout,
        "--alone": alone,
    }
    return _run(Cast, "cast", [ckpt, out], options)


def prune(
    run: Path,
    *,
    pattern: Value | None = None,
    follow_links: bool = False,
    threads: Value | None = None,
    max_memory: Value | None = None,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    keep_latest: Value | None = None,
    keep_every: Value | None = None,
    partial: bool = False,
    older_than: Value | None = None,
    drop_optimizer: bool = False,
    grace: Value | None = None,
    verify: Literal["newest", "all"] | None = None,
    no_verify: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    no_sync: bool = False,
) -> Prune:
    """Deletes steps of a run that are no longer needed.

    run: A folder whose folders are checkpoints, with the number of a step in their names
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    follow_links: Follow symbolic links inside the checkpoints
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default: half of the machine's, at most 16GiB)
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    keep_latest: Keep the complete steps with the K highest numbers
    keep_every: Keep steps whose number is a multiple of N
    partial: Delete what interrupted saves have left
    older_than: Delete nothing younger: 12h, 7d, 2w
    drop_optimizer: Make full steps model-only instead of deleting them
    grace: An unfinished step that changed within TIME may still be being written (default 10min)
    verify: Read the data of the newest full step (newest) or of all that stay (all)
    no_verify: Check nothing: what is listed as complete is taken for whole
    dry_run: Print what would be deleted; delete nothing
    yes: Do not ask
    no_sync: Do not wait for the disk at the end
    """
    options = {
        "--pattern": pattern,
        "--follow-links": follow_links,
        "--threads": threads,
        "--max-memory": max_memory,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--keep-latest": keep_latest,
        "--keep-every": keep_every,
        "--partial": partial,
        "--older-than": older_than,
        "--drop-optimizer": drop_optimizer,
        "--grace": grace,
        "--verify": verify,
        "--no-verify": no_verify,
        "--dry-run": dry_run,
        "--yes": yes,
        "--no-sync": no_sync,
    }
    return _run(Prune, "prune", [run], options)


def edit(
    ckpt: Path,
    out: Path | None = None,
    *,
    step: Value | None = None,
    pattern: Value | None = None,
    prefer_rank: Value | None = None,
    shards_on_dim: Value | None = None,
    replicated: Value | Iterable[Value] = (),
    max_pickle: Value | None = None,
    follow_links: bool = False,
    sandbox: Literal["auto", "on", "off"] | None = None,
    net_timeout: Value | None = None,
    insecure_http: bool = False,
    include: Value | Iterable[Value] = (),
    exclude: Value | Iterable[Value] = (),
    key: Value | Iterable[Value] = (),
    model_only: bool = False,
    keep_root: bool = False,
    root: Value | None = None,
    add_root: Value | None = None,
    clean_fqns: bool = False,
    rename: Value | Iterable[Value] = (),
    rename_map: Path | None = None,
    tensors_only: bool = False,
    allow_unmatched: bool = False,
    strict: bool = False,
    for_torch: Value | None = None,
    in_place: bool = False,
    no_orig: bool = False,
    link: Literal["reflink", "hard", "copy"] | None = None,
    dry_run: bool = False,
    force: bool = False,
    threads: Value | None = None,
    max_memory: Value | None = None,
    no_sync: bool = False,
) -> Edit:
    """Renames or drops keys by rewriting the metadata alone.

    ckpt: DCP folder, or a run folder with --step
    out: A new folder
    step: CKPT is a run folder: take step N, or 'latest' (the newest complete one)
    pattern: Steps are the folders whose name matches REGEX; its one group is the number
    prefer_rank: Where ranks wrote different values for one key, use rank R's
    shards_on_dim: Plain tensors in files of ranks are shards, as to_local() gives: join them on dim D
    replicated: With --shards-on-dim, tensors that every rank has whole; 'none': all are shards (default: as a reference or config.json says)
    max_pickle: Largest pickle to read (default: 1GiB of an object, 256MiB of a torch.save file)
    follow_links: Follow symbolic links inside the checkpoint
    sandbox: Confine the process to what the command line names: auto (where the kernel can), on or off
    net_timeout: How long a request to a store may go unanswered, its repetitions included (default: 60)
    insecure_http: Allow http:// to other machines: it shows what is read to the network
    include: Keep keys that match GLOB (* crosses dots), or all below a dict of that name; repeatable, last match wins
    exclude: Leave out keys that match GLOB, or all below a dict of that name; repeatable, last match wins
    key: Keep this exact key; repeatable
    model_only: The model without optimizer and other training state, its root stripped
    keep_root: With --model-only: keep the root
    root: Take the subtree under PATH (such as app.model) and strip it
    add_root: Put PATH (such as app.model) above all keys
    clean_fqns: Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module
    rename: Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order
    rename_map: Rename whole keys as the JSON object in FILE says
    tensors_only: Leave out Python objects
    allow_unmatched: An --include, --exclude, --key or --rename that matches nothing is a warning, no error
    strict: Accepted for older scripts; does nothing
    for_torch: Oldest torch that must load OUT, 2.0 or later (default 2.4, or what the dtypes need)
    in_place: Replace the metadata of CKPT itself
    no_orig: With --in-place: do not keep the old metadata
    link: How OUT gets its data: reflink, hard or copy (default: the first that works)
    dry_run: Print what would be written; create nothing
    force: Replace OUT when the new one is complete
    threads: Worker threads (default: cores, at least 4, at most 16)
    max_memory: Hard cap on memory (default 1GiB)
    no_sync: Do not wait for the disk
    """
    options = {
        "--step": step,
        "--pattern": pattern,
        "--prefer-rank": prefer_rank,
        "--shards-on-dim": shards_on_dim,
        "--replicated": replicated,
        "--max-pickle": max_pickle,
        "--follow-links": follow_links,
        "--sandbox": sandbox,
        "--net-timeout": net_timeout,
        "--insecure-http": insecure_http,
        "--include": include,
        "--exclude": exclude,
        "--key": key,
        "--model-only": model_only,
        "--keep-root": keep_root,
        "--root": root,
        "--add-root": add_root,
        "--clean-fqns": clean_fqns,
        "--rename": rename,
        "--rename-map": rename_map,
        "--tensors-only": tensors_only,
        "--allow-unmatched": allow_unmatched,
        "--strict": strict,
        "--for-torch": for_torch,
        "--in-place": in_place,
        "--no-orig": no_orig,
        "--link": link,
        "--dry-run": dry_run,
        "--force": force,
        "--threads": threads,
        "--max-memory": max_memory,
        "--no-sync": no_sync,
    }
    return _run(Edit, "edit", [ckpt, out], options)


def maps(
    map: Path | None = None,
    *,
    config: Path | None = None,
    set: Value | Iterable[Value] = (),
) -> Maps:
    """Maps between the tensors of trainers and those of published models.

    map: A built-in map, a model such as llama, or a file whose name contains a '/' or ends in .map
    config: The model's config.json, for the sizes and conditions of the map
    set: A size, an axis or a choice of the map, or a key of config.json; repeatable
    """
    options = {
        "--config": config,
        "--set": set,
    }
    return _run(Maps, "maps", [map], options)
