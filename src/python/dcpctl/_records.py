"""What the commands answer. The JSON of each command is described in its manual page; members that an answer lacks are None."""

from __future__ import annotations

from ._program import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Records = tuple[Record, ...]
    Texts = tuple[str, ...]


class List(Record):
    __slots__ = ()
    schema: str
    exit: int
    path: str
    latest: str | None
    latest_full: str | None
    latest_model: str | None
    steps: Records
    pointers: Records
    checkpoints: Records | None


class Inspect(Record):
    __slots__ = ()
    schema: str
    path: str
    kind: str
    writer: Record
    loads_in: Record
    summary: Record
    models: Records
    training_state: Records
    tensors: Records
    blobs: Records
    files: Records
    findings: Records
    unsafe: Records
    stats: Records | None
    ranks: Records | None
    held_most: Records | None
    cast: Record | None
    checkpoints: Records | None


class Diff(Record):
    __slots__ = ()
    schema: str
    exit: int
    a: Record
    b: Record
    equal: bool
    model_equal: bool
    summary: Record
    differences: Records
    bytes_read: int
    seconds: float
    peak_memory_bytes: int

    @property
    def is_equal(self) -> bool:
        return bool(self.equal)


class Verify(Record):
    __slots__ = ()
    schema: str
    exit: int
    path: str
    checkpoint: str | None
    verdict: str
    kind: str
    summary: Record
    checked: Record
    left_out: Record
    left_out_findings: int | None
    against: Record | None
    whole: Record | None
    damaged_model_keys: Texts | None
    manifest: str | None
    findings: Records
    unsafe: Records
    stats: Records | None
    seconds: float
    peak_memory_bytes: int
    checkpoints: Records | None

    @property
    def is_sound(self) -> bool:
        """Nothing was found that the exit code would report."""
        return bool(self.exit == 0)


class _Written(Record):
    __slots__ = ()
    schema: str
    exit: int
    path: str
    checkpoint: str | None
    output: str
    dry_run: bool
    warnings: tuple[Any, ...]
    notes: Texts
    files: Records
    tensors: int
    elements: int
    tensor_bytes: int
    largest_tensor_bytes: int
    units: int
    planned_read_bytes: int
    planned_write_bytes: int
    planned_memory_bytes: int
    stripped_root: str | None
    renamed: int
    wrapped: int
    unmapped: tuple[Any, ...]
    idle: tuple[Any, ...]
    dropped: Record
    dropped_top: Texts
    dropped_keys: Texts
    renamed_keys: Records
    left_out: tuple[Any, ...]
    converted: tuple[Any, ...]
    cast: Record | None
    unsafe: tuple[Any, ...]
    unsafe_globals: tuple[Any, ...]
    records_without_crc: int
    mcore_shapes: int
    world_size: int | None
    for_torch: str | None
    for_torch_raised_by: tuple[Any, ...]
    containers: int | None
    attributes_left_out: tuple[Any, ...]
    kept_as_is: tuple[Any, ...]
    default_layout: tuple[Any, ...]
    idle_placements: tuple[Any, ...]
    replicated: tuple[Any, ...]
    rank_bound: tuple[Any, ...]
    list_holes: tuple[Any, ...]
    records_checked: int | None
    verified_after: bool
    ranks: Records
    peak_memory_bytes: int


class Consolidate(_Written):
    __slots__ = ()


class Convert(_Written):
    __slots__ = ()


class Reshard(_Written):
    __slots__ = ()


class Cast(_Written):
    __slots__ = ()


class Prune(Record):
    __slots__ = ()
    schema: str
    exit: int
    path: str
    dry_run: bool
    bytes_to_free: int
    bytes_freed: int
    bytes_to_read: int
    steps: Records


class Edit(Record):
    __slots__ = ()
    schema: str
    exit: int
    path: str
    output: str
    in_place: bool
    dry_run: bool
    keys: int
    metadata_bytes: int
    data: Record
    unneeded_files: Texts
    unneeded_bytes: int
    stripped_root: str | None
    renamed: int
    wrapped: int
    unmapped: tuple[Any, ...]
    idle: tuple[Any, ...]
    dropped: Record
    dropped_top: Texts
    dropped_keys: Texts
    renamed_keys: Records
    dcp: Record | None
    seconds: float


class Maps(Record):
    __slots__ = ()
    schema: str
    name: str | None
    maps: Records | None
    models: Texts | None
    releases: Texts | None
    notes: Texts | None
    lines: int | None
    sizes: Records | None
    text: str | None


for _record in (List, Inspect, Diff, Verify, _Written, Prune, Edit, Maps):
    _record.KNOWN = tuple(_record.__annotations__)
