"""`codewalk upstream verify` and `codewalk upstream bump`."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from codewalk.config import Project
from codewalk.errors import CodewalkError, nearest
from codewalk.upstream.clones import Clones
from codewalk.upstream.places import (
    chosen,
    read_upstream,
    upstream_path,
    write_upstream,
)
from codewalk.upstream.verify import (
    CHANGED,
    FAILS,
    GONE,
    HOLDS,
    MOVED,
    SAME,
    UNCHECKED,
    Shift,
    bump,
    rewritten,
    verify,
)


def add_parser(verbs: Any) -> None:
    """Adds the verb `upstream` to the parser of the command line."""
    parser = verbs.add_parser("upstream", help="the places in other projects")
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")

    check = parts.add_parser("verify", help="check places against clones")
    check.add_argument("names", nargs="*", metavar="ID", help="ids or labels")
    shift = parts.add_parser("bump", help="where the places stand in another commit")
    shift.add_argument("label", metavar="LABEL")
    shift.add_argument("commit", metavar="COMMIT")
    shift.add_argument(
        "--write", action="store_true", help="rewrite the places that merely moved"
    )
    for part in (check, shift):
        part.add_argument(
            "--from",
            dest="folders",
            type=Path,
            nargs="+",
            default=[],
            metavar="DIR",
            help="a clone, or a folder of clones named owner+name or name, or of "
            "their files at their paths, named name-COMMIT",
        )


def run(project: Project, options: argparse.Namespace) -> bool:
    """Does what the options ask; whether there is nothing to mend."""
    if options.part == "verify":
        return _verify(project, options)
    return _bump(project, options)


def _verify(project: Project, options: argparse.Namespace) -> bool:
    upstream = read_upstream(upstream_path(project))
    verdicts = verify(chosen(upstream, options.names), Clones(options.folders))
    for verdict in verdicts:
        for reason in verdict.reasons:
            place = verdict.place
            print(f"{verdict.state}: {place.id} ({place.path}): {reason}")
    counts = Counter(verdict.state for verdict in verdicts)
    print(", ".join(f"{counts[state]} {_PLURAL[state]}" for state in _PLURAL))
    # What was not checked is not fine.
    return counts[HOLDS] == len(verdicts)


def _bump(project: Project, options: argparse.Namespace) -> bool:
    path = upstream_path(project)
    upstream = read_upstream(path)
    if options.label not in upstream.projects:
        raise CodewalkError(
            f"no project {options.label!r}; {nearest(options.label, upstream.projects)}"
        )
    pinned = upstream.projects[options.label]
    clone = Clones(options.folders).resolve(pinned.repo, options.commit)
    shifts = bump(upstream, pinned, clone)
    print(f"{pinned.label}: {pinned.commit[:12]} to {clone.commit[:12]} {clone.date}")
    for shift in shifts:
        if shift.state != SAME:
            print(_told(shift))
    counts = Counter(shift.state for shift in shifts)
    print(", ".join(f"{counts[s]} {s}" for s in (SAME, MOVED, CHANGED, GONE)))
    if options.write:
        write_upstream(path, rewritten(upstream, pinned, shifts))
        left = counts[CHANGED] + counts[GONE]
        print(f"wrote {path.name}; {left} left at the old commit")
    return not counts[CHANGED] and not counts[GONE]


_PLURAL = {HOLDS: "hold", FAILS: "fail", UNCHECKED: "not checked"}


def _told(shift: Shift) -> str:
    place = shift.place
    old = f"{place.start_line}–{place.end_line}"
    head = f"{shift.state}: {place.id} ({place.path} {old})"
    if shift.now:
        return f"{head}: now {shift.now.start_line}–{shift.now.end_line}"
    if shift.state == GONE:
        return f"{head}: no such file"
    lines = ", ".join(str(line) for line in shift.symbol_lines[:6])
    return f"{head}: {place.symbol!r} stands on {lines or 'no line'}"
