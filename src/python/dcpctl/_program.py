"""The program of the same wheel: how it is found and run, and what it answers as records."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from . import _errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, TypeVar

    Path = str | os.PathLike[str]
    R = TypeVar("R", bound="Record")


def find(variable: str = "DCPCTL_PROGRAM") -> str:
    """The program: what the variable names, or where installers put it, seen from here."""
    if named := os.environ.get(variable):
        return named
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # site-packages, or a folder of pip's --target
    for folder in _folders(home):
        at = os.path.join(folder, "dcpctl")
        if os.path.isfile(at):
            return at
    if os.path.isfile(home):
        raise _errors.lacking("program_missing", "the package is in a zip file, of which no program can be run", path=home, hint="pip install it, or unpack it")
    raise _errors.lacking(
        "program_missing", "the program is not where the wheel puts it", path=home,
        hint=f"pip install --force-reinstall dcpctl, and with --target into an empty folder (pip adds nothing to a bin that is there); {variable} names another",
    )


def _folders(home: str) -> Iterator[str]:
    yield os.path.join(home, "bin")
    yield os.path.normpath(os.path.join(home, os.pardir, os.pardir, os.pardir, "bin"))
    if os.path.isdir(home):  # a wheel that somebody has unpacked
        yield from (os.path.join(home, name, "scripts") for name in os.listdir(home) if name.startswith("dcpctl-") and name.endswith(".data"))



class Record:
    """What the program printed: members as attributes and as items; iterating gives their names. It does not change. Members that this release does not know are in `extra`."""

    __slots__ = ("_members",)
    KNOWN: tuple[str, ...] = ()

    def __init__(self, members: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_members", {name: _frozen(value) for name, value in members.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_members")[name]
        except KeyError:
            if name in type(self).KNOWN:  # the answer has none of it
                return None
            raise AttributeError(name) from None

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"{name}: a record does not change")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._members == other._members

    def __hash__(self) -> int:
        return hash(tuple(self._members.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._members.items())})"

    def __reduce__(self) -> Any:
        return type(self), (self._members,)

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that this package does not know: a newer program has them."""
        return {name: value for name, value in self._members.items() if name not in type(self).KNOWN} if type(self).KNOWN else {}


def _frozen(value: Any) -> Any:
    if isinstance(value, Record):
        return value
    if isinstance(value, Mapping):
        return Record(value)
    return tuple(_frozen(v) for v in value) if isinstance(value, (list, tuple)) else value


def run(record: type[R], command: str, arguments: Iterable[Path | None], options: Mapping[str, Any]) -> R:
    """Runs a command and returns its answer; exit code 1 ("no") is an answer too, where it says more than that. Other codes are exceptions."""
    import json

    line = [find(), command, "--json", "--quiet"]
    for name, value in options.items():
        line += _option(name, value)
    line += ["--", *(os.fsdecode(a) for a in arguments if a is not None)]
    try:
        code, out, said = _wait(line, _environment(options))
    except OSError as why:
        raise _cannot_run(line[0], why) from None
    try:
        answer = json.loads(out or said.splitlines()[-1])  # a failure's comes last on standard error
    except (ValueError, IndexError):
        what = said.strip() or f"{command} ended with {code} and without an answer"
        raise _errors.error(id="program", kind=_errors.KINDS.get(code, "machine"), what=what) from None
    if "error" in answer:
        raise _error(code, answer["error"])
    return record(answer)


def _option(name: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, (str, int, float, os.PathLike)):
        return [f"{name}={os.fsdecode(value) if isinstance(value, os.PathLike) else value}"]
    return [f"{name}={one}" for one in value]


# By these the program knows that it is one of several ranks.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def _environment(options: Mapping[str, Any]) -> Mapping[str, str]:
    """The program runs alone, also where this process is a rank, unless it is told how ranks exchange bytes."""
    if options.get("--transport") is not None:
        return os.environ
    return {name: value for name, value in os.environ.items() if name not in _RANKS}


def _wait(line: list[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
    import signal
    import subprocess
    from concurrent.futures import ThreadPoolExecutor

    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="surrogateescape", env=environment,
    ) as process, ThreadPoolExecutor(1) as listener:
        # On a thread, since communicate() gives the program a quarter of a second before Ctrl-C gets out of it.
        heard = listener.submit(process.communicate)
        try:
            out, said = heard.result()
        except BaseException:
            process.send_signal(signal.SIGINT)  # it removes what it has begun
            raise
    return process.returncode, out, said


def _error(code: int, told: Mapping[str, Any]) -> _errors.Error:
    words = {name: told.get(name) for name in ("id", "path", "member", "key", "offset", "rank", "got", "expected", "hint")}
    return _errors.error(kind=_errors.KINDS.get(code, "machine"), what=told.get("message"), line=told.get("message"), **words)


def _cannot_run(program: str, why: OSError) -> _errors.Error:
    return _errors.lacking("program_missing", f"the program cannot be run: {why.strerror}", path=program)


def main() -> None:
    """python -m dcpctl"""
    program = find()
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as why:
        raise _cannot_run(program, why) from None
