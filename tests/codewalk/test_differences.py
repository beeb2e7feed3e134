"""What has changed from one text to another: parts, lines, words, folds."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from codewalk.differences import GONE, NEW, SAME, Part, Row, Text, blocks, compare
from codewalk.matching import change, common, in_order, likely

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=400)

# Few of them, so that many are equal; some say nothing but to a reader.
LINES = ["a = 1", "b = a", "c = f(a, b)", "else:", "", "# one", "# two", "a = 1  # x"]
TEXTS = st.lists(st.sampled_from(LINES), max_size=14)


def text(lines: Sequence[str], *parts: Part) -> Text:
    code = [line.partition("#")[0].rstrip() or None for line in lines]
    return Text(lines, code, parts)


def step(name: str, start: int, end: int, *parts: Part) -> Part:
    return Part("step", name, start, end, parts)


def written(rows: Sequence[Row], old: Text, new: Text) -> list[str]:
    """The rows as one would read them."""
    signs = {SAME: " ", GONE: "-", NEW: "+"}
    return [
        f"{signs[row.kind] if not row.blank else '.'} "
        f"{old.lines[row.old] if row.new is None else new.lines[row.new]}".rstrip()
        for row in rows
    ]


def shown(old: str, new: str) -> list[str]:
    one, other = text(old.split("|")), text(new.split("|"))
    return written(compare(one, other).rows, one, other)


# --- For any two texts --------------------------------------------------------


@st.composite
def edited(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Two texts, one of which came from the other."""
    old = draw(TEXTS)
    new: list[str] = []
    for line in old:
        what = draw(st.integers(0, 5))
        new += [] if what == 0 else [line]
        new += [draw(st.sampled_from(LINES))] if what == 1 else []
    return old, new


@st.composite
def parts(draw: st.DrawFn, length: int) -> tuple[Part, ...]:
    """Steps of a text of so many lines, some of them inside others."""
    cuts = sorted(draw(st.lists(st.integers(0, length), max_size=6)))
    names = draw(st.permutations("pqrstu"))
    found = []
    for name, (start, end) in zip(names, pairwise(cuts), strict=False):
        if start < end and draw(st.booleans()):
            middle = (start + end) // 2
            inner = (step("i", middle, end),) if draw(st.booleans()) else ()
            found.append(step(name, start, end, *inner))
    return tuple(found)


@EXAMPLES
@given(data=st.data(), lines=edited() | st.tuples(TEXTS, TEXTS))
def test_rows_lead_from_the_old_text_to_the_new(
    data: st.DataObject, lines: tuple[list[str], list[str]]
) -> None:
    old, new = (text(side, *data.draw(parts(len(side)))) for side in lines)
    rows = compare(old, new).rows
    # The new text is there, whole and in order; of the old one all code is.
    assert [row.new for row in rows if row.new is not None] == list(
        range(len(new.lines))
    )
    shown_old = [row.old for row in rows if row.old is not None]
    assert shown_old == sorted(set(shown_old))
    left_out = set(range(len(old.lines))) - set(shown_old)
    assert all(old.code[number] is None for number in left_out)
    for row in rows:
        if row.kind == SAME:
            code = None if row.new is None else new.code[row.new]
            assert code == (None if row.old is None else old.code[row.old])
        else:
            assert (row.old is None) == (row.kind == NEW)
    applied = [
        old.code[row.old] if row.old is not None else new.code[row.new]
        for row in rows
        if row.new is not None
    ]
    assert applied == list(new.code)


@EXAMPLES
@given(lines=edited())
def test_counts_are_the_signs_and_folds_hold_every_row(
    lines: tuple[list[str], list[str]],
) -> None:
    found = compare(*map(text, lines))
    signs = [row.kind for row in found.rows if row.signed]
    assert signs.count(NEW) == found.new + found.changed
    assert signs.count(GONE) == found.gone + found.changed
    assert min(found.new, found.gone, found.changed) >= 0
    folded = list(blocks(found.rows))
    assert tuple(row for block in folded for row in block.rows) == found.rows
    assert all(block.rows for block in folded)


@EXAMPLES
@given(old=TEXTS, new=TEXTS)
def test_gone_lines_come_before_new_ones(old: list[str], new: list[str]) -> None:
    kinds = [row.kind for row in compare(text(old), text(new)).rows]
    assert (NEW, GONE) not in pairwise(kinds)


@EXAMPLES
@given(lines=TEXTS)
def test_nothing_has_changed_in_one_text(lines: list[str]) -> None:
    found = compare(text(lines), text(lines))
    assert (found.new, found.changed, found.gone, found.comments) == (0, 0, 0, 0)
    assert [(row.old, row.new) for row in found.rows] == [
        (n, n) for n in range(len(lines))
    ]


# --- Lines --------------------------------------------------------------------


def test_comments_and_blank_lines_alone_are_left_out_and_counted() -> None:
    old = text(["# one", "a = 1", "", "", "b = a  # x", "# three", "c = 1"])
    new = text(["# two", "a = 1", "", "b = a  # y", "c = 1"])
    found = compare(old, new)
    assert {row.kind for row in found.rows} == {SAME}
    assert found.comments == 3
    assert [row.old for row in found.rows] == [None, 1, 2, 4, 6]


def test_a_blank_line_is_no_comment() -> None:
    assert compare(text(["a = 1", "b = 1"]), text(["a = 1", "", "b = 1"])).comments == 0


def test_comments_beside_changed_code_are_shown() -> None:
    assert shown("a = 1|# one|b = 1|c = 1", "a = 1|# two|x(y)|c = 1") == [
        "  a = 1",
        "- # one",
        "- b = 1",
        "+ # two",
        "+ x(y)",
        "  c = 1",
    ]


def test_a_comment_beside_it_that_stays_is_not_part_of_a_change() -> None:
    assert shown("a = 1|# two|x(y)|# one|b = 1", "a = 1|# two|# one|b = 1") == [
        "  a = 1",
        "  # two",
        "- x(y)",
        "  # one",
        "  b = 1",
    ]


def test_a_new_piece_begins_with_its_comment() -> None:
    assert shown("a = 1||b = 1", "a = 1||# one|x(y)||b = 1") == [
        "  a = 1",
        "",
        "+ # one",
        "+ x(y)",
        "",
        "  b = 1",
    ]


def test_blank_lines_inside_a_piece_have_no_sign() -> None:
    assert shown("a = 1", "a = 1|x(y)||z(y)") == ["  a = 1", "+ x(y)", ".", "+ z(y)"]


def test_lines_that_stand_everywhere_pull_nothing_apart() -> None:
    old = "if p:|a = 1|else:|b = 1|if q:|c = 1|else:|d = 1"
    new = "if p:|a = 2|else:|b = 1|if q:|c = 1|else:|d = 1"
    assert [line for line in shown(old, new) if line[0] != " "] == [
        "- a = 1",
        "+ a = 2",
    ]


def test_a_line_that_is_much_as_before_has_changed() -> None:
    old, new = text(["p = exp(s - m_i)", "x = 1"]), text(["y(z)", "p = exp(s - m_new)"])
    found = compare(old, new)
    assert (found.new, found.changed, found.gone) == (1, 1, 1)
    assert [row.words for row in found.rows] == [((12, 15),), (), (), ((12, 17),)]


def test_words_are_marked_where_less_than_two_fifths_have_changed() -> None:
    assert change("abcd(ef, g)", "abcd(hi, j)")[1:] == (
        ((5, 7), (9, 10)),
        ((5, 7), (9, 10)),
    )
    # Four of ten characters have changed, then four of eleven.
    ((_, _, before, after),) = likely(["abcde = 1234"], ["abcde = 9876"])
    assert (before, after) == ((), ())
    ((_, _, before, after),) = likely(["abcdef = 1234"], ["abcdef = 9876"])
    assert (before, after) == (((9, 13),), ((9, 13),))


def test_only_what_is_more_alike_than_not_is_one_line() -> None:
    assert likely(["m_i = tl.full(x)"], ["for n in range(4):"]) == []
    assert [pair[:2] for pair in likely(["a", "f(x, 1)"], ["f(x, 2)", "b"])] == [(1, 0)]


def test_neighbouring_words_are_one_underline() -> None:
    assert change("l_i = l_i + s", "l_i = l_i * alpha + s")[2] == ((10, 17),)
    assert change("f(a, b c)", "f(a, x y)")[2] == ((5, 8),)


def test_lines_that_stand_once_come_first() -> None:
    assert list(common(["a", "e", "e", "b"], ["e", "e", "a", "b"])) == [(0, 2), (3, 3)]
    assert list(common(["e", "e", "b"], ["e", "b", "e"])) == [(0, 0), (2, 1)]


def test_equal_lines_keep_their_order() -> None:
    assert list(common(["a", "b", "c"], ["c", "a", "b"])) == [(0, 1), (1, 2)]
    assert in_order([(0, 5), (1, 0), (2, 1), (3, 6)]) == [(1, 0), (2, 1), (3, 6)]
    assert in_order([]) == []


# --- Parts --------------------------------------------------------------------


def test_a_change_stays_in_its_step() -> None:
    old = text(["# [a] A.", "x = 1", "# [b] B.", "y = 1"], step("a", 0, 2))
    new = text(["# [a] A.", "y = 1", "# [b] B.", "x = 1"], step("a", 0, 2))
    apart = Text(old.lines, old.code, (*old.parts, step("b", 2, 4)))
    other = Text(new.lines, new.code, (*new.parts, step("b", 2, 4)))
    assert written(compare(apart, other).rows, apart, other) == [
        "  # [a] A.",
        "- x = 1",
        "+ y = 1",
        "  # [b] B.",
        "- y = 1",
        "+ x = 1",
    ]


def test_steps_that_have_changed_places_are_gone_and_new() -> None:
    lines = ["# [a] A.", "x = f(1)", "# [b] B.", "y(2)", "# [c] C.", "z = 3"]
    old = text(lines, step("a", 0, 2), step("b", 2, 4), step("c", 4, 6))
    turned = [*lines[2:4], *lines[:2], *lines[4:]]
    new = text(turned, step("b", 0, 2), step("a", 2, 4), step("c", 4, 6))
    found = compare(old, new)
    assert (found.new, found.gone, found.changed) == (2, 2, 0)
    assert found.renames == ()


def test_a_renamed_step_is_no_rewrite() -> None:
    body = ["x = load(a, b, 0)", "y = x + 1"]
    old = text(["s = 0", "# [one] A.", *body], step("one", 1, 4))
    new = text(["s = 0", "# [two] A.", *body], step("two", 1, 4))
    found = compare(old, new)
    assert found.renames == (("step", "one", "two"),)
    assert (found.new, found.changed, found.gone, found.comments) == (0, 0, 0, 0)
    assert written(found.rows, old, new)[1] == "  # [two] A."


def test_what_is_little_alike_is_not_renamed() -> None:
    old = text(["# [one] Reads.", "x = load(a, b, 0)"], step("one", 0, 2))
    new = text(["# [two] Goes on.", "for y in z:", "    y()"], step("two", 0, 3))
    found = compare(old, new)
    assert found.renames == ()
    assert (found.new, found.changed, found.gone) == (3, 0, 2)


def test_the_comment_of_a_step_is_no_change_beside_one() -> None:
    old = text(["# [one] A.", "x = 1"], step("one", 0, 2))
    new = text(["# [one] B.", "x = 2"], step("one", 0, 2))
    found = compare(old, new)
    assert (found.changed, found.comments) == (1, 1)
    assert written(found.rows, old, new) == ["  # [one] B.", "- x = 1", "+ x = 2"]


def test_a_side_without_lines() -> None:
    lines = ["# [one] A.", "x = 1", "", "y = 1"]
    found = compare(text([]), text(lines, step("in", 1, 2)))
    assert (found.new, found.changed, found.gone) == (3, 0, 0)
    found = compare(text(lines), text([]))
    assert (found.new, found.changed, found.gone) == (0, 0, 3)


# --- Folds --------------------------------------------------------------------


def folds(*kinds: str) -> list[tuple[str, int]]:
    rows = [Row(kind, n, n) for n, kind in enumerate(k for kind in kinds for k in kind)]
    names = {"s": SAME, "g": GONE, "n": NEW}
    rows = [Row(names[row.kind], row.old, row.new) for row in rows]
    return [(block.fold, len(block.rows)) for block in blocks(rows)]


def test_unchanged_runs_keep_two_lines_beside_a_change() -> None:
    assert folds("s" * 9, "n", "s" * 9, "g", "s" * 9) == [
        (SAME, 7),
        ("", 2),
        ("", 1),
        ("", 2),
        (SAME, 5),
        ("", 2),
        ("", 1),
        ("", 2),
        (SAME, 7),
    ]
    assert folds("s" * 9) == [(SAME, 9)]


def test_a_fold_is_worth_its_line() -> None:
    assert folds("n", "s" * 6, "n") == [("", 1), ("", 6), ("", 1)]
    assert folds("n", "s" * 7, "n")[2] == (SAME, 3)


def test_more_than_six_lines_that_are_gone_fold() -> None:
    assert folds("g" * 6, "n") == [("", 6), ("", 1)]
    assert folds("g" * 7, "n" * 9) == [(GONE, 7), ("", 9)]
