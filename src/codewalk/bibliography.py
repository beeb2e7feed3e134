"""The references page: what the book cites, which projects it points to, and where."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from codewalk.references import scheme_of
from codewalk.render.page import Page
from codewalk.render.templating import fill
from codewalk.sections import Section, sections

_TITLE = re.compile(r"\A---\n.*?^title:[ \t]*(\S.*?)[ \t]*$.*?^---$", re.M | re.S)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Use:
    """A section where something is cited: its link and its name."""

    href: str
    name: str


def references_page(page: Page, addresses: Mapping[str, str]) -> str:
    """The page; `addresses` maps the file of each page to its site address."""
    library = page.library
    uses = _uses(page, addresses)
    papers = [(p, uses["cite", p.id]) for p in library.papers.values()]
    upstream = library.upstream
    commits: dict[str, list[str]] = {label: [] for label in upstream.projects}
    for place in upstream.places.values():
        if place.commit not in commits[place.project.label]:
            commits[place.project.label].append(place.commit)
    return fill(
        "references_page.html",
        page.language,
        language=page.language,
        papers=[(paper, found) for paper, found in papers if found],
        projects=[
            (project, commits[label], uses["up", label])
            for label, project in upstream.projects.items()
        ],
    )


class _Uses(dict[tuple[str, str], list[Use]]):
    def __missing__(self, key: tuple[str, str]) -> list[Use]:
        return self.setdefault(key, [])


def _uses(page: Page, addresses: Mapping[str, str]) -> _Uses:
    """The sections that use each paper and each project, in the pages' order."""
    uses = _Uses()
    for path, text in _texts(page):
        if path not in addresses:
            continue  # a page that this build leaves out
        title = _page_title(text, path)
        for section in sections(text):
            for target in dict.fromkeys(found.target for found in section.found):
                found = uses[_used(page, target)]
                use = _use(page, addresses[path], title, section)
                if use not in found:
                    found.append(use)
    return uses


def _used(page: Page, target: str) -> tuple[str, str]:
    """What a reference cites: a paper, or the project of a place."""
    scheme, identity = scheme_of(target), unquote(target.partition(":")[2])
    if scheme == "up":
        place = page.library.upstream.places.get(identity)
        return scheme, place.project.label if place else ""
    return scheme, identity


def _use(page: Page, address: str, title: str, section: Section) -> Use:
    name = _plain(section.title)
    named = title if not name or name == title else f"{title}: {name}"
    return Use(page.links.page_at(address, section.id), named)


def _texts(page: Page) -> Iterator[tuple[str, str]]:
    """The pages of the language: path from their folder, and Markdown."""
    folder = page.project.root / page.project.pages / page.language
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".md":
            yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")
        elif path.suffix == ".ipynb":
            yield path.relative_to(folder).as_posix(), _notebook_text(path)


def _notebook_text(path: Path) -> str:
    """The Markdown cells; a notebook that cannot be read fails where it is shown."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return "\n\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
    except (ValueError, LookupError, TypeError):
        return ""


def _page_title(text: str, path: str) -> str:
    """From the front matter, else the first heading, else the file's name."""
    match = _TITLE.match(text)
    if match:
        return match[1].strip("\"'")
    titles = (_plain(section.title) for section in sections(text) if section.title)
    return next(titles, path.rpartition("/")[2].partition(".")[0])


def _plain(title: str) -> str:
    """A heading without its Markdown."""
    return re.sub(r"[`*]", "", _LINK.sub(r"\1", title)).strip()
