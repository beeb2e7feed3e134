"""Each test is a row, however it comes out."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tiny_project import python, write

COMMAND = ("-m", "pytest", "-q", "-p", "codewalk.jobs.pytest_rows", "--rootdir=.")

TESTS = """
import pytest, socket

def test_passes(record_property):
    record_property("error", 1e-5)
    record_property("dtype", "fp16")
    record_property("nan", float("nan"))
    record_property("list", [1])
    record_property("outcome", "mine")

def test_fails():
    assert 1 == 2, "one is not two\\nby far"

def test_leaks(tmp_path):
    raise OSError(f"{__file__} {tmp_path}/x on {socket.gethostname()} {object()}")

@pytest.mark.skip(reason="not today")
def test_marked(): pass

def test_skips(): pytest.skip("no such GPU")

@pytest.mark.xfail(reason="known")
def test_known(): assert 0

@pytest.mark.xfail(strict=True, reason="known")
def test_mended(): pass

@pytest.mark.xfail(strict=False)
def test_sometimes(): pass

@pytest.fixture
def bad_setup(): raise ValueError("setup")

@pytest.fixture
def bad_teardown():
    yield
    raise ValueError("teardown")

def test_setup(bad_setup): pass

def test_teardown(bad_teardown): pass

def test_fails_twice(bad_teardown): assert 0, "first"

def test_skips_badly(bad_teardown): pytest.skip("no")

@pytest.mark.parametrize("n", [1, 2])
def test_each(n): pass

class TestClass:
    def test_method(self): pass
"""


def rows(root: Path, *words: str, status: int = 1) -> dict[str, dict[str, Any]]:
    """Runs pytest with the plugin; its rows by test."""
    done = python(root, *COMMAND, *words, CODEWALK_ROWS=str(root / "rows"))
    assert done.returncode == status, done.stdout + done.stderr
    return read(root)


def read(root: Path) -> dict[str, dict[str, Any]]:
    text = (root / "rows").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert "summary" in found[-1]["case"]
    return {row["case"].get("test", "summary"): row for row in found}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of TESTS have run once, with warnings as errors."""
    root = tmp_path_factory.mktemp("ran")
    write(root, "pytest.ini", "[pytest]\nfilterwarnings = error\n")
    write(root, "tests/test_a.py", TESTS)
    rows(root, "tests")
    return root


@pytest.fixture
def found(ran: Path) -> dict[str, dict[str, Any]]:
    return read(ran)


def test_every_outcome(found: dict[str, dict[str, Any]]) -> None:
    outcomes = {
        name.rpartition("::")[2]: (row["values"].get("outcome"), row.get("status"))
        for name, row in found.items()
    }
    assert outcomes == {
        "test_passes": ("passed", "measured"),
        "test_fails": ("failed", "failed"),
        "test_leaks": ("failed", "failed"),
        "test_marked": ("skipped", "skipped"),
        "test_skips": ("skipped", "skipped"),
        "test_known": ("xfailed", "skipped"),
        "test_mended": ("failed", "failed"),
        "test_sometimes": ("passed", "measured"),
        "test_setup": ("failed", "failed"),
        "test_teardown": ("failed", "failed"),
        "test_fails_twice": ("failed", "failed"),
        "test_skips_badly": ("failed", "failed"),
        "test_each[1]": ("passed", "measured"),
        "test_each[2]": ("passed", "measured"),
        "test_method": ("passed", "measured"),
        "summary": (None, None),
    }
    assert found["summary"]["values"] == {"passed": 5, "failed": 7, "skipped": 3}


def test_reasons_say_the_same_everywhere(
    found: dict[str, dict[str, Any]], ran: Path
) -> None:
    reasons = {
        name.rpartition("::")[2]: row["reason"]
        for name, row in found.items()
        if "reason" in row
    }
    assert reasons == {
        "test_fails": "AssertionError: one is not two",
        "test_leaks": "OSError: tests/test_a.py …/x on localhost "
        "<object object at 0x…>",
        "test_marked": "not today",
        "test_skips": "no such GPU",
        "test_known": "expected failure: known",
        "test_mended": "[XPASS(strict)] known",
        "test_setup": "in setup: ValueError: setup",
        "test_teardown": "in teardown: ValueError: teardown",
        "test_fails_twice": "AssertionError: first",
        "test_skips_badly": "in teardown: ValueError: teardown",
    }
    text = (ran / "rows").read_text()
    assert str(ran) not in text
    assert f"on {socket.gethostname()}" not in text


def test_recorded_properties_are_values(found: dict[str, dict[str, Any]]) -> None:
    assert found["tests/test_a.py::test_passes"]["values"] == {
        "error": 1e-5,
        "dtype": "fp16",
        "nan": "nan",
        "outcome": "passed",
    }


def test_a_file_that_cannot_be_collected_is_a_row(tmp_path: Path) -> None:
    write(tmp_path, "tests/test_a.py", "def test_a(): pass\n")
    write(tmp_path, "tests/test_b.py", "import nothing_of_that_name\n")
    write(tmp_path, "tests/test_c.py", "def f(:\n")
    skip = 'import pytest\npytest.skip("no GPU", allow_module_level=True)\n'
    write(tmp_path, "tests/test_d.py", skip)
    found = rows(tmp_path, "tests", status=2)
    assert found["tests/test_b.py"]["status"] == "failed"
    assert found["tests/test_b.py"]["reason"] == (
        "ModuleNotFoundError: No module named 'nothing_of_that_name'"
    )
    assert found["tests/test_c.py"]["reason"].startswith("SyntaxError: ")
    assert found["tests/test_d.py"]["reason"] == "no GPU"
    assert found["summary"]["values"] == {"passed": 0, "failed": 2, "skipped": 1}


def test_names_are_from_the_root_wherever_the_settings_lie(tmp_path: Path) -> None:
    write(tmp_path, "tests/deep/pytest.ini", "[pytest]\n")
    write(tmp_path, "tests/deep/test_a.py", "def test_a(): pass\n")
    assert "tests/deep/test_a.py::test_a" in rows(tmp_path, "tests/deep", status=0)


def test_without_a_file_to_write_to_it_does_nothing(tmp_path: Path) -> None:
    write(tmp_path, "tests/test_a.py", "def test_a(): pass\n")
    assert python(tmp_path, *COMMAND).returncode == 0
    assert not (tmp_path / "rows").exists()
