"""Descriptors: a tile at the end of a head, and how its rows lie in shared memory."""

from itertools import product

from bench.figures.drawing import CELL, GAP, box, labelled, path, sheet, text, word

SEQLEN, BLOCK = 6, 4  # of the drawing: the second tile is half beyond the end
CHUNKS = 8  # of 16 bytes in a row of 128
READ = 2  # the chunk of each row that the drawing follows


def tile_at_the_end() -> str:
    """Two heads in two dimensions, end to end, and in an axis of their own."""
    width, pitch = 92, 24
    top, flat, first, second = 48, 130, 380, 500
    parts = [
        text(0, 14, word("flat"), "start"),
        text(first - 60, 14, word("apart"), "start"),
    ]
    for head in range(2):
        at = top + head * SEQLEN * pitch
        parts.append(text(flat - 12, at + 11, f"{word('head')} {head}", "end", "quiet"))
        for row in range(SEQLEN):
            place = head * SEQLEN + row
            inside = "full" if head == 0 else "diagonal"
            kind = inside if BLOCK <= place < 2 * BLOCK else "tile"
            parts.append(_row(flat, at + row * pitch, width, row, kind))
    parts += _tile(flat, top + BLOCK * pitch, width, pitch)
    for head, x in ((0, first), (1, second)):
        parts.append(text(x + width / 2, top - 14, f"{word('head')} {head}", "quiet"))
        for row in range(SEQLEN):
            kind = "full" if head == 0 and row >= BLOCK else "tile"
            parts.append(_row(x, top + row * pitch, width, row, kind))
    for row in range(SEQLEN, BLOCK * 2):
        y = top + row * pitch
        parts += [
            box(first, y, width, pitch - GAP, "skipped"),
            text(first + width / 2, y + 11, "0", "quiet"),
        ]
    parts += _tile(first, top + BLOCK * pitch, width, pitch)
    return sheet("tile-at-the-end", top + 2 * SEQLEN * pitch + 12, parts)


def _row(x: float, y: float, width: float, row: int, kind: str) -> str:
    return labelled(x, y, width, 22, str(row), kind)


def _tile(x: float, y: float, width: float, pitch: float) -> list[str]:
    """The outline of the tile: BLOCK rows from here."""
    return [box(x - 5, y - 3, width + 10, BLOCK * pitch + 4, "now")]


def swizzle() -> str:
    """Where the pieces of eight rows lie, in order and swizzled."""
    parts = [*_rows_of_pieces(50, "plain", 0), *_rows_of_pieces(360, "swizzled", 7)]
    for row in range(CHUNKS):
        y = 34 + row * (CELL + GAP) + CELL / 2
        parts.append(text(0, y, f"{row}", "start", "quiet", "index"))
    return sheet("swizzle", 34 + CHUNKS * (CELL + GAP) + 36, parts)


def _rows_of_pieces(left: float, name: str, bits: int) -> list[str]:
    """Eight rows; place x of row r holds piece x xor r, as far as `bits` of r go."""
    pitch = CELL + GAP
    bottom = 34 + CHUNKS * pitch
    parts = [text(left, 14, word(name), "start")]
    for row, place in product(range(CHUNKS), repeat=2):
        piece = place ^ (row & bits)
        x, y = left + place * pitch, 34 + row * pitch
        parts.append(box(x, y, CELL, CELL, "full" if piece == READ else "tile"))
        parts.append(text(x + CELL / 2, y + CELL / 2, f"{piece}", "index"))
    return [
        *parts,
        path([(left, bottom + 6), (left + CHUNKS * pitch - GAP, bottom + 6)]),
        text(left, bottom + 22, word("banks"), "start", "quiet"),
    ]
