"""The page that says how much of the source the pages explain, and what not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codewalk.errors import CodewalkError
from codewalk.explained import Mention
from codewalk.regions import Node, nest
from codewalk.render.explained import links, part_anchor
from codewalk.render.page import Page
from codewalk.render.templating import fill
from codewalk.render.words import word
from codewalk.source import SourceFile


@dataclass(frozen=True)
class _Part:
    """A step or a symbol, and the sections that explain it.

    `counted`: it is a step, or a symbol with nothing named inside. `lines` are
    those of it that belong to nothing named inside.
    """

    node: Node
    depth: int
    lines: int
    mentions: Sequence[Mention]
    within: str  # what is explained and encloses it

    @property
    def counted(self) -> bool:
        return self.node.region.kind == "step" or not self.node.inner


@dataclass(frozen=True)
class _File:
    """A file and its parts, as the page shows them."""

    path: str
    id: str
    href: str
    summary: str
    done: int
    count: int
    steps: bool
    missing: list[dict[str, object]]
    parts: list[dict[str, object]]


def coverage_page(page: Page) -> str:
    """Every file that a page speaks of, those divided by steps first."""
    files = list(_files(page))
    kernels = [file for file in files if file.steps]
    summary = word(
        "coverage-summary",
        page.language,
        done=sum(file.done for file in kernels),
        count=sum(file.count for file in kernels),
        files=len(kernels),
    )
    return fill(
        "coverage.html",
        page.language,
        summary=summary if kernels else "",
        kernels=kernels,
        others=[file for file in files if not file.steps],
    )


def _files(page: Page) -> Iterator[_File]:
    sources = page.library.sources
    for path in page.explained.paths:
        try:
            file = sources.read(page.project.root / path)
            yield _file(page, file, list(_parts(page, file)))
        except CodewalkError:
            continue  # reported where the file's own page is made


def _file(page: Page, file: SourceFile, parts: Sequence[_Part]) -> _File:
    counted = [part for part in parts if part.counted]
    explained = [part for part in counted if part.mentions]
    address = page.library.sources.address(file.path)
    return _File(
        path=file.path,
        id=part_anchor(address, ""),
        href=page.links.source(address),
        summary=word(
            "coverage-file",
            page.language,
            done=len(explained),
            count=len(counted),
            lines=sum(part.lines for part in explained),
            all=sum(part.lines for part in counted),
        ),
        done=len(explained),
        count=len(counted),
        steps=any(part.node.region.kind == "step" for part in parts),
        missing=[
            {"name": part.node.region.qualname, "id": _id(address, part)}
            for part in counted
            if not part.mentions
        ],
        parts=[_row(page, address, part) for part in parts],
    )


def _row(page: Page, address: str, part: _Part) -> dict[str, object]:
    region = part.node.region
    return {
        "id": _id(address, part),
        "kind": region.kind,
        "name": region.name,
        "depth": min(part.depth, 4),
        "counted": part.counted,
        "href": page.links.source(address, region.start, region.end),
        "lines": f"{region.start}–{region.end}",
        "links": links(page, part.mentions),
        "within": word("within", page.language, name=part.within)
        if part.within
        else "",
    }


def _id(address: str, part: _Part) -> str:
    return part_anchor(address, part.node.region.qualname)


def _parts(page: Page, file: SourceFile) -> Iterator[_Part]:
    def walk(nodes: Sequence[Node], depth: int, within: str) -> Iterator[_Part]:
        for node in nodes:
            region = node.region
            mentions = page.explained.of(file.path, region)
            inside = sum(n.region.end - n.region.start + 1 for n in node.inner)
            lines = region.end - region.start + 1 - inside
            yield _Part(node, depth, lines, mentions, "" if mentions else within)
            around = region.name if mentions else within
            yield from walk(node.inner, depth + 1, around)

    return walk(nest(file.regions), 0, "")
