"""What belongs together in two texts: equal lines, and one that became another."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

# Columns of a line: the first, and the one after the last.
Words = tuple[tuple[int, int], ...]

# A line of which more has changed is another line.
_ONE_LINE = 0.5
# Of a line of which more has changed no words are marked.
_WORDS = 0.4
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def common(
    old: Sequence[str | None], new: Sequence[str | None]
) -> Iterator[tuple[int, int]]:
    """The places of equal lines, in order.

    Lines that stand once in each text come first: one that stands everywhere,
    such as `else:`, must not pull apart what belongs together.
    """
    i = j = 0
    for x, y in [*in_order(once(old, new)), (len(old), len(new))]:
        matcher = SequenceMatcher(None, old[i:x], new[j:y], autojunk=False)
        for block in matcher.get_matching_blocks():
            yield from ((i + block.a + k, j + block.b + k) for k in range(block.size))
        if x < len(old) and y < len(new):
            yield x, y
        i, j = x + 1, y + 1


def once(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The places of what stands once in each."""
    counts, others = Counter(old), Counter(new)
    place = {thing: j for j, thing in enumerate(new)}
    return [
        (i, place[thing])
        for i, thing in enumerate(old)
        if counts[thing] == others[thing] == 1
    ]


def in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many of the pairs as can be had with both numbers rising.

    The first numbers rise already, and no second one comes twice.
    """
    ends: list[int] = []  # of the best chain of each length, its last pair's place
    before: list[int] = []  # the place of the pair before, in the chain; or -1
    for place, (_, number) in enumerate(pairs):
        length = bisect_left([pairs[end][1] for end in ends], number)
        before.append(ends[length - 1] if length else -1)
        ends[length : length + 1] = [place]
    chain = []
    place = ends[-1] if ends else -1
    while place >= 0:
        chain.append(pairs[place])
        place = before[place]
    return chain[::-1]


def likely(
    old: Sequence[str], new: Sequence[str]
) -> list[tuple[int, int, Words, Words]]:
    """Which line became which, in order: their places, and the words that changed."""
    kept = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    changes = {}
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            best = max(kept[i + 1][j], kept[i][j + 1])
            if _may_be_one(old[i], new[j]):
                changes[i, j] = change(old[i], new[j])
                if changes[i, j][0] <= _ONE_LINE:
                    best = max(best, kept[i + 1][j + 1] + 1 - changes[i, j][0])
            kept[i][j] = best
    found = []
    i = j = 0
    while i < len(old) and j < len(new):
        if kept[i][j] == kept[i + 1][j]:
            i += 1
        elif kept[i][j] == kept[i][j + 1]:
            j += 1
        else:
            share, before, after = changes[i, j]
            few = share < _WORDS
            found.append((i, j, before if few else (), after if few else ()))
            i, j = i + 1, j + 1
    return found


def _may_be_one(old: str, new: str) -> bool:
    """Whether two lines have enough characters in common to be compared at all."""
    one, other = Counter("".join(old.split())), Counter("".join(new.split()))
    total = one.total() + other.total()
    return bool(total) and 2 * (one & other).total() >= total * (1 - _ONE_LINE)


def change(old: str, new: str) -> tuple[float, Words, Words]:
    """The share of two lines that has changed, and its columns in each."""
    one, other = _TOKEN.findall(old), _TOKEN.findall(new)
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    same = sum(
        len(token.strip())
        for block in matcher.get_matching_blocks()
        for token in one[block.a : block.a + block.size]
    )
    total = sum(len(token.strip()) for token in (*one, *other))
    opcodes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        1 - 2 * same / total if total else 0.0,
        _columns(one, [(code[1], code[2]) for code in opcodes]),
        _columns(other, [(code[3], code[4]) for code in opcodes]),
    )


def _columns(tokens: Sequence[str], runs: Iterable[tuple[int, int]]) -> Words:
    """Runs of tokens as columns, without white space around, neighbours joined."""
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token))
    line = "".join(tokens)
    found: list[tuple[int, int]] = []
    for first, last in runs:
        text = line[starts[first] : starts[last]]
        if not text.strip():
            continue
        start = starts[first] + len(text) - len(text.lstrip())
        end = starts[last] - (len(text) - len(text.rstrip()))
        if found and not line[found[-1][1] : start].strip():
            start = found.pop()[0]
        found.append((start, end))
    return tuple(found)
