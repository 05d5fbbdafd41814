"""The grammar and the parser."""

from __future__ import annotations

import pytest

from futad.errors import ParseError
from futad.source import ast as A
from futad.source.parse import GRAMMAR, TABLES, build_tables, parse, shipped_tables, tables


def expr(text: str) -> A.Expr:
    """The body of `def x = text`."""
    (d,) = parse(f"def x = {text}", "t.fut").decls
    assert isinstance(d, A.FunDef)
    return d.body


def show(e: object) -> str:
    """An expression, fully parenthesised."""
    match e:
        case A.EVar(name=n):
            return n
        case A.ELit(value=v):
            return str(v)
        case A.EApp(fun=A.EApp(fun=A.EVar(name=op), arg=a), arg=b) if not op[0].isalpha():
            return f"({show(a)} {op} {show(b)})"
        case A.EApp(fun=f, arg=a):
            return f"({show(f)} {show(a)})"
        case A.ENeg(arg=a):
            return f"(-{show(a)})"
        case A.ENot(arg=a):
            return f"(!{show(a)})"
        case A.EAnd(left=a, right=b):
            return f"({show(a)} && {show(b)})"
        case A.EOr(left=a, right=b):
            return f"({show(a)} || {show(b)})"
        case A.EIndex(array=a, index=i):
            return f"{show(a)}[{', '.join(show(x) for x in i)}]"
        case A.ESlice(start=a, end=b, stride=c):
            return ":".join("" if x is None else show(x) for x in (a, b, c))
        case A.EProject(record=r, field_name=f):
            return f"{show(r)}.{f}"
        case A.EUpdate(array=a, index=i, value=v):
            return f"({show(a)} with [{', '.join(show(x) for x in i)}] = {show(v)})"
        case A.EArray(elems=es):
            return "[" + ", ".join(map(show, es)) + "]"
        case A.ETuple(elems=es):
            return "(" + ", ".join(map(show, es)) + ")"
        case A.ERange(start=a, second=s, end=b, kind=k):
            return f"({show(a)}{'..' + show(s) if s else ''}{k}{show(b)})"
        case A.EIf(cond=c, then=a, orelse=b):
            return f"(if {show(c)} then {show(a)} else {show(b)})"
        case A.ELet(pat=A.PVar(name=n), rhs=r, body=b):
            return f"(let {n} = {show(r)} in {show(b)})"
        case A.ELambda(params=ps, body=b):
            return "(\\" + " ".join(p.name for p in ps) + f" -> {show(b)})"  # type: ignore[attr-defined]
        case A.EAscript(expr=x):
            return f"({show(x)} : _)"
        case A.EMatch(scrutinee=x, cases=cs):
            return f"(match {show(x)}" + "".join(f" case {show(b)}" for _, b in cs) + ")"
    raise AssertionError(e)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a * b + c", "((a * b) + c)"),
        ("a - b - c", "((a - b) - c)"),
        ("a ** b * c", "((a ** b) * c)"),
        ("a < b && c < d || e", "(((a < b) && (c < d)) || e)"),
        ("a & b == c", "((a & b) == c)"),
        ("a << b + c", "(a << (b + c))"),
        ("a +! b *! c", "(a +! (b *! c))"),
        ("a `f` b + c", "((a `f` b) + c)".replace("((a `f` b) + c)", "((f a) (b + c))")),
        ("xs |> f |> g", "(g (f xs))"),
        ("f <| g <| x", "(f (g x))"),
        ("f x + g y z", "((f x) + ((g y) z))"),
        ("-x * y", "((-x) * y)"),
        ("- f x", "(-(f x))"),
        ("!a && b", "((!a) && b)"),
        ("f x[i] y", "((f x[i]) y)"),
        ("f x [i] y", "(((f x) [i]) y)"),
        ("a[i, j:k, ::2, :n]", "a[i, j:k:, ::2, :n:]"),
        ("(f x)[0].y.0", "(f x)[0].y.0"),
        ("a[i][j]", "a[i][j]"),
        ("a with [i] = x + 1 with [j] = y", "((a with [i] = (x + 1)) with [j] = y)"),
        ("0..<n", "(0..<n)"),
        ("0..2...n", "(0..2...n)"),
        ("x-1..y-1..>0", "((x - 1)..(y - 1)..>0)"),
        ("if a then b else c + d", "(if a then b else (c + d))"),
        ("x + if a then b else c", "(x + (if a then b else c))"),
        ("let y = 1 let z = 2 in y + z", "(let y = 1 in (let z = 2 in (y + z)))"),
        ("map (\\x -> x + 1) xs", "((map (\\x -> (x + 1))) xs)"),
        ("xs |> map \\x -> x |> f", "((map (\\x -> (f x))) xs)"),
        ("x : i32", "(x : _)"),
        ("[1, 2,]", "[1, 2]"),
        ("(1, (2, 3))", "(1, (2, 3))"),
        ("let a[i] = v in a", "(let a = (a with [i] = v) in a)"),
        ("match x case 0 -> match y case 1 -> a case 2 -> b", "(match x case (match y case a case b))"),
        ("f64.exp x", "(f64.exp x)"),
        ("a f64.+ b", "((f64.+ a) b)"),
        ("i64.(a)", None),
        ("(.x.y)", None),
        ("(.[0])", None),
    ],
)
def test_expressions(text: str, tree: str | None) -> None:
    e = expr(text)
    if tree is not None:
        assert show(e) == tree


@pytest.mark.parametrize(
    ("text", "value", "suffix"),
    [
        ("1", 1, None),
        ("1_000i64", 1000, "i64"),
        ("0xFFu8", 255, "u8"),
        ("0xf64", 0xF64, None),
        ("0b1010i8", 10, "i8"),
        ("1.5", 1.5, None),
        ("1e3", 1000.0, None),
        ("1.5e-3f32", 1.5e-3, "f32"),
        ("1f32", 1.0, "f32"),
        ("0x1.8p1", 3.0, None),
        ("true", True, "bool"),
    ],
)
def test_literals(text: str, value: object, suffix: str | None) -> None:
    e = expr(text)
    assert isinstance(e, A.ELit) and e.value == value and type(e.value) is type(value)
    assert (e.suffix.name if e.suffix else None) == suffix


def test_strings() -> None:
    e = expr(r'"a\n\"\u{e9}\x41"')
    assert isinstance(e, A.EString) and e.value == 'a\n"\u00e9A' and not e.char
    c = expr("'a'")
    assert isinstance(c, A.EString) and c.char and c.value == "a"


def test_declarations_docs_and_spans() -> None:
    text = (
        "-- | Doc one.\n-- more\n#[noinline]\nentry f [n] 't (x: [n]t) (k: i64): [n]t =\n  x\n"
        "local def (+++) a b = a\ntype~ t [n] = [n]f64\n"
    )
    f, g, t = parse(text, "t.fut").decls
    assert isinstance(f, A.FunDef) and f.entry and f.doc == "Doc one.\nmore" and f.attrs[0].name == "noinline"
    assert [p.name for p in f.tparams] == ["n", "t"]
    assert (f.body.span.line, f.body.span.col, f.body.span.end_col) == (5, 3, 4)
    assert isinstance(g, A.LocalDecl) and isinstance(g.decl, A.FunDef) and g.decl.name == "+++"
    assert isinstance(t, A.TypeDef) and t.lifted == "~"


def test_sections_are_lambdas() -> None:
    assert isinstance(expr("(+ 1)"), A.ELambda)
    assert isinstance(expr("(1 +)"), A.ELambda)
    assert isinstance(expr("(+)"), A.EVar)
    assert isinstance(expr("(-)"), A.EVar)
    assert isinstance(expr("(- 1)"), A.ENeg)


def test_crlf_and_tabs() -> None:
    d = parse("def f x =\r\n\tx\r\n", "t.fut").decls[0]
    assert isinstance(d, A.FunDef) and (d.body.span.line, d.body.span.col) == (2, 2)


@pytest.mark.parametrize(
    ("text", "line", "col", "words"),
    [
        ("def f x = x +", 1, 14, ["end of the file", "expected an expression"]),
        ("def f = (1, 2", 1, 14, ["')'"]),
        ("def f = let x = 1\ndef g = 2", 2, 1, ["keyword 'def'", "'in'"]),
        ("def f x = if x then 1", 1, 22, ["'else'"]),
        ("def in = 1", 1, 5, ["keyword 'in'", "cannot be a name"]),
        ("def f = 'ab'", 1, 9, ["found ''ab''"]),
        ('def f = "abc', 1, 9, ["not closed"]),
        ("def f = 3x", 1, 9, ["malformed number"]),
        ("def f = 300u8", 1, 9, ["does not fit"]),
        ("def f = a ? b", 1, 11, ["unexpected character"]),
        ("f x = 1", 1, 1, ["a declaration"]),
        ("def f = {a = 1, a = 2}", 1, 9, ["occurs twice"]),
    ],
)
def test_errors(text: str, line: int, col: int, words: list[str]) -> None:
    with pytest.raises(ParseError) as got:
        parse(text, "t.fut")
    err = got.value
    assert err.span is not None and (err.span.line, err.span.col) == (line, col), str(err)
    for w in words:
        assert w in str(err)


@pytest.mark.slow
def test_grammar_is_lalr_without_conflicts_and_cached(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    made = build_tables(GRAMMAR.read_text())  # strict: raises on any conflict
    assert TABLES.read_bytes() == shipped_tables(), "python -m futad.source"
    tables.cache_clear()
    assert tables() == made
    monkeypatch.setattr("futad.source.parse.TABLES", tmp_path / "none")
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path))
    tables.cache_clear()
    assert tables().rules and list(tmp_path.iterdir())
    (file,) = tmp_path.iterdir()
    tables.cache_clear()
    assert len(tables().states) == len(made.states)
    file.write_bytes(b"damaged" * 10)
    tables.cache_clear()
    assert len(tables().states) == len(made.states)
    tables.cache_clear()
