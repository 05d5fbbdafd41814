"""What to write instead of what the grammar has no place for: syntax of NumPy, Julia, C, Haskell and JAX."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from futad.source.lexer import Token

COMMENT = "a comment begins with '--'"
FUNCTION = "a function is written \\x -> x + 1"
CHOICE = "a choice is written: if c then a else b"
DEFINITION = "a definition is written: def f x = x + 1"
LOOP = "a loop is an expression: loop s = 0 for i < n do s + i"
IMPORT = 'a file is imported by its name in quotes: import "file"'
RANGE = "a range is written 0...9 with its last number, 0..<10 without it"
FUNCTIONS = ("lambda", "fun", "fn", "func", "function")  # words for a function without a name
ELSE_IF = ("elif", "elseif", "elsif", "elsif", "elif:")
_BEGIN = ("def", "entry", "type", "module", "import", "open", "local")
_DEFINE = ("fun", "fn", "func", "function", "define", "proc", "sub", "float", "double", "int", "void", "const", "var")
_OPEN = {"LPAR": ("RPAR", "("), "LB": ("RB", "["), "IDX": ("RB", "["), "LBRACE": ("RBRACE", "{"), "QOPEN": ("", "")}
_CLOSED = {"RPAR": "(", "RB": "[", "RBRACE": "{"}
_ENDS = ("$END", "DEF", "ENTRY", "TYPE", "MODULE", "IMPORT", "OPEN", "LOCAL")

# Characters that no token has, and what to write.
CHARACTERS = {
    ";": "lines end without ';': let x = 1 let y = 2 in x + y",
    "?": CHOICE,
    "#": COMMENT,
    "@": 'the product of matrices is matmul of import "futad/linalg"',
    "~": "the bits of an integer are inverted, and a bool negated, by '!'",
    "$": "a function is applied by '<|' to all that follows: f <| x + 1",
    "\u03c0": "it is f64.pi", "\u03bb": FUNCTION, "\u221e": "it is f64.inf", "\u221a": "it is f64.sqrt x",
    "\u00d7": "it is written '*'", "\u00b7": "it is written '*'", "\u22c5": "it is written '*'",
    "\u00f7": "it is written '/'", "\u2212": "it is written '-'", "\u2013": "it is written '-'",
    "\u2264": "it is written '<='", "\u2265": "it is written '>='", "\u2260": "it is written '!='",
    "\u2192": "it is written '->'", "\u00b2": "it is written '** 2'", "\u00b3": "it is written '** 3'",
    "\u201c": "quotes are written '\"'", "\u201d": "quotes are written '\"'", "\u00a0": "this is no ordinary space",
}  # fmt: skip


def of_character(char: str, before: str, rest: str) -> str | None:
    """For a character that begins no token; what stands before it on its line, and what follows."""
    if re.search(r"//|/\*|\{-", before):
        return COMMENT
    if char == "'" and (m := re.match(r"'([^']*)'", rest)):
        return f'a string stands in double quotes: "{m[1]}"'
    if char.isdigit() and (m := re.match(r"([0-9][0-9.]*)([A-Za-z_]\w*)", rest)):
        number, word = m.groups()
        if word in ("f", "F"):
            return f"the type of a number is written out: {number}f32"
        if word in ("L", "l", "LL"):
            return f"the type of a number is written out: {number}i64"
        if word in ("u", "U", "UL", "ul"):
            return f"the type of a number is written out: {number}u64"
        if not re.match(r"[iuf][0-9]|[eExXbB][0-9]", word):
            return f"a product is {number} * {word}"
    return CHARACTERS.get(char)


@dataclass(slots=True)
class Said:
    """A hint, notes, and the token that is the mistake if it is another one than the grammar stumbled over."""

    hint: str | None = None
    notes: tuple[str, ...] = ()
    at: Token | None = None


def of_token(tokens: Sequence[Token], i: int, kinds: set[str]) -> Said:
    """For token number i, where only those of `kinds` could come."""
    tok = tokens[i]
    said = Said()
    found = _hint(tokens, i, kinds)
    said.hint, said.at = found if isinstance(found, tuple) else (found, None)
    unclosed = _unclosed(tokens, i)
    if unclosed is not None:
        closer, text = _OPEN[unclosed.kind]
        never = tok.kind in _ENDS and text != "{" or tok.kind == "$END"
        if (closer in kinds or never) and (never or said.hint is None):
            said.notes = (f"the '{text}' at line {unclosed.line}, column {unclosed.col} is not closed",)
    elif tok.kind in _CLOSED and said.hint is None:
        said.hint = f"there is no '{_CLOSED[tok.kind]}' that it closes"
    return said


def _unclosed(tokens: Sequence[Token], i: int) -> Token | None:
    """The innermost bracket that is open before token i."""
    stack: list[Token] = []
    for t in tokens[:i]:
        if t.kind in ("LPAR", "LB", "IDX", "LBRACE"):
            stack.append(t)
        elif t.kind in _CLOSED and stack:
            stack.pop()
    return stack[-1] if stack else None


def _hint(tokens: Sequence[Token], i: int, kinds: set[str]) -> str | tuple[str, Token] | None:
    tok = tokens[i]
    last = tokens[i - 1] if i else None
    line = [t for t in tokens[max(0, i - 200) : i] if t.line == tok.line or last is not None and t.line == last.line]
    here = [t for t in line if t.line == tok.line]
    if any(t.text[:2] in ("//", "/*") for t in [*here, tok]):
        return COMMENT
    declares = "DEF" in kinds and "OPER" not in kinds
    if tok.kind == "COMMA" and here and all(t.kind in ("ID", "COMMA", "WILD") for t in here):
        rest = [t for t in tokens[i:] if t.line == tok.line]
        if any(t.kind == "EQ" for t in rest):
            own = [*here, *rest[: next(k for k, t in enumerate(rest) if t.kind == "EQ")]]
            return _let([t.text for t in own])
    if declares:
        return _declaration(tok)
    if tok.kind == "CONSTR" and "DEF" in kinds and not here:
        return COMMENT
    since = _since(tokens, i)
    if word := next((t for t in reversed(since) if t.text in ELSE_IF), None):
        return "write 'else if'", word
    if any(t.text in FUNCTIONS for t in line if t.kind == "ID"):
        return FUNCTION
    if since and tokens[i - len(since) - 1].kind in ("DEF", "ENTRY") and not any(t.kind == "EQ" for t in since):
        if tok.kind == "ARROW":
            return "the type of a result follows ':': def f (x: f64): f64 = x + 1"
        if "EQ" in kinds and tok.kind not in _ENDS or any(t.kind == "LBRACE" for t in since):
            return DEFINITION
    if _open(since, "IF", "THEN") and any(t.kind == "LBRACE" for t in since):
        return CHOICE
    if "ARROW" in kinds and _open(since, "CASE", "ARROW"):
        return "a case is written: case x -> y"
    if "ARROW" in kinds and _open(since, "BACKSLASH", "ARROW") or tok.kind == "ARROW" and "ARROW" not in kinds:
        return FUNCTION
    if number := _number(tok, last, tokens[i + 1] if i + 1 < len(tokens) else None):
        return number
    if "STRING" in kinds and last is not None and last.kind == "IMPORT":
        return IMPORT
    if tok.kind == "EQ":
        return _equals(tokens, i, kinds, since)
    if _open(since, "IF", "THEN") and any(t.kind == "COLON" for t in since[_index(since, "IF") :]):
        return CHOICE
    if "THEN" in kinds and tok.kind != "ELSE" or tok.kind == "IF" and "IF" not in kinds:
        return CHOICE
    if "ELSE" in kinds:
        return "an 'if' needs 'else' here"
    if "THEN" in kinds:
        return "an 'if' needs 'then' here"
    if tok.kind in ("FOR", "WHILE", "DO") and tok.kind not in kinds:
        bracket = _unclosed(tokens, i)
        return "an array of results is map (\\x -> x * x) xs" if bracket and bracket.kind == "LB" else LOOP
    if tok.kind == "CASE" and "CASE" not in kinds or last is not None and last.kind == "CASE" and len(since) < 3:
        return "cases follow what they are of: match x case 0 -> 1 case _ -> 2"
    if "RANGE" in kinds and any(t.kind == "DOTDOT" for t in here):
        return RANGE
    if last is not None and last.kind == "COLON" and tok.kind == "INT" and i > 1 and tokens[i - 2].kind == "INT":
        return RANGE
    if i > 2 and [t.kind for t in tokens[i - 3 : i]] == ["LB", "ID", "RB"] and "STAR" in kinds and "INT" not in kinds:
        return f"an array's type is []{tokens[i - 2].text}"
    if tok.kind == "TPARAM" and tok.text[-1] == "'":
        return f'a string stands in double quotes: "{tok.text[1:-1]}"'
    if tok.kind == "COLON" and "EQ" in kinds and (bracket := _unclosed(tokens, i)) and bracket.kind == "LBRACE":
        return "the fields of a record are given by '=': {x = 1, y = 2}"
    if "IN" in kinds and tok.kind in _ENDS:
        return "a 'let' inside an expression needs 'in' and a body"
    if tok.kind != "ID" and tok.text.isidentifier() and "ID" in kinds and "IF" not in kinds:
        return f"'{tok.text}' is a keyword and cannot be a name"
    return None


def _since(tokens: Sequence[Token], i: int) -> Sequence[Token]:
    """The tokens of the declaration up to token i."""
    start = i
    while start and tokens[start - 1].kind not in ("DEF", "ENTRY", "TYPE", "MODULE"):
        start -= 1
    return tokens[start:i]


def _index(since: Sequence[Token], kind: str) -> int:
    """Where the last token of a kind is."""
    return max((i for i, t in enumerate(since) if t.kind == kind), default=len(since))


def _open(since: Sequence[Token], first: str, second: str) -> bool:
    """Whether something that begins with a token of one kind lacks that of another."""
    at = _index(since, first)
    return at < len(since) and all(t.kind != second for t in since[at:])


def _declaration(tok: Token) -> str | None:
    """For a token where a declaration is to begin."""
    if tok.text in ("from", "using", "include", "#include", "require", "use"):
        return IMPORT
    if tok.kind in ("CONSTR", "OPER", "STRING", "LBRACE") or tok.text == "%":
        return COMMENT
    if tok.kind in _CLOSED:
        return None
    near = difflib.get_close_matches(tok.text, _BEGIN, 1, 0.6)
    if near and tok.text not in _DEFINE and tok.kind == "ID":
        return f"did you mean '{near[0]}'?"
    return "a definition begins with 'def': def f x = x + 1"


def _number(tok: Token, last: Token | None, after: Token | None) -> str | None:
    """`.5`, `5.` and `-.5`"""
    if tok.kind == "FIELD" and tok.text[1:].isdigit():
        return f"a number has a digit before the point: 0{tok.text}"
    if last is not None and last.kind == "FIELD" and last.text[1:].isdigit():
        return f"a number has a digit before the point: 0{last.text}"
    adjacent = last is not None and (last.end_line, last.end_col) == (tok.line, tok.col)
    if tok.kind in ("DOT", "FIELD") and adjacent and last is not None and last.kind in ("INT", "FLOAT"):
        return f"a number has digits after its point: {last.text}.0"
    if tok.kind == "OPER" and tok.text[-1] == "." and after is not None and after.kind == "INT":
        return f"a number has a digit before the point: {tok.text[:-1]}0.{after.text}"
    return None


def _equals(tokens: Sequence[Token], i: int, kinds: set[str], since: Sequence[Token]) -> str | None:
    """For '=' where none may be."""
    if _open(since, "IF", "THEN") or _open(since, "WHILE", "DO"):
        return "equality is written '=='"
    last = tokens[i - 1] if i else None
    bracket = _unclosed(tokens, i)
    if bracket and bracket.kind == "LPAR" and last and last.kind == "ID" and tokens[i - 2].kind in ("COMMA", "LPAR"):
        return "arguments have no names; what is to be done along an axis is mapped over the others"
    own = [t for t in tokens[max(0, i - 50) : i] if t.line == tokens[i].line]
    while own and own[0].kind in ("IN", "THEN", "ELSE", "DO"):
        own = own[1:]
    if last is not None and last.kind == "RB":
        return "an element is changed in a 'let', of an array that is declared with '*': let xs[i] = x in xs"
    names = [t.text for t in own if t.kind in ("ID", "WILD", "COMMA")]
    if last is not None and last.kind == "COLON" and names:
        return _let(names)
    if own and all(t.kind in ("ID", "WILD", "COMMA", "COLON", "LPAR", "RPAR") for t in own):
        if own[0].col == 1:
            return "a definition begins with 'def': def f x = x + 1"
        return _let(names)
    return "equality is written '=='" if "OPER" in kinds else None


def _let(names: list[str]) -> str:
    """For names and commas that are bound as in other languages, perhaps with a type in front."""
    name = f"({', '.join(n for n in names if n != ',')})" if "," in names else names[-1] if names else "x"
    return f"a name is bound by 'let', and the result follows 'in': let {name} = ... in ..."


__all__ = ["CHARACTERS", "COMMENT", "FUNCTION", "Said", "of_character", "of_token"]
