"""Names, applications and functions: applying closures in place, or as calls of core functions.

A function is lowered once per instance: per structure of its arguments and per code of its functional
arguments, whose captured values become extra parameters.  Small functions, and those that yield functions,
are evaluated where they are applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from futad.core import ir
from futad.core.types import I64, ArrayType, Atom, Const, Var, elem_of, subst_type
from futad.source import ast
from futad.source.lower.core import Lowerer, TypeAt, handles
from futad.source.lower.patterns import bind, hint_of
from futad.source.lower.scope import Scope
from futad.source.lower.sizes import (
    bind_sizes,
    contains_function,
    fit,
    head,
    placed_sizes,
    recast,
    remember_size,
    size_atom,
    type_key,
)
from futad.source.lower.values import (
    Arr,
    Fn,
    Frame,
    Inst,
    Leaf,
    Rec,
    Value,
    dims_of,
    has_function,
    is_accumulator,
    leaves,
    rebuild,
    substitute,
    walk_shapes,
)
from futad.source.prelude import TEXTS
from futad.source.types import (
    Binding,
    SizeMeta,
    SizeVar,
    SType,
    TArray,
    TFun,
    TParam,
    TRecord,
    TSum,
    resolve_size,
)

if TYPE_CHECKING:
    from futad.errors import Span

# Bodies of at most this many expressions are evaluated in place (a call costs about as much to compile).
SMALL = 16
# The same for functions that consume a parameter: in place, the update needs no copy.
SMALL_UNIQUE = 250


@dataclass(slots=True)
class Use:
    """What an intrinsic may need to know about its application."""

    inst: Inst | None
    rt: TypeAt | None
    span: Span


# --- names ----------------------------------------------------------------------------------------------


@handles(ast.EVar)
def lower_var(lw: Lowerer, e: ast.EVar, fr: Frame) -> Value:
    b = e.binding
    assert b is not None, e.name
    inst = Inst(e.targs, e.sargs, fr) if e.targs or e.sargs else None
    if b.kind == "intrinsic":
        arity, _ = lw.intrinsic(lw, b.name, e.span)
        f = Fn(b.name, lw.root, (), inst, arity)
        if arity == 0:
            return enter(lw, f, (), (e.type, fr) if e.type is not None else None, e.span)
        return f
    if b.kind == "fun" and id(b.decl) in lw.top:
        fd: ast.FunDef = b.decl
        if fd.params:
            return Fn(fd, lw.root, (), inst, len(fd.params))
        return constant(lw, fd, inst)
    v = fr.lookup(b)
    if v is None and b.alias is not None:
        atom = size_atom(lw, b.alias, fr)
        v = None if atom is None else Leaf(atom)
    if v is None:
        raise lw.broken(f"the name {b!r} ({b.kind}) has no value", e.span)
    if type(v) is Fn and inst is not None and type(v.code) is ast.FunDef and not v.args:
        return Fn(v.code, v.frame, (), inst, v.arity)
    return v


def constant(lw: Lowerer, fd: ast.FunDef, inst: Inst | None) -> Value:
    """A top-level definition without parameters: computed once in each core function that uses it."""
    if inst is not None or (fd.ret_type is not None and contains_function(fd.ret_type)):
        return evaluate(lw, fd, (), inst, lw.root)
    if lw.facts.size(fd.body, SMALL_UNIQUE) <= 2:
        return lw.expr(fd.body, Frame(lw.root))
    known = lw.constants.get(fd)
    if known is None:
        with lw.within(Scope(None)) as s:
            known = instance(lw, Fn(fd, lw.root, (), None, 0), ())
        at = lw.num_constants
        lw.fun_scope.stms[at:at] = s.stms
        lw.num_constants += len(s.stms)
        lw.fun_scope.defs.update(s.defs)
        lw.constants[fd] = known
    return known


@handles(ast.EApp)
def lower_app(lw: Lowerer, e: ast.EApp, fr: Frame) -> Value:
    spine: list[ast.EApp] = [e]
    f: ast.Expr = e.fun
    while type(f) is ast.EApp:
        spine.append(f)
        f = f.fun
    fun = lw.expr(f, fr)
    args = tuple([lw.expr(node.arg, fr) for node in reversed(spine)])
    assert e.type is not None
    site = lw.site
    if e.span.file not in TEXTS:
        lw.site = e.span
    v = apply(lw, fun, args, (e.type, fr), e.span)
    lw.site = site
    if type(v) is Leaf:
        remember_size(lw, e, v, fr)
    else:
        bind_sizes(e.type, v, fr)
    return v


@handles(ast.ELambda)
def lower_lambda(lw: Lowerer, e: ast.ELambda, fr: Frame) -> Value:
    return Fn(e, fr, (), None, len(e.params))


@handles(ast.ELetFun)
def lower_let_fun(lw: Lowerer, e: ast.ELetFun, fr: Frame) -> Value:
    fd = e.fun
    assert fd.binding is not None
    if fd.params:
        fr.vals[fd.binding] = Fn(fd, fr, (), None, len(fd.params))
    else:
        fr.vals[fd.binding] = lw.expr(fd.body, fr)
    return lw.expr(e.body, fr)


# --- application ----------------------------------------------------------------------------------------


def apply(lw: Lowerer, f: Value, args: tuple[Value, ...], rt: TypeAt | None, span: Span) -> Value:
    """Apply a function value; `rt` is the type of the result and where it is read."""
    while True:
        assert type(f) is Fn, f
        have = f.args + args
        if len(have) < f.arity:
            borrow(lw, args)
            return Fn(f.code, f.frame, have, f.inst, f.arity)
        now, args = have[: f.arity], have[f.arity :]
        v = enter(lw, f, now, None if args else rt, span)
        if not args:
            return v
        f = v


def borrow(lw: Lowerer, args: tuple[Value, ...]) -> None:
    """Each application of a function value may consume what it was given before, and so consumes a copy."""
    lw.borrowed.update(a for v in args for a in leaves(v))


def enter(lw: Lowerer, f: Fn, args: tuple[Value, ...], rt: TypeAt | None, span: Span) -> Value:
    """Apply to exactly as many arguments as the code takes."""
    code = f.code
    if type(code) is str:
        first = len(lw.b.stms)
        v: Value = lw.intrinsic(lw, code, span)[1](lw, args, Use(f.inst, rt, span))
        lw.b.locate(first, lw.site)
        return v
    if type(code) is ast.ELambda:
        fr = Frame(f.frame)
        for p, a in zip(code.params, args, strict=True):
            assert p.type is not None
            bind(lw, p, fit(lw, p.type, a, fr), fr)
        return lw.expr(code.body, fr)
    assert type(code) is ast.FunDef
    if in_place(lw, code, args):
        return evaluate(lw, code, args, f.inst, f.frame)
    return instance(lw, f, args)


def in_place(lw: Lowerer, fd: ast.FunDef, args: tuple[Value, ...]) -> bool:
    """Whether to evaluate the body at this application rather than call a function."""
    names = [a.name for a in fd.attrs]
    if fd.ret_type is not None and contains_function(fd.ret_type):
        return True
    if any(is_accumulator(a) for a in args):
        return True
    if "noinline" in names or fd is lw.not_inlined:
        return False
    size = lw.facts.size(fd.body, SMALL_UNIQUE)
    if size <= SMALL or "inline" in names:
        return True
    return size <= SMALL_UNIQUE and any(p.type is not None and is_unique(p.type) for p in fd.params)


def is_unique(t: SType) -> bool:
    t, _ = head(t, Frame(None))
    if type(t) is TArray:
        return t.unique
    return type(t) is TRecord and any(is_unique(f) for _, f in t.fields)


def instantiate(lw: Lowerer, fd: ast.FunDef, inst: Inst | None, parent: Frame) -> Frame:
    """A frame for one activation, with its type parameters."""
    fr = Frame(parent)
    if inst is not None:
        for b, t in inst.targs.items():
            fr.types[b] = (t, inst.frame)
    return fr


def bind_params(lw: Lowerer, fd: ast.FunDef, args: tuple[Value, ...], inst: Inst | None, fr: Frame) -> None:
    """Bind the parameters, and the sizes they determine; then sizes that only the use determines."""
    for p, a in zip(fd.params, args, strict=True):
        assert p.type is not None
        bind(lw, p, fit(lw, p.type, a, fr), fr)
    if inst is not None:
        for b, s in inst.sargs.items():
            if b not in fr.vals:
                atom = size_atom(lw, s, inst.frame)
                if atom is not None:
                    fr.vals[b] = Leaf(atom)


def evaluate(lw: Lowerer, fd: ast.FunDef, args: tuple[Value, ...], inst: Inst | None, parent: Frame) -> Value:
    """The body's value, its statements emitted here."""
    fr = instantiate(lw, fd, inst, parent)
    bind_params(lw, fd, args, inst, fr)
    v = lw.expr(fd.body, fr)
    return fit(lw, fd.ret_type, v, fr) if fd.ret_type is not None and not has_function(v) else v


# --- instances ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Instance:
    """A lowered function: `result` is its value over `fun.ret` and the parameters."""

    fun: ir.Fun
    result: Value


class Abstraction:
    """Turns values into the parameters of a core function: fresh variables for all atoms, and a key.

    `sizes` and `params` are the new parameters, `size_args` and `args` what they stand for.
    """

    def __init__(self, lw: Lowerer, args: tuple[Value, ...]) -> None:
        self.lw = lw
        # An i64 argument that is also the size of an array argument is passed once, as a size.
        self._all_dims = {d for a in args for d in dims_of(a) if type(d) is Var}
        self.sizes: list[Var] = []
        self.size_args: list[Atom] = []
        self.params: list[Var] = []
        self.args: list[Atom] = []
        self._numbers: dict[Atom, int] = {}
        # Values that closures share are abstracted once: a network of closures is a graph, not a tree.
        self._seen: dict[int, tuple[Value, int, Value]] = {}

    def dim(self, d: Atom) -> int:
        n = self._numbers.get(d)
        if n is None:
            n = self._numbers[d] = len(self.sizes)
            self.sizes.append(Var(d.name if type(d) is Var else "n", I64))
            self.size_args.append(d)
        return n

    def array_sizes(self) -> set[Var]:
        """The new parameters that are sizes of arrays among the arguments."""
        return {p for p, a in zip(self.sizes, self.size_args, strict=True) if a in self._all_dims}

    def value(self, v: Value, hint: str = "arg") -> tuple[Value, Any]:
        """The value over new parameters, and its key."""
        if type(v) is Fn:
            return self.function(v)
        if type(v) is Rec:
            # Which constructor holds functions is known while lowering, and stays so.
            tag = v.fields.get("#")
            static = tag.atom if type(tag) is Leaf and type(tag.atom) is Const and has_function(v) else None
            parts = {
                n: (f, static.value) if static is not None and n == "#" else self.value(f, hint)
                for n, f in v.fields.items()
            }
            return Rec({n: p[0] for n, p in parts.items()}), tuple([(n, p[1]) for n, p in parts.items()])
        if type(v) is Leaf and v.atom in self._all_dims:
            n = self.dim(v.atom)
            return Leaf(self.sizes[n]), n
        numbers = [self.dim(d) for d in dims_of(v)]
        shaped = rebuild(v, iter(leaves(v)), iter([self.sizes[n] for n in numbers]))
        fresh = []
        for atom, shape in walk_shapes(shaped):
            elem = elem_of(atom.type)
            fresh.append(Var(hint, ArrayType(elem, shape) if shape else elem))
        self.params += fresh
        self.args += leaves(v)
        return rebuild(shaped, iter(fresh)), (_structure(v), tuple(numbers))

    def function(self, f: Fn) -> tuple[Fn, Any]:
        args = [self.value(a) for a in f.args]
        borrow(self.lw, tuple([a[0] for a in args]))
        frame, frame_key = self.frame(f.code, f.frame)
        inst, inst_key = self.inst(f.inst)
        code_key = f.code if type(f.code) is str else id(f.code)
        key = (code_key, tuple([a[1] for a in args]), frame_key, inst_key)
        return Fn(f.code, frame, tuple([a[0] for a in args]), inst, f.arity), key

    def frame(self, code: Any, fr: Frame) -> tuple[Frame, Any]:
        """A frame with only what the code mentions."""
        out = Frame(self.lw.root)
        if fr is self.lw.root or type(code) is str:
            return out, ()
        key: list[Any] = []
        for b in self.lw.facts.of(code).found:
            if b is getattr(code, "binding", None):
                continue  # a local function's own name: there is no recursion
            if b.kind == "tparam":
                found = fr.lookup_type(b)
                if found is not None:
                    t, k = self.type(*found, out)
                    out.types[b] = (t, out)
                    key.append((b.uid, k))
            else:
                v = fr.lookup(b)
                if v is not None:
                    out.vals[b], k = self.captured(v, b)
                    key.append((b.uid, k))
        return out, tuple(key)

    def captured(self, v: Value, b: Binding) -> tuple[Value, Any]:
        if type(v) is Leaf and (b.kind in ("size", "skolem") or v.atom in self._numbers):
            n = self.dim(v.atom)
            return Leaf(self.sizes[n]), n
        seen = self._seen.get(id(v))
        if seen is not None:
            return seen[2], ("seen", seen[1])
        made, key = self.value(v, b.name)
        self._seen[id(v)] = (v, len(self._seen), made)
        return made, key

    def inst(self, inst: Inst | None) -> tuple[Inst | None, Any]:
        if inst is None:
            return None, ()
        fr = Frame(self.lw.root)
        targs: dict[Binding, SType] = {}
        key: list[Any] = []
        for b, t in inst.targs.items():
            targs[b], k = self.type(t, inst.frame, fr)
            key.append(k)
        sargs: dict[Binding, Any] = {}
        for b, s in inst.sargs.items():
            sargs[b], k = self.size(s, inst.frame, fr)
            key.append(k)
        return Inst(targs, sargs, fr), tuple(key)

    def size(self, s: Any, fr: Frame, out: Frame) -> tuple[Any, Any]:
        atom = size_atom(self.lw, resolve_size(s), fr)
        if atom is None:
            return SizeMeta(), None
        n = self.dim(atom)
        b = Binding(self.sizes[n].name, "size")
        out.vals[b] = Leaf(self.sizes[n])
        return SizeVar(b), n

    def type(self, t: SType, fr: Frame, out: Frame) -> tuple[SType, Any]:
        """A closed copy of a type, its sizes bound in `out`."""
        t, fr = head(t, fr)
        if type(t) is TArray:
            s, k = self.size(t.size, fr, out)
            elem, ek = self.type(t.elem, fr, out)
            return TArray(s, elem, t.unique), ("[]", k, ek)
        if type(t) is TRecord:
            parts = [(n, self.type(f, fr, out)) for n, f in t.fields]
            return TRecord(tuple([(n, p[0]) for n, p in parts])), tuple([(n, p[1]) for n, p in parts])
        if type(t) is TSum:
            rows = [(c, [self.type(a, fr, out) for a in args]) for c, args in t.constrs]
            made = TSum(tuple([(c, tuple([a[0] for a in args])) for c, args in rows]))
            return made, tuple([(c, tuple([a[1] for a in args])) for c, args in rows])
        if type(t) is TFun or type(t) is TParam:
            return TRecord(()), type_key(t, fr)
        return t, type_key(t, fr)


def _structure(v: Value) -> Any:
    if type(v) is Leaf:
        return elem_of(v.atom.type).name
    if type(v) is Arr:
        return (len(v.dims), _structure(v.elem))
    assert type(v) is Rec
    return tuple([(n, _structure(f)) for n, f in v.fields.items()])


def instance(lw: Lowerer, f: Fn, args: tuple[Value, ...]) -> Value:
    """Call the core function that this application is an instance of, lowering it first if it is new."""
    fd = f.code
    assert type(fd) is ast.FunDef
    ab = Abstraction(lw, args)
    values = [ab.value(a, hint_of(p)) for p, a in zip(fd.params, args, strict=True)]
    frame, frame_key = ab.frame(fd, f.frame)
    inst, inst_key = ab.inst(f.inst)
    key = (id(fd), tuple([k for _, k in values]), frame_key, inst_key)
    made: Instance | None = lw.instances.get(key)
    if made is None:
        made = define(lw, fd, ab, tuple([v for v, _ in values]), inst, frame)
        lw.instances[key] = made
    return call(lw, made, fd, f, args, ab)


def define(
    lw: Lowerer, fd: ast.FunDef, ab: Abstraction, args: tuple[Value, ...], inst: Inst | None, frame: Frame
) -> Instance:
    """Lower a function over the parameters of an abstraction."""
    with function_scope(lw, [*ab.sizes, *ab.params]) as scope:
        lw.known_sizes |= ab.array_sizes()
        v = evaluate(lw, fd, args, inst, frame)
    fun, result = close_function(lw, unique_name(lw, fd.name), scope, ab.sizes, ab.params, v)
    fun.attrs = tuple([(a.name, *a.args) for a in fd.attrs])
    fun.span = fd.span
    return Instance(fun, result)


class function_scope:
    """Emits into the body of a new core function; constants computed there are its own."""

    def __init__(self, lw: Lowerer, params: list[Var]) -> None:
        self.lw = lw
        self.scope = Scope(None, params)

    def __enter__(self) -> Scope:
        lw = self.lw
        self.saved = (lw.b, lw.fun_scope, lw.constants, lw.num_constants, lw.unchecked)
        lw.b = lw.fun_scope = self.scope
        lw.constants, lw.num_constants, lw.unchecked = {}, 0, 0
        return self.scope

    def __exit__(self, *exc: object) -> None:
        lw = self.lw
        lw.b, lw.fun_scope, lw.constants, lw.num_constants, lw.unchecked = self.saved


def close_function(
    lw: Lowerer, name: str, scope: Scope, sizes: list[Var], params: list[Var], v: Value, entry: bool = False
) -> tuple[ir.Fun, Value]:
    """The core function whose body is `scope` and whose result is `v`, added to the program.

    Sizes of the result that are not parameters come first in the results; those of an entry only if an array
    has them (one of units does not exist).
    """
    outside = {p for p in (*sizes, *params)}
    mapping: dict[Var, Atom] = {}
    own_sizes: list[Var] = []
    ret_sizes: list[Var] = []
    for d in dims_of(v) if not entry else [d for _, shape in walk_shapes(v) for d in shape]:
        if type(d) is Var and d not in outside and d not in mapping:
            size = mapping[d] = Var(d.name, I64)
            own_sizes.append(d)
            ret_sizes.append(size)
    dims = [mapping.get(d, d) if type(d) is Var else d for d in dims_of(v)]
    shaped = rebuild(v, iter(leaves(v)), iter(dims))
    ret_vars = []
    for atom, shape in walk_shapes(shaped):
        elem = elem_of(atom.type)
        ret_vars.append(Var("r", ArrayType(elem, shape) if shape else elem))
    body = ir.Lambda((*sizes, *params), tuple(scope.stms), (*own_sizes, *leaves(v)))
    fun = ir.Fun(name, body, len(sizes), (*ret_sizes, *ret_vars))
    lw.funs[name] = fun
    return fun, rebuild(shaped, iter(ret_vars))


def call(lw: Lowerer, made: Instance, fd: ast.FunDef, f: Fn, args: tuple[Value, ...], ab: Abstraction) -> Value:
    """Emit the call and give its result the sizes that the function's type promises."""
    fun = made.fun
    actual: list[Atom] = [*ab.size_args, *ab.args]
    mapping: dict[Var, Atom] = dict(zip(fun.body.params, actual, strict=True))
    pat: list[Var] = []
    for r in fun.ret:
        p = Var(fd.name if r.name == "r" else r.name, subst_type(r.type, mapping))
        mapping[r] = p
        pat.append(p)
    lw.b.emit_pat(tuple(pat), ir.Call(fun.name, tuple(actual)))
    v = substitute(made.result, mapping)
    own = [p for p in pat if p in dims_of(v)]
    return promised(lw, fd, f, args, v, own) if own else v


def promised(lw: Lowerer, fd: ast.FunDef, f: Fn, args: tuple[Value, ...], v: Value, own: list[Var]) -> Value:
    """`v` with those of its `own` sizes that the function's result type expresses in the arguments."""
    if fd.ret_type is None:
        return v
    fr = instantiate(lw, fd, f.inst, f.frame)
    bind_params(lw, fd, args, f.inst, fr)
    want: list[Atom] = []
    for place, d in zip(placed_sizes(fd.ret_type, v, fr), dims_of(v), strict=True):
        atom = size_atom(lw, *place) if place is not None and d in own else None
        want.append(d if atom is None else atom)
    return recast(lw, v, want)


def unique_name(lw: Lowerer, name: str) -> str:
    """A name for a core function that no other has."""
    base = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "fun"
    while True:
        n = lw.names.get(base, 0) + 1
        lw.names[base] = n
        found = f"{base}_{n}"
        if found not in lw.names and found not in lw.funs:
            lw.names[found] = 0
            return found
