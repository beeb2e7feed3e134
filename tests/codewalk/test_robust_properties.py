"""Random sources are shown as they are; damaged input gives clean errors.

What once broke a reader, or looks as if it could, is kept in `corpus`.
"""

import contextlib
import json
import re
from pathlib import Path

import pytest
from example_project import KERNEL, make_project
from html_contract import read
from hypothesis import given, settings
from hypothesis import strategies as st

from codewalk.errors import CodewalkError
from codewalk.pages import source_page
from codewalk.record_format import parse_record, parse_rows
from codewalk.references import Library, Source
from codewalk.render import fragments
from codewalk.render.links import Links
from codewalk.render.page import Page
from codewalk.repository import Repository
from codewalk.scan import references
from codewalk.sections import repeated_ids, sections
from codewalk.source import SourceFile, Span

CORPUS = Path(__file__).parent / "corpus"
EXAMPLES = settings(derandomize=True, deadline=None, max_examples=120)


def corpus(name: str) -> list[str]:
    found: list[str] = json.loads((CORPUS / f"{name}.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(make_project(tmp_path_factory.mktemp("project")))


def page(library: Library) -> Page:
    return Page(library, Repository(library.project.root, ""), Links("x/"), "en")


# --- For every address, the text shown is the file's --------------------------

LINES = [
    "y = 1",
    "y = (\n  1\n{pad})",
    'y = """a\n# [no] Step.\n  b"""',
    "y = 'a\u2028b\u0085c'  # \u4e00\u4e8c",
    "y = f'{x!r:>{y}}' + '</pre><b>&amp;'",
    "y = x; z = y",
    "# a note",
    "",
    "y = 1 + \\\n  2",
    "y = '\x0c\t'",
]
WORDS = ["Why.", "Two words. And more.", "</code>&lt;", "\u4e00\u53e5\u8bdd\u3002"]


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """Functions, classes and blocks with steps among lines of any kind."""
    lines: list[str] = []
    count = 0
    unit = draw(st.sampled_from(["    ", "\t", "  "]))

    def block(depth: int) -> None:
        nonlocal count
        pad = unit * depth
        for _ in range(draw(st.integers(1, 3))):
            text = draw(st.sampled_from(LINES)).replace("{pad}", pad)
            if depth and draw(st.booleans()):
                words = draw(st.sampled_from(WORDS))
                lines.append(f"{pad}# [s{count}] {words}")
                count += 1
                text = "y = 0" if text.startswith("#") or not text else text
            lines.append(f"{pad}{text}" if text else "")
            head = draw(
                st.sampled_from(["", "", "if x:", "def f{n}(x):", "class C{n}:"])
            )
            if head and depth < 3 and (depth or "if" not in head):
                lines.append(pad + head.replace("{n}", str(count)))
                count += 1
                lines.append(f"{pad}{unit}'''Text.'''")
                if "class" in head:
                    lines.append(f"{pad}{unit}def m(x):")
                    lines.append(f"{pad}{unit}{unit}y = 0")
                    block_inside(depth + 2)
                else:
                    block_inside(depth + 1)
        lines.append(f"{pad}y = 2")

    def block_inside(depth: int) -> None:
        if depth < 5:
            block(depth)

    lines.append("def first(x):")
    block(1)
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join("\n".join(lines).split("\n")) + draw(st.sampled_from(["", end]))
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return mark + text.encode()


def true_lines(data: bytes) -> list[str]:
    text = data.decode("utf-8-sig")
    lines = re.split("\r\n|\r|\n", text)
    return lines[:-1] if lines[-1] == "" else lines


@EXAMPLES
@given(data=programs())
def test_what_is_shown_for_any_address_is_the_file_s(
    library: Library, data: bytes
) -> None:
    file, truth = SourceFile("src/demo/random.py", data), true_lines(data)
    assert file.addresses, "there is a function at least"
    for address in ["", *file.addresses]:
        span = file.span(address)
        shown = embed(library, span)
        wanted = truth[span.start - 1 : span.end]
        assert len(shown) == len(wanted)
        cuts = {
            line.removesuffix(text)
            for line, text in zip(wanted, shown, strict=True)
            if line.strip() and line.endswith(text)
        }
        filled = [line for line in wanted if line.strip()]
        assert all(a.endswith(b) for a, b in zip(wanted, shown, strict=True))
        assert len(cuts) <= 1, "one indentation for all lines"
        (cut,) = cuts or {""}
        assert not cut.strip(" \t")
        rest = [line.removeprefix(cut) for line in filled]
        starts = {line[:1] for line in rest}
        assert len(starts) > 1 or not starts & {" ", "\t"}, "and all of it"


def embed(library: Library, span: Span) -> list[str]:
    html = read(fragments.block(page(library), Source(span), "", {}))
    return [e.text.removesuffix("\n") for e in html.with_attribute("data-line")]


@EXAMPLES
@given(data=programs())
def test_a_source_page_is_the_file(library: Library, data: bytes) -> None:
    file = SourceFile("src/demo/random.py", data)
    html = read(source_page(page(library), file))
    lines = [e.text.removesuffix("\n") for e in html.with_class("cw-line")]
    assert lines == true_lines(data)
    regions = {e["id"] for e in html.with_class("cw-region") if e.get("id")}
    for region in file.regions:
        assert f"L{region.start}-L{region.end}" in regions


# --- Damaged input ------------------------------------------------------------

PIECES = ["# [a] B.", "\n", "    ", "\t", "def f():", "(", ")", '"""', "'", "\\\n"]
PIECES += [
    "x = 1",
    "else:",
    "if x:",
    "\x0c",
    "\r",
    "\0",
    "é",
    "\ufeff",
    "#",
    "class A:",
]


def read_steps(data: bytes) -> None:
    with contextlib.suppress(CodewalkError):
        file = SourceFile("src/x.py", data)
        for address in file.addresses:
            span = file.span(address)
            assert 1 <= span.start <= span.end <= len(file.lines)


@pytest.mark.parametrize("text", corpus("steps"))
def test_the_step_reader_knows_these(text: str) -> None:
    read_steps(text.encode("utf-8", "surrogateescape"))


@EXAMPLES
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_pieces_are_read_or_refused(pieces: list[str]) -> None:
    read_steps("".join(pieces).encode())


@EXAMPLES
@given(st.integers(0, len(KERNEL)), st.integers(0, 9), st.sampled_from(PIECES))
def test_a_damaged_source_is_read_or_refused(at: int, gone: int, new: str) -> None:
    read_steps((KERNEL[:at] + new + KERNEL[at + gone :]).encode())


@EXAMPLES
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_steps(data)
    read_steps(b"# coding: " + data)


@pytest.mark.parametrize("target", corpus("references"))
def test_the_reference_reader_knows_these(library: Library, target: str) -> None:
    with contextlib.suppress(CodewalkError):
        library.resolve(target, "en")
    found = references(f"a\n\n[x]({target}) ![y](<{target}>)\n\n[z]: {target}\n")
    assert all(one.line in (3, 5) for one in found)


SCHEME_PIECES = [
    "src:",
    "result:",
    "figure:",
    "diff:",
    "demo/",
    "kernel.py",
    "#",
    "loop",
    ".",
]
SCHEME_PIECES += [
    "?",
    "&",
    "=",
    "speed",
    "n",
    "1024",
    "x",
    "y",
    "by",
    "table",
    "%",
    "/",
]
SCHEME_PIECES += ["%23", "%00", "..", "device", "impl", "ours", "walk", ",", "+", "-"]


@EXAMPLES
@given(st.sampled_from(SCHEME_PIECES[:4]), st.lists(st.sampled_from(SCHEME_PIECES)))
def test_any_target_is_resolved_or_refused(
    library: Library, scheme: str, pieces: list[str]
) -> None:
    with contextlib.suppress(CodewalkError):
        library.resolve(scheme + "".join(pieces), "en")


PAGE_PIECES = ["# A { #a }", "\n", "---\n", "```\n", "`", "<!--", "-->", "[x](src:a#b)"]
PAGE_PIECES += ["    ", ">", "~~~\n", "{ #a }", "![](", ")", "[1]: src:a", "\r", "## "]


@EXAMPLES
@given(st.lists(st.sampled_from(PAGE_PIECES), max_size=25))
def test_any_page_is_cut_into_sections(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole = text.replace("\r\n", "\n").replace("\r", "\n")
    assert "\n".join(section.text for section in sections(text)) == whole
    for line, _ in repeated_ids(text):
        assert 1 <= line <= whole.count("\n") + 1


@pytest.mark.parametrize("text", corpus("records"))
def test_the_record_reader_refuses_these(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_record(text)
    with contextlib.suppress(ValueError):
        parse_rows(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["case", "values", "rows", "schema", "x"]), inner
        )
    ),
    max_leaves=8,
)


@EXAMPLES
@given(JSON_VALUES)
def test_any_json_is_a_record_or_refused(value: object) -> None:
    text = json.dumps(value)
    with contextlib.suppress(ValueError):
        parse_record(text)
    with contextlib.suppress(ValueError):
        parse_rows(text)
