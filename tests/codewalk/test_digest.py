"""A digest follows meaning and nothing else, on every Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_project import HOME, environment

from codewalk.digest import digest_file, digest_source

ROOT = HOME.parent
BASE = '''\
"""What it is."""
import os
import sys

LIMIT = 1


@property
def scaled(x, factor=2.0, *, name="a"):
    """Scales."""
    # [scale] A step.
    y = x * factor
    return f"{y:.3f} of {name}"


class Thing:
    def nothing(self):
        pass
'''

SAME = {
    "comment": ("# [scale] A step.", "# [scaled] Another word."),
    "no comment": ("    # [scale] A step.\n", ""),
    "docstring": ('"""Scales."""', '"""Scales x."""'),
    "no docstring": ('    """Scales."""\n', ""),
    "module docstring": ('"""What it is."""\n', ""),
    "blank lines": ("LIMIT = 1\n", "\n\n\nLIMIT = 1\n\n\n\n"),
    "spaces": ("x * factor", "x   *   factor"),
    "brackets": ("y = x * factor", "y = (x * factor)"),
    "over two lines": ("y = x * factor", "y = (\n        x\n        * factor\n    )"),
    "trailing comma": ('name="a"):', 'name="a",):'),
    "quotes": ('name="a"', "name='a'"),
    "f-string quotes": ('f"{y:.3f} of {name}"', "f'{y:.3f} of {name}'"),
    "f-string in pieces": ('f"{y:.3f} of {name}"', 'f"{y:.3f}" " of " f"{name}"'),
    "f-string with an empty piece": ('f"{y:.3f} of', 'f"" f"{y:.3f} of'),
    "number of another base": ("LIMIT = 1", "LIMIT = 0x1"),
    "u before a string": ('name="a"', 'name=u"a"'),
}

OTHER = {
    "renamed variable": ("    y = x", "    z = x"),
    "operator": ("x * factor", "x + factor"),
    "operands": ("x * factor", "factor * x"),
    "default": ("factor=2.0", "factor=3.0"),
    "default of another type": ("factor=2.0", "factor=2"),
    "whole number to real": ("LIMIT = 1", "LIMIT = 1.0"),
    "number to truth": ("LIMIT = 1", "LIMIT = True"),
    "number to text": ("LIMIT = 1", 'LIMIT = "1"'),
    "text to bytes": ('name="a"', 'name=b"a"'),
    "sign": ("LIMIT = 1", "LIMIT = -1"),
    "imports in another order": ("import os\nimport sys", "import sys\nimport os"),
    "import under a name": ("import os", "import os as o"),
    "decorator": ("@property\n", ""),
    "keyword-only": ("*, name", "name"),
    "annotation": ("def scaled(x,", "def scaled(x: int,"),
    "f-string text": ("} of {", "} for {"),
    "f-string format": (":.3f", ":.2f"),
    "f-string conversion": ("{name}", "{name!r}"),
    "f-string to text": ('f"{y:.3f} of {name}"', '"{y:.3f} of {name}"'),
    "a string that is no docstring": ("    y = x", '    y = 1\n    "s"\n    y = x'),
    "statement into a block": (
        "    y = x * factor\n",
        "    if x:\n        y = x * factor\n",
    ),
    "return without a value": ('return f"{y:.3f} of {name}"', "return"),
    "name of a class": ("class Thing", "class Thin"),
}


def digest(text: str) -> str:
    return digest_source("a.py", text.encode())


def edited(edit: tuple[str, str]) -> str:
    assert BASE.count(edit[0]) == 1
    text = BASE.replace(*edit)
    compile(text, "a.py", "exec")
    return text


@pytest.mark.parametrize("edit", SAME.values(), ids=SAME)
def test_what_means_the_same_has_one_digest(edit: tuple[str, str]) -> None:
    assert digest(edited(edit)) == digest(BASE)


@pytest.mark.parametrize("edit", OTHER.values(), ids=OTHER)
def test_what_means_something_else_has_another(edit: tuple[str, str]) -> None:
    assert digest(edited(edit)) != digest(BASE)


def test_all_edits_differ_from_each_other() -> None:
    digests = [digest(edited(edit)) for edit in OTHER.values()]
    assert len(set(digests)) == len(digests)


def test_moving_a_function_past_nothing_changes_nothing() -> None:
    assert digest("\n" * 40 + BASE) == digest(BASE)


def test_line_ends_and_a_byte_order_mark_mean_nothing() -> None:
    windows = b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()
    assert digest_source("a.py", windows) == digest(BASE)


def test_another_file_is_digested_by_its_bytes() -> None:
    assert digest_source("a.txt", b"a # b") != digest_source("a.txt", b"a # c")


@pytest.mark.parametrize(
    "text",
    ["def f(:", "a = \0", "x = " + "-" * 20_000 + "1", "x = " + "(" * 500],
    ids=["syntax", "null", "deep", "brackets"],
)
def test_python_that_does_not_parse_is_digested_by_its_bytes(text: str) -> None:
    assert digest(text).startswith("sha256:")
    assert digest(text) != digest(text + " ")


def test_a_doubtful_escape_is_no_error_where_warnings_are() -> None:
    # pytest makes an error of each warning here; a build does not.
    assert digest(r'x = "\d"').startswith("ast:")


def test_a_number_too_long_for_decimal_digits() -> None:
    assert digest("x = 0x1" + "0" * 5000) != digest("x = 0x2" + "0" * 5000)


def sample() -> list[Path]:
    """Our sources, and a file with what the versions see differently."""
    return sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])


# An f-string in an f-string, an empty piece and a debugging one.
ODD = """\
def f(x): return f"{'a' + f'{x!r:>{10}}'}{''}{x=}"
"""
NEW_CHARACTER = 'x = "\U0001fae8", f"\U0001fae8{x}"\n'  # of Unicode 15

PROGRAM = """
import json, sys
from codewalk.digest import digest_file
from pathlib import Path
print(json.dumps([digest_file(Path(name)) for name in json.load(sys.stdin)]))
"""


OURS = "{}.{}".format(*sys.version_info)
OTHERS = [name for name in ("3.11", "3.12", "3.13", "3.14") if name != OURS]


@pytest.mark.parametrize("version", OTHERS)
def test_every_python_gives_the_same_digests(version: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    (tmp_path / "new.py").write_text(NEW_CHARACTER, encoding="utf-8")
    paths = [*sample(), *sorted(tmp_path.iterdir())]
    done = subprocess.run(
        [*interpreter(version), "-c", PROGRAM],
        input=json.dumps([str(path) for path in paths]),
        env=environment(PYENV_VERSION=pyenv_version(version)),
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [digest_file(path) for path in paths]
    assert dict(zip(paths, json.loads(done.stdout), strict=True)) == dict(
        zip(paths, ours, strict=True)
    )


def pyenv_version(version: str) -> str:
    """The pyenv version that a shim has to be told, empty without pyenv."""
    root = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    found = sorted(path.name for path in Path(root, "versions").glob(f"{version}.*"))
    return found[-1] if found else ""


def interpreter(version: str) -> list[str]:
    """This version of Python, or a skip that says that there is none."""
    command = [f"python{version}"]
    try:
        subprocess.run(
            [*command, "-c", ""],
            env=environment(PYENV_VERSION=pyenv_version(version)),
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"there is no Python {version} on this machine")
    return command
