"""What someone sees on standard error while jobs run."""

import codecs
from typing import TextIO

# Without a terminal, one line in so many seconds.
_SELDOM = 60.0
_WIPE = "\r\x1b[K"


class Progress:
    """A live line on a terminal, plain lines elsewhere; and what the job writes."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._live = stream.isatty()
        self._name = ""
        self._last = 0.0
        self._line_open = False  # the job has not ended its line
        self._shown = False  # our live line stands there
        self._decoder = _decoder()

    def started(self, name: str) -> None:
        """What follows is of this job, or of the probe."""
        self._name, self._last = name, 0.0
        self._decoder = _decoder()
        if not self._live:
            self._say("started")

    def output(self, data: bytes) -> None:
        """The job wrote this."""
        text = self._decoder.decode(data)
        if text:
            self.close()
            self._line_open = not text.endswith("\n")
            self._write(text)

    def tick(self, seconds: float) -> None:
        """It has been running for so long."""
        self._show(seconds, f"{seconds:.0f} s")

    def progress(self, seconds: float, rows: int) -> None:
        """It has been running for so long and reported so many rows."""
        word = "row" if rows == 1 else "rows"
        self._show(seconds, f"{seconds:.0f} s, {rows} {word}")

    def _show(self, seconds: float, text: str) -> None:
        if self._live:
            if not self._line_open:
                self._write(f"{_WIPE}{self._name}: {text}")
                self._shown = True
        elif seconds >= self._last + _SELDOM:
            self._last = seconds
            self._say(text)

    def ended(self, text: str) -> None:
        """How the job came out."""
        self._say(text)

    def close(self) -> None:
        """Takes the live line away."""
        if self._shown:
            self._write(_WIPE)
            self._shown = False

    def _say(self, text: str) -> None:
        self.close()
        if self._line_open:
            self._write("\n")
            self._line_open = False
        self._write(f"{self._name}: {text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _decoder() -> codecs.IncrementalDecoder:
    # A character may be cut in two where the pipe was read.
    return codecs.getincrementaldecoder("utf-8")(errors="replace")
