"""One child process and all that it starts: run, watched, and ended.

A signal only sets a flag, which is looked at where it is safe to stop: nothing
is interrupted half-way, and no child is left behind.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Protocol

from codewalk.errors import CodewalkError

# How often the flag and the clock are looked at, in seconds.
_TICK = 0.1
# How long a process may take to end when it is asked to.
_GRACE = 5.0


class Stop:
    """Whether someone asked us to stop."""

    def __init__(self) -> None:
        self.requested = False

    def check(self) -> None:
        """Raises KeyboardInterrupt if so."""
        if self.requested:
            raise KeyboardInterrupt


class Watch(Protocol):
    """Who looks on while a process runs."""

    def output(self, data: bytes) -> None:
        """The process wrote this."""

    def tick(self, seconds: float) -> None:
        """It has been running for so long."""


@dataclass(frozen=True)
class Program:
    """What to start: its standard output goes to a file, or to who looks on."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    limit: float
    stdout: IO[bytes] | None = None


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """While this lasts, an interrupt or a request to end sets the flag."""
    stop = Stop()

    def request(number: int, frame: FrameType | None) -> None:
        stop.requested = True

    before = {
        number: signal.signal(number, request)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # Under nohup, or in the background of a script, it stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(program: Program, watch: Watch, stop: Stop) -> int:
    """Runs a program to its end and returns its exit status.

    Raises a CodewalkError where it cannot be started or takes too long, and
    KeyboardInterrupt when asked to stop; its processes are ended either way.
    """
    stop.check()
    try:
        process = subprocess.Popen(
            program.command,
            cwd=program.folder,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=program.stdout or subprocess.PIPE,
            stderr=subprocess.PIPE if program.stdout else subprocess.STDOUT,
            # A group of its own: a Ctrl-C in the terminal reaches us alone, and
            # we end the whole of it.
            start_new_session=True,
        )
    except OSError as error:
        raise CodewalkError(f"not started: {error.strerror}") from error
    pipe = process.stdout or process.stderr
    assert pipe is not None
    with pipe:
        try:
            return _follow(process, pipe.fileno(), program.limit, watch, stop)
        finally:
            _end(process)
            _drain(pipe.fileno(), watch)


def _follow(
    process: subprocess.Popen[bytes],
    pipe: int,
    limit: float,
    watch: Watch,
    stop: Stop,
) -> int:
    started = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while process.poll() is None:
            stop.check()
            seconds = time.monotonic() - started
            if seconds > limit:
                raise CodewalkError(f"took longer than {limit:g} s and was ended")
            watch.tick(seconds)
            if not selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_TICK)
            elif selector.select(_TICK):
                data = os.read(pipe, 65536)
                if data:
                    watch.output(data)
                else:
                    selector.unregister(pipe)
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and whatever it has started and left behind."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    # The group may be gone, which macOS calls a lack of permission.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _drain(pipe: int, watch: Watch) -> None:
    """Passes on what is left in the pipe, without waiting for more."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while data := os.read(pipe, 65536):
            watch.output(data)
