"""The tracer is invisible to a program, and sees what the program used."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_project import environment, python, write

SHOW = """
import json, sys, __main__
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__,
    "package": __package__, "spec": __spec__ and __spec__.name,
    "main": __main__.__dict__ is globals(), "x": "json" in vars(__main__),
}))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the programs lie; the lists go into a folder beside it."""
    (tmp_path / "inputs").mkdir()
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def traced(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python(
        root,
        *("-m", "codewalk.jobs.tracer", *words),
        CODEWALK_ROOT=str(root),
        CODEWALK_INPUTS=str(root.parent / "inputs"),
    )


def listed(root: Path) -> list[str]:
    """What the one process listed."""
    (path,) = (root.parent / "inputs").iterdir()
    return list(json.loads(path.read_text()))


# --- as python would ----------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["show.py"],
        ["show.py", "-m", "x y", "--", ""],
        ["below/show.py", "a"],
        ["./below/../show.py"],
        ["-m", "show", "a", "-b"],
        ["-m", "package", "a"],
        ["-m", "package.inner"],
    ],
    ids=" ".join,
)
def test_a_program_sees_what_python_would_show_it(words: list[str], root: Path) -> None:
    for path in ("show", "below/show", "package/__main__", "package/inner"):
        write(root, f"{path}.py", SHOW)
    write(root, "package/__init__.py", "")
    plain, seen = python(root, *words), traced(root, *words)
    assert plain.returncode == seen.returncode == 0, plain.stderr + seen.stderr
    assert json.loads(seen.stdout) == json.loads(plain.stdout)


PROGRAMS = {
    "ends": "",
    "sys.exit": "import sys; sys.exit(7)",
    "sys.exit with a text": "import sys; sys.exit('text')",
    "an exception": "raise ValueError('wrong')",
    "an exception at import": "import nothing_of_that_name",
    "a syntax error": "def f(:",
    "a killing": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "an interrupt": "raise KeyboardInterrupt",
    "os._exit": "import os; os._exit(5)",
}


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("words", [["a.py"], ["-m", "a"]], ids=["script", "module"])
def test_a_program_ends_as_it_would(source: str, words: list[str], root: Path) -> None:
    write(root, "a.py", source)
    plain, seen = python(root, *words), traced(root, *words)
    assert seen.returncode == plain.returncode
    assert seen.stdout == plain.stdout
    assert seen.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


@pytest.mark.parametrize(
    "words", [["no.py"], ["-m", "no"], ["-m", "no.inner"], ["-m", "a.inner"]]
)
def test_no_such_program(words: list[str], root: Path) -> None:
    write(root, "a.py", "")
    plain, seen = python(root, *words), traced(root, *words)
    assert seen.returncode == plain.returncode
    assert "Traceback" not in seen.stderr
    assert words[-1] in seen.stderr


@pytest.mark.parametrize("words", [[], ["-m"], ["-c", "pass"]], ids=str)
def test_other_options_of_python_are_refused(words: list[str], root: Path) -> None:
    done = traced(root, *words)
    assert done.returncode == 2
    assert "expected -m MODULE or SCRIPT" in done.stderr


def test_what_main_defines_can_be_pickled_and_outlives_it(root: Path) -> None:
    source = """
import atexit, pickle, threading
class Thing: pass
def late():
    import __main__
    print(__main__.Thing is Thing, type(pickle.loads(pickle.dumps(Thing()))) is Thing)
atexit.register(late)
threading.Thread(target=lambda: (threading.main_thread().join(), late())).start()
"""
    write(root, "a.py", source)
    done = traced(root, "a.py")
    assert done.stdout.splitlines() == ["True True", "True True"], done.stderr


def test_without_the_two_variables_it_only_runs(root: Path) -> None:
    write(root, "a.py", "print('ran')")
    done = python(root, "-m", "codewalk.jobs.tracer", "a.py")
    assert done.stdout == "ran\n"


# --- what it used -------------------------------------------------------------


def test_modules_packages_and_data_are_listed(root: Path) -> None:
    write(root, "a.py", "import package.inner; open('data/d.txt').read()")
    write(root, "package/__init__.py", "")
    write(root, "package/inner.py", "")
    write(root, "package/unused.py", "")
    write(root, "data/d.txt", "d")
    write(root, "data/unused.txt", "d")
    expected = ["a.py", "data/d.txt", "package/__init__.py", "package/inner.py"]
    for _ in ("compiled now", "compiled before"):
        assert traced(root, "a.py").returncode == 0
        assert listed(root) == expected
        for path in (root.parent / "inputs").iterdir():
            path.unlink()


@pytest.mark.parametrize(
    "source",
    [
        "import b; raise ValueError",
        "import b, sys; sys.exit(3)",
        "import atexit; atexit.register(lambda: __import__('b'))",
        "import b, sys; del sys.modules['b']",
        "import importlib; importlib.import_module('b')",
        "import threading; threading.Thread(target=lambda: __import__('b')).start()",
    ],
)
def test_it_is_listed_however_it_was_loaded(source: str, root: Path) -> None:
    write(root, "a.py", source)
    write(root, "b.py", "")
    traced(root, "a.py")
    assert listed(root) == ["a.py", "b.py"]


@pytest.mark.parametrize(
    "source",
    [
        "open('d.txt').close()",
        "open(b'd.txt', 'rb').close()",
        "import pathlib; pathlib.Path('d.txt').read_text()",
        "import os; os.close(os.open('d.txt', os.O_RDONLY))",
        "import os; os.chdir('below'); open('../d.txt').close()",
        "import shutil, os; shutil.copy('d.txt', os.devnull)",
        "open('d.txt').close(); open('d.txt', 'a').close()",
    ],
)
def test_reading_is_seen(source: str, root: Path) -> None:
    (root / "below").mkdir()
    write(root, "a.py", source)
    write(root, "d.txt", "d")
    assert traced(root, "a.py").returncode == 0
    assert listed(root) == ["a.py", "d.txt"]


@pytest.mark.parametrize(
    "source",
    [
        "open('d.txt', 'w').close()",
        "open('d.txt', 'a').close()",
        "open('d.txt', 'w').close(); open('d.txt').close()",
        "import os; open('e', 'w').close(); os.replace('e', 'd.txt'); open('d.txt')",
        "open('g.py', 'w').close(); import g",
        "import os; os.listdir('.'); os.path.exists('d.txt')",
        "import sys; open(sys.executable, 'rb').close()",
        "try: open('nothing')\nexcept OSError: pass",
        "import os; os.close(os.open('.', os.O_RDONLY))",
        "open(0, closefd=False)",
    ],
)
def test_what_is_written_or_no_file_or_elsewhere_is_not(
    source: str, root: Path
) -> None:
    write(root, "a.py", source)
    write(root, "d.txt", "d")
    done = traced(root, "a.py")
    assert done.returncode == 0, done.stderr
    assert listed(root) == ["a.py"]


def test_a_link_counts_as_what_it_leads_to(root: Path) -> None:
    write(root, "d.txt", "d")
    (root / "inside").symlink_to("d.txt")
    outside = write(root.parent, "outside.txt", "d")
    (root / "out").symlink_to(outside)
    write(root, "a.py", "open('inside').close(); open('out').close()")
    traced(root, "a.py")
    assert listed(root) == ["a.py", "d.txt"]


def test_a_lazy_module_is_not_made_to_load(root: Path) -> None:
    lazy = "def __getattr__(name):\n    import heavy\n    raise AttributeError\n"
    write(root, "lazy.py", lazy)
    write(root, "heavy.py", "")
    write(root, "a.py", "import lazy; del lazy.__file__")
    traced(root, "a.py")
    assert listed(root) == ["a.py", "lazy.py"]


def test_a_process_that_exits_at_once_leaves_no_list(root: Path) -> None:
    write(root, "a.py", "import os; os._exit(0)")
    traced(root, "a.py")
    assert list((root.parent / "inputs").iterdir()) == []


def test_another_process_is_seen_if_it_is_traced_too(root: Path) -> None:
    start = "import subprocess, sys; subprocess.run([sys.executable, {}], check=True)"
    write(root, "plain.py", start.format("'b.py'"))
    write(root, "traced.py", start.format("'-m', 'codewalk.jobs.tracer', 'b.py'"))
    write(root, "b.py", "import c")
    write(root, "c.py", "")

    def all_listed(name: str) -> set[str]:
        assert traced(root, name).returncode == 0
        lists = (root.parent / "inputs").iterdir()
        return {path for one in lists for path in json.loads(one.read_text())}

    assert all_listed("plain.py") == {"plain.py", "b.py"}
    assert all_listed("traced.py") == {"plain.py", "traced.py", "b.py", "c.py"}


def test_the_tracer_needs_little(root: Path) -> None:
    write(root, "a.py", "import sys; print(*sorted(sys.modules))")
    done = traced(root, "a.py")
    ours = {name for name in done.stdout.split() if name.startswith("codewalk")}
    assert ours == {"codewalk", "codewalk.jobs", "codewalk.jobs.tracer"}


def test_the_environment_of_these_tests_is_their_own() -> None:
    assert not any(name.startswith("CODEWALK_") for name in environment())
    assert sys.executable
