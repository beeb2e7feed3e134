"""The Markdown extension: links refer, images embed.

It finds the links and images whose target has one of our schemes and puts in
their place what `references` and `render` make of them. What goes wrong is
collected with its line; used alone, the extension raises it all at the end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from markdown.serializers import to_xhtml_string
from markdown.treeprocessors import Treeprocessor

from codewalk import walk
from codewalk.config import read_project
from codewalk.errors import CodewalkError, Problem, report
from codewalk.pairs import Pair
from codewalk.references import CODE_SCHEMES, Library, Source, scheme_of
from codewalk.render import fragments
from codewalk.render.links import Links
from codewalk.render.page import PANE_LINES, Page
from codewalk.render.problems import error_html
from codewalk.repository import Repository
from codewalk.scan import Found, references
from codewalk.source import Span
from codewalk.unread import Finding

# After the attribute lists and the table of contents have been read, and after
# MkDocs has checked its own links.
_TREE_PRIORITY = -10
# Before fences and raw HTML are taken out of the text.
_TEXT_PRIORITY = 28

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_OWN_ATTRIBUTES = frozenset({"href", "src", "alt", "title"})


@dataclass
class Reading:
    """A page that is being read: what to render for, and what went wrong."""

    page: Page
    path: str = "page.md"  # for messages
    lines_before: int = 0  # lines of the file before the text, such as front matter
    problems: list[Problem] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    walk: bool = False  # the code of a section stands beside its text
    # By the ids of sections ("" is the page's start): what of their code has
    # changed since they were read, and the HTML that says so above each.
    behind: Mapping[str, Finding] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)

    def warn(self, target: str, message: str) -> None:
        """Notes something that the author should know, at the place of `target`."""
        self.warnings.append(Problem(self.path, self._line(target), message))

    def problem(self, target: str, message: str) -> str:
        """Notes a problem at the next place of `target`; its HTML for the page."""
        self.problems.append(Problem(self.path, self._line(target), message))
        return error_html(message)

    def _line(self, target: str) -> int:
        place = next((f for f in self.found if f.target == target), None)
        return place.line + self.lines_before if place else 0

    def passed(self, target: str) -> None:
        """Strikes out the first place of `target`: it has been dealt with."""
        place = next((f for f in self.found if f.target == target), None)
        if place:
            self.found.remove(place)


class CodewalkExtension(Extension):
    """`root` is the folder of pyproject.toml; `language` is en or zh.

    Under MkDocs the plugin makes the extension and says, before each page,
    which page it reads: `extension.reading`. Used alone, errors are raised.
    """

    def __init__(self, reading: Reading | None = None, **options: Any):
        self.config = {
            "root": [".", "The folder of pyproject.toml"],
            "language": ["en", "en or zh"],
            "layout": ["", "walk: the code of a section stands beside its text"],
        }
        super().__init__(**options)
        self.alone = reading is None
        self._reading = reading

    @property
    def reading(self) -> Reading:
        if self._reading is None:
            self._reading = self._own_reading()
        return self._reading

    @reading.setter
    def reading(self, reading: Reading) -> None:
        self._reading = reading

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(_Finder(md, self), "codewalk", _TEXT_PRIORITY)
        md.treeprocessors.register(_Resolver(md, self), "codewalk", _TREE_PRIORITY)

    def _own_reading(self) -> Reading:
        project = read_project(Path(self.getConfig("root")))
        repository = Repository(project.root, project.repository)
        library = Library(project)
        page = Page(library, repository, Links(""), self.getConfig("language"))
        return Reading(page, walk=self.getConfig("layout") == "walk")


class _Finder(Preprocessor):
    """Remembers on which lines references stand."""

    def __init__(self, md: Markdown, extension: CodewalkExtension):
        super().__init__(md)
        self.extension = extension

    def run(self, lines: list[str]) -> list[str]:
        self.extension.reading.found = references("\n".join(lines))
        return lines


class _Resolver(Treeprocessor):
    """Replaces references in the tree by placeholders of their HTML."""

    def __init__(self, md: Markdown, extension: CodewalkExtension):
        super().__init__(md)
        self.extension = extension

    def run(self, root: Element) -> None:
        reading = self.extension.reading
        sections = list(_sections(root))
        embeds = [_embedded(section, reading) for section in sections]
        if reading.walk:
            heads = [(s[0], e) for s, e in zip(sections, embeds, strict=True) if s]
            reading.page.walk = walk.anchors(heads)
        for section, found in zip(sections, embeds, strict=True):
            embedded = [span.file.path for span in found]
            reading.page.prints_source = True
            for top in section:
                self._resolve_below(root, top, embedded)
        if reading.walk:
            walk.wrap(root, sections)
            tokens = getattr(self.md, "toc_tokens", [])
            html = walk.contents(reading.page, tokens)
            walk.add_contents(root, self.md.htmlStash.store(html))
        self._put_notes(root, reading.notes)
        if self.extension.alone and reading.problems:
            problems, reading.problems = reading.problems, []
            raise CodewalkError(report(problems))

    def _put_notes(self, root: Element, notes: Mapping[str, str]) -> None:
        """Puts each note above its section; under the heading, if that is the title."""
        for name, note in notes.items():
            paragraph = Element("p")
            paragraph.text = self.md.htmlStash.store(note)
            parent, place = root, 0
            for above in root.iter() if name else ():
                for index, child in enumerate(above):
                    if child.tag in _HEADINGS and child.get("id") == name:
                        parent, place = above, index + (child.tag == "h1")
            parent.insert(place, paragraph)

    def _resolve_below(self, root: Element, top: Element, embedded: list[str]) -> None:
        parents = {child: parent for parent in top.iter() for child in parent}
        for element in list(top.iter()):
            target = _target(element)
            if target:
                parent = parents.get(element, root)
                heading = any(e.tag in _HEADINGS for e in _above(element, parents))
                text = self._html(element, parent, target, embedded, heading)
                self._put(root, parents, element, text)

    def _html(
        self,
        element: Element,
        parent: Element,
        target: str,
        embedded: list[str],
        heading: bool,
    ) -> str:
        reading = self.extension.reading
        try:
            if heading:
                raise CodewalkError(f"{target}: a heading holds no reference")
            html = self._fragment(element, parent, target, embedded)
        except CodewalkError as error:
            html = reading.problem(target, str(error))
        reading.passed(target)
        return html

    def _fragment(
        self, element: Element, parent: Element, target: str, embedded: list[str]
    ) -> str:
        page = self.extension.reading.page
        attributes = {
            k: v for k, v in element.attrib.items() if k not in _OWN_ATTRIBUTES
        }
        fragments.check_attributes(scheme_of(target), attributes)
        found = page.library.resolve(target, page.language, "optional" in attributes)
        if element.tag == "img":
            if not _alone(element, parent):
                raise CodewalkError(f"{target}: an image stands alone in its paragraph")
            # What has changed may be long, and is then put below the text.
            lines = len(found.span.lines) if isinstance(found, Source) else 0
            if self.extension.reading.walk and lines > PANE_LINES:
                self.extension.reading.warn(
                    target,
                    f"{target}: {lines} lines beside the text, more than "
                    f"{PANE_LINES}: split the section, or the step",
                )
            return fragments.block(page, found, element.get("alt", ""), attributes)
        short = isinstance(found, Source) and embedded == [found.span.file.path]
        return fragments.inline(page, found, _inner(element), short)

    def _put(
        self,
        root: Element,
        parents: dict[Element, Element],
        element: Element,
        text: str,
    ) -> None:
        """Puts a placeholder where the element stood; text after it stays."""
        parent = parents.get(element, root)
        placeholder = self.md.htmlStash.store(text) + (element.tail or "")
        children = list(parent)
        index = children.index(element)
        if index == 0:
            parent.text = (parent.text or "") + placeholder
        else:
            before = children[index - 1]
            before.tail = (before.tail or "") + placeholder
        parent.remove(element)


def _sections(root: Element) -> Iterator[list[Element]]:
    """The top elements from each heading up to the next."""
    section: list[Element] = []
    for child in root:
        if child.tag in _HEADINGS and section:
            yield section
            section = []
        section.append(child)
    yield section


def _embedded(section: list[Element], reading: Reading) -> list[Span]:
    """The lines that the section embeds, in order; of a difference, the new ones."""
    library = reading.page.library
    embeds = []
    for element in (e for top in section for e in top.iter("img")):
        target = _target(element)
        if scheme_of(target) in CODE_SCHEMES:
            try:
                found = library.resolve(target, reading.page.language)
            except CodewalkError:
                continue  # reported where it is rendered
            if isinstance(found, Source | Pair):
                embeds.append(found.spans[0])
    return embeds


def _target(element: Element) -> str:
    """The target of a link or image that has one of our schemes; else empty."""
    name = {"a": "href", "img": "src"}.get(element.tag, "")
    target = element.get(name, "") if name else ""
    return target if scheme_of(target) else ""


def _above(element: Element, parents: dict[Element, Element]) -> Iterator[Element]:
    while element in parents:
        element = parents[element]
        yield element


def _alone(element: Element, parent: Element) -> bool:
    """Whether a paragraph (or a list item without one) holds this element only."""
    texts = [parent.text, *(child.tail for child in parent)]
    others = any((text or "").strip() for text in texts)
    return parent.tag in ("p", "li", "dd", "td") and len(parent) == 1 and not others


def _inner(element: Element) -> str:
    """The HTML inside an element."""
    shell = Element("span")
    shell.text = element.text
    shell.extend(list(element))
    text: str = to_xhtml_string(shell)
    return text.removeprefix("<span>").removesuffix("</span>")
