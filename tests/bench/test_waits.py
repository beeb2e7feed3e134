"""Where ptxas puts the waits for products, by the program of the chapter."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/en/faster/in-flight.md"
PRODUCT, WAIT, EXP = "HGMMA", "WARPGROUP.DEPBAR", "MUFU.EX2"
# From the loop's two products, of eight instructions each, to its last wait.
LOOPS = {
    "in_flight": [(PRODUCT, 16), (WAIT, 2), (EXP, 66)],
    "turns": [(PRODUCT, 16), (WAIT, 2), (EXP, 66)],
    "lazy_rescale": [(PRODUCT, 16), (WAIT, 1), (EXP, 66), (WAIT, 1)],
}


@pytest.fixture(scope="module")
def program():
    """The page's own, which prints a word and how often, a line each."""
    text = PAGE.read_text(encoding="utf-8")
    programs = re.findall(r"<<'EOF'\n(.*?)^EOF$", text, re.DOTALL | re.MULTILINE)
    (found,) = [p for p in programs if "DEPBAR" in p]
    return found


@pytest.mark.parametrize("name", LOOPS)
def test_where_the_second_wait_is(program, name):
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = str(ROOT / "src")
    words = [sys.executable, "-c", program.replace("in_flight", name)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    runs = [(word, int(count)) for word, count in lines]
    start = runs.index((PRODUCT, 16))
    assert runs[start : start + len(LOOPS[name])] == LOOPS[name]
