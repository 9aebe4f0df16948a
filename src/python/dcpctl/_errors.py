"""The exceptions that everything here raises."""

from __future__ import annotations

FIELDS = ("id", "kind", "path", "member", "key", "offset", "rank", "what", "got", "expected", "hint", "line")


class Error(Exception):
    """A failure: what is wrong, and where. Members are None where there is nothing to say.

    `id` is the stable name for programs ("crc_mismatch"), the same that the dcpctl program reports (`dcpctl help ID` explains it); `kind` is one of
    "answer", "usage", "input", "machine", "lacking", "rank". `str()` is one line with everything but the hint.
    """

    id: str
    kind: str
    path: str | None
    member: str | None
    key: str | None
    offset: int | None
    rank: int | None
    what: str
    got: str | None
    expected: str | None
    hint: str | None
    line: str

    def __init__(self, **fields: object) -> None:
        for name in FIELDS:
            setattr(self, name, fields.get(name))
        if self.line is None:
            values = f": got {self.got}, expected {self.expected}" if self.got and self.expected else f": {self.got}" if self.got else ""
            self.line = ": ".join(str(part) for part in (self.path, self.key, self.what) if part is not None) + values
        super().__init__(self.line)

    def __str__(self) -> str:
        return f"{self.line}\nhint: {self.hint}" if self.hint else self.line

    # An exception is pickled by its arguments; torch sends errors between ranks.
    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), {name: getattr(self, name) for name in FIELDS})


def _again(kind: type[Error], fields: dict[str, object]) -> Error:
    return kind(**fields)


class UsageError(Error, ValueError):
    """The call is wrong, or its output exists."""


class MissingKey(UsageError, KeyError):
    """The checkpoint has no such key."""


class InputError(Error):
    """The input is no checkpoint, is malformed or damaged, or uses what is not supported."""


class MachineError(Error, OSError):
    """Reading or writing failed, or memory or disk space is short. `errno` is the cause's, or None."""

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)
        import errno
        import os

        cause = str(self.got).lower()
        self.errno = next((number for number in errno.errorcode if os.strerror(number).lower() == cause), None)


class LackingError(Error):
    """This build, or this Python, lacks what was asked for."""


class RankError(Error):
    """Another rank failed, or the ranks do not agree."""


KINDS = {1: "answer", 2: "usage", 3: "input", 4: "machine", 5: "lacking", 6: "rank"}
CLASSES: dict[str, type[Error]] = {
    "answer": Error, "usage": UsageError, "input": InputError, "machine": MachineError, "lacking": LackingError, "rank": RankError,
}


def error(**fields: object) -> Error:
    """The exception of the class that the kind says."""
    kind = CLASSES[str(fields["kind"])]
    return kind(**fields)


def usage(id: str, what: str, **fields: object) -> UsageError:
    return UsageError(id=id, kind="usage", what=what, **fields)


def lacking(id: str, what: str, **fields: object) -> LackingError:
    return LackingError(id=id, kind="lacking", what=what, **fields)
