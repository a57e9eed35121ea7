"""Asks something of all that is in memory, and changes it at will, without changing it.

The work is done in a copy of the process (``fork``), which the system makes page by page as they
are written to. So a question may have an engine decide for an hour of its time, and what asked is
not touched, not held up, and not ended by what goes wrong there.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec
import numpy.ma  # noqa: F401 - np.unique asks for it: here once, not in each copy

from arranger.daemon.config.schema import ConfigError
from arranger.shadow.forecasts.changes import ChangeError
from arranger.shadow.inputs.objects import ObjectError

T = TypeVar("T")

#: Seconds after which an answer is not waited for any longer.
MAX_SECONDS: Final = 60.0
_CHUNK: Final = 1 << 20
#: How much memory an answer may take, beside what there is.
_MAX_BYTES: Final = 2 << 30
_LATE: Final = "there is no answer in time"
#: The last of the numbers of stdin, stdout and stderr.
_STANDARD: Final = 2
#: What tells whoever asks that the question is at fault.
_ERRORS: Final[Mapping[str, type[Exception]]] = {
    each.__name__: each for each in (LookupError, ChangeError, ObjectError, ConfigError)
}


class BranchError(RuntimeError):
    """An answer could not be worked out, through a fault of ours."""


class _Reply(msgspec.Struct):
    """What a branch says in the end: an answer, or the error that there was."""

    answer: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: str = ""
    text: str = ""


@dataclass(slots=True, eq=False)
class Branch(Generic[T]):
    """Work that goes on in a copy of the process.

    Args:
        kind: the type of its answer.
    """

    kind: Any
    _pid: int
    _reader: int
    _ends: float
    _parts: list[bytes] = field(default_factory=list, init=False)
    _ended: bool = field(default=False, init=False)

    @classmethod
    def start(cls, work: Callable[[], T], kind: Any, seconds: float = MAX_SECONDS) -> Branch[T]:
        """Have ``work`` done in a copy of the process as it is now.

        Call it where nobody else is changing anything: in the thread of the event loop.
        """
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            _work(work, writer, seconds)
        os.close(writer)
        return cls(kind, pid, reader, time.monotonic() + seconds)

    def result(self) -> T:
        """Wait for the answer.

        Raises:
            LookupError, ChangeError, ObjectError, ConfigError: as ``work`` raised it.
            TimeoutError: there is none in time.
            BranchError: there is none.
        """
        try:
            while not self._ended:
                if not select.select([self._reader], [], [], self._left())[0]:
                    raise TimeoutError(_LATE)
                self._read()
        finally:
            self.close()
        try:
            reply = msgspec.msgpack.decode(b"".join(self._parts), type=_Reply)
        except msgspec.MsgspecError:
            raise BranchError("whoever worked out the answer has ended without one") from None
        if reply.error:
            raise _ERRORS.get(reply.error, BranchError)(reply.text)
        answer: T = msgspec.msgpack.decode(reply.answer, type=self.kind)
        return answer

    async def done(self) -> None:
        """Wait until :meth:`result` does not have to, without a thread.

        Raises:
            TimeoutError: there is no answer in time.
        """
        loop, told = asyncio.get_running_loop(), asyncio.Event()

        def read() -> None:
            self._read()
            if self._ended:
                loop.remove_reader(self._reader)
                told.set()

        loop.add_reader(self._reader, read)
        try:
            async with asyncio.timeout(self._left()):
                await told.wait()
        except TimeoutError:
            raise TimeoutError(_LATE) from None
        finally:
            loop.remove_reader(self._reader)

    def close(self) -> None:
        """End the work if it goes on, and forget it."""
        if self._reader < 0:
            return
        os.close(self._reader)
        self._reader = -1
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _left(self) -> float:
        return max(self._ends - time.monotonic(), 0.0)

    def _read(self) -> None:
        part = os.read(self._reader, _CHUNK)
        self._parts.append(part)
        self._ended = not part


def _work(work: Callable[[], Any], writer: int, seconds: float) -> NoReturn:
    """What the copy does, and nothing after it."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Whoever asked may be gone, and then nobody else ends this.
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(seconds), ceil(seconds) + 1))
        _limit_memory()
        gc.freeze()  # what there is already is not looked through, and so not copied
        _close_others(writer)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(_reply(work)))
        status = 0
    finally:
        os._exit(status)


def _limit_memory() -> None:
    with suppress(OSError, ValueError):  # where the system does not tell what there is
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MAX_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _reply(work: Callable[[], Any]) -> _Reply:
    try:
        return _Reply(answer=msgspec.Raw(msgspec.msgpack.encode(work())))
    except MemoryError:
        return _Reply(error="BranchError", text="the answer takes too much memory")
    except Exception as error:
        for name, kind in _ERRORS.items():
            if isinstance(error, kind):
                return _Reply(error=name, text=str(error.args[0] if error.args else error))
        return _Reply(error="BranchError", text="".join(traceback.format_exception(error)))


def _close_others(kept: int) -> None:
    """Leave files and sockets to their owner: no connection is to outlive it because of us.

    Their numbers stay in use, since objects that are here, too, may close them.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/dev/fd"):
        number = int(name)
        if number > _STANDARD and number not in (kept, nothing):
            with suppress(OSError):
                os.fstat(number)
                os.dup2(nothing, number)
