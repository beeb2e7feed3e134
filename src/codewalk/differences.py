"""What has changed from one text to another: a list of lines, and no more.

Named parts are matched first, then lines within them, so that a change stays in
the step where it was made. Lines are compared without their comments. All of it
is computed from the two texts alone; where they come from is nobody's business
here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

from codewalk.matching import Words, change, common, in_order, likely, once

SAME, GONE, NEW = "same", "gone", "new"

# Parts that have less in common are two parts, and not one with two names.
_ONE_PART = 0.6
_CONTEXT = 2
# Fewer lines are as short as what would stand for them.
_LEAST_FOLD = 3
_MOST_GONE = 6


@dataclass(frozen=True)
class Part:
    """Lines of a text with a name; counted from 0, the end is not included."""

    kind: str
    name: str
    start: int
    end: int
    parts: tuple["Part", ...] = ()


@dataclass(frozen=True)
class Text:
    """Lines, and each without its comment (None: nothing else is on it).

    parts are those inside, in order; name is its own, if it is a part itself.
    """

    lines: Sequence[str]
    code: Sequence[str | None]
    parts: tuple[Part, ...] = ()
    name: str = ""

    @property
    def whole(self) -> Part:
        return Part("", self.name, 0, len(self.lines), self.parts)


@dataclass(frozen=True)
class Row:
    """A line of one text or of both, each counted from 0.

    kind is SAME, GONE (from the old text) or NEW. A line that is the same has no
    `old` where it is a comment that the old text has otherwise, or not at all.
    `words` are the columns that have changed, where it is worth saying.
    """

    kind: str
    old: int | None
    new: int | None
    words: Words = ()
    blank: bool = False

    @property
    def signed(self) -> bool:
        """Whether a sign stands before it, and so whether it is counted."""
        return self.kind != SAME and not self.blank


@dataclass(frozen=True)
class Difference:
    """All lines of the new text, with those of the old one that are gone.

    Left out are old comments and blank lines where no code changed beside them.
    `comments` says in how many places comments differ there, `changed` how many
    lines are gone and new as one line that has changed, `renames` which parts
    have another name: kind, old and new one.
    """

    rows: tuple[Row, ...]
    changed: int
    comments: int
    renames: tuple[tuple[str, str, str], ...]

    @property
    def new(self) -> int:
        """How many lines are new, and none that has changed."""
        return self._signed(NEW) - self.changed

    @property
    def gone(self) -> int:
        """How many lines are gone, and none that has changed."""
        return self._signed(GONE) - self.changed

    def _signed(self, kind: str) -> int:
        return sum(row.kind == kind and row.signed for row in self.rows)


@dataclass(frozen=True)
class Block:
    """Rows that follow each other; with `fold` SAME or GONE they are folded."""

    fold: str
    rows: tuple[Row, ...]


def compare(old: Text, new: Text) -> Difference:
    """The difference between two texts."""
    comparison = _Comparison(old, new)
    if old.lines and new.lines:
        rows = list(comparison.part(old.whole, new.whole))
    else:
        rows = list(comparison.hunk(range(len(old.lines)), range(len(new.lines))))
    return Difference(
        tuple(rows),
        comparison.changed,
        comparison.comments,
        tuple(comparison.renames),
    )


def blocks(rows: Sequence[Row]) -> Iterator[Block]:
    """The rows with long runs folded: unchanged ones, and those that are gone."""
    runs = [(kind, tuple(run)) for kind, run in groupby(rows, lambda row: row.kind)]
    for place, (kind, run) in enumerate(runs):
        head = _CONTEXT if place > 0 else 0
        tail = len(run) - (_CONTEXT if place < len(runs) - 1 else 0)
        if kind == SAME and tail - head >= _LEAST_FOLD:
            cut = (("", run[:head]), (SAME, run[head:tail]), ("", run[tail:]))
            yield from (Block(fold, part) for fold, part in cut if part)
        elif kind == GONE and sum(row.signed for row in run) > _MOST_GONE:
            yield Block(GONE, run)
        else:
            yield Block("", run)


class _Comparison:
    """Makes the rows in order, and counts what it meets on the way."""

    def __init__(self, old: Text, new: Text):
        self.old = old
        self.new = new
        self.changed = 0
        self.comments = 0
        self.renames: list[tuple[str, str, str]] = []

    def part(self, old: Part, new: Part) -> Iterator[Row]:
        """The rows of a part that both texts have."""
        at, to = self._after_head(self.old, old), self._after_head(self.new, new)
        yield from self._quiet(range(old.start, at), range(new.start, to), old, new)
        for one, other in self._matched(old.parts, new.parts):
            if one.name != other.name:
                self.renames.append((one.kind, one.name, other.name))
            yield from self._lines(range(at, one.start), range(to, other.start))
            yield from self.part(one, other)
            at, to = one.end, other.end
        yield from self._lines(range(at, old.end), range(to, new.end))

    def hunk(self, old: range, new: range) -> Iterator[Row]:
        """Lines that are gone, then new ones; white space around them is neither."""
        old, new = self._filled(self.old, old), new
        middle = self._filled(self.new, new)
        pairs = likely(
            [self.old.lines[i] for i in old], [self.new.lines[j] for j in middle]
        )
        self.changed += len(pairs)
        of_old = {old[i]: words for i, _, words, _ in pairs}
        of_new = {middle[j]: words for _, j, _, words in pairs}
        yield from (Row(SAME, None, j) for j in range(new.start, middle.start))
        for i in old:
            blank = not self.old.lines[i].strip()
            yield Row(GONE, i, None, of_old.get(i, ()), blank)
        for j in middle:
            blank = not self.new.lines[j].strip()
            yield Row(NEW, None, j, of_new.get(j, ()), blank)
        yield from (Row(SAME, None, j) for j in range(middle.stop, new.stop))

    def _matched(
        self, old: Sequence[Part], new: Sequence[Part]
    ) -> Iterator[tuple[Part, Part]]:
        """Parts of one name that stand in the same order, and what lies between.

        Between two of them, a part that is much like another has been renamed.
        """
        then = [(part.kind, part.name) for part in old]
        now = [(part.kind, part.name) for part in new]
        i = j = 0
        for x, y in [*in_order(once(then, now)), (len(old), len(new))]:
            yield from self._renamed(old[i:x], new[j:y])
            if x < len(old) and y < len(new):
                yield old[x], new[y]
            i, j = x + 1, y + 1

    def _renamed(
        self, old: Sequence[Part], new: Sequence[Part]
    ) -> Iterator[tuple[Part, Part]]:
        start = 0
        for part in old:
            for j in range(start, len(new)):
                if part.kind == new[j].kind and self._alike(part, new[j]):
                    yield part, new[j]
                    start = j + 1
                    break

    def _alike(self, old: Part, new: Part) -> bool:
        one = "\n".join(filter(None, self.old.code[old.start : old.end]))
        other = "\n".join(filter(None, self.new.code[new.start : new.end]))
        return 1 - change(one, other)[0] >= _ONE_PART

    def _after_head(self, text: Text, part: Part) -> int:
        """Where the comment that a part begins with ends."""
        line = part.start
        # A part inside may begin with a comment of its own.
        end = part.parts[0].start if part.parts else part.end
        while line < end and text.code[line] is None and text.lines[line].strip():
            line += 1
        return line

    def _lines(self, old: range, new: range) -> Iterator[Row]:
        """The rows of lines that are compared with each other."""
        olds = [i for i in old if self.old.code[i] is not None]
        news = [j for j in new if self.new.code[j] is not None]
        then = [self.old.code[i] for i in olds]
        now = [self.new.code[j] for j in news]
        at, to = old.start, new.start
        for i, j in ((olds[k], news[m]) for k, m in common(then, now)):
            yield from self._between(range(at, i), range(to, j))
            yield Row(SAME, i, j)
            self.comments += self.old.lines[i].rstrip() != self.new.lines[j].rstrip()
            at, to = i + 1, j + 1
        yield from self._between(range(at, old.stop), range(to, new.stop))

    def _between(self, old: range, new: range) -> Iterator[Row]:
        """The rows between two lines of code that are the same."""
        code = [self.old.code[i] for i in old] + [self.new.code[j] for j in new]
        if all(line is None for line in code):
            yield from self._quiet(old, new)
            return
        head = 0
        while head < min(len(old), len(new)) and self._equal(old[head], new[head]):
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and self._equal(
            old[-1 - tail], new[-1 - tail]
        ):
            tail += 1
        last = len(old) - tail, len(new) - tail
        yield from (Row(SAME, old[k], new[k]) for k in range(head))
        yield from self.hunk(old[head : last[0]], new[head : last[1]])
        yield from (Row(SAME, old[last[0] + k], new[last[1] + k]) for k in range(tail))

    def _quiet(
        self, old: range, new: range, one: Part | None = None, other: Part | None = None
    ) -> Iterator[Row]:
        """The rows of comments and blank lines alone: old ones are left out."""
        then = [self.old.lines[i].rstrip() for i in old]
        now = [self.new.lines[j].rstrip() for j in new]
        if one and other and then:  # a rename is said as what it is
            then[0] = then[0].replace(f"[{one.name}]", f"[{other.name}]")
        self.comments += list(filter(None, then)) != list(filter(None, now))
        matcher = SequenceMatcher(None, then, now, autojunk=False)
        pairs = {
            block.b + k: block.a + k
            for block in matcher.get_matching_blocks()
            for k in range(block.size)
        }
        for k, j in enumerate(new):
            yield Row(SAME, old[pairs[k]] if k in pairs else None, j)

    def _filled(self, text: Text, lines: range) -> range:
        """Lines without blank ones at their start and at their end."""
        start, stop = lines.start, lines.stop
        while start < stop and not text.lines[start].strip():
            start += 1
        while start < stop and not text.lines[stop - 1].strip():
            stop -= 1
        return range(start, stop)

    def _equal(self, old: int, new: int) -> bool:
        return self.old.lines[old].rstrip() == self.new.lines[new].rstrip()
