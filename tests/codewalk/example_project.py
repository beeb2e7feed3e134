"""The text of a small project that has one of everything."""

from dataclasses import replace
from pathlib import Path

from codewalk.config import Project, read_project
from codewalk.digest import digest_file
from codewalk.records import Record, Row, write_record

KERNEL = '''\
"""A kernel to talk about."""

import math


@staticmethod
def scale(
    x,
):
    # [double] Twice the input. More words
    # on a second line.
    y = 2 * x

    # [loop] Again and again.
    for _ in range(3):
        # [inner-step] Once more.
        y = y + x
        # a comment that belongs to nothing

    return y


class Box:
    def method(self):
        # [double] Another step of that name.
        return 2 * math.pi
'''

JOBS = """\
[jobs.speed]
kind = "benchmark"
needs = "cuda"
command = ["python", "-m", "demo.speed"]
title = { en = "Speed of the demo", zh = "示例的速度" }

[jobs.facts]
kind = "claims"
command = ["python", "-m", "demo.facts"]

[jobs.never]
kind = "benchmark"
command = ["python", "-m", "demo.never"]

[columns.n]
label = { en = "length", zh = "长度" }

[columns.tflops]
unit = "TFLOP/s"
digits = 3
label = { en = "speed", zh = "速度" }
low = "tflops_low"
high = "tflops_high"
better = "higher"

[columns.causal.values]
true = { en = "causal", zh = "因果" }
false = { en = "full", zh = "非因果" }

[series.impl.ours]
label = "demo"
style = "ours"
"""

FIGURE = """\
<?xml version="1.0"?>
<svg viewBox="0 0 10 10" role="img"><title>{{title}}</title><text>{{key}}</text></svg>
"""

FIGURE_WORDS = """\
[en]
title = "A claim"
key = "keys < all"
[zh]
title = "一个论断"
key = "键"
"""


def speed_row(index: int, impl: str, n: int, tflops: float) -> Row:
    values = {"tflops": tflops, "tflops_low": tflops - 5, "tflops_high": tflops + 5}
    return Row(index, {"impl": impl, "n": n, "causal": n > 1024}, values, "measured")


def speed_record(project: Project) -> Record:
    kernel = "src/demo/kernel.py"
    return Record(
        job="speed",
        device="gpu-one",
        machine={"name": "GPU One", "sm_count": 4},
        software={"python": "3.12.3"},
        command=("python", "-m", "demo.speed"),
        started="2026-11-30T10:00:00Z",
        seconds=12.5,
        inputs={kernel: digest_file(project.root / kernel)},
        job_digest=project.jobs.job("speed").digest,
        rows=(
            speed_row(0, "ours", 1024, 412.345),
            speed_row(1, "ours", 2048, 420.0),
            speed_row(2, "peer", 1024, 400.0),
            Row(
                3,
                {"impl": "peer", "n": 2048, "causal": True},
                {},
                "out-of-memory",
                "big",
            ),
        ),
    )


def make_project(root: Path) -> Project:
    """Writes the project into `root`, with two records."""
    files = {
        "pyproject.toml": '[tool.codewalk]\ndevice = "gpu-one"\n',
        "src/demo/kernel.py": KERNEL,
        "src/demo/other.py": "def other():\n    # [only] Here.\n    return 1\n",
        "src/demo/notes.txt": "no code\n",
        "tests/test_demo.py": "def test_demo():\n    assert True\n",
        "docs/jobs.toml": JOBS,
        "docs/figures/walk.svg": FIGURE,
        "docs/figures/walk.toml": FIGURE_WORDS,
        "docs/en/index.md": "# Home\n",
        "docs/zh/index.md": "# 首页\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    made = read_project(root)
    write_record(made, speed_record(made))
    facts = replace(
        speed_record(made),
        job="facts",
        device="cpu",
        job_digest=made.jobs.job("facts").digest,
        rows=(
            Row(0, {"claim": "leak"}, {"share": 0.1934, "n": 100}, "measured"),
            Row(1, {"claim": "walk", "block": 1}, {"m": "2 | 0"}, "measured"),
            Row(2, {"claim": "walk", "block": 2}, {"m": "3"}, "measured"),
        ),
    )
    write_record(made, facts)
    return made
