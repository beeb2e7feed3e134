"""The same part of two files, one of which came from the other.

    diff:demo/a.py..demo/b.py#loop          a step or symbol of both, by its name
    diff:demo/a.py#loop..demo/b.py#walk     which has another name now
    diff:demo/a.py..demo/b.py               the files

A part that only one of the two has is new or gone; one that neither has is an
error.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from codewalk.differences import Difference, Part, Text, compare
from codewalk.errors import CodewalkError, nearest
from codewalk.regions import Node, nest
from codewalk.source import SourceFile, Span

_FORMS = "diff:OLD..NEW#name or diff:OLD#name..NEW#name"


@dataclass(frozen=True)
class Side:
    """One of the two files, and the part of it; span None: it has no such part."""

    file: SourceFile
    fragment: str  # leads to the part; empty: the whole file
    span: Span | None

    @property
    def name(self) -> str:
        """The part's own name; empty for a file."""
        region = self.span.region if self.span else None
        return region.name if region else self.fragment.rpartition(".")[2]

    @property
    def function(self) -> str:
        """The function that a step is of."""
        region = self.span.region if self.span else None
        return region.function.rpartition(".")[2] if region else ""

    @property
    def text(self) -> Text:
        """Its lines without their common indentation; none where it has no part."""
        if self.span is None:
            return Text((), ())
        span, file = self.span, self.span.file
        width = len(span.indent)
        code = file.code[span.start - 1 : span.end]
        inside = [
            region
            for region in file.regions
            if region != span.region
            and span.start <= region.start
            and region.end <= span.end
        ]
        return Text(
            lines=[line[width:] for line in span.lines],
            code=[None if line is None else line[width:] for line in code],
            parts=_parts(nest(inside), span.start),
            name=self.name,
        )


@dataclass(frozen=True)
class Pair:
    """What a `diff:` address stands for. One of the two has the part at least."""

    old: Side
    new: Side

    @property
    def spans(self) -> tuple[Span, ...]:
        """The parts that there are, the new one first."""
        return tuple(side.span for side in (self.new, self.old) if side.span)

    @property
    def renames(self) -> tuple[tuple[str, str, str], ...]:
        """Which of the names that lead here have changed: kind, old and new one."""
        old, new = self.old.span, self.new.span
        if not (old and new and old.region and new.region):
            return ()
        own = (new.region.kind, self.old.name, self.new.name)
        function = ("symbol", self.old.function, self.new.function)
        return tuple(
            name for name in (function, own) if all(name) and name[1] != name[2]
        )

    @cached_property
    def difference(self) -> Difference:
        """What has changed; its lines are counted from the start of each part."""
        return compare(self.old.text, self.new.text)


def find_pair(target: str, find: Callable[[str], SourceFile]) -> Pair:
    """The pair that `target`, a `diff:` address, stands for.

    find: the file at an address. Raises CodewalkError where the address has
    another form, or leads nowhere.
    """
    # First the marks, then the decoding: a name may hold %23 or %2E%2E.
    ends = [part.partition("#") for part in target.partition(":")[2].split("..")]
    if len(ends) != 2 or not all(path for path, _, _ in ends):
        raise CodewalkError(f"{target}: expected {_FORMS}")
    (old, mark, name), (new, new_mark, new_name) = ends
    if mark and not (name and new_name):
        raise CodewalkError(f"{target}: names a part of one file only; {_FORMS}")
    files = find(unquote(old)), find(unquote(new))
    if mark:
        pair = Pair(
            _named(files[0], unquote(name)), _named(files[1], unquote(new_name))
        )
    elif new_mark and new_name:
        pair = _shared(target, *files, unquote(new_name))
    else:
        pair = Pair(*(_named(file, "") for file in files))
    if pair.old == pair.new:
        raise CodewalkError(f"{target}: both sides are the same lines")
    return pair


def _named(file: SourceFile, fragment: str) -> Side:
    return Side(file, fragment, file.span(fragment))


def _shared(target: str, old: SourceFile, new: SourceFile, name: str) -> Pair:
    """A part of one name; the function that a step is of may have another one."""
    if re.fullmatch(r"L\d+(-L?\d+)?", name):
        new.span(name)  # says that lines are no address
    sides = [_side(file, other, name) for file, other in ((old, new), (new, old))]
    if not any(side.span for side in sides):
        known = {*old.addresses, *new.addresses}
        raise CodewalkError(
            f"{target}: neither file has a step or symbol {name!r}; "
            + nearest(name, known)
        )
    return Pair(*sides)


def _side(file: SourceFile, other: SourceFile, name: str) -> Side:
    if name in file.addresses:
        return _named(file, name)
    function, _, step = name.rpartition(".")
    found = [r for r in file.regions if r.kind == "step" and r.name == step]
    if not function and found:
        return _named(file, name)  # says which functions have it
    region = other.addresses.get(name)
    has_function = any(region.qualname == function for region in file.regions)
    if function and region and region.kind == "step" and not has_function:
        if len(found) == 1:
            return _named(file, found[0].qualname)
        if found:
            names = ", ".join(region.qualname for region in found)
            raise CodewalkError(
                f"{file.path}#{name}: {len(found)} functions have a step {step!r}: "
                f"{names}; name one of them (diff:OLD#name..NEW#name)"
            )
    return Side(file, name, None)


def _parts(nodes: list[Node], start: int) -> tuple[Part, ...]:
    """Regions as parts of a text that begins at line `start` of the file."""
    return tuple(
        Part(
            kind=node.region.kind,
            name=node.region.name,
            start=node.region.start - start,
            end=node.region.end - start + 1,
            parts=_parts(node.inner, start),
        )
        for node in nodes
    )
