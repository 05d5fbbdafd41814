"""Unification of types and sizes, instantiation and generalisation of schemes.

Levels count functions from the outside in.  A meta belongs to the function in which it was made, and a size
bound inside a function cannot become part of a type outside it (the array would have no size there).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from futad.core.types import BOOL, F64, I32, Prim
from futad.errors import Span, TypeCheckError
from futad.source import ast as A
from futad.source import numeric
from futad.source.pretty import KIND_WORDS, show_binding, show_size, show_type
from futad.source.sizes import add, free_names, from_poly, metas_of, poly, size_of_expr
from futad.source.traversals import (
    forgotten,
    inputs,
    mapped,
    parts,
    size_names,
    sizes_in,
    strip,
    substitute,
    substitute_size,
)
from futad.source.types import (
    Binding,
    Scheme,
    Size,
    SizeConst,
    SizeExp,
    SizeMeta,
    SizeVar,
    SType,
    TArray,
    TFun,
    TMeta,
    TParam,
    TPrim,
    TRecord,
    TSum,
    resolve,
    resolve_size,
)

_KIND_SETS = {
    "num": {"int", "float"},
    "int": {"int"},
    "float": {"float"},
    "bits": {"int", "bool"},
    "ord": {"int", "float", "bool"},
}
# Kinds that do not ask for a scalar, each with less in it than the one before.
LOOSE_KINDS = (None, "any", "data", "eq")
_BY_SET = {frozenset(v): k for k, v in _KIND_SETS.items()}


class Mismatch(Exception):
    """Two types differ; `reason` says at what, if that is not the whole; `never`: in sizes that are not equal."""

    def __init__(
        self, reason: str = "", code: str = "E0301", notes: tuple[str, ...] = (), never: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.notes = notes
        self.never = never


def _prim_kind(p: Prim) -> str:
    return "int" if p.is_integral else p.kind


def join_kinds(a: str | None, b: str | None) -> str | None:
    """The kind of types of both kinds; raises Mismatch if there are none."""
    if a in LOOSE_KINDS or b in LOOSE_KINDS:
        return max(a, b, key=lambda k: LOOSE_KINDS.index(k) if k in LOOSE_KINDS else len(LOOSE_KINDS))
    both = frozenset(_KIND_SETS[a] & _KIND_SETS[b])
    if not both:
        raise Mismatch(f"{KIND_WORDS[a]} is not {KIND_WORDS[b]}")
    return _BY_SET[both]


@dataclass(slots=True)
class Postponed:
    """A size equation that waits for more metas to be solved."""

    left: Size
    right: Size
    span: Span
    report: Callable[[], TypeCheckError]


class Unifier:
    """The state of inference that unification needs: the current level, and postponed size equations."""

    def __init__(self) -> None:
        self.level = 0
        self.postponed: list[Postponed] = []
        self.kinds: dict[Binding, str] = numeric.KINDS  # what the type parameters are limited to
        self.loose = False  # whether there are loose skolems
        self.bound_by_arrows: set[Binding] = set()  # unknowns that stand for what calls of a function make
        self.any_size: set[SizeMeta] = set()  # that functions which take any size ask for
        self.absorbing: set[SizeMeta] = set()  # of these, those in instances of lifted type parameters
        self.absorbed: set[Binding] = set()  # sizes there that calls of functions make
        # Unsolved sizes that coercions and branches leave alone: those of `[]` in parameters, and those of the
        # parameters of the loops we are in, with their initial sizes.
        self.soft_sizes: dict[Size, Size] = {}
        self.supposes = True  # see `check_loops.keeps_size`
        self.supposed = False
        self.made_sizes = False  # whether the definition computes sizes
        self.origin: dict[Binding, str] = {}  # how a skolem came about, for messages

    # -- making

    def meta(self, span: Span | None = None, kind: str | None = None) -> TMeta:
        m = TMeta(None, kind, span)
        m.level = self.level
        return m

    def size_meta(self, span: Span | None = None) -> SizeMeta:
        return SizeMeta(None, span, self.level)

    def skolem(self, name: str, span: Span, why: str) -> Binding:
        """The unknown size of a result; `why` says what made it."""
        b = Binding(name, "skolem", None, span)
        b.level = self.level
        self.origin[b] = why
        self.made_sizes = True
        return b

    # -- types

    def unify(self, a: SType, b: SType) -> None:
        """Make the type `a` of a value equal the type `b` expected of it, uniqueness aside.  Raises Mismatch."""
        a, b = resolve(a), resolve(b)
        if a is b:
            return
        if type(a) is TMeta:
            self.solve(a, b)
        elif type(b) is TMeta:
            self.solve(b, a)
        elif type(a) is TPrim and type(b) is TPrim:
            if a.prim is not b.prim:
                raise Mismatch()
        elif type(a) is TArray and type(b) is TArray:
            self.unify(a.elem, b.elem)
            self.unify_size(a.size, b.size)
        elif type(a) is TFun and type(b) is TFun:
            self.unify_fun(a, b)
        elif type(a) is TRecord and type(b) is TRecord:
            self.unify_records(a, b)
        elif type(a) is TSum and type(b) is TSum:
            ca, cb = dict(a.constrs), dict(b.constrs)
            if ca.keys() != cb.keys():
                raise Mismatch(f"only one of them has constructor '#{sorted(ca.keys() ^ cb.keys())[0]}'", "E0308")
            for n in ca:
                self._same_args(n, ca[n], cb[n])
        elif not (type(a) is TParam and type(b) is TParam and a.binding is b.binding):
            hidden = [t for t in (a, b) if type(t) is TParam and t.binding.rep is not None]
            if len(hidden) == 2:
                raise Mismatch("they are different abstract types")
            raise Mismatch(f"{show_type(hidden[0])} is an abstract type" if hidden else "")

    def unify_shape(self, a: SType, b: SType) -> None:
        """Make two types equal but for their sizes.  Raises Mismatch."""
        a, b = resolve(a), resolve(b)
        if type(a) is TMeta or type(b) is TMeta:
            m, t = (a, b) if type(a) is TMeta else (b, a)
            self.unify(m, self.sized_anew(t))
        elif type(a) is TArray and type(b) is TArray:
            self.unify_shape(a.elem, b.elem)
        elif type(a) is TFun and type(b) is TFun:
            self.unify_shape(a.param, b.param)
            self.unify_shape(a.result, b.result)
        elif type(a) is TRecord and type(b) is TRecord and dict(a.fields).keys() == dict(b.fields).keys():
            other = dict(b.fields)
            for n, f in a.fields:
                self.unify_shape(f, other[n])
        elif type(a) is TSum and type(b) is TSum and dict(a.constrs).keys() == dict(b.constrs).keys():
            known = dict(b.constrs)
            for n, args in a.constrs:
                for x, y in zip(args, known[n], strict=True):
                    self.unify_shape(x, y)
        else:
            self.unify(a, b)

    def sized_anew(self, t: SType) -> SType:
        """`t` with unknown sizes in place of its own."""
        t = resolve(t)
        if type(t) is TArray:
            return TArray(self.size_meta(_NOWHERE), self.sized_anew(t.elem))
        return t if type(t) is TFun else mapped(t, self.sized_anew)

    def unify_records(self, a: TRecord, b: TRecord) -> None:
        da, db = dict(a.fields), dict(b.fields)
        if da.keys() != db.keys():
            if a.is_tuple and b.is_tuple:
                raise Mismatch(f"a tuple of {len(da)} is not one of {len(db)}")
            raise Mismatch(f"only one of them has field '{sorted(da.keys() ^ db.keys())[0]}'")
        for n, x in a.fields:
            self.unify(x, db[n])

    def unify_fun(self, a: TFun, b: TFun) -> None:
        self.unify(b.param, a.param)
        ra, rb = a.result, b.result
        if a.name is None and b.name is None and not a.exists and not b.exists:
            self.unify(ra, rb)
            return
        # A name stands for the same unknown on both sides and may not leave.  The sizes that a call of `a`
        # makes are unknown; where `b` (what is expected) has such sizes, anything will do.
        self.level += 1
        try:
            mapping_a: dict[Binding, Size] = {}
            mapping_b: dict[Binding, Size] = {}
            if a.name is not None or b.name is not None:
                named = a.name or b.name
                assert named is not None
                common = Binding(named.name, "size", None, named.span)
                common.level = self.level
                self.bound_by_arrows.add(common)
                for fun, mapping in ((a, mapping_a), (b, mapping_b)):
                    if fun.name is not None:
                        mapping[fun.name] = SizeVar(common)
            for ex in a.exists:
                mapping_a[ex] = SizeVar(self._local(ex))
            for ex in b.exists:
                mapping_b[ex] = m = self.size_meta()
                self.any_size.add(m)
            self.unify(substitute(ra, {}, mapping_a), substitute(rb, {}, mapping_b))
        finally:
            self.level -= 1

    def _local(self, ex: Binding) -> Binding:
        b = Binding(ex.name, "skolem", None, ex.span)
        b.level = self.level
        self.bound_by_arrows.add(b)
        self.origin[b] = self.origin.get(ex, "the size of a function's result")
        return b

    def solve(self, m: TMeta, t: SType) -> None:
        """Let the unsolved meta `m` stand for `t` (resolved)."""
        if type(t) is TMeta:
            t.kind = join_kinds(m.kind, t.kind)
            if t.kind in _KIND_SETS and (m.fields or m.constrs or t.fields or t.constrs):
                word = "a sum type" if m.constrs or t.constrs else "a record"
                raise Mismatch(f"{word} is not {KIND_WORDS[t.kind]}")
            t.level = min(m.level, t.level)
            t.lifted = t.lifted and m.lifted
            fields, constrs = m.fields, m.constrs
            m.ref = t
            if fields:
                if t.fields is None:
                    t.fields = {}
                for n, ft in fields.items():
                    if n in t.fields:
                        self.unify(ft, t.fields[n])
                    else:
                        t.fields[n] = ft
            if constrs:
                if t.constrs is None:
                    t.constrs = {}
                for n, args in constrs.items():
                    if n in t.constrs:
                        self._same_args(n, args, t.constrs[n])
                    else:
                        t.constrs[n] = args
            return
        self.check_kind(m, t)
        if m.lifted:
            t = self.loosened(m, t)
        self.occurs(m, t)
        m.ref = strip(t)
        try:
            if m.fields:
                assert type(t) is TRecord
                have = dict(t.fields)
                for n, ft in m.fields.items():
                    self.unify(ft, have[n])
            if m.constrs:
                assert type(t) is TSum
                known = dict(t.constrs)
                for n, args in m.constrs.items():
                    self._same_args(n, args, known[n])
        except Mismatch:
            m.ref = None  # so that a message shows what was known
            raise

    def loosened(self, m: TMeta, t: SType) -> SType:
        """`t` as an instance of a lifted type parameter: what calls of a function make is unknown outside of it.

        `apply iota n` instantiates `(f: a -> b) (x: a): b` so; each value of such a type has sizes of its own
        (see `reopened`).
        """

        self.absorbing.update(s for s in sizes_in(t) if type(s) is SizeMeta and s in self.any_size)

        def make() -> Binding:
            return self.loose_skolem(m.span, m.level)

        return forgotten(t, lambda b: b in self.bound_by_arrows and b.level > m.level, make, {})

    def loose_skolem(self, span: Span | None, level: int) -> Binding:
        b = self.skolem("n", span or _NOWHERE, "the size of a function's result")
        b.level, b.loose = level, True
        self.loose = True
        self.absorbed.add(b)
        return b

    def _same_args(self, n: str, a: tuple[SType, ...], b: tuple[SType, ...]) -> None:
        if len(a) != len(b):
            raise Mismatch(f"constructor '#{n}' has another number of values", "E0308")
        for x, y in zip(a, b, strict=True):
            self.unify(x, y)

    def check_kind(self, m: TMeta, t: SType) -> None:
        kind = m.kind
        if m.fields:
            if type(t) is not TRecord:
                raise Mismatch(f"{show_type(t)} has no field '{next(iter(m.fields))}'", "E0303")
            for n in m.fields:
                if n not in dict(t.fields):
                    raise Mismatch(f"{show_type(t)} has no field '{n}'", "E0303")
        if m.constrs:
            if type(t) is not TSum:
                raise Mismatch()
            for n in m.constrs:
                if n not in dict(t.constrs):
                    raise Mismatch(f"{show_type(t)} has no constructor '#{n}'", "E0308")
        if kind is None:
            return
        if kind == "any":
            self.no_function(t)
        elif kind == "data":
            self.element(t)
        elif kind == "eq":
            self.comparable(t)
        elif type(t) is not TPrim or _prim_kind(t.prim) not in _KIND_SETS[kind]:
            raise Mismatch(f"{show_type(t)} is not {KIND_WORDS[kind]}")

    def no_function(self, t: SType) -> None:
        """Require that `t` contains no function."""
        t = resolve(t)
        if type(t) is TFun:
            raise Mismatch("a function cannot be used here", "E0305")
        if type(t) is TParam and t.binding not in self.kinds:
            raise Mismatch(f"'{t.binding.name} may be a function, which cannot be used here", "E0305")
        if type(t) is TMeta:
            t.kind = join_kinds(t.kind, "any")
        for part in parts(t):
            self.no_function(part)

    def element(self, t: SType) -> None:
        """Require that values of a type can be put into arrays: neither functions nor of a lifted type."""
        t = resolve(t)
        if type(t) is TFun:
            raise Mismatch("a function cannot be used here", "E0305")
        if type(t) is TParam and self.kinds.get(t.binding) in (None, "any"):
            name = t.binding.name if t.binding.kind == "abstract" else f"'{t.binding.name}"
            if t.binding not in self.kinds:
                raise Mismatch(f"{name} may be a function, which cannot be used here", "E0305")
            raise Mismatch(f"{name} is a lifted type: values of it may differ in size", "E0314")
        if type(t) is TMeta:
            t.kind = join_kinds(t.kind, "data")
        for part in parts(t):
            self.element(part)

    def comparable(self, t: SType) -> None:
        """Require that values of a type can be compared with '=='."""
        t = resolve(t)
        if type(t) is TFun:
            raise Mismatch("functions cannot be compared", "E0305")
        if type(t) is TParam:
            raise Mismatch(f"values of the unknown type {t.binding.name} cannot be compared")
        if type(t) is TMeta:
            t.kind = join_kinds(t.kind, "eq")
        for part in parts(t):
            self.comparable(part)

    def occurs(self, m: TMeta, t: SType) -> None:
        """Refuse infinite types and sizes that would leave their function; adjust levels."""
        t = resolve(t)
        if type(t) is TMeta:
            if t is m:
                raise Mismatch("the type would be infinite")
            t.level = min(t.level, m.level)
            for f in (t.fields or {}).values():
                self.occurs(m, f)
        elif type(t) is TParam:
            if t.binding.level > m.level:
                raise Mismatch(f"type parameter '{t.binding.name} is not known outside the function that binds it")
        else:
            if type(t) is TArray:
                if not m.lifted and not self.absorbed.isdisjoint(size_names(t.size)):
                    raise self.sizes_differ(SizeMeta(None, m.span, m.level), t.size)
                self.lower_size(t.size, m.level)
            for f in (t.param, t.result) if type(t) is TFun else parts(t):
                self.occurs(m, f)

    # -- sizes

    def lower_size(self, s: Size, level: int) -> None:
        s = resolve_size(s)
        if type(s) is SizeMeta:
            s.level = min(s.level, level)
        elif type(s) is SizeVar:
            self.check_scope(s.binding, level)
        elif type(s) is SizeExp:
            for a in s.args:
                self.lower_size(a, level)
            inner: dict[Binding, None] = {}
            free_names(s.expr, inner)
            for b in inner:
                if b not in s.params:
                    self.check_scope(b, level)

    def check_scope(self, b: Binding, level: int) -> None:
        if b.level > level:
            why = self.origin.get(b)
            if why:
                reason = f"the size {show_binding(b)} is {why} and may differ each time"
            else:
                reason = f"the size '{b.name}' is not known outside the function that binds it"
            raise Mismatch(reason, "E0404")

    def unify_size(self, a: Size, b: Size) -> None:
        a, b = resolve_size(a), resolve_size(b)
        if a is b or type(b) is SizeVar and b.binding in self.absorbed:  # any size goes where each value has its own
            return
        if type(a) is SizeMeta and type(b) is SizeMeta and a in self.soft_sizes and b not in self.soft_sizes:
            a, b = b, a
        if type(a) is SizeMeta:
            self.solve_size(a, b)
        elif type(b) is SizeMeta:
            self.solve_size(b, a)
        elif type(a) is SizeVar and type(b) is SizeVar:
            if a.binding is not b.binding:
                raise self.sizes_differ(a, b)
        elif type(a) is SizeConst and type(b) is SizeConst:
            if a.value != b.value:
                raise self.sizes_differ(a, b)
        elif not self.unify_exprs(a, b):
            metas: dict[SizeMeta, None] = {}
            metas_of(a, metas)
            metas_of(b, metas)
            if not metas or self.on_postpone is None:
                raise self.sizes_differ(a, b)
            self.postponed.append(Postponed(a, b, self.on_postpone[0], self.on_postpone[1]))

    # Where the equation now being solved comes from, and what to say should it fail later.
    on_postpone: tuple[Span, Callable[[], TypeCheckError]] | None = None

    def solve_size(self, m: SizeMeta, s: Size) -> None:
        if type(s) is SizeMeta:
            s.level = min(s.level, m.level)
            m.ref = s
            if not {m, s} <= self.any_size:
                self.any_size.discard(s)
                self.absorbing.discard(s)
            return
        names = size_names(s)
        if m in self.absorbing and any(b in self.bound_by_arrows and b.level > m.level for b in names):
            m.ref = SizeVar(self.loose_skolem(m.span, m.level))
            return
        if m not in self.any_size and not self.absorbed.isdisjoint(names):
            raise self.sizes_differ(m, s)
        metas: dict[SizeMeta, None] = {}
        metas_of(s, metas)
        if m in metas:
            raise Mismatch(f"{show_size(s) or 'the size'} cannot equal a part of itself", "E0401")
        self.lower_size(s, m.level)
        m.ref = s

    def unify_exprs(self, a: Size, b: Size) -> bool:
        """Whether two sizes, one at least an expression, are equal or can be made so."""
        pa, pb = poly(a), poly(b)
        if pa == pb:
            return True
        metas: dict[SizeMeta, None] = {}
        metas_of(a, metas)
        metas_of(b, metas)
        if not metas:
            return False
        diff = add(pa, pb, -1)
        # An unknown that occurs once, alone and with coefficient one: solve for it.
        for m in metas:
            atom = ("m", m.uid)
            c = diff.get((atom,), 0)
            if abs(c) == 1 and not any(atom in mono for mono in diff if mono != (atom,)):
                rest = dict(diff)
                del rest[(atom,)]
                if any(("m", o.uid) in mono for o in metas if o is not m for mono in rest):
                    continue
                found = {mono: -c * k for mono, k in rest.items()}
                if any(k < 0 for k in found.values()):
                    # `[n + 1]` against `[m]`: there is no such n if m is 0.
                    continue
                solved = from_poly(found, (a, b), m.span or _NOWHERE)
                if solved is not None:
                    self.solve_size(m, resolve_size(solved))
                    return True
        # The same operation or function on both sides: operand by operand.
        if type(a) is SizeExp and type(b) is SizeExp:
            xs, ys = _operands(a), _operands(b)
            if xs and ys and xs[0] == ys[0] and len(xs[1]) == len(ys[1]):
                for x, y in zip(xs[1], ys[1], strict=True):
                    self.unify_size(x, y)
                return True
        return False

    def retry_postponed(self, final: bool = False) -> None:
        """Try the postponed equations again; with `final`, one that cannot be shown is an error."""
        progress = True
        while progress and self.postponed:
            progress = False
            pending, self.postponed = self.postponed, []
            for i, p in enumerate(pending):
                before = len(self.postponed)
                self.on_postpone = (p.span, p.report)
                try:
                    self.unify_size(p.left, p.right)
                except Mismatch:
                    self.postponed.extend(pending[i + 1 :])
                    raise p.report() from None
                finally:
                    self.on_postpone = None
                if len(self.postponed) == before:
                    progress = True
        if final and self.postponed:
            p = self.postponed[0]
            self.postponed = []
            raise p.report()

    def sizes_differ(self, a: Size, b: Size) -> Mismatch:
        """The mismatch of two sizes, with a note on where each name in them comes from."""
        notes: dict[str, None] = {}
        for s in (a, b):
            for name in size_names(s):
                note = self.whence(name)
                if note:
                    notes[note] = None
        text = f"size {show_size(a) or '_'} is not shown to equal {show_size(b) or '_'}"
        apart = add(poly(a), poly(b), -1)
        return Mismatch(text, "E0401", tuple(notes), never=apart.keys() == {()})

    def whence(self, b: Binding) -> str:
        """Where a name in a size comes from, or ''."""
        if b.span is None or not b.span.file:
            return ""
        what = self.origin.get(b) or ("a size parameter" if b.kind == "size" else "bound")
        return f"{show_binding(b)} is {what}, at line {b.span.line}, column {b.span.col}"

    # -- schemes

    def instantiate(self, scheme: Scheme, span: Span) -> tuple[SType, dict[Binding, SType], dict[Binding, Size]]:
        """The type with fresh metas for what is quantified, and what they stand for."""
        if not scheme.tparams and not scheme.sizes:
            return scheme.type, {}, {}
        types: dict[Binding, SType] = {}
        taken = inputs(scheme.type) if any(b.lifted for b in scheme.tparams) else set()
        for b in scheme.tparams:
            types[b] = m = self.meta(span, self.kinds.get(b))
            m.lifted = b.lifted and b not in taken
        sizes: dict[Binding, Size] = {b: self.size_meta(span) for b in scheme.sizes}
        return substitute(scheme.type, types, sizes), types, sizes

    def default(self, m: TMeta) -> bool:
        """Give an unsolved numeric meta its default type."""
        if m.kind in ("num", "int"):
            m.ref = TPrim(I32)
        elif m.kind == "float":
            m.ref = TPrim(F64)
        elif m.kind in ("bits", "ord"):
            m.ref = TPrim(BOOL if m.kind == "bits" else I32)
        else:
            return False
        return True


_NOWHERE = Span("", 1, 1, 1, 1)


def _operands(s: SizeExp) -> tuple[object, list[Size]] | None:
    """A size expression `f x y` as the function and the sizes of its operands."""
    e: A.Expr = s.expr
    mapping = dict(zip(s.params, s.args, strict=True))
    out: list[Size] = []
    while type(e) is A.EApp:
        x = size_of_expr(e.arg)
        if x is None:
            return None
        out.append(substitute_size(x, mapping))
        e = e.fun
    if type(e) is not A.EVar or not out:
        return None
    return (e.name if e.name[0] in "+-*/%" else e.binding), out
