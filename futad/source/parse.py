"""The parser: grammar.lark's LALR(1) tables, made by lark, and the loop that runs them.

The tables are plain data and lie beside the grammar (`python -m futad.source` writes them), so that a start
neither imports lark nor analyses the grammar.  Where the grammar is another one, they are made and kept on disk.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from futad import cache
from futad.errors import ParseError, Span
from futad.source import ast as A
from futad.source.hint_syntax import of_token
from futad.source.lexer import KEYWORDS, Token, tokenize
from futad.source.semantic_actions import ACTIONS

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLES = GRAMMAR.with_suffix(".tables")  # the grammar's digest, and the tables
_FORMAT = 1


@dataclass(slots=True)
class Tables:
    """`states[s][terminal]` is a state to go to (>= 0) or ~rule to reduce; `gotos[s][nonterminal]` a state.

    A rule is (nonterminal, number of symbols, name of its action or None: of one symbol, which it is another name for).
    """

    states: list[dict[str, int]]
    gotos: list[dict[str, int]]
    rules: list[tuple[str, int, str | None]]
    start: int
    accept: int
    actions: list[tuple[str, int, Any]] = field(init=False)  # the rules, with functions for names
    renamed: dict[tuple[int, int, str], int] = field(default_factory=dict)  # what `rename` has found

    def __post_init__(self) -> None:
        self.actions = [(lhs, n, ACTIONS[action] if action else None) for lhs, n, action in self.rules]

    def rename(self, below: int, state: int, terminal: str) -> int:
        """The state after all rules without an action that apply to the last symbol, before that terminal."""
        key = below, state, terminal
        found = self.renamed.get(key)
        if found is None:
            found = state
            while (action := self.states[found].get(terminal)) is not None and action < 0:
                lhs, _, fn = self.actions[~action]
                if fn is not None:
                    break
                found = self.gotos[below][lhs]
            self.renamed[key] = found
        return found


def build_tables(grammar: str) -> Tables:
    """Analyse the grammar with lark.  Any conflict is an error (strict mode).

    States are numbered as they are reached from the first one, rules and symbols are in alphabetical order: a grammar
    always has the same tables.
    """
    import lark
    from lark.lexer import Lexer
    from lark.parsers.lalr_analysis import Shift

    class NoLexer(Lexer):
        def __init__(self, conf: Any) -> None:
            pass

        def lex(self, lexer_state: Any, parser_state: Any = None) -> Any:
            return iter(())

    made = lark.Lark(grammar, parser="lalr", lexer=NoLexer, strict=True, keep_all_tokens=True, maybe_placeholders=False)
    table = made.parser.parser._parse_table
    first = table.start_states["start"]
    number = {first: 0}
    order = [first]
    for state in order:
        for _, (kind, arg) in sorted(table.states[state].items()):
            if kind is Shift and arg not in number:
                number[arg] = len(number)
                order.append(arg)
    reduced = {arg for actions in table.states.values() for kind, arg in actions.values() if kind is not Shift}
    found = sorted(reduced, key=lambda r: (str(r.origin.name), [str(s) for s in r.expansion]))
    rules = [(str(r.origin.name), len(r.expansion), r.alias and str(r.alias)) for r in found]
    rule_ids = {r: i for i, r in enumerate(found)}
    states: list[dict[str, int]] = []
    gotos: list[dict[str, int]] = []
    for state in order:
        here: dict[str, int] = {}
        go: dict[str, int] = {}
        for symbol, (kind, arg) in sorted(table.states[state].items()):
            name = str(symbol)
            if kind is not Shift:
                here[name] = ~rule_ids[arg]
            elif name.isupper() or name == "$END":
                here[name] = number[arg]
            else:
                go[name] = number[arg]
        states.append(here)
        gotos.append(go)
    return Tables(states, gotos, rules, 0, number[table.end_states["start"]])


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The parse tables: those beside the grammar, or those in the disk cache if they are there and sound."""
    grammar = GRAMMAR.read_bytes()
    digest = hashlib.sha256(grammar + str(_FORMAT).encode()).hexdigest()
    name = f"grammar-{digest[:24]}.tables"
    shipped = TABLES.read_bytes() if TABLES.exists() else b""
    if shipped.startswith(digest.encode()):
        return _read(shipped.partition(b"\n")[2])
    raw = cache.read(name)
    if raw is not None:
        return _read(raw)
    made = build_tables(grammar.decode())
    cache.write(name, _written(made))
    return made


def _read(raw: bytes) -> Tables:
    states, gotos, rules, start, accept = json.loads(raw)
    return Tables(states, gotos, [tuple(r) for r in rules], start, accept)


def _written(made: Tables) -> bytes:
    return json.dumps((made.states, made.gotos, made.rules, made.start, made.accept), separators=(",", ":")).encode()


def shipped_tables() -> bytes:
    """What the file beside the grammar is to hold."""
    grammar = GRAMMAR.read_bytes()
    digest = hashlib.sha256(grammar + str(_FORMAT).encode()).hexdigest()
    return digest.encode() + b"\n" + _written(build_tables(grammar.decode())) + b"\n"


def parse(text: str, file: str) -> A.File:
    """The syntax tree of a file's text.  Raises `ParseError` with the place and what was expected there."""
    docs: dict[int, str] = {}
    try:
        tokens = tokenize(text, file, docs)
        decls = _run(tokens, file)
    except ParseError as err:
        if err.source_line is None and err.span is not None:
            lines = text.split("\n")
            err.source_line = lines[err.span.line - 1].rstrip("\r") if err.span.line <= len(lines) else None
        raise
    if docs:
        _attach_docs(decls, docs)
    return A.File(file, text, decls)


def parse_expression(text: str, file: str, name: str) -> A.FunDef:
    """The entry point `name` whose body is the expression `text`.  Raises `ParseError`."""
    try:
        tokens = tokenize(text, file, {})
        head = [replace(t, line=1, col=1, end_line=1, end_col=1) for t in tokenize("entry it =", file, {})[:-1]]
        head[1].text = name
        decls = _run([*head, *tokens], file)
        if len(decls) > 1:
            raise ParseError("syntax error: a declaration after an expression", decls[1].span)
    except ParseError as err:
        lines = text.split("\n")
        if err.span is not None and err.span.line <= len(lines):
            err.source_line = lines[err.span.line - 1]
        err.message = err.message.replace("the end of the file", "the end of the expression")
        raise
    assert isinstance(decls[0], A.FunDef)
    return decls[0]


def _run(tokens: list[Token], file: str) -> list[Any]:
    t = tables()
    states, gotos, rules, accept = t.states, t.gotos, t.actions, t.accept
    stack = [t.start]
    values: list[Any] = []
    starts: list[Token] = []
    ends: list[Token] = []
    last = tokens[0]
    for tok in tokens:
        kind = tok.kind
        while True:
            action = states[stack[-1]].get(kind)
            if action is None:
                raise _unexpected(tokens, tok, states, gotos, rules, stack, file)
            if action >= 0:
                stack.append(action)
                values.append(tok)
                starts.append(tok)
                ends.append(tok)
                last = tok
                break
            lhs, n, fn = rules[~action]
            if n:
                if fn is None:
                    stack[-1] = t.rename(stack[-2], stack[-1], kind)
                    if stack[-1] == accept and kind == "$END":
                        return values[0]
                    continue
                a, b = starts[-n], ends[-1]
                value = fn(Span(file, a.line, a.col, b.end_line, b.end_col), *values[-n:])
                del stack[-n:]
                if n == 1:
                    values[-1] = value
                else:
                    del values[-n:], starts[1 - n :], ends[-n:-1]
                    values.append(value)
            else:
                values.append(fn(Span(file, last.end_line, last.end_col, tok.line, tok.col)))
                starts.append(tok)
                ends.append(last)
            state = gotos[stack[-1]][lhs]
            if state == accept and kind == "$END":
                return values[0]
            stack.append(state)
    raise AssertionError("the token list ends in $END")


# --- errors -------------------------------------------------------------------------------------------------

_WORDS = {
    "LPAR": "'('", "RPAR": "')'", "LB": "'['", "IDX": "'['", "RB": "']'", "LBRACE": "'{'", "RBRACE": "'}'",
    "COMMA": "','", "COLON": "':'", "COERCE": "':>'", "EQ": "'='", "ARROW": "'->'", "LT": "'<'",
    "CONSTR": "a constructor", "TPARAM": "a type parameter", "HASHLB": "an attribute", "STRING": "a string",
    "$END": "the end of the file", "EXISTS": "'?[n].'", "ID": "a name",
}  # fmt: skip
_EXPRESSION = frozenset(("ID", "INT", "FLOAT", "LPAR", "LB", "TRUE"))
_OPERATOR = frozenset(("OPER", "STAR", "PIPE", "LT", "BTICK", "QOP"))
_NOISE = (
    frozenset(("QNAME", "QOPEN", "BANG", "MINUS", "CHAR", "HOLE", "CONSTR", "STRING", "LBRACE", "FALSE", "BACKSLASH"))
    | _EXPRESSION
)
_DECLARATION = frozenset(("DEF", "ENTRY", "TYPE", "IMPORT", "OPEN", "MODULE", "LOCAL", "VAL"))


def _expected(states: Any, gotos: Any, rules: Any, stack: list[int]) -> set[str]:
    """The terminals that could really come next (those that survive the reductions they cause)."""
    out = set()
    for kind in states[stack[-1]]:
        sim = list(stack)
        while True:
            action = states[sim[-1]].get(kind)
            if action is None:
                break
            if action >= 0:
                out.add(kind)
                break
            lhs, n, _ = rules[~action]
            if n:
                del sim[-n:]
            sim.append(gotos[sim[-1]][lhs])
    return out


def _describe(kinds: set[str]) -> str:
    """Expected terminals in words, the most telling few."""
    words: list[str] = []
    if kinds >= _EXPRESSION:
        words.append("an expression")
        kinds = kinds - _NOISE - {"IF", "LET", "LOOP", "MATCH", "ASSERT", "HASHLB", "TYPE"}
    elif {"ID", "LPAR", "WILD"} <= kinds:
        words.append("a pattern")
        kinds = kinds - _NOISE - {"WILD", "HASHLB"}
    elif {"ID", "LPAR", "EXISTS"} <= kinds or {"ID", "LPAR", "QNAME"} <= kinds:
        words.append("a type")
        kinds = kinds - _NOISE - {"EXISTS", "STAR", "IDX", "TPARAM"}
    if kinds & _OPERATOR:
        words.append("an operator")
        kinds = kinds - _OPERATOR - {"MINUS", "WITH", "RANGE", "DOTDOT", "COERCE", "IDX", "FIELD", "QOP"}
    if kinds >= _DECLARATION - {"VAL"}:
        words.append("a declaration")
        kinds = kinds - _DECLARATION - {"LET", "HASHLB"}
    for kind in sorted(kinds):
        word = _WORDS.get(kind) or (f"'{kind.lower()}'" if kind.lower() in KEYWORDS or kind == "TYPE" else None)
        if word and word not in words:
            words.append(word)
    if not words:
        return ""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _unexpected(
    tokens: list[Token], tok: Token, states: Any, gotos: Any, rules: Any, stack: list[int], file: str
) -> ParseError:
    kinds = _expected(states, gotos, rules, stack)
    said = of_token(tokens, next(i for i, t in enumerate(tokens) if t is tok), kinds)
    tok = said.at or tok
    if tok.kind == "$END":
        found = "the end of the file"
    elif tok.kind.lower() in KEYWORDS or tok.kind == "TYPE":
        found = f"the keyword '{tok.text}'"
    else:
        found = f"'{tok.text}'"
    expected = _describe(kinds)
    message = f"syntax error: found {found}" + (f", expected {expected}" if expected else "")
    span = Span(file, tok.line, tok.col, tok.end_line, tok.end_col)
    return ParseError(message, span, hint=said.hint, notes=said.notes)


def _attach_docs(decls: list[Any], docs: dict[int, str]) -> None:
    for d in decls:
        target = d.decl if isinstance(d, A.LocalDecl) else d
        if isinstance(target, A.FunDef):
            line = min([d.span.line, *(a.span.line for a in target.attrs)])
            target.doc = docs.get(line - 1, "")
