"""Whether the places say what they say, and where they went in another commit."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codewalk.upstream.clones import Clone, Clones
from codewalk.upstream.places import Pinned, Place, Upstream
from codewalk.upstream.roles import DEFINITION, lines_with, role_of

HOLDS, FAILS, UNCHECKED = "holds", "fails", "not checked"
SAME, MOVED, CHANGED, GONE = "same", "moved", "changed", "gone"


@dataclass(frozen=True)
class Verdict:
    """What was found for a place; `reasons` is empty only where it holds."""

    place: Place
    state: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shift:
    """Where a place stands in another commit."""

    place: Place  # as it was
    state: str
    now: Place | None = None  # as it would be written; for SAME and MOVED
    symbol_lines: tuple[int, ...] = ()  # where its symbol stands; for CHANGED


def verify(places: Sequence[Place], clones: Clones) -> list[Verdict]:
    """Each place against its file at its commit."""
    return [_verdict(place, clones) for place in places]


def hash_of(lines: Sequence[bytes]) -> str:
    """The hash of lines that have their line ends."""
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _verdict(place: Place, clones: Clones) -> Verdict:
    clone = clones.find(place.project.repo, place.commit)
    if clone is None:
        reason = f"no clone of {place.project.repo} with {place.commit[:12]}"
        return Verdict(place, UNCHECKED, (reason,))
    data = clone.read(place.path)
    if data is None:
        return Verdict(place, FAILS, (f"no file {place.path} in {place.commit[:12]}",))
    reasons = tuple(_reasons(place, _lines(data)))
    return Verdict(place, FAILS if reasons else HOLDS, reasons)


def _reasons(place: Place, raw: Sequence[bytes]) -> list[str]:
    found = []
    if place.end_line > len(raw):
        return [f"line {place.end_line} of {len(raw)} is asked for"]
    texts = _texts(raw)
    role = role_of(place.path, texts, place.symbol_line, place.symbol)
    if role != place.role:
        stands = f"as {_article(role)} and not " if role else "not "
        others = lines_with(place.path, texts, place.symbol, place.role)[:6]
        found.append(
            f"{place.symbol!r} stands {stands}as {_article(place.role)} on line "
            f"{place.symbol_line}"
            + (f"; it does on {', '.join(map(str, others))}" if others else "")
        )
    if hash_of(raw[place.start_line - 1 : place.end_line]) != place.sha256:
        where = _same_lines(place, raw)
        found.append(
            f"lines {place.start_line} to {place.end_line} have another hash"
            + (f"; they stand at {where[0]}" if where else "")
        )
    return found


def bump(upstream: Upstream, project: Pinned, clone: Clone) -> list[Shift]:
    """Where the places of `project` stand in the clone's commit."""
    files: dict[str, bytes | None] = {}
    shifts = []
    for place in upstream.places.values():
        if place.project == project:
            if place.path not in files:
                files[place.path] = clone.read(place.path)
            shifts.append(_shift(place, files[place.path], clone.commit))
    return shifts


def rewritten(upstream: Upstream, project: Pinned, shifts: Sequence[Shift]) -> Upstream:
    """With what merely moved at its new place; the rest stays at its old commit."""
    moved = {shift.place.id: shift.now for shift in shifts if shift.now}
    commit = next((place.commit for place in moved.values()), project.commit)
    pinned = replace(project, commit=commit)
    places = {
        identity: replace(moved.get(identity) or place, project=pinned)
        if place.project == project
        else place
        for identity, place in upstream.places.items()
    }
    return Upstream({**upstream.projects, project.label: pinned}, places)


def _shift(place: Place, data: bytes | None, commit: str) -> Shift:
    if data is None:
        return Shift(place, GONE)
    raw = _lines(data)
    starts = _same_lines(place, raw)
    if not starts:
        texts = _texts(raw)
        lines = lines_with(place.path, texts, place.symbol, place.role)
        return Shift(place, CHANGED, symbol_lines=tuple(lines))
    by = starts[0] - place.start_line
    now = replace(
        place,
        commit=commit,
        symbol_line=place.symbol_line + by,
        start_line=place.start_line + by,
        end_line=place.end_line + by,
    )
    return Shift(place, MOVED if by else SAME, now)


def _same_lines(place: Place, raw: Sequence[bytes]) -> list[int]:
    """Where lines of that hash begin, the nearest to the old place first."""
    count = place.end_line - place.start_line + 1
    starts = [
        start
        for start in range(1, len(raw) - count + 2)
        if hash_of(raw[start - 1 : start - 1 + count]) == place.sha256
    ]
    return sorted(starts, key=lambda start: abs(start - place.start_line))


def _lines(data: bytes) -> list[bytes]:
    """The lines with their ends; only LF ends one, as git and GitHub count."""
    return re.findall(rb"[^\n]*\n|[^\n]+\Z", data)


def _texts(raw: Sequence[bytes]) -> list[str]:
    return [line.decode("utf-8", errors="replace").rstrip("\r\n") for line in raw]


def _article(role: str) -> str:
    return {"": "", DEFINITION: "a definition", "use": "a use"}.get(role, role)
