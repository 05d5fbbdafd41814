"""Integer literals, in programs and in values."""

from __future__ import annotations

import sys

_LARGEST = int(sys.float_info.max)
_DIGITS = sys.float_info.max_10_exp + 1
_BASES = {"0x": 16, "0b": 2}


def integer(text: str) -> int | None:
    """The number that digits write, perhaps after a sign, and after `0x` or `0b` in base 16 or 2; None if it is larger
    than those of all types.

    Raises ValueError if it is none.  (Python reads and prints no decimal number of more than 4300 digits.)
    """
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    base = _BASES.get(digits[:2].lower(), 10)
    if base != 10:
        digits = digits[2:]
    digits = digits.lstrip("0") or digits[:1]
    if base == 10 and len(digits) > _DIGITS and digits.isdecimal():
        return None
    value = int(sign + digits, base)
    return value if abs(value) <= _LARGEST else None
