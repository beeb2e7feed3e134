"""Which sections must be read again, and why.

A section is a heading of a page with what follows it, named PAGE#SECTION; the
page is its path below the language's folder, with the language before it and
without `.md`. What stands before the first heading is PAGE#.
"""

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

from codewalk.config import LANGUAGES
from codewalk.digest import digest_lines
from codewalk.errors import CodewalkError, Problem
from codewalk.history import UNKNOWN, when_changed
from codewalk.pairs import Pair
from codewalk.references import CODE_SCHEMES, Library, Source, scheme_of
from codewalk.reviews import Code, Review, Reviews
from codewalk.scan import read_page, without_front_matter
from codewalk.sections import Section, sections
from codewalk.source import SourceFile, Span

# A part that a file has not, to which a section refers as such.
ABSENT = Code("absent", ())


@dataclass(frozen=True)
class Passage:
    """A section as it is now, and all that it is to be read against.

    broken says, by address, why a reference leads nowhere. twin is the name of
    the section in the other language; empty: there is none.
    """

    key: str
    path: str
    section: Section
    code: Mapping[str, Code]
    broken: Mapping[str, str]
    twin: str = ""
    twin_text: str = ""

    def read_on(self, day: str) -> Review:
        """This state of things, read on that day."""
        twin = digest_prose(self.twin_text) if self.twin else ""
        return Review(day, self.code, twin)


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was when the section was last read.

    kind is "changed", "gone" (a reference that leads nowhere now), "new" (never
    read against) or "dropped" (no longer referred to), with "twin-" before it
    for the text in the other language.
    """

    kind: str
    address: str
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """A section to read again. read: the day of the last reading, empty: never."""

    key: str
    path: str
    line: int
    title: str
    read: str
    changes: tuple[Change, ...]

    @property
    def code(self) -> tuple[Change, ...]:
        """What changed in the code that the section was read against."""
        return tuple(one for one in self.changes if one.kind in ("changed", "gone"))


def passages(library: Library) -> dict[str, Passage]:
    """Every section of every page, by its name; of two with one name the first."""
    found: dict[str, Passage] = {}
    for passage in _all(library):
        found.setdefault(passage.key, passage)
    return found


def findings(library: Library, reviews: Reviews) -> list[Finding]:
    """The sections to read again, in the order of the pages."""
    compared = (
        compare(passage, reviews.get(key)) for key, passage in passages(library).items()
    )
    return [finding for finding in compared if finding]


def vanished(library: Library, reviews: Reviews) -> list[str]:
    """The names of reviews whose section is gone."""
    return sorted(set(reviews) - set(passages(library)))


def problems(library: Library) -> Iterator[Problem]:
    """Sections that no review could be kept for."""
    seen: dict[str, int] = {}
    for passage in _all(library):
        section = passage.section
        first = seen.setdefault(passage.key, section.start)
        if first == section.start:
            continue
        if section.id:
            text = f"a section {section.id!r} is already at line {first}"
            yield Problem(passage.path, section.start, text)
        elif passage.code or passage.broken:
            text = f"{section.title!r} refers to code and has no id ({{ #name }})"
            yield Problem(passage.path, section.start, text)


def page_findings(
    library: Library, reviews: Reviews, path: str, text: str
) -> dict[str, Finding]:
    """By the section's id, what changed in the code of one page's sections."""
    found: dict[str, Finding] = {}
    name = page_name(library, path)
    for section in _named(text):
        review = reviews.get(f"{name}#{section.id}")
        if review and section.id not in found:
            passage = _passage(library, path, section)
            finding = compare(passage, review)
            if finding and finding.code:
                found[section.id] = finding
    return found


def compare(passage: Passage, review: Review | None) -> Finding | None:
    """What differs between a section and its last reading; None: nothing."""
    changes = tuple(_changes(passage, review or Review("")))
    if not changes:
        return None
    return Finding(
        key=passage.key,
        path=passage.path,
        line=passage.section.start,
        title=passage.section.title,
        read=review.read if review else "",
        changes=changes,
    )


def _changes(passage: Passage, review: Review) -> Iterator[Change]:
    for address, why in passage.broken.items():
        was = review.code.get(address)
        yield Change("gone", address, was.lines if was else (), why=why)
    for address, code in passage.code.items():
        was = review.code.get(address)
        if was is None:
            yield Change("new", address, new=code.lines)
        elif was.digest != code.digest:
            yield Change("changed", address, was.lines, code.lines)
    for address, was in review.code.items():
        if address not in passage.code and address not in passage.broken:
            yield Change("dropped", address, was.lines)
    if passage.twin and not review.twin:
        yield Change("twin-new", passage.twin)
    elif passage.twin and digest_prose(passage.twin_text) != review.twin:
        yield Change("twin-changed", passage.twin)
    elif review.twin and not passage.twin:
        yield Change("twin-dropped", passage.key)


def difference(change: Change, context: int) -> Iterator[tuple[str, str]]:
    """Old lines and new ones, one under the other, each with its sign.

    "-" is old, "+" is new, " " is in both, and "…" stands for lines left out.
    """
    lines = difflib.unified_diff(change.old, change.new, n=context, lineterm="")
    for number, line in enumerate(lines):
        # Two lines with the names of files come first, then the place of the first.
        if number > 2 and line[0] == "@":
            yield "…", ""
        elif number > 2:
            yield line[0], line[1:]


def when(library: Library, finding: Finding, reviews: Reviews) -> str:
    """When the code of a section became what it is: see history.when_changed."""
    days = set()
    for change in finding.code:
        code = reviews[finding.key].code.get(change.address)
        days.add(_when(library, change, code) if code else UNKNOWN)
    # What is in no commit is the youngest; of dates the last one counts.
    return next((day for day in ("", UNKNOWN) if day in days), max(days))


def _when(library: Library, change: Change, code: Code) -> str:
    if change.kind == "gone":
        return UNKNOWN
    address, _, fragment = change.address.partition("#")
    file = library.sources.file(address)
    now = _digest_of(file, fragment)
    digest = partial(_digest_then, file.path, fragment)
    return when_changed(library.project.root, file.path, code.digest, now, digest)


def _digest_then(path: str, fragment: str, data: bytes | None) -> str | None:
    """The digest of lines in a file of some time; None: it was no such file."""
    if data is None:
        return None
    try:
        return _digest_of(SourceFile(path, data), fragment)
    except CodewalkError:
        return None


def _digest_of(file: SourceFile, fragment: str) -> str:
    """The digest of lines that a file may not have."""
    known = not fragment or fragment in file.addresses
    return code_of(file.span(fragment)).digest if known else ABSENT.digest


def code_of(span: Span) -> Code:
    """Lines of a source file as a review keeps them."""
    indent = len(span.indent)
    file = span.file
    try:
        digest = digest_lines(file.name, file.text, span.start, span.end)
    except (SyntaxError, ValueError) as error:
        raise CodewalkError(f"{file.path}: not Python that parses: {error}") from None
    return Code(digest, tuple(line[indent:].rstrip() for line in span.lines))


def _code_of_pair(library: Library, pair: Pair) -> Iterator[tuple[str, Code]]:
    """Both sides by address, as if the page referred to each; one may be absent."""
    for side in (pair.old, pair.new):
        address = library.sources.address(side.file.path)
        fragment = f"#{side.fragment}" if side.fragment else ""
        yield address + fragment, code_of(side.span) if side.span else ABSENT


def digest_prose(text: str) -> str:
    """The digest of a text; how its lines are broken is left out."""
    words = " ".join(text.split())
    return "text:" + hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


def page_name(library: Library, path: str) -> str:
    """`en/forward/main-loop` for a page that is given by its path from the root."""
    return path.removeprefix(library.project.pages + "/").removesuffix(".md")


def _all(library: Library) -> Iterator[Passage]:
    root = library.project.root / library.project.pages
    texts = {
        path.relative_to(root).as_posix(): read_page(
            path, library.project.relative(path)
        )
        for language in LANGUAGES
        for path in sorted((root / language).rglob("*.md"))
    }
    pages = {name: list(_named(text)) for name, text in texts.items()}
    for name, found in pages.items():
        language, _, rest = name.partition("/")
        others = [f"{other}/{rest}" for other in LANGUAGES if other != language]
        twins = {
            section.id: (f"{other.removesuffix('.md')}#{section.id}", section.text)
            for other in others
            for section in reversed(pages.get(other, []))
            if _has_name(section)
        }
        for section in found:
            twin = twins.get(section.id) if _has_name(section) else None
            path = f"{library.project.pages}/{name}"
            yield _passage(library, path, section, *(twin or ("", "")))


def _named(text: str) -> Iterator[Section]:
    """The sections of a page; what is before the first heading if it says anything."""
    for section in sections(without_front_matter(text)):
        if section.id or section.title or section.text.strip():
            yield section


def _has_name(section: Section) -> bool:
    """Whether a section can be told from all others: by an id, or as the start."""
    return bool(section.id or not section.title)


def _passage(
    library: Library, path: str, section: Section, twin: str = "", twin_text: str = ""
) -> Passage:
    code: dict[str, Code] = {}
    broken: dict[str, str] = {}
    language = page_name(library, path).partition("/")[0]
    for found in section.found:
        if scheme_of(found.target) not in CODE_SCHEMES:
            continue
        address = unquote(found.target.partition(":")[2])
        try:
            reference = library.resolve(found.target, language)
            if isinstance(reference, Source):
                code[address] = code_of(reference.span)
            if isinstance(reference, Pair):
                code.update(_code_of_pair(library, reference))
        except CodewalkError as error:
            broken[address] = str(error)
    key = f"{page_name(library, path)}#{section.id}"
    return Passage(key, path, section, code, broken, twin, twin_text)
