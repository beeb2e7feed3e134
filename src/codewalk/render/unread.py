"""What a reader is told of a section whose code has changed since it was read."""

from collections.abc import Mapping, Sequence

from codewalk.history import UNKNOWN
from codewalk.render.templating import fill
from codewalk.render.words import day_of, word
from codewalk.unread import Finding, difference

_CONTEXT = 3  # lines around each change


def unread_note(finding: Finding, when: str, language: str) -> str:
    """The note above a section. when: the ISO date of the change, or why none."""
    read = day_of(finding.read, language)
    if not when:
        text = word("unread-uncommitted", language, read=read)
    elif when == UNKNOWN:
        text = word("unread-unknown", language, read=read)
    else:
        text = word("unread", language, day=day_of(when, language), read=read)
    changes = [(change, list(difference(change, _CONTEXT))) for change in finding.code]
    return fill("unread.html", language, text=text, changes=changes)


def behind_note(
    findings: Mapping[str, Finding], stale: Sequence[str], language: str
) -> str:
    """The note under a page's title: how much of it is behind the code, and what.

    stale: why a value is old, for each that is.
    """
    counts = ((len(findings), "section"), (len(stale), "value"))
    what = [
        word(name if count == 1 else f"{name}s", language, count=count)
        for count, name in counts
        if count
    ]
    key = "behind-one" if len(findings) + len(stale) == 1 else "behind"
    lead = word(key, language, what=word("and", language).join(what))
    return fill(
        "behind.html",
        language,
        lead=lead,
        sections=[(one.anchor, one.title) for one in findings.values()],
        reasons=list(dict.fromkeys(stale)),
    )
