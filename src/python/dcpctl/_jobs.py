"""Jobs of the library: what takes time, and runs on threads of its own while this one waits."""

from __future__ import annotations

import os
import sys
import time
from ctypes import addressof, c_uint64, create_string_buffer, string_at

from . import _abi, _errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    ProgressFunction = Callable[[int, int], object]
    Progress = bool | ProgressFunction | None

_SLICE_MS = 50  # a signal handler, Ctrl-C's too, runs between two waits


class Outcome:
    """What a job has given. `checkpoint` and `saving` belong to the caller."""

    __slots__ = ("bytes_read", "bytes_written", "checkpoint", "nanoseconds", "places", "records_compared", "records_not_compared", "saving", "texts")

    def __init__(self, job: int) -> None:
        r = _abi.fill(_abi.Result, _abi.lib.dcpctl_job_result, job)
        self.checkpoint: int | None = r.checkpoint
        self.saving: int | None = r.saving
        self.places: list[tuple[str, int, int]] = [(_abi.text(p.file), p.offset, p.length) for p in r.places[: r.place_count]]
        self.texts: list[bytes] = [string_at(t.data, t.bytes) if t.bytes else b"" for t in r.texts[: r.text_count]]
        self.bytes_read: int = r.bytes_read
        self.bytes_written: int = r.bytes_written
        self.records_compared: int = r.records_compared
        self.records_not_compared: int = r.records_not_compared
        self.nanoseconds: int = r.nanoseconds


class Job:
    """A job that has been started. `keep` is what must live until it has ended: the memory that it reads into or writes from."""

    __slots__ = ("__weakref__", "_handle", "_keep", "_pid", "closed")

    def __init__(self, handle: int | None, keep: object = None) -> None:
        if not handle:
            self._handle: int | None = None
            raise _errors.MachineError(id="no_thread", kind="machine", what="there is no memory or no thread for another job")
        self._handle = handle
        self._keep = keep
        self._pid = os.getpid()
        self.closed = False  # by Checkpoint.close()

    def wait(self, milliseconds: int = 0) -> int:
        state: int = _abi.lib.dcpctl_job_wait(self._handle, milliseconds)
        return state

    def progress(self) -> tuple[int, int]:
        p = _abi.fill(_abi.Progress, _abi.lib.dcpctl_job_progress, self._handle)
        return p.bytes_done, p.bytes_total

    def text(self) -> bytes:
        """In the state EXCHANGE: the text of this rank."""
        t = _abi.lib.dcpctl_job_text(self._handle)
        return string_at(t.data, t.bytes) if t.bytes else b""

    def give(self, texts: Sequence[bytes]) -> None:
        """The texts of all ranks; the job goes on."""
        array = (_abi.Text * len(texts))()
        held = [create_string_buffer(value, len(value)) if value else None for value in texts]
        for struct, buffer, value in zip(array, held, texts):
            struct.data = addressof(buffer) if buffer else None
            struct.bytes = len(value)
        _abi.lib.dcpctl_job_give(self._handle, array, len(texts))

    def cancel(self) -> None:
        handle = self._handle
        if handle and os.getpid() == self._pid:
            _abi.lib.dcpctl_job_cancel(handle)

    def finish(self, progress: Progress = None, look: Callable[[Job], object] | None = None) -> Outcome:
        """Waits for the end, and frees the job. Whatever is raised meanwhile, Ctrl-C included, cancels it first.

        `look` is called about twenty times a second.
        """
        report = reporter(progress) if progress else None
        try:
            while (state := self.wait(_SLICE_MS)) == _abi.RUNNING and not self.closed:
                if report:
                    report(*self.progress())
                if look:
                    look(self)
            if state in (_abi.FAILED, _abi.RUNNING):
                raise self._failure()
            if report:
                report(*self.progress())
            return Outcome(self._handle)  # type: ignore[arg-type]
        finally:
            if report:
                report.end()
            self.free()

    def _failure(self) -> _errors.Error:
        if self.closed:
            return _errors.usage("closed", "the checkpoint was closed while it was being read")
        return _abi.problem_of(self._handle)  # type: ignore[arg-type]

    def free(self) -> None:
        handle, self._handle = self._handle, None
        if handle and os.getpid() == self._pid:  # a child has none of the threads that it would wait for
            _abi.lib.dcpctl_job_free(handle)
        self._keep = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.free()


def numbers(values: Sequence[int]) -> object:
    return (c_uint64 * len(values))(*values)


# ---- progress

class _Reporter:
    def __init__(self, function: ProgressFunction) -> None:
        self._function = function
        self._last: tuple[int, int] | None = None

    def __call__(self, done: int, total: int) -> None:
        if total and (done, total) != self._last:
            self._last = (done, total)
            self._function(done, total)

    def end(self) -> None:
        pass


class _Bar(_Reporter):
    """tqdm's."""

    def __init__(self, tqdm: Callable[..., object]) -> None:
        self._bar = tqdm(unit="B", unit_scale=True, unit_divisor=1024)
        super().__init__(self._show)

    def _show(self, done: int, total: int) -> None:
        bar = self._bar
        bar.total = total  # type: ignore[attr-defined]
        bar.update(done - bar.n)  # type: ignore[attr-defined]

    def end(self) -> None:
        self._bar.close()  # type: ignore[attr-defined]


class _Lines(_Reporter):
    """A line each second, if standard error is a terminal."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 1
        super().__init__(self._show)

    def _show(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next and sys.stderr.isatty():
            self._next += 1
            sys.stderr.write(f"{done / 2**20:.0f} of {total / 2**20:.0f} MiB\n")


def reporter(progress: Progress) -> _Reporter:
    if progress is not True:
        return _Reporter(progress)  # type: ignore[arg-type]
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Lines()
    return _Bar(tqdm)
