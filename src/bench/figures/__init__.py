"""The drawings of the book, each a function that returns the text of an SVG.

`python -m bench.figures` writes them into docs/figures, where the words of
each lie in a .toml file of its name.
"""

from collections.abc import Callable

FIGURES: dict[str, Callable[[], str]] = {}
