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
from futad.core.parse import parse_program
from futad.core.text import Printer
from futad.core.types import F64, Atom, Prim
from futad.pipeline import compile_program

_MATRIX, _VECTOR = " (a: [n][n]{t}): [n][n]{t} = {f} a", " (a: [n][n]{t}) (b: [n]{t}): [n]{t} = {f} a b"
_LU = " (a: [n][n]{t}): ([n][n]{t}, [n]i64, [n]i64) = {f} a"
_COLUMNS = " [m] (a: [n][n]{t}) (b: [n][m]{t}): [n][m]{t} = {f} a b"


def call(b: Builder, name: str, t: Prim, sizes: Sequence[Atom], args: Sequence[Atom]) -> list[Atom]:
    """The results of a function of `futad/linalg` over floats of type `t`: of a matrix; of a matrix and a vector; of a
    matrix and columns, if its name ends in `_many`.  `sizes`: n, and of columns how many."""
    return _inlined(b, _function(name, t.name, len(args)), [*sizes, *args])


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
def _function(name: str, t: str, arguments: int) -> ir.Fun:
    two = _COLUMNS if name.endswith("_many") else _VECTOR
    kind = _LU if name == "lu_exchanges" else _MATRIX if arguments == 1 else two
    text = f'import "futad/linalg"\nmodule la = mk_linalg {t}\nentry {name} [n]{kind.format(t=t, f=f"la.{name}")}\n'
    return _compiled(name, text)


@functools.cache
def _compiled(name: str, text: str) -> ir.Fun:
    kept = f"{(key := cache.digest(text, __version__, *own_files()))[:2]}/{key}.core"
    found = cache.read(kept)
    if found is None:
        from futad.source import compile_text

        made = compile_program(compile_text(text, name), stop_after="inline")
        found = Printer(counted=True).program(made).encode()
        cache.write(kept, found)
    return parse_program(found.decode()).funs[name]
