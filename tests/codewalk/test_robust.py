"""Files, names and pages of kinds that break tools: shown right, or refused clearly."""

import io
import os
import re
import time
import tokenize
from pathlib import Path
from urllib.parse import quote

import pytest
from html_contract import Element, lines_of_file, read, shown_lines
from nasty_sources import NAMES, REFUSED, SOURCES, long_source

from codewalk.check import problems
from codewalk.config import Project
from codewalk.errors import CodewalkError
from codewalk.pages import source_index, source_page
from codewalk.references import Library, Source
from codewalk.render.links import Links
from codewalk.render.page import Page
from codewalk.repository import Repository
from codewalk.source import SourceFile, SourceTree

markdown = pytest.importorskip("markdown")
from codewalk.markdown import CodewalkExtension  # noqa: E402


@pytest.fixture
def put(project: Project):
    """Puts a file of these bytes among the sources."""

    def write(name: str, data: bytes) -> None:
        (project.root / "src/demo" / name).write_bytes(data)

    return write


@pytest.fixture
def render(project: Project):
    def convert(text: str) -> Element:
        extension = CodewalkExtension(root=str(project.root), language="en")
        return read(markdown.markdown(text, extensions=["attr_list", extension]))

    return convert


def page(project: Project) -> Page:
    repository = Repository(project.root, "https://example.org/r")
    return Page(Library(project), repository, Links("source/demo/x.py/"), "en")


def true_lines(data: bytes) -> list[str]:
    """The file's lines, read as Python reads sources."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return lines_of_file(data.decode(encoding)) if data else []


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_page_shows_every_line(project: Project, put, name: str) -> None:
    data, _ = SOURCES[name]
    put(name, data)
    here = page(project)
    built = read(source_page(here, here.library.sources.file(f"demo/{name}")))
    shown = [line.text.removesuffix("\n") for line in built.with_class("cw-line")]
    assert shown == true_lines(data)
    assert not [e for e in built.all() if e.tag == "script"]
    ids = [e["id"] for e in built.with_attribute("id")]
    assert len(ids) == len(set(ids))


def without_indentation(lines: list[str]) -> list[str]:
    """Lines without the spaces and tabs that all with text begin with."""
    starts = [re.match(r"[ \t]*", line)[0] for line in lines if line.strip()]
    # Of letters, not of folders.
    common = os.path.commonprefix(starts)  # noqa: RUF071
    return [
        line.removeprefix(common) if line.strip() else line.lstrip(" \t")
        for line in lines
    ]


ADDRESSES = [(name, one) for name, (_, all_) in SOURCES.items() for one in all_]


@pytest.mark.parametrize(("name", "fragment"), ADDRESSES)
def test_an_embed_shows_its_lines(
    project: Project, put, render, name: str, fragment: str
) -> None:
    data, _ = SOURCES[name]
    put(name, data)
    address = f"src:demo/{name}" + (f"#{quote(fragment)}" if fragment else "")
    (embed,) = render(f"![]({address})\n").with_class("cw-embed")
    first, last = int(embed["data-start"]), int(embed["data-end"])
    shown = shown_lines(embed)
    assert list(shown) == list(range(first, last + 1))
    lines = true_lines(data)[first - 1 : last]
    assert list(shown.values()) == without_indentation(lines)
    if fragment and "[" in lines[0]:
        assert f"[{fragment.rpartition('.')[2]}]" in lines[0]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shown_is_refused(project: Project, put, name: str) -> None:
    data, word = REFUSED[name]
    put(name, data)
    (problem,) = problems(project)
    assert problem.path == f"src/demo/{name}"
    assert word in problem.message
    with pytest.raises(CodewalkError, match=word):
        Library(project).resolve(f"src:demo/{name}#a", "en")
    # The others are still listed.
    assert "kernel.py" in source_index(page(project))


def test_a_step_in_a_method_in_a_class_in_a_function() -> None:
    data, _ = SOURCES["deep.py"]
    file = SourceFile("src/deep.py", data)
    region = file.span("deep").region
    assert region is not None
    assert region.qualname == "outer.Inner.method.deep"
    around = [other.name for other in file.enclosing(region)]
    assert around == ["outer", "Inner", "method"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_must_be_encoded(project: Project, put, render, name: str) -> None:
    put(name, SOURCES["plain.py"][0])
    chip = render(f"[x](src:demo/{quote(name)}#one)").with_class("cw-ref")[0]
    assert chip["data-src"] == f"src/demo/{name}"
    assert chip["href"] == f"source/demo/{quote(name)}/#L2-L3"
    found = Library(project).resolve(f"src:demo/{quote(name)}#one", "en")
    assert isinstance(found, Source)
    assert not problems(project)
    repository = Repository(project.root, "https://example.org/r")
    link = repository.permalink(f"src/demo/{name}", 1, 2).url
    assert not link or quote(name) in link


def test_5000_lines_are_a_light_page_and_fast(project: Project, put) -> None:
    text = long_source(5000)
    put("long.py", text.encode())
    here = page(project)
    started = time.process_time()
    html = source_page(here, here.library.sources.file("demo/long.py"))
    assert time.process_time() - started < 8
    assert html.count('class="cw-line"') == 5000
    assert len(html.encode()) < 1_000_000


class TestPaths:
    def names(self, project: Project) -> list[str]:
        return [path.name for path in SourceTree(project).paths()]

    def test_a_link_that_leaves_its_folder_is_no_source(self, project: Project) -> None:
        secret = project.root / "secret.py"
        secret.write_text("PASSWORD = 1\n")
        (project.root / "src/demo/out.py").symlink_to(secret)
        assert "out.py" not in self.names(project)

    def test_a_folder_that_is_a_link_to_itself_ends(self, project: Project) -> None:
        (project.root / "src/demo/loop").symlink_to(project.root / "src/demo")
        assert self.names(project).count("kernel.py") == 1

    def test_links_that_lead_nowhere_are_no_sources(self, project: Project) -> None:
        folder = project.root / "src/demo"
        (folder / "a.py").symlink_to("b.py")
        (folder / "b.py").symlink_to("a.py")
        (folder / "gone.py").symlink_to("nothing.py")
        (folder / "folder.py").mkdir()
        assert self.names(project) == ["kernel.py", "other.py", "test_demo.py"]
        assert not problems(project)

    @pytest.mark.parametrize(
        "target",
        [
            "src:" + "a" * 5000,
            "src:a%00b.py",
            "src:%2e%2e/%2e%2e/pyproject.toml",
            "src:..%2fpyproject.toml",
            "src:",
            "src:#",
            "src:%",
            "src:demo",
            "src:demo/kernel.py#%00",
            "src:%ff.py",
            "src:\ud800.py",
            "figure:../jobs",
            "figure:%2e%2e/%2e%2e/x",
            "result:../x",
            "result:speed?device=../../x&n=1#tflops",
        ],
    )
    def test_a_target_is_refused_whatever_it_is(
        self, project: Project, target: str
    ) -> None:
        with pytest.raises(CodewalkError):
            Library(project).resolve(target, "en")


def test_lines_twice_in_a_page_have_ids_of_their_own(render) -> None:
    built = render("![](src:demo/kernel.py#loop)\n\n![](src:demo/kernel.py#loop)\n")
    ids = [e["id"] for e in built.with_attribute("id")]
    assert len(ids) == len(set(ids)) == 2


def build(project: Project, text: str) -> Path:
    pytest.importorskip("material", reason="Material for MkDocs is not installed")
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    (project.root / "docs/en/index.md").write_text(text, encoding="utf-8")
    file = project.root / "mkdocs.yml"
    theme = "{name: material, language: en, font: false}"
    file.write_text(
        f"site_name: X\ndocs_dir: docs/en\ntheme: {theme}\n"
        "plugins: {codewalk: {}}\nmarkdown_extensions: [attr_list]\n"
    )
    config = load_config(str(file))
    config.plugins.on_startup(command="build", dirty=False)
    build_site(config)
    return Path(config.site_dir)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("---\ntitle: [\n---\n# T\n", "index.md:1: the front matter is no YAML"),
        ("---\nonly words\n---\n# T\n", "index.md:1: the front matter is no YAML"),
        ("# T\n\n## A { #a }\n\n## B { #a }\n", "index.md:5: a second section of the"),
    ],
    ids=["no YAML", "no mapping", "one id twice"],
)
def test_a_page_that_would_be_shown_wrong_fails_the_build(
    project: Project, caplog: pytest.LogCaptureFixture, text: str, message: str
) -> None:
    from mkdocs.exceptions import Abort

    with pytest.raises(Abort):
        build(project, text)
    assert message in caplog.text


def test_names_that_must_be_encoded_have_pages(project: Project, put) -> None:
    for name in NAMES:
        put(name, SOURCES["plain.py"][0])
    links = " ".join(f"[x](src:demo/{quote(name)}#one)" for name in NAMES)
    site = build(project, f"---\ntitle: T\n---\n# T\n\n{links}\n")
    for name in NAMES:
        text = (site / "source/demo" / name / "index.html").read_text(encoding="utf-8")
        assert 'id="L2-L3"' in text
