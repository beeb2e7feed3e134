"""What each step of a kernel is for: take it away, and see which tests fail.

    python -m bench.steps

A step is cut out of a copy of the kernel, or, where the lines after it need the
names that it makes, replaced by the mildest lines that make them and do nothing
else. The tests of the kernel then run on the copy, in Triton's interpreter. A
step that no test misses is a gap in the tests, or there for speed alone.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from bench.rows import Rows
from codewalk.regions import Region
from codewalk.source import SourceFile

ROOT = Path(__file__).parents[2]
KERNEL = "flashwalk/forward.py"
FUNCTION = "_attn_fwd"
# What the tests need; another file of these folders makes no record stale.
SOURCES = (
    *("__init__.py", "arguments.py", "attention.py", "choice.py"),
    *("forward.py", "operators.py", "reference.py", "signature.py"),
)
TESTS = ("accuracy.py", "conftest.py", "problems.py")
TEST_FILES = ("test_forward.py", "test_memory.py")

# fp16 alone, and without what repeats other tests at more sizes or judges the
# reference: every step costs a run of all that is left.
SELECTED = (
    "not float32 and not test_reference and not any_small_problem "
    "and not unequal_tiles and not -256- and not -200 and not -128- "
    "and not 16x16 and not 32x16 and not 16x32"
)
WORKERS = 2
LIMIT_SECONDS = 240
UNWRITTEN = 1e4  # not NaN: that differs from itself, and so from another run

# What stands in a step's place where it cannot be cut.
NEUTRAL: Mapping[str, str] = {
    # Every program takes the first block of the first head.
    "program": """\
        off_bh = tl.program_id(0) * 0
        start_m, off_b, off_h = off_bh, off_bh, off_bh
        """,
    # Batch and head move nothing, and rows are counted from 0.
    "offsets": """\
        q_base, k_base, v_base, o_base = q_ptr, k_ptr, v_ptr, out_ptr
        offs_m = tl.arange(0, BLOCK_M)
        offs_n = tl.arange(0, BLOCK_N)
        offs_d = tl.arange(0, HEAD_DIM)
        in_head = offs_d < head_dim
        """,
    # Q is zero.
    "load-q": """\
        q_mask = (offs_m < seqlen_q)[:, None] & in_head[None, :]
        rows = offs_m[:, None].to(tl.int64)
        q = tl.zeros([BLOCK_M, HEAD_DIM], q_ptr.dtype.element_ty)
        """,
    # The maximum begins at 0 as the sums do.
    "state": """\
        m_i = tl.zeros([BLOCK_M], tl.float32)
        l_i = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
        """,
    # Every program walks over all keys.
    "bound": "hi = seqlen_k\n",
    # K is zero.
    "load-k": """\
        cols = start_n + offs_n
        in_keys = cols < seqlen_k
        k = tl.zeros([HEAD_DIM, BLOCK_N], k_ptr.dtype.element_ty)
        """,
    # Every score is zero.
    "scores": "s = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)\n",
    # Nothing is subtracted from the scores.
    "new-max": """\
        m_new = tl.zeros([BLOCK_M], tl.float32)
        m_safe = m_new
        """,
    # Every key that counts weighs 1.
    "weights": 'p = tl.where(s == float("-inf"), 0.0, 1.0)\n',
    # alpha is 1.
    "rescale": """\
        l_i = l_i + tl.sum(p, axis=1)
        m_i = m_new
        """,
    # The sums are the answer.
    "finish": """\
        out = acc
        lse = m_i
        """,
}


class Without(NamedTuple):
    """The kernel's text without one step."""

    step: str
    way: str  # "cut" or "neutralised"
    text: str


class Outcome(NamedTuple):
    """The tests that ran, in order, and those of them that failed."""

    ran: Sequence[str]
    failed: Sequence[str]


def kernel() -> SourceFile:
    path = ROOT / "src" / KERNEL
    return SourceFile(f"src/{KERNEL}", path.read_bytes())


def without_each_step(file: SourceFile) -> list[Without]:
    """The kernel's text without each of its steps, in order."""
    steps = [r for r in file.regions if r.kind == "step" and r.function == FUNCTION]
    return [_without(file, step) for step in steps]


def _without(file: SourceFile, step: Region) -> Without:
    neutral = NEUTRAL.get(step.name)
    lines = [line + "\n" for line in file.lines]
    indent = file.span(step.qualname).indent
    place = textwrap.indent(textwrap.dedent(neutral or ""), indent)
    lines[step.start - 1 : step.end] = [place]
    text = "".join(lines)
    lost = _names_lost(file, step, text)
    if lost:
        raise ValueError(
            f"step [{step.name}] cannot be cut: what follows needs "
            f"{', '.join(lost)}; say in NEUTRAL what stands in its place"
        )
    return Without(step.name, "neutralised" if neutral else "cut", text)


def _names_lost(file: SourceFile, step: Region, text: str) -> list[str]:
    """What the whole kernel stores, and the one without the step only reads."""
    stored_before, _ = _names(file.text)
    stored, read = _names(text)
    return sorted((stored_before - stored) & read)


def _names(text: str) -> tuple[set[str], set[str]]:
    """The names that the kernel stores, and those that it reads."""
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    body = next(node for node in functions if node.name == FUNCTION)
    names = [node for node in ast.walk(body) if isinstance(node, ast.Name)]
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return stored, {name.id for name in names if isinstance(name.ctx, ast.Load)}


def judge(text: str) -> Outcome:
    """Runs the tests on a copy of the package whose kernel has this text."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name)
        package, tests = tree / "src" / "flashwalk", tree / "tests" / "flashwalk"
        package.mkdir(parents=True)
        tests.mkdir(parents=True)
        for file in SOURCES:
            data = (ROOT / "src" / "flashwalk" / file).read_bytes()
            (package / file).write_bytes(data)
        for file in (*TESTS, *TEST_FILES):
            data = (ROOT / "tests" / "flashwalk" / file).read_bytes()
            (tests / file).write_bytes(data)
        (tree / "src" / KERNEL).write_text(text, encoding="utf-8")
        (tree / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        command = [sys.executable, "-m", "bench.steps", "--judge", name]
        # Where there is a GPU, too: the answer is of the interpreter everywhere.
        quiet = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command,
            env={**os.environ, **quiet},
            stdout=subprocess.DEVNULL,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        found = tree / "outcome.json"
        if done.returncode or not found.is_file():
            raise RuntimeError(f"the tests ended with status {done.returncode}")
        return Outcome(**json.loads(found.read_text(encoding="utf-8")))


def judge_here(tree: Path) -> None:
    """Runs the tests of a copy in this process, and writes what came of them."""
    torch.empty = _filled(torch.empty)
    torch.empty_like = _filled(torch.empty_like)
    heard = _Outcomes()
    files = [str(tree / "tests" / "flashwalk" / file) for file in TEST_FILES]
    words = ["-q", "--tb=no", "-p", "no:cacheprovider", "-k", SELECTED]
    where = ["--rootdir", str(tree), "-c", str(tree / "pytest.ini")]
    status = pytest.main([*words, *where, *files], plugins=[heard])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"pytest ended with {status!r}")
    loaded = Path(str(sys.modules["flashwalk.forward"].__file__))
    if not loaded.is_relative_to(tree):
        raise SystemExit("the tests ran on another kernel")
    text = json.dumps({"ran": heard.ran, "failed": heard.failed})
    (tree / "outcome.json").write_text(text, encoding="utf-8")


class _Outcomes:
    """A pytest plugin that notes which tests ran, and which failed."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and not report.skipped:
            self.ran.append(report.nodeid)
        if report.failed:
            self.failed.append(report.nodeid)


def _filled(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Memory that nobody wrote holds one number: else a test may pass by chance."""

    def filled(*sizes: object, **how: object) -> torch.Tensor:
        x = make(*sizes, **how)
        small = x.numel() < 2**24  # the far ones stay untouched pages
        if small and x.is_floating_point() and x.device.type == "cpu":
            x.fill_(UNWRITTEN)
        return x

    return filled


def telling(failed: Iterable[str], times: Mapping[str, int]) -> str:
    """Of the failed tests the one that fails for the fewest steps, without its
    parameters; of equals, the first."""
    first = min(failed, key=lambda test: times[test], default="")
    return first.partition("[")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", metavar="TREE", type=Path, help=argparse.SUPPRESS)
    tree = parser.parse_args().judge
    if tree:
        judge_here(tree)
        return
    file = kernel()
    cases = without_each_step(file)
    with ThreadPoolExecutor(WORKERS) as pool, Rows.open() as rows:
        texts = [file.text, *(case.text for case in cases)]
        whole, *outcomes = pool.map(judge, texts)
        if whole.failed:
            raise SystemExit(f"the whole kernel fails {whole.failed[0]}")
        times = Counter(test for outcome in outcomes for test in outcome.failed)
        for case, outcome in zip(cases, outcomes, strict=True):
            rows.measured(
                {"step": case.step, "file": KERNEL, "way": case.way},
                {
                    "tests_failing": len(outcome.failed),
                    "first": telling(outcome.failed, times),
                    "tests_run": len(outcome.ran),
                },
            )


if __name__ == "__main__":
    main()
