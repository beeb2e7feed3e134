"""A live preview: what is built again after an edit, and what is kept."""

from pathlib import Path

import pytest

from codewalk.config import Project
from codewalk.preview import Preview

pytest.importorskip("material", reason="Material for MkDocs is not installed")
from mkdocs.commands.build import build
from mkdocs.config import load_config

MKDOCS = """\
site_name: Demo
docs_dir: docs/en
theme: {name: material, language: en, font: false}
plugins: {codewalk: {}}
markdown_extensions: [attr_list]
"""


@pytest.fixture
def rebuild(project: Project):
    """Builds as `mkdocs serve` does: the plugin outlives the configuration."""
    (project.root / "mkdocs.yml").write_text(MKDOCS, encoding="utf-8")
    preview = Preview()

    def make() -> dict[str, str]:
        config = load_config(str(project.root / "mkdocs.yml"))
        config.plugins.on_startup(command="serve", dirty=False)
        config.plugins["codewalk"].preview = preview
        build(config)
        folder = Path(config.site_dir)
        return {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in folder.rglob("*.html")
        }

    return make


KERNEL = "source/demo/kernel.py/index.html"


def test_a_second_build_is_the_same(rebuild) -> None:
    assert rebuild() == rebuild()


def test_an_edit_shows_and_the_rest_stays(rebuild, edit) -> None:
    before = rebuild()
    edit("src/demo/kernel.py", "y = 2 * x", "y = 17 * x")
    after = rebuild()
    assert "17" in after[KERNEL]
    assert after[KERNEL] != before[KERNEL]
    other = "source/demo/other.py/index.html"
    assert after[other] == before[other]
    assert after.keys() == before.keys()


def test_another_page_s_title_reaches_every_page(rebuild, edit) -> None:
    rebuild()
    edit("docs/en/index.md", "# Home", "# A new title")
    assert "A new title" in rebuild()[KERNEL]


def test_a_page_is_kept_only_as_long_as_its_frame(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    preview = Preview()
    for build_of, kept in (("1", None), ("1", "whole"), ("2", None)):
        preview.begin(build_of, [tmp_path])
        assert preview.page("a.md", "body") == kept
        preview.keep("a.md", "whole")
    preview.begin("2", [tmp_path])
    assert preview.page("a.md", "other") is None
    preview.keep("unknown.md", "whole")
    (tmp_path / "x").write_text("longer")
    preview.begin("2", [tmp_path, tmp_path / "gone"])
    assert preview.page("a.md", "body") is None
