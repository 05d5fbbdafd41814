"""The checker of the core IR, run after every pass in tests.

It checks scoping, unique binding, the types of operands, scopes and patterns, linearity of accumulators, and
that no array is used after it was certainly consumed.  Sizes are equal if they are the same atom after
following aliases, folding constants and numbering equal i64 operations; a pattern may bind sizes that its
later types mention.  Linear in the size of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from futad.core import ir
from futad.core.node import Range
from futad.core.scalarops import OPS, evaluate
from futad.core.text import Printer
from futad.core.types import (
    BOOL,
    I64,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    row_type,
    shape_of,
    subst_type,
)
from futad.core.typing import exp_types, index_type
from futad.errors import InternalError

_SHOWN = 400  # characters of a statement in a message


def check_program(p: ir.Program, pass_name: str | None = None) -> None:
    """Raises InternalError naming the pass, the function and the statement if `p` is not well-formed."""
    checker = _Checker(p, pass_name)
    for f in p.funs.values():
        checker.fun(f)


class _Failure(Exception):
    """A violated rule; `_Checker.stm` adds where."""


def _fail(message: str) -> NoReturn:
    raise _Failure(message)


_DIRECT_VIEWS = (ir.Alias, ir.Rearrange, ir.Reshape)
_CONSUMERS: dict[type, str] = {
    ir.Update: "array",
    ir.Scatter: "dests",
    ir.Hist: "dests",
    ir.WithAcc: "arrays",
}


class _Checker:
    def __init__(self, p: ir.Program, pass_name: str | None) -> None:
        self.program = p
        self.pass_name = pass_name
        self.done: dict[str, ir.Fun] = {}
        self.bound: set[Var] = set()
        self.scope: set[Var] = set()
        self.canon: dict[Var, Atom] = {}  # sizes that equal an earlier atom
        self.numbers: dict[tuple[Any, ...], Atom] = {}  # i64 operations seen
        self.accs: set[Var] = set()  # accumulators in scope and not yet used
        self.root: dict[Var, Var] = {}  # views: the array they look into
        self.dead: dict[Var, str] = {}  # roots consumed so far on this path
        self.outer: set[Var] | None = None  # inside a repeated scope: the arrays of outside
        self.where = ""

    # -- scopes

    def fun(self, f: ir.Fun) -> None:
        self.where = f"function {f.name}"
        self.scope, self.accs, self.dead, self.outer = set(), set(), {}, None
        try:
            self.bind(f.body.params)
            if len(f.body.params) < f.num_sizes or any(
                v.type is not I64 for v in f.body.params[: f.num_sizes]
            ):
                _fail(f"its first {f.num_sizes} parameters are not i64 sizes")
            before = set(self.scope)
            for v in f.ret:
                self.type_(v.type)
                self.scope.add(v)
            self.scope = before
            self.stms(f.body.stms)
            self.results(f.body)
            self.existential("result", f.ret, f.body.result)
        except _Failure as e:
            self.report(f"{e}", None)
        if self.done.get(f.name) is not None or self.program.funs.get(f.name) is not f:
            self.report("it is defined under another name", None)
        self.done[f.name] = f

    def report(self, message: str, stm: ir.Stm | None) -> NoReturn:
        text = f"after {self.pass_name}, " if self.pass_name else ""
        text += f"{self.where}: {message}"
        if stm is not None:
            shown = Printer().stm(stm)
            text += "\nin  " + (shown if len(shown) <= _SHOWN else shown[:_SHOWN] + " ...")
        raise InternalError(text)

    def stms(self, stms: Iterable[ir.Stm]) -> None:
        for s in stms:
            try:
                self.stm(s)
            except _Failure as e:
                self.report(str(e), s)
            except (KeyError, AssertionError, IndexError, TypeError, AttributeError) as e:
                self.report(f"malformed: {type(e).__name__} {e}", s)

    def stm(self, s: ir.Stm) -> None:
        e = s.exp
        rule = _RULES.get(type(e))
        if rule is None:
            _fail(f"no rule for {type(e).__name__}")
        for a in e.operands():
            self.use(a)
        existential = rule(self, e, s)
        self.consume(e)
        self.bind(s.pat)
        if existential is None:
            types = exp_types(e)
            if len(types) != len(s.pat):
                _fail(f"binds {len(s.pat)} variables for {len(types)} results")
            for v, t in zip(s.pat, types, strict=True):
                self.same(f"{v!r}", v.type, t)
        else:
            for results in existential:
                self.existential("result", s.pat, results)
        self.learn(s)

    def lam(self, lam: ir.Lambda, once: bool = False) -> None:
        """A nested scope; `once` if it runs exactly once, or is a branch."""
        accs, dead, outer = self.accs, dict(self.dead), self.outer
        before = set(self.accs)
        if not once:
            self.accs = set()
            self.outer = set()
        self.bind(lam.params)
        entered = len(lam.params)
        if not once:
            assert self.outer is not None
        self.stms(lam.stms)
        self.results(lam)
        own = {v for v in self.accs if v not in before}
        if own:
            _fail(f"accumulator {sorted(map(repr, own))[0]} is not used")
        for v in lam.params[:entered]:
            self.scope.discard(v)
        for s in lam.stms:
            self.scope.difference_update(s.pat)
        if not once:
            self.accs = accs
        self.dead = {**dead, **self.dead} if once else dead
        self.outer = outer

    def results(self, lam: ir.Lambda) -> None:
        for a in lam.result:
            self.use(a)

    def bind(self, vs: Sequence[Var]) -> None:
        for v in vs:
            if type(v) is not Var:
                _fail(f"{v!r} is bound but is not a variable")
            if v in self.bound:
                _fail(f"{v!r} is bound twice")
            self.type_(v.type)
            self.bound.add(v)
            self.scope.add(v)
            if type(v.type) is AccType:
                self.accs.add(v)
            elif type(v.type) is ArrayType and self.outer is not None:
                self.outer.add(v)

    def use(self, a: Atom) -> None:
        if type(a) is Const:
            return
        if type(a) is not Var:
            _fail(f"operand {a!r} is not an atom")
        if a not in self.scope:
            _fail(f"{a!r} is not in scope")
        t = a.type
        if type(t) is AccType:
            if a not in self.accs:
                _fail(f"accumulator {a!r} is used twice, or in a scope that runs more than once")
            self.accs.discard(a)
        elif type(t) is ArrayType and self.dead:
            how = self.dead.get(self.root.get(a, a))
            if how is not None:
                _fail(f"{a!r} is used after {how}")

    def type_(self, t: Type) -> None:
        if type(t) is Prim:
            return
        for s in shape_of(t):
            if s.type is not I64:
                _fail(f"size {s!r} of type {s.type}, not i64")
            if type(s) is Var and s not in self.scope:
                _fail(f"size {s!r} is not in scope")

    # -- consumption and equal sizes

    def consume(self, e: ir.Exp) -> None:
        field = _CONSUMERS.get(type(e))
        if field is None:
            return
        arrays = getattr(e, field)
        for a in arrays if type(arrays) is tuple else (arrays,):
            if type(a) is not Var:
                continue
            root = self.root.get(a, a)
            if root in self.dead:
                _fail(f"{a!r} is consumed after {self.dead[root]}")
            if self.outer is not None and root not in self.outer:
                _fail(f"{a!r} is consumed in a scope that may run more than once")
            self.dead[root] = f"{a!r} was consumed"

    def learn(self, s: ir.Stm) -> None:
        e = s.exp
        if len(s.pat) != 1:
            return
        (v,) = s.pat
        t = type(e)
        if type(v.type) is ArrayType:
            src = e.operands()[0] if t in _DIRECT_VIEWS or t is ir.At else None
            if type(src) is Var:
                self.root[v] = self.root.get(src, src)
        elif v.type is I64:
            if isinstance(e, ir.Alias):
                self.canon[v] = self.resolve(e.atom)
            elif isinstance(e, ir.Op):
                args = [self.resolve(a) for a in e.args]
                if all(type(a) is Const for a in args) and not OPS[e.op].can_fail:
                    self.canon[v] = Const(I64, evaluate(e.op, *[a.type.dtype.type(a.value) for a in args]))  # type: ignore[union-attr]
                    return
                if OPS[e.op].commutative:
                    args.sort(key=id)
                self.canon[v] = self.numbers.setdefault((e.op, *args), v)

    def resolve(self, a: Atom) -> Atom:
        return self.canon.get(a, a) if type(a) is Var else a

    # -- types

    def equal(self, a: Type, b: Type) -> bool:
        if a is b:
            return True
        if type(a) is not type(b) or type(a) is Prim or elem_of(a) is not elem_of(b):
            return False
        x, y = shape_of(a), shape_of(b)
        return len(x) == len(y) and all(
            [p is q or self.resolve(p) is self.resolve(q) for p, q in zip(x, y, strict=True)]
        )

    def same(self, what: str, got: Type, want: Type) -> None:
        if not self.equal(got, want):
            _fail(f"{what} has type {got!r}, not {want!r}")

    def is_a(self, what: str, a: Atom, want: Type) -> None:
        self.same(f"{what} {a!r}", a.type, want)

    def existential(
        self, what: str, pat: Sequence[Var], values: Sequence[Atom], more: dict[Var, Atom] | None = None
    ) -> None:
        """`values` have the types of `pat`, sizes bound by `pat` itself standing for the values."""
        if len(pat) != len(values):
            _fail(f"{len(values)} {what}s for {len(pat)}")
        mapping: dict[Var, Atom] = {**(more or {}), **dict(zip(pat, values, strict=True))}
        for v, a in zip(pat, values, strict=True):
            self.same(f"{what} {a!r} for {v!r}", a.type, subst_type(v.type, mapping))

    def params(self, lam: ir.Lambda, types: Sequence[Type]) -> None:
        if len(lam.params) != len(types):
            _fail(f"a scope of {len(lam.params)} parameters where {len(types)} are passed")
        for v, t in zip(lam.params, types, strict=True):
            self.same(f"parameter {v!r}", v.type, t)

    def returns(self, lam: ir.Lambda, types: Sequence[Type]) -> None:
        if len(lam.result) != len(types):
            _fail(f"a scope of {len(lam.result)} results where {len(types)} are expected")
        for a, t in zip(lam.result, types, strict=True):
            self.is_a("result", a, t)

    def rows(self, arrays: Sequence[Atom], width: Atom) -> list[Type]:
        """Row types of arrays of outer size `width`; accumulators as they are."""
        self.is_a("width", width, I64)
        out: list[Type] = []
        for a in arrays:
            if type(a.type) is AccType:
                out.append(a.type)
                continue
            if type(a.type) is not ArrayType:
                _fail(f"{a!r} is not an array")
            if self.resolve(a.type.shape[0]) is not self.resolve(width):
                _fail(f"{a!r} of type {a.type!r} in a construct of width {width!r}")
            out.append(row_type(a.type))
        return out

    def operator(self, lam: ir.Lambda, neutral: ir.Atoms, rows: Sequence[Type]) -> None:
        """An operator on values of the row types, with neutral elements."""
        if len(neutral) != len(rows):
            _fail(f"{len(neutral)} neutral elements for {len(rows)} values")
        for a, t in zip(neutral, rows, strict=True):
            self.is_a("neutral element", a, t)
        self.params(lam, [*rows, *rows])
        self.lam(lam)
        self.returns(lam, rows)


Existential = list[Sequence[Atom]] | None
_RULES: dict[type, Callable[[_Checker, Any, ir.Stm], Existential]] = {}


def _rule(cls: type) -> Callable[[Any], Any]:
    def register(f: Any) -> Any:
        _RULES[cls] = f
        return f

    return register


def _no_more(c: _Checker, e: Any, s: ir.Stm) -> Existential:
    return None


for _cls in (ir.Alias, ir.Copy):
    _RULES[_cls] = _no_more


@_rule(ir.Op)
def _op(c: _Checker, e: ir.Op, s: ir.Stm) -> Existential:
    if e.op not in OPS:
        _fail(f"unknown operation {e.op}")
    try:
        exp_types(e)
    except TypeError as err:
        _fail(str(err))
    return None


def _index(c: _Checker, array: Atom, index: ir.Index) -> Type:
    if type(array.type) is not ArrayType:
        _fail(f"{array!r} is indexed but is not an array")
    if len(index) > array.type.rank:
        _fail(f"{len(index)} indices into {array!r} of type {array.type!r}")
    for i in index:
        for a in (i.start, i.count, i.stride) if isinstance(i, Range) else (i,):
            c.is_a("index", a, I64)
    return index_type(array.type, index)


@_rule(ir.At)
def _at(c: _Checker, e: ir.At, s: ir.Stm) -> Existential:
    _index(c, e.array, e.index)
    return None


@_rule(ir.Update)
def _update(c: _Checker, e: ir.Update, s: ir.Stm) -> Existential:
    c.is_a("value", e.value, _index(c, e.array, e.index))
    return None


@_rule(ir.Iota)
def _iota(c: _Checker, e: ir.Iota, s: ir.Stm) -> Existential:
    c.is_a("count", e.count, I64)
    if type(e.start.type) is not Prim or e.start.type is BOOL:
        _fail(f"iota of {e.start.type!r}")
    c.is_a("step", e.step, e.start.type)
    return None


def _shape(c: _Checker, shape: ir.Atoms) -> None:
    for a in shape:
        c.is_a("size", a, I64)


@_rule(ir.Replicate)
def _replicate(c: _Checker, e: ir.Replicate, s: ir.Stm) -> Existential:
    _shape(c, e.shape)
    if not e.shape:
        _fail("replicate over no dimensions")
    return None


@_rule(ir.ArrayLit)
def _array_lit(c: _Checker, e: ir.ArrayLit, s: ir.Stm) -> Existential:
    c.type_(e.type)
    for a in e.elems:
        c.is_a("element", a, e.type)
    return None


@_rule(ir.Concat)
def _concat(c: _Checker, e: ir.Concat, s: ir.Stm) -> Existential:
    if not e.arrays:
        _fail("concat of nothing")
    first = row_type(e.arrays[0].type)
    for a in e.arrays:
        c.same(f"row of {a!r}", row_type(a.type), first)
    c.is_a("size", e.size, I64)
    return None


@_rule(ir.Reshape)
def _reshape(c: _Checker, e: ir.Reshape, s: ir.Stm) -> Existential:
    if type(e.array.type) is not ArrayType or not e.shape:
        _fail("reshape of or to a scalar")
    _shape(c, e.shape)
    return None


@_rule(ir.Rearrange)
def _rearrange(c: _Checker, e: ir.Rearrange, s: ir.Stm) -> Existential:
    if sorted(e.perm) != list(range(len(shape_of(e.array.type)))):
        _fail(f"{e.perm} does not permute the dimensions of {e.array!r}")
    return None


@_rule(ir.MatMul)
def _matmul(c: _Checker, e: ir.MatMul, s: ir.Stm) -> Existential:
    return None


@_rule(ir.Scratch)
def _scratch(c: _Checker, e: ir.Scratch, s: ir.Stm) -> Existential:
    _shape(c, e.shape)
    return None


@_rule(ir.Assert)
def _assert(c: _Checker, e: ir.Assert, s: ir.Stm) -> Existential:
    c.is_a("condition", e.cond, BOOL)
    if e.message.count("{}") != len(e.values) or any(type(a.type) is not Prim for a in e.values):
        _fail("the values do not fit the message")
    return None


@_rule(ir.If)
def _if(c: _Checker, e: ir.If, s: ir.Stm) -> Existential:
    c.is_a("condition", e.cond, BOOL)
    if e.then.params or e.orelse.params:
        _fail("a branch with parameters")
    accs, dead = set(c.accs), dict(c.dead)
    c.lam(e.then, once=True)
    after, killed = c.accs, c.dead
    c.accs, c.dead = accs, dead
    c.lam(e.orelse, once=True)
    if c.accs != after:
        _fail("the branches use different accumulators")
    c.dead = {**killed, **c.dead}
    return [e.then.result, e.orelse.result]


def _loop(c: _Checker, s: ir.Stm, body: ir.Lambda, params: tuple[Var, ...], inits: ir.Atoms) -> Existential:
    if len(params) != len(inits):
        _fail(f"{len(inits)} initial values for {len(params)} loop variables")
    c.lam(body)
    c.existential("initial value", params, inits)
    c.existential("loop result", params, body.result)
    if len(s.pat) != len(params):
        _fail(f"binds {len(s.pat)} variables for {len(params)} loop variables")
    mapping: dict[Var, Atom] = dict(zip(params, s.pat, strict=True))
    for v, p in zip(s.pat, params, strict=True):
        want = subst_type(p.type, mapping)
        if not c.equal(v.type, want):
            _fail(f"{v!r} has type {v.type!r}, not the loop variable's {want!r}")
    return []


@_rule(ir.For)
def _for(c: _Checker, e: ir.For, s: ir.Stm) -> Existential:
    if type(e.bound.type) is not Prim or not e.bound.type.is_integral:
        _fail(f"bound {e.bound!r} is not an integer")
    if not e.body.params:
        _fail("a loop body without an index")
    c.is_a("loop index", e.body.params[0], e.bound.type)
    return _loop(c, s, e.body, e.body.params[1:], e.inits)


@_rule(ir.While)
def _while(c: _Checker, e: ir.While, s: ir.Stm) -> Existential:
    if not e.inits:
        _fail("a while loop without a condition")
    c.is_a("condition", e.inits[0], BOOL)
    return _loop(c, s, e.body, e.body.params, e.inits)


@_rule(ir.Call)
def _call(c: _Checker, e: ir.Call, s: ir.Stm) -> Existential:
    f = c.done.get(e.name)
    if f is None:
        _fail(f"function {e.name} is not defined before its call")
    c.existential("argument", f.body.params, e.args)
    mapping: dict[Var, Atom] = dict(zip(f.body.params, e.args, strict=True))
    if len(s.pat) != len(f.ret):
        _fail(f"binds {len(s.pat)} variables for {len(f.ret)} results")
    mapping.update(zip(f.ret, s.pat, strict=True))
    for v, r in zip(s.pat, f.ret, strict=True):
        c.same(f"{v!r}", v.type, subst_type(r.type, mapping))
    return []


@_rule(ir.Map)
def _map(c: _Checker, e: ir.Map, s: ir.Stm) -> Existential:
    c.params(e.lam, c.rows(e.arrays, e.width))
    c.lam(e.lam)
    _accs_first(c, e.arrays, e.lam)
    return None


def _accs_first(c: _Checker, arrays: ir.Atoms, lam: ir.Lambda) -> None:
    accs = [a.type for a in arrays if type(a.type) is AccType]
    for i, r in enumerate(lam.result):
        if i < len(accs):
            c.is_a("result", r, accs[i])
        elif type(r.type) is AccType:
            _fail(f"accumulator {r!r} among the results that are not")
    if len(lam.result) < len(accs):
        _fail("an accumulator is not returned")


@_rule(ir.Reduce)
@_rule(ir.Scan)
def _reduce(c: _Checker, e: ir.Reduce | ir.Scan, s: ir.Stm) -> Existential:
    c.operator(e.lam, e.neutral, c.rows(e.arrays, e.width))
    return None


@_rule(ir.Fused)
def _fused(c: _Checker, e: ir.Fused, s: ir.Stm) -> Existential:
    c.params(e.lam, c.rows(e.arrays, e.width))
    c.lam(e.lam)
    _accs_first(c, e.arrays, e.lam)
    types = [r.type for r in e.lam.result if type(r.type) is not AccType]
    if len(e.red_comms) != len(e.red_lams):
        _fail(f"{len(e.red_comms)} flags for {len(e.red_lams)} reductions")
    at = 0
    for lam, neutral in [
        *zip(e.scan_lams, e.scan_neutrals, strict=True),
        *zip(e.red_lams, e.red_neutrals, strict=True),
    ]:
        c.operator(lam, neutral, types[at : at + len(neutral)])
        at += len(neutral)
    return None


def _by_index(c: _Checker, e: ir.Scatter | ir.Hist) -> list[Type]:
    """Row types written."""
    if not e.idxs or len(e.dests) != len(e.values):
        _fail("no indices, or as many values as destinations are not given")
    for t in c.rows(e.idxs, e.width):
        c.same("an index", t, I64)
    rows: list[Type] = []
    for d, t in zip(e.dests, c.rows(e.values, e.width), strict=True):
        if len(shape_of(d.type)) < len(e.idxs):
            _fail(f"{len(e.idxs)} indices into {d!r} of type {d.type!r}")
        want = row_type(d.type, len(e.idxs))
        c.same(f"value for {d!r}", t, want)
        rows.append(want)
    return rows


@_rule(ir.Scatter)
def _scatter(c: _Checker, e: ir.Scatter, s: ir.Stm) -> Existential:
    _by_index(c, e)
    return None


@_rule(ir.Hist)
def _hist(c: _Checker, e: ir.Hist, s: ir.Stm) -> Existential:
    c.operator(e.lam, e.neutral, _by_index(c, e))
    return None


@_rule(ir.WithAcc)
def _with_acc(c: _Checker, e: ir.WithAcc, s: ir.Stm) -> Existential:
    if e.op not in OPS:
        _fail(f"unknown operation {e.op}")
    accs: list[Type] = [AccType(elem_of(a.type), shape_of(a.type)) for a in e.arrays]
    c.params(e.lam, accs)
    c.lam(e.lam, once=True)
    k = len(accs)
    for r, t in zip(e.lam.result[:k], accs, strict=True):
        c.is_a("result", r, t)
    if len(s.pat) != len(e.lam.result):
        _fail(f"binds {len(s.pat)} variables for {len(e.lam.result)} results")
    for v, a in zip(s.pat, e.arrays, strict=False):
        c.same(f"{v!r}", v.type, a.type)
    # The arrays cannot be sizes, so the extra results alone are existential.
    return _extras(c, s.pat[k:], e.lam.result[k:])


def _extras(c: _Checker, pat: Sequence[Var], results: ir.Atoms) -> Existential:
    c.existential("result", pat, results)
    return []


@_rule(ir.UpdateAcc)
def _update_acc(c: _Checker, e: ir.UpdateAcc, s: ir.Stm) -> Existential:
    t = e.acc.type
    if type(t) is not AccType:
        _fail(f"{e.acc!r} is not an accumulator")
    if len(e.index) > len(t.shape):
        _fail(f"{len(e.index)} indices into {t!r}")
    for a in e.index:
        c.is_a("index", a, I64)
    c.is_a("value", e.value, array_of(t.elem, *t.shape[len(e.index) :]))
    return None


@_rule(ir.Jvp)
@_rule(ir.Vjp)
def _derivative(c: _Checker, e: ir.Jvp | ir.Vjp, s: ir.Stm) -> Existential:
    c.existential("argument", e.lam.params, e.args)
    c.lam(e.lam)
    k = len(e.lam.result)
    if isinstance(e, ir.Jvp):
        directions, of = e.tangents, e.args
    else:
        directions, of = e.adjoints, e.lam.result
    if len(directions) != len(of):
        _fail(f"{len(directions)} directions for {len(of)}")
    for d, a in zip(directions, of, strict=True):
        # Sizes of results known only inside cannot be compared.
        if elem_of(d.type) is not elem_of(a.type) or len(shape_of(d.type)) != len(shape_of(a.type)):
            c.is_a("direction", d, a.type)
    rest = e.lam.result if isinstance(e, ir.Jvp) else e.args
    if len(s.pat) != k + len(rest):
        _fail(f"binds {len(s.pat)} variables for {k + len(rest)} results")
    c.existential("result", s.pat[:k], e.lam.result)
    mapping: dict[Var, Atom] = dict(zip(s.pat[:k], e.lam.result, strict=True))
    for v, a in zip(s.pat[k:], rest, strict=True):
        c.same(f"{v!r}", v.type if isinstance(e, ir.Vjp) else subst_type(v.type, mapping), a.type)
    return []
