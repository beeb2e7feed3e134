"""A second kernel in a project of its own: tests/example, with the book's theme.

What the book's HTML must keep, that of this project must keep as well, whichever
generator has built it; and what the authors' page promises is tried on it.
"""

import json
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Site
from example_copy import EXAMPLE, copy_example, edit, python
from html_contract import Element
from test_contract import (  # noqa: F401 (they run here on this module's `site`)
    test_every_chip_lands_on_the_lines_that_it_claims,
    test_every_chip_of_a_test_lands_on_the_test,
    test_every_citation_leads_to_an_entry_that_leads_back,
    test_every_embed_is_the_source_that_it_claims,
    test_every_link_leads_somewhere,
    test_every_source_page_is_the_file,
    test_every_value_is_the_recorded_one,
    test_figures_of_results_name_their_record,
    test_ids_are_unique,
    test_no_value_is_stale,
    test_nothing_is_asked_of_another_host,
)

KERNEL = "src/rmsnorm/kernel.py"
PAGE = "one-row"


def built(root: Path, generator: str = "mkdocs") -> Site:
    """The site of the project in `root`, built anew."""
    words = ("build", "--strict", "--quiet", "--config-file", "mkdocs.yml")
    done = python(root, "-m", generator, *words)
    assert done.returncode == 0, done.stderr
    return Site(root / "site", root)


def codewalk(root: Path, *words: str) -> tuple[int, str]:
    done = python(root, "-m", "codewalk", *words)
    assert not done.stderr or words[0] == "run", done.stderr
    return done.returncode, done.stdout


def page(site: Site) -> Element:
    return site.tree(site.folder / PAGE / "index.html")


def embeds(site: Site) -> list[tuple[int, int]]:
    found = page(site).with_class("cw-embed")
    return [(int(e["data-start"]), int(e["data-end"])) for e in found]


@pytest.fixture(scope="module", params=["mkdocs", "properdocs"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Site:
    """The site of an untouched copy, by each generator."""
    root = copy_example(tmp_path_factory.mktemp("example") / "copy")
    return built(root, request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy to be edited."""
    return copy_example(tmp_path / "copy")


def test_the_page_has_one_of_each(site: Site) -> None:
    for name in ("cw-ref", "cw-embed", "cw-value", "cw-test", "cw-cite", "cw-table"):
        assert page(site).with_class(name), name
    for name in ("cw-behind", "cw-unread", "cw-languages"):
        assert not page(site).with_class(name), name


def test_its_settings_are_the_book_s_with_other_names() -> None:
    """What the authors' page says to change in mkdocs.yml, and nothing else."""
    book, example = (
        yaml.safe_load((folder / "mkdocs.yml").read_text(encoding="utf-8"))
        for folder in (ROOT, EXAMPLE)
    )
    for own in ("site_name", "site_description", "site_dir", "nav"):
        assert book.pop(own) != example.pop(own)
    del book["extra"]["languages"]
    assert example == book


def test_what_is_committed_is_fresh_and_read(root: Path) -> None:
    states = [line.split() for line in codewalk(root, "status")[1].splitlines()]
    assert states == [["tests", "cpu", "fresh"], ["accuracy", "cpu", "fresh"]]
    assert codewalk(root, "check") == (0, "nothing to mend\n")


def test_its_jobs_run_here_and_find_what_is_recorded(root: Path) -> None:
    """This runs the kernel's own tests, in Triton's interpreter."""
    folder = root.parent / "again"
    status, said = codewalk(root, "run", "tests", "accuracy", "--results", str(folder))
    assert status == 0, said
    for job in ("tests", "accuracy"):
        new, old = (
            json.loads((place / "cpu" / f"{job}.json").read_text(encoding="utf-8"))
            for place in (folder, root / "docs/results")
        )
        assert new["inputs"] == old["inputs"]
        assert all(row["status"] == "measured" for row in new["rows"]), said
        # The last digits of an error are the processor's own.
        assert [row["case"] for row in new["rows"]] == [r["case"] for r in old["rows"]]


def test_a_changed_expression_makes_results_old_and_a_section_unread(
    root: Path,
) -> None:
    edit(root / KERNEL, "tl.sum(x * x, axis=0) / n_cols", "tl.sum(x * x) / n_cols")
    lines = codewalk(root, "status")[1].splitlines()
    assert len(lines) == 2
    assert all(f"stale: {KERNEL} changed (uncommitted)" in line for line in lines)
    status, said = codewalk(root, "check")
    assert status == 1
    assert f"en/{PAGE}#mean-square" in said
    assert "tl.sum(x * x, axis=0) / n_cols" in said
    assert "tl.sum(x * x) / n_cols" in said
    site = built(root)
    assert {v["data-state"] for v in page(site).with_class("cw-value")} == {"stale"}
    (note,) = page(site).with_class("cw-unread")
    assert "+ mean_square = tl.sum(x * x) / n_cols" in note.text


def test_ten_lines_on_top_renumber_everything(root: Path) -> None:
    before = embeds(built(root))
    text = (root / KERNEL).read_text(encoding="utf-8")
    (root / KERNEL).write_text("# A comment.\n" * 10 + text, encoding="utf-8")
    assert codewalk(root, "check") == (0, "nothing to mend\n")
    moved = built(root)
    assert embeds(moved) == [(start + 10, end + 10) for start, end in before]
    test_every_embed_is_the_source_that_it_claims(moved)
    test_every_chip_lands_on_the_lines_that_it_claims(moved)
    test_no_value_is_stale(moved)


def test_a_renamed_step_stops_the_build_on_the_page_s_line(root: Path) -> None:
    edit(root / KERNEL, "# [normalise]", "# [normalize]")
    done = python(root, "-m", "mkdocs", "build", "--strict", "--quiet")
    assert done.returncode != 0
    text = (root / f"docs/en/{PAGE}.md").read_text(encoding="utf-8")
    line = text[: text.index(f"](src:{KERNEL.removeprefix('src/')}#normalise")].count(
        "\n"
    )
    assert f"docs/en/{PAGE}.md:{line + 1}: {KERNEL}#normalise: no step" in done.stderr
    assert "nearest: normalize" in done.stderr
