"""The authors' page, taken at its word: its second kernel, typed in as it stands."""

import re
from pathlib import Path

import pytest
from conftest import ROOT
from example_copy import copy_book, edit, python
from html_contract import Element, read

from codewalk.sections import sections

AUTHORS = ROOT / "docs/en/about/how-this-site-works.md"
PAGE = "rmsnorm/one-row"


def blocks() -> list[tuple[str, str, str]]:
    """The numbered steps that have code: words, language and code of each."""
    text = AUTHORS.read_text(encoding="utf-8")
    (section,) = (s for s in sections(text) if s.id == "second-kernel")
    found = re.findall(
        r"^\*\*\d\. ((?:(?!```).)+?)^```(\w+)\n(.*?)^```$", section.text, re.M | re.S
    )
    assert len(found) == 7
    return found


def file_named(words: str) -> str:
    """The file that a step's words tell to make or to edit: the last with a dot."""
    return re.findall(r"`([\w/.-]+\.\w+)`", words)[-1]


def commands(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book with what steps 1 to 5 say to write."""
    root = copy_book(tmp_path_factory.mktemp("tutorial") / "book")
    for words, _language, text in blocks()[:5]:
        path = root / file_named(words)
        if "at the end" in words:
            path.write_text(path.read_text("utf-8") + "\n" + text, encoding="utf-8")
        elif "in `nav`" in words:
            edit(path, "nav:\n", f"nav:\n{text}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            assert not path.exists(), path
            path.write_text(text, encoding="utf-8")
    (root / "src/rmsnorm/__init__.py").touch()
    return root


def codewalk(root: Path, *words: str) -> str:
    done = python(root, "-m", "codewalk", *words)
    return done.stdout + done.stderr


def build(root: Path) -> Element:
    """The new page, from a build of the book in English."""
    done = python(root, "-m", "mkdocs", "build", "--strict", "--quiet")
    assert done.returncode == 0, done.stderr
    return read((root / f"site/en/{PAGE}/index.html").read_text(encoding="utf-8"))


def test_what_the_page_says_is_what_happens(written: Path) -> None:
    said = codewalk(written, "check")
    assert said.count("codewalk run rms-norm") == 1
    assert said.count(f"en/{PAGE}#") - said.count(f"accept en/{PAGE}#") == 2

    look, read_again = (commands(text) for _, _, text in blocks()[5:])
    assert look[0][0] == "codewalk"
    assert "recorded 2 rows" in codewalk(written, *look[0][1:])
    assert "codewalk run" not in codewalk(written, *look[1][1:])
    codewalk(written, *read_again[0][1:])
    assert PAGE not in codewalk(written, *read_again[1][1:])
    assert read_again[2:] == [["make", "site"]]

    edit(written / "src/rmsnorm/kernel.py", "x / rms", "x * (1.0 / rms)")
    assert "stale: src/rmsnorm/kernel.py" in codewalk(written, "status", "rms-norm")
    said = codewalk(written, "check")
    assert "x / rms" in said
    assert "x * (1.0 / rms)" in said
    page = build(written)
    assert (written / "site/en/source/rmsnorm/kernel.py/index.html").is_file()
    assert (written / "site/en/results/cpu/rms-norm/index.html").is_file()
    assert len(page.with_class("cw-embed")) == 1
    assert [v["data-state"] for v in page.with_class("cw-value")] == ["stale"]
    assert len(page.with_class("cw-unread")) == 1
    codewalk(written, "run", "rms-norm")
    codewalk(written, "accept", f"en/{PAGE}#divide")
    edit(written / "src/rmsnorm/kernel.py", "A program owns", "One program owns")
    assert PAGE not in codewalk(written, "check")
    assert "fresh" in codewalk(written, "status", "rms-norm")
