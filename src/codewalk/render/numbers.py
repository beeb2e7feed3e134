"""Numbers as a reader wants them: few digits, no exponents, units that stay."""

import math

from codewalk.config import Column
from codewalk.records import Scalar
from codewalk.references import written
from codewalk.render.words import word

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NO_BREAK_SPACE = "\u00a0"


def number(value: float, digits: int | None) -> str:
    """`value` with at most `digits` significant ones after its whole part."""
    if isinstance(value, int) or digits is None:
        return _signed(str(value))
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -4 <= exponent < 7:
        return _signed(_plain(value, digits, exponent))
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return _signed(f"{mantissa} × 10{str(int(power)).translate(_SUPERSCRIPT)}")


def shown(value: Scalar, column: Column, language: str, unit: bool = True) -> str:
    """A scalar in the words of its column, with the unit unless that is elsewhere."""
    words = column.values.get(written(value))
    if words:
        return words.get(language, written(value))
    if isinstance(value, bool):
        return word("yes" if value else "no", language)
    if isinstance(value, str):
        return value
    text = number(value, column.digits)
    return with_unit(text, column.unit) if unit else text


def with_unit(text: str, unit: str) -> str:
    """A number and its unit, which no line end may part."""
    if not unit:
        return text
    return text + (unit if unit == "%" else _NO_BREAK_SPACE + unit)


def _plain(value: float, digits: int, exponent: int) -> str:
    # A whole part is never rounded to zeros that nobody measured.
    places = max(0, digits - 1 - exponent)
    return f"{value:.{places}f}"


def _signed(text: str) -> str:
    return text.replace("-", "−")
