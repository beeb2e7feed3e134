"""What all figures are made of: boxes, arrows, words, and the sheet around them.

Units are those of the view box: 620 of them are the text's width. A word is
13 high, on a phone 19.5, so a label needs half as much room again as it seems
to. Colours are the site's own, by class: see `KINDS` for what each one means.
Words come from the figure's .toml file: write `word("key")` for one of them.
"""

from collections.abc import Callable, Iterable

WIDTH = 620
CELL, GAP = 28, 2  # of a grid
HEAD = 6  # of an arrow

# The classes of a shape, and what each means in every figure.
KINDS = {
    "tile": "fill: var(--cw-bg)",  # data, on any ground
    "data": "fill: var(--cw-mem-4); stroke: none",  # data drawn to scale
    "full": "fill: var(--cw-full); stroke: var(--cw-full-stroke)",
    "diagonal": "fill: var(--cw-diagonal); stroke: var(--cw-diagonal-stroke)",
    "skipped": "stroke: var(--cw-skipped-stroke); stroke-width: 1; "
    "stroke-dasharray: 4 3",
    "past": "stroke: var(--cw-skipped-stroke)",  # not now
    "now": "stroke-width: 2.5",  # being computed
    "rule": "stroke: var(--cw-rule)",
    "far": "fill: var(--cw-mem-1); stroke: none",  # device memory
    "near": "fill: var(--cw-mem-2); stroke: none",  # the chip
    "nearer": "fill: var(--cw-mem-3); stroke: none",  # one multiprocessor
}

# The classes of a word; without one it is centred on its place.
WORDS = {
    "start": "text-anchor: start",
    "end": "text-anchor: end",
    "quiet": "fill: var(--cw-muted)",
    "strong": "font-weight: 600",
    "code": "font-family: var(--cw-mono)",
    "index": "font-size: 12px",
}


def sheet(name: str, height: float, parts: Iterable[str]) -> str:
    """A whole figure: `parts` in their order, the later ones on top."""
    body = "\n".join(f"  {line}" for part in parts for line in part.splitlines())
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" class="cw-{name}" \
viewBox="0 0 {WIDTH} {number(height)}" role="img" \
aria-labelledby="{name}-title {name}-desc">
  <title id="{name}-title">{{{{title}}}}</title>
  <desc id="{name}-desc">{{{{desc}}}}</desc>
  <!-- Drawn by `python -m bench.figures`; a test compares the two. -->
  <style>
{_style(name)}
  </style>
{body}
</svg>
"""


def _style(name: str) -> str:
    """The figure's rules; each names the figure, since a page holds several."""
    svg = f".cw-{name}"
    rules = [
        f"{svg} text {{ font-size: 13px; fill: var(--cw-text); "
        "text-anchor: middle; dominant-baseline: central; }",
        f"{svg} :is(rect, path) {{ fill: none; stroke: currentColor; "
        "stroke-width: 1.25; vector-effect: non-scaling-stroke; }",
    ]
    rules += [f"{svg} :is(rect, path).{k} {{ {v}; }}" for k, v in KINDS.items()]
    rules += [f"{svg} text.{k} {{ {v}; }}" for k, v in WORDS.items()]
    rules += [
        "/* On a phone the drawing shrinks to the text's width; its words do not. */",
        "@media (max-width: 30em) {",
        f"  svg{svg} {{ min-width: 0 !important; }}",
        f"  {svg} text {{ font-size: 19.5px; }}",
        f"  {svg} text.index {{ font-size: 18px; }}",
        "}",
    ]
    return "\n".join(f"    {rule}" for rule in rules)


def word(key: str) -> str:
    """The place of a word: its text, in each language, is in the .toml file."""
    return "{{" + key + "}}"


def text(x: float, y: float, words: str, *kinds: str) -> str:
    """Words centred on (x, y), or as `kinds` of WORDS say."""
    return f'<text{_class(kinds, WORDS)} x="{number(x)}" y="{number(y)}">{words}</text>'


def box(x: float, y: float, width: float, height: float, *kinds: str) -> str:
    """A rectangle from its upper left corner; `kinds` of KINDS."""
    numbers = zip(
        ("x", "y", "width", "height"), map(number, (x, y, width, height)), strict=True
    )
    places = " ".join(f'{key}="{value}"' for key, value in numbers)
    return f'<rect{_class(kinds, KINDS)} {places} rx="2"/>'


def labelled(
    x: float, y: float, width: float, height: float, words: str, *kinds: str
) -> str:
    """A box with words in its middle; keep boxes under 40 wide without any."""
    middle = text(x + width / 2, y + height / 2, words)
    return box(x, y, width, height, *kinds) + "\n" + middle


def path(points: Iterable[tuple[float, float]], *kinds: str) -> str:
    """An open line through `points`."""
    places = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path{_class(kinds, KINDS)} d="M{places}"/>'


def shape(points: Iterable[tuple[float, float]], *kinds: str) -> str:
    """A closed area around `points`."""
    places = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path{_class(kinds, KINDS)} d="M{places}Z"/>'


def arrow(x0: float, y0: float, x1: float, y1: float, *kinds: str) -> str:
    """An arrow along one axis, from (x0, y0) to (x1, y1), with an open head."""
    if x0 != x1 and y0 != y1:
        raise ValueError(f"an arrow follows an axis, got {(x0, y0)} to {(x1, y1)}")
    back = -HEAD if (x1, y1) > (x0, y0) else HEAD
    side = HEAD - 1
    ends = [(back, -side), (back, side)] if y0 == y1 else [(-side, back), (side, back)]
    (ax, ay), (bx, by) = ends
    places = [(x1 + ax, y1 + ay), (x1, y1), (x1 + bx, y1 + by)]
    line = f"M{number(x0)} {number(y0)}L{number(x1)} {number(y1)}"
    head = "L".join(f"{number(x)} {number(y)}" for x, y in places)
    return f'<path{_class(kinds, KINDS)} d="{line}M{head}"/>'


def cells(
    x: float,
    y: float,
    rows: int,
    columns: int,
    kind: Callable[[int, int], str],
    width: float = CELL,
    height: float = CELL,
) -> str:
    """A grid from its upper left corner; `kind(row, column)` of KINDS, "" for none."""
    return "\n".join(
        box(x + column * (width + GAP), y + row * (height + GAP), width, height, each)
        for row in range(rows)
        for column in range(columns)
        if (each := kind(row, column))
    )


def number(value: float) -> str:
    """A coordinate, to a thousandth."""
    return f"{round(value, 3):g}" if abs(value) < 1000 else f"{round(value)}"


def _class(kinds: Iterable[str], known: dict[str, str]) -> str:
    names = [kind for kind in kinds if kind]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"kinds are of {sorted(known)}, got {unknown}")
    return f' class="{" ".join(names)}"' if names else ""
