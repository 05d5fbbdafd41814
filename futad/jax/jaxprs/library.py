"""Functions of futad's own library (`futad/library/`) in imported programs, with the derivatives that these declare.

A function is compiled from source once; its core IR is kept as text, as the front end takes longer than all else here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from futad import __version__, cache
from futad.backend.aot_cache import own_files
from futad.core import ir
from futad.core.builder import Builder, Ex
from futad.core.calls import reached
from futad.core.parse import parse_program
from futad.core.text import Printer
from futad.core.types import F64, Atom, Prim
from futad.pipeline import compile_program

_MATRIX, _VECTOR = "(a: [n][n]{t}): [n][n]{t} = la.{f} a", "(a: [n][n]{t}) (b: [n]{t}): [n]{t} = la.{f} a b"
_COLUMNS = "[m] (a: [n][n]{t}) (b: [n][m]{t}): [n][m]{t} = la.{f} a b"
_SOLVERS = ("solve_lower", "solve_lower_t", "solve_upper", "solve_upper_t")
FUNCTIONS = {
    "cholesky": _MATRIX, "lu_exchanges": "(a: [n][n]{t}): ([n][n]{t}, [n]i64, [n]i64) = la.{f} a",
    "qr": "[m] (a: [m][n]{t}): ([m][n]{t}, [n][n]{t}) = la.{f} a",
    "svd": "[m] (a: [m][n]{t}): ([m][n]{t}, [n]{t}, [n][n]{t}) = la.{f} a",
    "eigh": "(a: [n][n]{t}): ([n]{t}, [n][n]{t}) = la.{f} a",
    **dict.fromkeys(_SOLVERS, _VECTOR), **{f"{f}_many": _COLUMNS for f in _SOLVERS},
}  # fmt: skip


def call(b: Builder, name: str, t: Prim, sizes: Sequence[Atom], args: Sequence[Atom]) -> list[Atom]:
    """The results of a function of `futad/linalg` over floats of type `t`: of a matrix; of a matrix and a vector; of a
    matrix and columns, if its name ends in `_many`.  `sizes`: those of the operands, each once, in order."""
    return _inlined(b, _compiled(name, _linalg(t.name)), [*sizes, *args])


def _inlined(b: Builder, f: ir.Fun, args: Sequence[Atom]) -> list[Atom]:
    lam = f.body
    copy = ir.Renamer(dict(zip(lam.params, args, strict=True)))
    for s in lam.stms:
        b.add(copy.stm(s))
    return [copy.atom(a) for a in lam.result]


def of_numbers(name: str, *args: Ex) -> Ex:
    """A function of `futad/special` of numbers, which are made f64 for it."""
    b, t = args[0].b, args[0].type
    count = " ".join(f"(x{i}: f64)" for i in range(len(args)))
    text = f'module special = import "futad/special"\nentry {name} {count}: f64 = special.{name} '
    text += " ".join(f"x{i}" for i in range(len(args))) + "\n"
    (made,) = _inlined(b, _compiled(name, text), [b.convert(F64, x.atom) for x in args])
    return Ex(b, b.convert(t, made))


@functools.cache
def _linalg(t: str) -> str:
    """A program of all functions of `futad/linalg`: checking it takes longer than compiling any of them."""
    entries = [f"entry {f} [n] {rest.format(t=t, f=f)}\n" for f, rest in FUNCTIONS.items()]
    return f'import "futad/linalg"\nmodule la = mk_linalg {t}\n{"".join(entries)}'


@functools.cache
def _compiled(name: str, text: str) -> ir.Fun:
    """An entry of a program."""
    kept = f"{(key := cache.digest(name, text, __version__, *own_files()))[:2]}/{key}.core"
    found = cache.read(kept)
    if found is None:
        whole = _lowered(text)
        one = ir.Program({f: whole.funs[f] for f in reached(whole, [name])}, name)
        apart = parse_program(Printer(counted=True).program(one))  # passes may change what they are given
        found = Printer(counted=True).program(compile_program(apart, stop_after="inline")).encode()
        cache.write(kept, found)
    return parse_program(found.decode()).funs[name]


@functools.cache
def _lowered(text: str) -> ir.Program:
    from futad.source import compile_text

    return compile_text(text, "library")
