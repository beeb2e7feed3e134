"""Reviews: what is stored, what must be read again, and how it is accepted."""

import datetime
from pathlib import Path

import pytest
from review_page import DAY, DOUBLING, LOOPS, say
from tiny_project import commit, python

from codewalk.accept import listing, unread
from codewalk.cli import main
from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.references import Library
from codewalk.reviews import (
    read_reviews,
    reviews_path,
)
from codewalk.unread import findings, page_findings, problems, when


def kinds(project: Project) -> dict[str, list[tuple[str, str]]]:
    library = Library(project)
    found = findings(library, read_reviews(project))
    return {one.key: [(c.kind, c.address) for c in one.changes] for one in found}


def check(project: Project) -> str:
    found = unread(Library(project))
    return "\n".join(listing(found)) if found else ""


# --- what must be read again -------------------------------------------------------


def test_a_new_section_was_never_read(project: Project, page: Path) -> None:
    assert kinds(project) == {
        LOOPS: [("new", "demo/kernel.py#loop")],
        DOUBLING: [("new", "demo/kernel.py#scale.double")],
    }
    assert "docs/en/page.md:4: en/page#loops (never read)" in check(project)


@pytest.mark.usefixtures("read")
def test_what_was_read_is_silent(project: Project) -> None:
    assert kinds(project) == {}
    assert check(project) == ""


@pytest.mark.usefixtures("read")
def test_old_lines_stand_beside_new_ones(project: Project, edit) -> None:
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    assert kinds(project) == {LOOPS: [("changed", "demo/kernel.py#loop")]}
    said = check(project)
    assert "en/page#loops (read on 2026-11-20)" in said
    assert "      -         y = y + x\n      +         y = y - x" not in said
    assert "      -     y = y + x\n      +     y = y - x" in said
    assert said.endswith("codewalk accept en/page#loops")


@pytest.mark.usefixtures("read")
def test_a_new_reference_in_a_read_section(page: Path, project: Project, edit) -> None:
    edit("docs/en/page.md", "[again]", "[pi](src:demo/kernel.py#Box) [again]")
    assert kinds(project) == {LOOPS: [("new", "demo/kernel.py#Box")]}


@pytest.mark.usefixtures("read")
def test_a_reference_taken_away(project: Project, edit) -> None:
    edit("docs/en/page.md", "[again](src:demo/kernel.py#loop)", "again")
    assert kinds(project) == {LOOPS: [("dropped", "demo/kernel.py#loop")]}
    assert "is no longer referred to" in check(project)
    assert "nothing to record" in say(project, LOOPS)
    assert kinds(project) == {}
    assert LOOPS not in read_reviews(project)


@pytest.mark.usefixtures("read")
def test_a_step_that_is_gone(project: Project, edit) -> None:
    edit("src/demo/kernel.py", "# [loop]", "# [cycle]")
    assert kinds(project) == {LOOPS: [("gone", "demo/kernel.py#loop")]}
    assert "is gone (src/demo/kernel.py#loop: no step" in check(project)
    with pytest.raises(CodewalkError, match="no step or symbol"):
        say(project, LOOPS)


@pytest.mark.usefixtures("read")
def test_vanished_sections_are_listed_and_taken_away_by_name(
    project: Project, edit
) -> None:
    edit("docs/en/page.md", "#doubling", "#twice")
    assert "en/page#doubling: there is no such section any more" in check(project)
    assert "review removed" in say(project, DOUBLING, "en/page#twice")
    assert check(project) == ""
    (project.root / "docs/en/page.md").unlink()
    assert check(project).count("no such section any more") == 2


def test_code_in_fences_comments_and_inline_is_no_reference(
    project: Project, page: Path
) -> None:
    hidden = "[x](src:demo/kernel.py#Box)"
    page.write_text(
        f"# A {{ #a }}\n\n`{hidden}` <!-- {hidden} -->\n\n```\n{hidden}\n```\n"
    )
    assert kinds(project) == {}


def test_an_address_is_kept_as_the_page_means_it(project: Project, page: Path) -> None:
    (project.root / "src/demo/a b.py").write_text("one\n")
    page.write_text("# A { #a }\n\n[x](<src:demo/a%20b.py>)\n")
    say(project, "en/page#a")
    (project.root / "src/demo/a b.py").write_text("two\n")
    assert kinds(project) == {"en/page#a": [("changed", "demo/a b.py")]}


def test_sections_that_no_review_could_name(project: Project, page: Path) -> None:
    chip = "[x](src:demo/kernel.py#loop)"
    page.write_text(f"{chip}\n\n# A\n\n{chip}\n\n# B {{ #b }}\n\n# C {{ #b }}\n\n# D\n")
    found = [(p.line, p.message) for p in problems(Library(project))]
    assert found == [
        (3, "'A' refers to code and has no id ({ #name })"),
        (9, "a section 'b' is already at line 7"),
    ]
    assert list(kinds(project)) == ["en/page#"]


# --- the other language -------------------------------------------------------


@pytest.fixture
def twin(project: Project, page: Path) -> Path:
    path = project.root / "docs/zh/page.md"
    text = "# 循环 { #loops }\n\n[又一次](src:demo/kernel.py#loop)\n"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_page_without_a_twin_is_untranslated_and_not_unread(
    project: Project, page: Path, twin: Path
) -> None:
    say(project, LOOPS, DOUBLING, "zh/page#loops")
    assert kinds(project) == {}
    assert not read_reviews(project)[DOUBLING].twin


@pytest.mark.usefixtures("read")
def test_a_new_twin_was_never_read_against(project: Project, twin: Path) -> None:
    assert kinds(project) == {
        LOOPS: [("twin-new", "zh/page#loops")],
        "zh/page#loops": [("new", "demo/kernel.py#loop"), ("twin-new", LOOPS)],
    }
    assert "又一次" in say(project, LOOPS)


def test_a_changed_twin_is_reported_and_its_line_breaks_are_not(
    project: Project, page: Path, twin: Path, edit
) -> None:
    say(project, LOOPS, DOUBLING, "zh/page#loops")
    edit(
        "docs/en/page.md",
        "[again](src:demo/kernel.py#loop)\n",
        "\n[again](src:demo/kernel.py#loop)  \n",
    )
    assert kinds(project) == {}
    edit("docs/en/page.md", "[again]", "[once more]")
    assert kinds(project) == {"zh/page#loops": [("twin-changed", LOOPS)]}
    assert "en/page#loops: changed\n# Loops" in say(project, "zh/page#loops")
    assert kinds(project) == {}
    twin.unlink()
    assert kinds(project) == {LOOPS: [("twin-dropped", LOOPS)]}


def test_a_section_without_code_is_read_against_its_twin(
    project: Project, page: Path, twin: Path, edit
) -> None:
    twin.write_text("# 无 { #nothing }\n", encoding="utf-8")
    say(project, LOOPS, DOUBLING)
    assert kinds(project) == {
        "en/page#nothing": [("twin-new", "zh/page#nothing")],
        "zh/page#nothing": [("twin-new", "en/page#nothing")],
    }


# --- accept -------------------------------------------------------------------


@pytest.mark.usefixtures("read")
def test_accept_shows_the_section_and_the_code_and_records(
    project: Project, edit
) -> None:
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    said = say(project, LOOPS, day="2026-11-28")
    assert "# Loops { #loops }\n\n[again]" in said
    assert "--- demo/kernel.py#loop: changed" in said
    assert "-     y = y + x\n+     y = y - x\n" in said
    assert said.endswith("en/page#loops: recorded as read on 2026-11-28")
    assert kinds(project) == {}
    assert read_reviews(project)[LOOPS].read == "2026-11-28"
    assert read_reviews(project)[DOUBLING].read == DAY
    assert "as it was read\n  # [loop] Again" in say(project, LOOPS)


def test_the_command_accepts_several_and_today(
    project: Project, page: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(project.root)
    assert main(["check"]) == 1
    assert "2 sections to read again" in capsys.readouterr().out
    assert main(["accept", LOOPS, DOUBLING, LOOPS]) == 0
    assert capsys.readouterr().out.count("recorded as read on") == 2
    read = {review.read for review in read_reviews(project).values()}
    assert max(read) <= datetime.datetime.now(datetime.UTC).date().isoformat()
    assert main(["check"]) == 0
    assert capsys.readouterr().out == "nothing to mend\n"


@pytest.mark.parametrize("name", ["en/page#loop", "en/page", "en/*", "en/page#*", "*"])
def test_an_unknown_name_records_nothing(
    name: str, project: Project, page: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(project.root)
    assert main(["accept", DOUBLING, name]) == 2
    assert f"no section '{name}'; nearest: en/page#" in capsys.readouterr().err
    assert not reviews_path(project).exists()


def test_there_is_no_accept_all(
    project: Project, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    for words in (["accept"], ["accept", "--all"]):
        with pytest.raises(SystemExit):
            main(words)


def test_check_needs_the_standard_library_alone(project: Project, page: Path) -> None:
    done = python(project.root, "-S", "-m", "codewalk", "accept", LOOPS, DOUBLING)
    assert done.returncode == 0, done.stderr
    done = python(project.root, "-S", "-m", "codewalk", "check")
    assert (done.returncode, done.stdout) == (0, "nothing to mend\n"), done.stderr


# --- when ---------------------------------------------------------------------


@pytest.mark.usefixtures("read")
def test_the_day_is_that_of_the_commit_that_changed_these_lines(
    project: Project, edit
) -> None:
    def day() -> str:
        library, reviews = Library(project), read_reviews(project)
        (finding,) = findings(library, reviews)
        return when(library, finding, reviews)

    commit(project.root, "2026-11-21")
    edit("src/demo/kernel.py", "y = y + x", "y = y - x")
    assert day() == ""
    commit(project.root, "2026-11-24")
    assert day() == "2026-11-24"
    edit("src/demo/kernel.py", "2 * math.pi", "3 * math.pi")
    assert day() == "2026-11-24"
    commit(project.root, "2026-11-27")
    assert day() == "2026-11-24"
    edit("src/demo/kernel.py", "y = y - x", "y = y * x")
    assert day() == ""


@pytest.mark.usefixtures("read")
def test_a_page_hears_of_its_changed_code_alone(project: Project, edit) -> None:
    def ids() -> list[str]:
        text = (project.root / "docs/en/page.md").read_text()
        reviews = read_reviews(project)
        return list(page_findings(Library(project), reviews, "docs/en/page.md", text))

    assert ids() == []
    edit("docs/en/page.md", "No code.", "[new](src:demo/kernel.py#Box)")
    assert ids() == []
    edit("src/demo/kernel.py", "y = 2 * x", "y = 3 * x")
    assert ids() == ["doubling"]
