"""Names, applications and functions: applying closures in place, or as calls of core functions.

A function is lowered once per instance: per structure of its arguments and per code of its functional
arguments, whose captured values become extra parameters.  Small functions, and those that yield functions,
are evaluated where they are applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from futad.core import ir
from futad.core.types import I64, ArrayType, Atom, Var, elem_of, subst_type
from futad.errors import UnsupportedError
from futad.source import ast
from futad.source.limits import CODE
from futad.source.lower.abstraction import Abstraction, Signature, borrow
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
)
from futad.source.lower.values import (
    Fn,
    Frame,
    Inst,
    Leaf,
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
    SType,
    TArray,
    TRecord,
)

if TYPE_CHECKING:
    from futad.errors import Span

# Bodies of at most this many expressions are evaluated in place (a call costs about as much to compile).
SMALL = 16
# The same for functions that consume a parameter: in place, the update needs no copy.
SMALL_UNIQUE = 250
# Instances of one recursive function, by the functions and types that it is applied to.
MOST_INSTANCES = 200
MOST_APPLIED = 1 << 16  # applications whose functions are known, each of which is written out or called


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


def enter(lw: Lowerer, f: Fn, args: tuple[Value, ...], rt: TypeAt | None, span: Span) -> Value:
    """Apply to exactly as many arguments as the code takes."""
    code = f.code
    if type(code) is str:
        first = len(lw.b.stms)
        v: Value = lw.intrinsic(lw, code, span)[1](lw, args, Use(f.inst, rt, span))
        lw.b.locate(first, lw.site)
        return v
    lw.applied += 1
    if lw.applied > MOST_APPLIED:
        said = f"functions are applied more than {MOST_APPLIED} times where they are known"
        raise UnsupportedError(said, lw.site or span, hint="write a loop", code=CODE)
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
        if fd.recursive:
            raise lw.unsupported_error(f"an accumulator as argument of the recursive function '{fd.name}'", fd.span)
        return True
    if "noinline" in names or "bound" in names or fd is lw.not_inlined or fd.recursive:
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
    if made is None and fd.recursive:
        made = define_recursive(lw, fd, ab, tuple([v for v, _ in values]), inst, frame, key)
    elif made is None:
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


def define_recursive(
    lw: Lowerer, fd: ast.FunDef, ab: Abstraction, args: tuple[Value, ...], inst: Inst | None, frame: Frame, key: Any
) -> Instance:
    """Lower a function that its own body calls: what it returns is known from its type before its body is lowered."""
    made = sum(1 for k in lw.instances if k[0] == id(fd))
    if made >= MOST_INSTANCES:
        raise lw.unsupported_error(
            f"the recursive function '{fd.name}' applied to more and more different functions or types", fd.span
        )
    name = unique_name(lw, fd.name)
    with function_scope(lw, [*ab.sizes, *ab.params]) as scope:
        lw.known_sizes |= ab.array_sizes()
        fr = instantiate(lw, fd, inst, frame)
        bind_params(lw, fd, args, inst, fr)
        assert fd.ret_type is not None
        signature = Signature(lw, {*ab.sizes, *ab.params})
        result = signature.value(fd.ret_type, fr)
        fun = ir.Fun(name, ir.Lambda((*ab.sizes, *ab.params), (), ()), len(ab.sizes), signature.ret())
        fun.attrs = tuple([(a.name, *a.args) for a in fd.attrs])
        fun.span = fd.span
        lw.instances[key] = instance = Instance(fun, result)
        v = fit(lw, fd.ret_type, lw.expr(fd.body, fr), fr)
        want: list[Atom] = []
        sizes: dict[Atom, Atom] = {}  # of the result that are not known outside
        for promised_size, d in zip(dims_of(result), dims_of(v), strict=True):
            own = promised_size in signature.sizes
            want.append(sizes.setdefault(promised_size, d) if own else promised_size)
        v = recast(lw, v, want)
    results = (*[sizes[s] for s in signature.sizes], *leaves(v))
    fun.body = ir.Lambda(fun.body.params, tuple(scope.stms), results)
    lw.funs[name] = fun
    return instance


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
