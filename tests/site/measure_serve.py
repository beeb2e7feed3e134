"""How long a preview takes to show an edited kernel line, in a real `mkdocs serve`.

    python tests/site/measure_serve.py [--rounds 3]

The tree is copied, so that no edit touches it. Time runs from the edit until
the new line is served; MkDocs itself waits a while for more edits to come.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNEL = "src/flashwalk/forward.py"
LINE = "        s = s * softmax_scale\n"
LIMIT = 60.0


def served(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=LIMIT) as answer:
            text: str = answer.read().decode("utf-8")
            return text
    except OSError:
        return ""


def wait_for(address: str, text: str) -> float:
    """The seconds until the page holds the text."""
    started = time.monotonic()
    while text not in served(address):
        if time.monotonic() - started > LIMIT:
            raise SystemExit(f"{text!r} did not come within {LIMIT:g} s")
        time.sleep(0.02)
    return time.monotonic() - started


def measure(root: Path, rounds: int) -> list[float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mkdocs", "serve", "--quiet"]
    server = subprocess.Popen(
        [*command, "--dev-addr", f"127.0.0.1:{port}"],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    address = f"http://127.0.0.1:{port}/source/{KERNEL.removeprefix('src/')}/"
    try:
        wait_for(address, "softmax_scale")
        text = (root / KERNEL).read_text(encoding="utf-8")
        times = []
        for number in range(rounds):
            new = text.replace(LINE, LINE.replace("\n", f"  # edit_{number}\n"))
            (root / KERNEL).write_text(new, encoding="utf-8")
            times.append(wait_for(address, f"edit_{number}"))
            time.sleep(1.0)
        return times
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "tree"
        ignored = shutil.ignore_patterns(".*", "site", "build", "__pycache__")
        shutil.copytree(ROOT, root, ignore=ignored)
        print("seconds:", ", ".join(f"{t:.2f}" for t in measure(root, rounds)))


if __name__ == "__main__":
    main()
