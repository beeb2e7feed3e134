"""Notebooks as jobs: executed, recorded, and shown with what came out."""

import json
from pathlib import Path

import pytest
from html_contract import read
from tiny_project import job, make, write

from codewalk.cli import main
from codewalk.config import read_project
from codewalk.digest import digest_source
from codewalk.errors import CodewalkError
from codewalk.jobs.notebook import normal
from codewalk.jobs.status import lines, states
from codewalk.notebook import executed, shown
from codewalk.records import read_record
from codewalk.references import Library

pytest.importorskip("nbclient", reason="nothing here executes notebooks")

PAGE = "docs/en/part/book.ipynb"
COMMAND = ("python", "-m", "codewalk.jobs.notebook", PAGE)


def book(*cells: tuple[str, str]) -> str:
    """A notebook of these cells: (kind, text)."""
    whole = [
        {"cell_type": kind, "id": f"c{n}", "metadata": {}, "source": text}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for n, (kind, text) in enumerate(cells)
    ]
    return json.dumps(
        {"cells": whole, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    )


PROSE = ("markdown", "# Title\n\nWords with [a chip](src:shared.py#double).")
CODE = ("code", "import shared\nprint('first')\nprint('second')\nshared.double(21)")
DATA = ("code", "with open('data.txt') as file:\n    text = file.read()\ntext")
SHARED = "def double(x):\n    # [twice] Twice.\n    return 2 * x\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {"src/shared.py": SHARED, "data.txt": "data", PAGE: book(PROSE, CODE, DATA)}
    make(tmp_path, [job("book", *COMMAND, kind="notebook")], files)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def status(root: Path) -> str:
    (line,) = lines(states(read_project(root)))
    return line


def copy_of(root: Path) -> Path:
    return root / "docs/results/cpu/book.ipynb"


def show(root: Path) -> str:
    library = Library(read_project(root))
    ((name, page, record),) = executed(library)
    assert (name, page) == ("book", "part/book.ipynb")
    return shown(library, (root / PAGE).read_bytes(), name, record).decode()


def test_a_notebook_is_executed_and_recorded_with_its_inputs(root: Path) -> None:
    assert main(["run"]) == 0
    record = read_record(root / "docs/results/cpu/book.json")
    assert list(record.inputs) == ["data.txt", PAGE, "src/shared.py"]
    assert record.rows[0].case == {"notebook": PAGE}
    assert record.rows[0].values["cells"] == 2
    cells = json.loads(copy_of(root).read_text(encoding="utf-8"))["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code"]
    assert cells[1]["outputs"][0]["text"] == ["first\n", "second\n"]
    assert cells[1]["outputs"][1]["data"]["text/plain"] == ["42"]
    assert [cell["execution_count"] for cell in cells[1:]] == [1, 2]
    assert str(root) not in copy_of(root).read_text(encoding="utf-8")


def test_a_second_run_changes_no_byte_of_the_copy(root: Path) -> None:
    main(["run", "book"])
    before = copy_of(root).read_bytes()
    main(["run", "book"])
    assert copy_of(root).read_bytes() == before


def test_prose_reruns_nothing_and_code_does(root: Path) -> None:
    main(["run"])
    write(root, PAGE, book(("markdown", "# Other"), PROSE, CODE, DATA))
    assert status(root) == "book  cpu  fresh"
    write(root, PAGE, book(PROSE, ("code", CODE[1] + " + 1"), DATA))
    assert f"stale: {PAGE} changed" in status(root)
    write(root, PAGE, book(PROSE, CODE, DATA))
    write(root, "src/shared.py", SHARED.replace("2 * x", "3 * x"))
    assert "stale: src/shared.py changed" in status(root)
    write(root, "src/shared.py", SHARED)
    write(root, "data.txt", "other")
    assert "stale: data.txt changed" in status(root)


def test_a_failing_cell_fails_the_job_and_leaves_the_old_copy(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run"])
    before = copy_of(root).read_bytes()
    write(root, PAGE, book(("code", "1 / 0")))
    assert main(["run", "book"]) == 1
    shown_to_author = capfd.readouterr()
    assert "NO RECORD" in shown_to_author.out
    assert "ZeroDivisionError" in shown_to_author.err
    assert copy_of(root).read_bytes() == before


def test_output_that_names_a_folder_of_this_machine_is_refused(root: Path) -> None:
    write(root, PAGE, book(("code", "import os\nos.getcwd()")))
    assert main(["run", "book"]) == 1
    assert not copy_of(root).exists()


def test_what_is_shown_has_the_words_of_now_and_the_outputs_of_the_run(
    root: Path,
) -> None:
    main(["run"])
    write(root, PAGE, book(("markdown", "New words."), CODE, DATA))
    cells = json.loads(show(root))["cells"]
    assert cells[0]["source"] == "New words."
    assert cells[1]["outputs"][1]["data"]["text/plain"] == ["42"]


def test_with_other_code_the_whole_executed_copy_is_shown(root: Path) -> None:
    main(["run"])
    write(root, PAGE, book(("markdown", "New words."), ("code", "43")))
    assert json.loads(show(root)) == json.loads(copy_of(root).read_text())


def test_a_missing_or_foreign_copy_is_refused(root: Path) -> None:
    with pytest.raises(CodewalkError, match="never executed; run: codewalk run book"):
        show(root)
    main(["run"])
    copy_of(root).write_text(copy_of(root).read_text() + "\n")
    with pytest.raises(CodewalkError, match="not the copy that the record is about"):
        show(root)
    copy_of(root).unlink()
    with pytest.raises(CodewalkError, match="not the copy that the record is about"):
        show(root)


def test_a_text_that_a_cell_shows_is_no_docstring() -> None:
    one, other = (book(("code", f"'{text}'")).encode() for text in ("a", "b"))
    assert digest_source("x.ipynb", one) != digest_source("x.ipynb", other)
    commented = book(("code", "'a'  # said"), ("markdown", "x")).encode()
    assert digest_source("x.ipynb", one) == digest_source("x.ipynb", commented)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"cells": [1]}', b"\xff"])
def test_what_is_no_notebook_is_digested_by_its_bytes(data: bytes) -> None:
    assert digest_source("x.ipynb", data).startswith("sha256:")


def test_pieces_of_a_stream_and_counts_are_made_one_way() -> None:
    piece = {"output_type": "stream", "name": "stdout", "text": ["a"]}
    cell = {
        "cell_type": "code",
        "execution_count": 7,
        "metadata": {"execution": {"iopub.status.busy": "2026-01-01"}, "tags": ["x"]},
        "outputs": [piece, {**piece, "text": ["b\n", "c"]}],
        "source": [],
    }
    found = normal({"cells": [cell], "metadata": {"widgets": {}}})["cells"][0]
    assert found["metadata"] == {"tags": ["x"]}
    assert found["outputs"] == [{**piece, "text": ["ab\n", "c"]}]
    assert found["execution_count"] == 1


def test_a_notebook_job_names_a_notebook(tmp_path: Path) -> None:
    words = job("x", "python", "-m", "codewalk.jobs.notebook", kind="notebook")
    project = make(tmp_path, [words], {})
    with pytest.raises(CodewalkError, match="expected a notebook as the last word"):
        project.jobs  # noqa: B018


def test_the_site_shows_the_executed_notebook(root: Path) -> None:
    pytest.importorskip("material", reason="Material for MkDocs is not installed")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    main(["run"])
    write(root, "docs/en/index.md", "# Home\n")
    plugins = '{mkdocs-jupyter: {include: ["*.ipynb"]}, codewalk: {}}'
    theme = "{name: material, language: en, font: false}"
    settings = f"site_name: X\ndocs_dir: docs/en\ntheme: {theme}\nplugins: {plugins}\n"
    config = load_config(str(write(root, "mkdocs.yml", settings)))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    page = (root / "site/part/book/index.html").read_text(encoding="utf-8")
    assert "second" in page
    assert [chip["data-start"] for chip in read(page).with_class("cw-ref")] == ["1"]
    assert "<script src=" not in page.replace('<script src="..', "")
    assert "mathjax" not in page.lower()
