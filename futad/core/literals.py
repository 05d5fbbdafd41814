"""Integers and strings, in programs and in values."""

from __future__ import annotations

import re
import sys

_LARGEST = int(sys.float_info.max)
_DIGITS = sys.float_info.max_10_exp + 1
_BASES = {"0x": 16, "0b": 2}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:[xu](\{)?([0-9a-fA-F]+)(?(1)\})|o(\{)?([0-7]+)(?(3)\})|([0-9]+)|(.))", re.DOTALL)
BAD_ESCAPE = "an escape names no Unicode character"


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


def unescaped(body: str) -> str:
    """What a string says: `\\n` and the like, `\\x41`, `\\u{41}`, `\\o101` and `\\65`.  Any other character after a
    backslash is itself (`kernels/program_values.h` reads strings alike).  Raises ValueError for a number that no
    character has."""

    def said(m: re.Match[str]) -> str:
        if m[6]:
            return _ESCAPES.get(m[6], m[6])
        try:
            made = chr(int(m[2], 16) if m[2] else int(m[4], 8) if m[4] else int(m[5]))
            made.encode()  # half of a pair of UTF-16 is none
        except (ValueError, OverflowError):
            raise ValueError(BAD_ESCAPE) from None
        return made

    return _ESCAPE.sub(said, body)
