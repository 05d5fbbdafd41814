"""The core IR: an A-normal-form, purely functional language of arrays.

Every operand is an atom; statements bind a pattern of fresh variables; the only nested scopes are the
`Lambda`s of the nodes below.  Tuples and records are gone: a construct over k arrays takes k operands.
`docs/architecture.md` gives the semantics of each node; `interp.py` is the reference.

Invariants (checked by `check.py`): each variable is bound once in a program; a statement's pattern may
bind sizes that later variables of the same pattern mention in their types (results of unknown size).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

from futad.core.attributes import DERIVED as DERIVED
from futad.core.attributes import SAME_BITS as SAME_BITS
from futad.core.attributes import SOLVES as SOLVES
from futad.core.construct import Atoms as Atoms
from futad.core.construct import Control as Control
from futad.core.construct import Derivative as Derivative
from futad.core.construct import Exp as Exp
from futad.core.construct import Fold as Fold
from futad.core.construct import Folds as Folds
from futad.core.construct import Lambda as Lambda
from futad.core.construct import Lambdas as Lambdas
from futad.core.construct import Loop as Loop
from futad.core.construct import Mapping as Mapping
from futad.core.construct import Screma as Screma
from futad.core.construct import Soac as Soac
from futad.core.construct import Stm as Stm
from futad.core.construct import shown
from futad.core.construct import statements as statements
from futad.core.construct import stm_free as stm_free
from futad.core.construct import with_statements as with_statements
from futad.core.contraction import Contraction as Contraction
from futad.core.contraction import Factor as Factor
from futad.core.entry import Entry as Entry
from futad.core.entry import EntryType as EntryType
from futad.core.linear import Keep as Keep
from futad.core.linear import Kept as Kept
from futad.core.linear import Part as Part
from futad.core.linear import UpdateAcc as UpdateAcc
from futad.core.linear import Whole as Whole
from futad.core.node import Consumed, Range, Repeated, Viewed, node
from futad.core.tasks import Par as Par
from futad.core.types import Atom, Prim, Type, Var, array_of, row_type, subst_type
from futad.errors import Span

Index = tuple["Atom | Range", ...]


# --- scalars and arrays -----------------------------------------------------------------------------


@node
class Alias(Exp):
    """`atom` itself.  For an array the result may share memory with the operand."""

    atom: Viewed[Atom]


@node
class Op(Exp):
    """A scalar operation of the table in `scalarops.py`, by name; conversions are `to_f32`, ...

    `place` is where in the source an operation that can fail stands, if that is known.
    """

    op: str
    args: Atoms
    place: Span | None = None


@node
class At(Exp):
    """`array[index]`: atoms fix a dimension, `Range`s keep it; trailing dimensions may be left out.

    A scalar if every dimension is fixed, otherwise a view of the array.  With `check` (the source
    place) an index out of bounds is an error; without, the compiler has shown it cannot be.
    """

    array: Viewed[Atom]
    index: Index
    check: Span | None = None
    fails = True


@node
class Update(Exp):
    """`array` with `value` at `index` (as in `At`).  Consumes `array`."""

    array: Consumed[Atom]
    index: Index
    value: Atom
    check: Span | None = None
    fails = True


@node
class Iota(Exp):
    """`count` values start, start + step, ... of start's type."""

    count: Atom
    start: Atom
    step: Atom
    fresh = True
    fails = True


@node
class Replicate(Exp):
    """`value` (scalar or array) repeated over new outer dimensions `shape`."""

    shape: Atoms
    value: Atom
    fresh = True
    fails = True


@node
class ArrayLit(Exp):
    """A new outer dimension of the given elements: scalars, or arrays of one shape.  `type` is the row type."""

    elems: Atoms
    type: Type
    fresh = True


@node
class Concat(Exp):
    """The arrays one after another along dimension 0; `size` is the resulting outer size."""

    arrays: Atoms
    size: Atom
    fresh = True


@node
class Reshape(Exp):
    """The same elements in row-major order under another shape of the same number of elements."""

    array: Viewed[Atom]
    shape: Atoms


@node
class Rearrange(Exp):
    """Dimensions permuted: dimension i of the result is dimension perm[i] of the array."""

    array: Viewed[Atom]
    perm: tuple[int, ...]


@node
class ArgSort(Exp):
    """The places of the keys in ascending order, those of equal keys in ascending order: a stable sort.

    `keys` is [n]i64 of 0 <= key < bound; `keys[result]` is sorted.  The bound is that of places in memory: multiplied
    with a size it is an i64.
    """

    keys: Atom
    bound: Atom
    fresh = True


@node
class MatMul(Exp):
    """The matrix product of `a` [m][k] and `b` [k][n], of floats; with `plus` (one array or none) added to it.

    Made by `optimise/matmul.py` from map nests around a product-sum; the order of the sums is the backend's.
    """

    a: Atom
    b: Atom
    plus: Atoms = ()
    fresh = True


@node
class Copy(Exp):
    """A fresh array with the same elements."""

    array: Atom
    own = True
    fresh = True


@node
class Scratch(Exp):
    """A fresh array of unspecified elements (every element is written before it is read)."""

    elem: Prim
    shape: Atoms
    own = True
    fresh = True
    fails = True


@node
class Assert(Exp):
    """Fails with `message` at `place` unless `cond`; values fill `{}`s in the message, MOST_SHOWN at most.

    Binds nothing; or `of` themselves, and then goes if none of what it binds is used (see `optimise/asserts.py`).
    """

    cond: Atom
    message: str
    values: Atoms
    place: Span | None
    of: Viewed[Atoms] = ()
    pure = False
    effect = True
    fails = True


@node
class Trace(Exp):
    """Binds nothing.  Prints `tag: value` as a line on standard error, the value in Futhark's text format."""

    value: Atom
    tag: str
    pure = False
    effect = True


@node
class Measure(Exp):
    """Binds nothing.  Tells i64 `values` that are not negative to whoever asks after the call (`core/measures.py`).

    `names` has a name for each.  `facts`: what is known of the place, pairs of a name and a str, an int, a place or
    None, by which places are told apart.  Once a loop, not once an iteration: it is not free.
    """

    facts: tuple[Any, ...]
    names: tuple[str, ...]
    values: Atoms
    pure = False
    effect = True


# --- control ----------------------------------------------------------------------------------------


@node
class If(Control):
    """The results of one branch (lambdas without parameters)."""

    cond: Atom
    then: Lambda
    orelse: Lambda


@node
class For(Loop):
    """`for i < bound`: the body's parameters are i (i64, or bound's type) and the loop variables."""

    bound: Atom
    inits: Atoms
    body: Repeated[Lambda]

    def remade(self, inits: Atoms, body: Lambda) -> For:
        return For(self.bound, inits, body)


@node
class While(Loop):
    """Loops while the first loop variable (a bool) is true; the body's first result is its next value."""

    inits: Atoms
    body: Repeated[Lambda]
    fails = True

    def remade(self, inits: Atoms, body: Lambda) -> While:
        return While(inits, body)


@node
class Call(Exp):
    """A call of a function of the program, sizes passed explicitly."""

    name: str
    args: Atoms
    pure = False
    inert = False
    fails = True


# --- second-order array constructs --------------------------------------------------------------------


@node
class Map(Mapping):
    """`lam` over the elements (dimension 0) of the arrays, all of outer size `width`.

    An argument of accumulator type is threaded through the iterations whole: the lambda returns the
    accumulators first (in argument order), then the mapped values; so does the statement's pattern.
    """

    width: Atom
    arrays: Atoms
    lam: Repeated[Lambda]
    scans = ()
    reduces = ()

    def over(self, arrays: Atoms, lam: Lambda) -> Map:
        return Map(self.width, arrays, lam)


@node
class Reduce(Screma):
    """Combine the elements with an associative `lam` of 2k parameters and its `neutral` elements."""

    width: Atom
    arrays: Atoms
    lam: Repeated[Lambda]
    neutral: Atoms
    comm: bool = False
    mapper = None
    scans = ()

    @property
    def reduces(self) -> Folds:
        return (Fold(self.lam, self.neutral, self.comm),)


@node
class Scan(Screma):
    """Inclusive prefix combination; same operands as `Reduce`."""

    width: Atom
    arrays: Atoms
    lam: Repeated[Lambda]
    neutral: Atoms
    mapper = None
    reduces = ()

    @property
    def scans(self) -> Folds:
        return (Fold(self.lam, self.neutral),)


@node
class Fused(Mapping):
    """A map whose first results feed scans, the next reductions, and the rest are mapped out.

    `lam` yields [inputs of scan 1, ..., inputs of reduction 1, ..., mapped values]; the statement binds
    scan results, then reduction results, then mapped arrays.  Accumulators as in `Map`, before all else.
    """

    width: Atom
    arrays: Atoms
    lam: Repeated[Lambda]
    scans: Repeated[Folds]
    reduces: Repeated[Folds]

    def over(self, arrays: Atoms, lam: Lambda) -> Fused:
        return Fused(self.width, arrays, lam, self.scans, self.reduces)


def folding(width: Atom, arrays: Atoms, f: Fold, scan: bool) -> Scan | Reduce:
    """The scan or the reduction of arrays by an operator."""
    return Scan(width, arrays, f.lam, f.neutral) if scan else Reduce(width, arrays, f.lam, f.neutral, f.comm)


def as_fused(e: Reduce | Fused) -> Fused:
    """The same with a map, if only of the elements themselves."""
    if isinstance(e, Fused):
        return e
    rows = tuple([Var("x", row_type(a.type)) for a in e.arrays])
    return Fused(e.width, e.arrays, Lambda(rows, (), rows), e.scans, e.reduces)


def unfused(stm: Stm, hint: str = "x") -> list[Stm]:
    """A map with folds as a map, and one scan or reduction for each fold of what it makes (variables named by the
    hint); any other statement as it is."""
    e = stm.exp
    if not isinstance(e, Fused):
        return [stm]
    pat, types = e.parts(stm.pat), e.parts([a.type for a in e.lam.result])
    inputs = [tuple([Var(hint, array_of(t, e.width)) for t in part]) for part in types.scans + types.reduces]
    made = (*pat.accs, *[v for part in inputs for v in part], *pat.mapped)
    out = [Stm(made, Map(e.width, e.arrays, e.lam), stm.attrs)]
    for k, (f, part, arrays) in enumerate(zip(e.folds, pat.scans + pat.reduces, inputs, strict=True)):
        out.append(Stm(part, folding(e.width, arrays, f, k < len(e.scans))))
    return out


@node
class Scatter(Soac):
    """dests[j][idxs[0][i], ...] = values[j][i]; out-of-range rows ignored.  Consumes the dests.

    All dests share the index arrays (one per leading dimension written).  With duplicate indices and
    unequal values the last write wins on the sequential backends; programs should not rely on it.
    """

    width: Atom
    dests: Consumed[Atoms]
    idxs: Atoms
    values: Atoms


@node
class Hist(Soac):
    """reduce_by_index: dests[..][b] = lam(dests[..][b], values[..][i]) for each i with bin b.

    Out-of-range bins ignored; `lam` has 2k parameters.  Consumes the dests.
    """

    width: Atom
    dests: Consumed[Atoms]
    idxs: Atoms
    values: Atoms
    lam: Repeated[Lambda]
    neutral: Atoms


@node
class WithAcc(Control):
    """Opens an accumulator on each array, runs `lam` on them, closes them.

    `lam` takes one accumulator per array and returns them first, then extra results; the statement
    binds the final arrays, then the extras.  `op` is the scalar operation of updates: 'add', which on
    bools means `or`.  Consumes the arrays.
    """

    arrays: Consumed[Atoms]
    op: str
    lam: Lambda


# --- differentiation (gone after the AD pass) ---------------------------------------------------------


@node
class Jvp(Derivative):
    """`lam` at `args` along `tangents` (one per argument): binds primal results, then their tangents.

    With `many`, a number of directions, tangents given and bound have that outer dimension.
    """

    lam: Lambda
    args: Atoms
    tangents: Atoms
    many: Atoms = ()


@node
class Vjp(Derivative):
    """`lam` at `args` under `adjoints` (one per result): binds primal results, then adjoints of `args`.

    With `many`, a number of directions, adjoints given and bound have that outer dimension.
    """

    lam: Lambda
    args: Atoms
    adjoints: Atoms
    many: Atoms = ()


@node
class WithVjp(Exp):
    """`lam` at `args`, whose reverse-mode derivative is `pull`; binds the results of `lam`.

    `pull` takes all results of `lam`, then the adjoints of its last results (the first ones, for which no
    adjoint is taken, are what it saved for this), and yields the adjoints of `args`.
    """

    lam: Lambda
    pull: Lambda
    args: Atoms


@node
class WithJvp(Exp):
    """`lam` at `args`; its derivative is `push`, linear: of arguments, then tangents of each, the results' tangents."""

    lam: Lambda
    push: Lambda
    args: Atoms


@node
class WithInverse(Exp):
    """`lam` at `args`, which `back` computes again from all results of `lam`; binds these.

    Differentiated as `lam` is.  A loop that is undone may take the arguments from `back` (`ad/inverse/`), and checks
    that it came back to where it began.
    """

    lam: Lambda
    back: Lambda
    args: Atoms


@node
class Invert(Exp):
    """The values at which `lam` gives `args`, one for each parameter; gone before the AD pass.

    With `check` (the source place) it is an error if there are none; without, the program says that there are."""

    lam: Lambda
    args: Atoms
    check: Span | None = None
    fails = True


# --- programs -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Fun:
    """A function.  `body.params` are `num_sizes` i64 sizes, then the values; `ret` is a pattern-like
    tuple of variables whose types may mention the parameters or earlier members of `ret`."""

    name: str
    body: Lambda
    num_sizes: int
    ret: tuple[Var, ...]
    entry: Entry | None = None
    attrs: tuple[Any, ...] = ()
    span: Span | None = None


@dataclass(slots=True)
class Program:
    """Functions, each defined before it is called, but for those on a cycle of calls (`core/callgraph.py`)."""

    funs: dict[str, Fun]
    name: str = "main"

    def __repr__(self) -> str:
        return shown(self)


def map_bodies(program: Program, f: Callable[[Lambda], Lambda]) -> Program:
    """The program with every function's body rewritten; functions whose body is returned as it was stay the same, and
    so does the program if all do."""
    funs: dict[str, Fun] = {}
    for name, fun in program.funs.items():
        body = f(fun.body)
        funs[name] = fun if body is fun.body else replace(fun, body=body)
    return program if all(funs[name] is fun for name, fun in program.funs.items()) else Program(funs, program.name)


def map_scopes(s: Stm, f: Callable[[Lambda], Lambda]) -> Stm:
    """The statement with its nested scopes rewritten; the same object if each is returned as it was."""
    if not s.exp.scoped:
        return s
    old = s.exp.lambdas()
    new = [f(lam) for lam in old]
    return s if all(map(is_, old, new)) else Stm(s.pat, s.exp.rebuild(lambda a: a, lambda _: new.pop(0)), s.attrs)


# --- renaming --------------------------------------------------------------------------------------------


class Renamer:
    """Rebuilds scopes with fresh bound variables under a substitution of the free ones.

    The mapping grows as binders are passed; use one renamer per copy.
    """

    def __init__(self, mapping: dict[Var, Atom] | None = None) -> None:
        self.mapping: dict[Var, Atom] = dict(mapping) if mapping else {}

    def atom(self, a: Atom) -> Atom:
        return self.mapping.get(a, a) if type(a) is Var else a

    def bind(self, v: Var) -> Var:
        fresh = Var(v.name, subst_type(v.type, self.mapping), v.at)
        self.mapping[v] = fresh
        return fresh

    def exp(self, e: Exp) -> Exp:
        out = e.rebuild(self.atom, self.lam)
        if type(out) is ArrayLit:
            out.type = subst_type(out.type, self.mapping)
        return out

    def stm(self, s: Stm) -> Stm:
        exp = self.exp(s.exp)
        grid = s.grid.rebuild(self.atom, self.lam) if s.grid is not None else None
        return Stm(tuple([self.bind(v) for v in s.pat]), exp, s.attrs, grid)

    def stms(self, stms: Iterable[Stm]) -> list[Stm]:
        return [self.stm(s) for s in stms]

    def lam(self, scope: Lambda) -> Lambda:
        params = tuple([self.bind(p) for p in scope.params])
        stms = tuple([self.stm(s) for s in scope.stms])
        return Lambda(params, stms, tuple([self.atom(a) for a in scope.result]))


def rename(scope: Lambda, mapping: dict[Var, Atom] | None = None) -> Lambda:
    """A copy of `scope` with fresh bound variables, free ones substituted by `mapping`."""
    return Renamer(mapping).lam(scope)
