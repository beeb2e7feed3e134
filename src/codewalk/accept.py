"""Reading again: what is shown of a section, and how a reading is recorded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from codewalk.errors import CodewalkError, nearest
from codewalk.references import Library
from codewalk.reviews import Code, read_reviews, write_reviews
from codewalk.unread import (
    Change,
    Finding,
    Passage,
    compare,
    difference,
    findings,
    passages,
    vanished,
)

_SAID = {
    "changed": "has changed",
    "gone": "is gone",
    "new": "was never read against",
    "dropped": "is no longer referred to",
    "twin-new": "the text in the other language was never read against",
    "twin-changed": "the text in the other language has changed",
    "twin-dropped": "there is no text in the other language any more",
}


@dataclass(frozen=True)
class Unread:
    """What `check` lists: sections to read again, and reviews without a section."""

    findings: Sequence[Finding]
    vanished: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.findings or self.vanished)


def unread(library: Library) -> Unread:
    """All that is to be read again."""
    reviews = read_reviews(library.project)
    return Unread(findings(library, reviews), vanished(library, reviews))


def listing(found: Unread) -> Iterator[str]:
    """The lines that tell an author what to read again."""
    count = len(found.findings)
    if count:
        yield f"{count} section{'' if count == 1 else 's'} to read again:"
    for finding in found.findings:
        read = f"read on {finding.read}" if finding.read else "never read"
        yield f"  {finding.path}:{finding.line}: {finding.key} ({read})"
        for change in finding.changes:
            yield f"    {_said(change)}"
            if change.kind == "changed":
                yield from (f"      {line}" for line in _difference(change, 2))
    for key in found.vanished:
        yield f"  {key}: there is no such section any more; its review remains"
    names = [finding.key for finding in found.findings] + list(found.vanished)
    yield f"when a section is right: codewalk accept {names[0]}"


def accept(library: Library, names: Iterable[str], day: str) -> Iterator[str]:
    """Shows these sections with their code, and records that they were read.

    Nothing is recorded where one of the names is unknown, or a reference in one
    of the sections leads nowhere.
    """
    reviews = read_reviews(library.project)
    known = passages(library)
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in known and name not in reviews:
            raise CodewalkError(
                f"no section {name!r}; {nearest(name, {*known, *reviews})}"
            )
        for why in known[name].broken.values() if name in known else ():
            raise CodewalkError(f"{name}: {why}")
    said = []
    for name in names:
        passage = known.get(name)
        if passage is None:
            del reviews[name]
            said.append(f"{name}: there is no such section any more; review removed")
            continue
        yield from _shown(passage, compare(passage, reviews.get(name)))
        review = passage.read_on(day)
        if review.code or review.twin:
            reviews[name] = review
            said.append(f"{name}: recorded as read on {day}")
        else:
            reviews.pop(name, None)
            said.append(f"{name}: nothing to record: no code, no other language")
    write_reviews(library.project, reviews)
    yield from said


def _shown(passage: Passage, finding: Finding | None) -> Iterator[str]:
    changes = {one.address: one for one in finding.changes} if finding else {}
    yield f"=== {passage.key} ({passage.path}:{passage.section.start})"
    yield passage.section.text.strip("\n")
    if passage.twin:
        change = changes.get(passage.twin)
        yield f"--- {passage.twin}: {_state(change)}"
        yield passage.twin_text.strip("\n")
    for address, code in passage.code.items():
        change = changes.get(address)
        yield f"--- {address}: {_state(change)}"
        yield from _code(change, code)
    for change in changes.values():
        if change.kind == "dropped":
            yield f"--- {_said(change)}"
    yield "---"


def _code(change: Change | None, code: Code) -> Iterator[str]:
    if change and change.kind == "changed":
        yield from _difference(change, max(len(change.old), len(change.new)))
    else:
        yield from (f"  {line}".rstrip() for line in code.lines)


def _difference(change: Change, context: int) -> Iterator[str]:
    for sign, line in difference(change, context):
        yield f"{sign} {line}".rstrip()


def _state(change: Change | None) -> str:
    if change is None:
        return "as it was read"
    return "never read" if change.kind.endswith("new") else "changed"


def _said(change: Change) -> str:
    words = _SAID[change.kind]
    if change.kind.startswith("twin-"):
        return f"{words}: {change.address}"
    if change.kind == "new":
        return f"{words} {change.address}"
    return f"{change.address} {words}" + (f" ({change.why})" if change.why else "")
