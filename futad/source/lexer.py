"""Tokens of the source language.

One regular expression finds the next token; what depends on the neighbours (an index bracket touches what it
indexes, a keyword is not a name) is settled here, so that the grammar is LALR(1).  Comments are dropped;
documentation comments (`-- |`) are collected by the line on which they end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from futad.errors import ParseError, Span
from futad.source.hint_syntax import of_character

KEYWORDS = {
    word: word.upper()
    for word in (
        "def let entry local val import open module include if then else loop for while do in with match "
        "case assert true false"
    ).split()
}

_IDENT = r"(?:[A-Za-z][\w']*|_[\w']+)"
_OPCHARS = r"[+\-*/%=!><|&^]"
_OPER = rf"{_OPCHARS}[+\-*/%=!><|&^.]*"
_OPERATOR = re.compile(rf"{_OPER}$")
_SUFFIX = r"(?:[iu](?:8|16|32|64)|f(?:16|32|64))"
_TOKEN = re.compile(
    rf"""
    (?P<skip>(?:[\ \t\r\f\v\n]|--[^\n]*)+)
  | (?P<TYPE>type(?:[~^]|(?![\w'.])))
  | (?P<QOPEN>(?:{_IDENT}\.)+(?=\())
  | (?P<QOP>(?:{_IDENT}\.)+{_OPER})
  | (?P<QNAME>{_IDENT}(?:\.(?:{_IDENT}|[0-9]+(?![\w])))+)
  | (?P<ID>{_IDENT})
  | (?P<WILD>_)
  | (?P<HEXFLOAT>0[xX][0-9a-fA-F_]*\.[0-9a-fA-F_]*[pP][+-]?[0-9_]+(?:f16|f32|f64)?)
  | (?P<INT>0[xX][0-9a-fA-F][0-9a-fA-F_]*?{_SUFFIX}?(?![\w])|0[bB][01_]+{_SUFFIX}?(?![\w])
        |[0-9][0-9_]*(?:[iu](?:8|16|32|64))?(?![\w.]|\.[0-9])|[0-9][0-9_]*(?:[iu](?:8|16|32|64))?(?=\.\.)(?![\w]))
  | (?P<FLOAT>[0-9][0-9_]*(?:\.[0-9][0-9_]*)?(?:[eE][+-]?[0-9_]+)?(?:f16|f32|f64)?(?![\w]))
  | (?P<EXISTS>\?(?:[ ]*\[[ ]*{_IDENT}[ ]*\])+[ ]*\.)
  | (?P<HOLE>\?\?\?)
  | (?P<CHAR>'(?:[^'\\\n]|\\(?:[^0-9xuo\n]|[0-9]+|x[0-9a-fA-F]+|u\{{[0-9a-fA-F]+\}}|o[0-7]+))')
  | (?P<TPARAM>'[~^]?{_IDENT})
  | (?P<STRING>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<CONSTR>\#{_IDENT})
  | (?P<HASHLB>\#\[)
  | (?P<BTICK>`(?:{_IDENT}\.)*{_IDENT}`)
  | (?P<RANGE>\.\.\.|\.\.<|\.\.>)
  | (?P<DOTDOT>\.\.)
  | (?P<FIELD>\.(?:{_IDENT}|[0-9]+))
  | (?P<DOT>\.)
  | (?P<COERCE>:>)
  | (?P<COLON>:)
  | (?P<LPAR>\() | (?P<RPAR>\)) | (?P<LB>\[) | (?P<RB>\]) | (?P<LBRACE>\{{) | (?P<RBRACE>\}})
  | (?P<COMMA>,) | (?P<BACKSLASH>\\)
  | (?P<OPER>{_OPER})
    """,
    re.VERBOSE,
)
_SPECIAL = {"=": "EQ", "->": "ARROW", "*": "STAR", "|": "PIPE", "<": "LT", "-": "MINUS", "!": "BANG"}
_TOUCHABLE = frozenset(("ID", "QNAME", "RPAR", "RB", "FIELD", "RBRACE", "INT"))


def qualified(name: str) -> tuple[str, str]:
    """The module of a name ("" if it has none) and its name there; an operator may have dots of its own (`m.+.`)."""
    found = _OPERATOR.search(name)
    if found is None:
        module, _, rest = name.rpartition(".")
        return module, rest
    return name[: found.start()].removesuffix("."), found[0]


@dataclass(slots=True)
class Token:
    """One token; positions count from 1, the end is exclusive."""

    kind: str
    text: str
    line: int
    col: int
    end_line: int
    end_col: int


def tokenize(text: str, file: str, docs: dict[int, str] | None = None) -> list[Token]:
    """All tokens of `text`, the last of kind '$END'.

    `docs` receives the documentation comments by the number of their last line.  Raises `ParseError` at
    a character that begins no token.
    """
    out: list[Token] = []
    match = _TOKEN.match
    pos, line, line_start, end = 0, 1, 0, len(text)
    last_kind, last_end = "", -1
    while pos < end:
        m = match(text, pos)
        if m is None:
            raise _bad_character(text, pos, line, pos - line_start + 1, file)
        kind = m.lastgroup
        assert kind is not None  # each alternative has a name
        word = m.group()
        stop = m.end()
        if kind == "skip":
            newlines = word.count("\n")
            if newlines:
                if docs is not None and "-- |" in word:
                    _collect_docs(word, line, docs)
                line += newlines
                line_start = pos + word.rindex("\n") + 1
            pos = stop
            continue
        if kind == "ID":
            kind = KEYWORDS.get(word, "ID")
        elif kind == "OPER":
            kind = _SPECIAL.get(word, "OPER")
        elif kind == "LB":
            if last_end == pos and last_kind in _TOUCHABLE:
                kind = "IDX"
        elif kind == "HEXFLOAT":
            kind = "FLOAT"
        elif kind in ("QNAME", "QOP", "QOPEN") and word.split(".", 1)[0] in KEYWORDS:
            # `in.x`: a keyword is no qualifier.
            stop = pos + word.index(".")
            word = text[pos:stop]
            kind = KEYWORDS[word]
        col = pos - line_start + 1
        out.append(Token(kind, word, line, col, line, col + stop - pos))
        pos = stop
        last_kind, last_end = kind, stop
    col = end - line_start + 1
    out.append(Token("$END", "", line, col, line, col + 1))
    return out


def _collect_docs(blank: str, line: int, docs: dict[int, str]) -> None:
    """Note the `-- |` comments among blank space and comments that starts on `line`."""
    current: list[str] | None = None
    for offset, raw in enumerate(blank.split("\n")):
        stripped = raw.strip()
        if stripped.startswith("-- |"):
            current = [stripped[4:].strip()]
        elif stripped.startswith("--") and current is not None:
            current.append(stripped[2:].strip())
        elif current is not None:
            docs[line + offset - 1] = "\n".join(current).strip()
            current = None


def _bad_character(text: str, pos: int, line: int, col: int, file: str) -> ParseError:
    char = text[pos]
    where = Span(file, line, col, line, col + 1)
    line_end = text.find("\n", pos)
    rest = text[pos : len(text) if line_end < 0 else line_end]
    hint = of_character(char, text[text.rfind("\n", 0, pos) + 1 : pos], rest)
    said = f"unexpected character {char!r}"
    if char == '"':
        said = "this string is not closed on its line, or has a bad escape"
    elif char == "'":
        said = "bad character literal or type parameter"
    elif char.isdecimal():
        word = re.match(r"[\w.]+", rest)
        said = f"malformed number {word.group() if word else char!r}"
    elif char == "`":
        said = "backticks must enclose one name: x `f` y"
    elif char == "#":
        said = "'#' must be followed by a constructor name or '['"
    return ParseError(said, where, code="E0102", hint=hint)
