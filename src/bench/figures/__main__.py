"""Draws every figure into docs/figures: `python -m bench.figures`."""

from pathlib import Path

from bench.figures import FIGURES


def main(folder: Path = Path("docs/figures")) -> None:
    for name, draw in FIGURES.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
