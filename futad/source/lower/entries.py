"""Entry points: core functions with the source's view of their parameters and result."""

from __future__ import annotations

from collections.abc import Iterator

from futad.core import ir
from futad.core.types import I8, I64, ArrayType, Atom, Var, i64
from futad.errors import INVALID_SIZES, Span
from futad.source import ast
from futad.source.lower.calls import bind_params, close_function, function_scope, is_unique
from futad.source.lower.core import Lowerer
from futad.source.lower.patterns import bind, pattern_vars
from futad.source.lower.sizes import fields_of, fit, head, require_product, size_atom
from futad.source.lower.values import Arr, Frame, Leaf, Rec, Value, has_function, in_order
from futad.source.types import (
    Binding,
    Size,
    SizeConst,
    SizeExp,
    SizeVar,
    SType,
    TArray,
    TFun,
    TParam,
    TPrim,
    TRecord,
    TSum,
    resolve_size,
)


def lower_entry(lw: Lowerer, fd: ast.FunDef) -> None:
    """Lower an entry as a core function of its own name, over parameters made from its types."""
    frame = Frame(lw.root)
    assert fd.ret_type is not None
    made = EntryParams(lw, fd, frame)
    with function_scope(lw, [*made.sizes, *made.params]) as scope:
        lw.known_sizes |= set(made.sizes)
        lw.stored_sizes.update(n for p in made.params if type(p.type) is ArrayType for n in p.type.shape)
        for p, v in zip(fd.params, made.values, strict=True):
            bind(lw, p, v, frame)
        made.check_size_expressions()
        bind_params(lw, fd, tuple(made.values), None, frame)
        result = fit(lw, fd.ret_type, lw.expr(fd.body, frame), frame)
        if has_function(result):
            raise lw.unsupported_error("an entry that returns a function", fd.span)
    result = as_declared(fd.ret_type, result, frame)
    fun, _ = close_function(lw, fd.name, scope, made.sizes, made.params, result, True)
    fun.span = fd.span
    fun.attrs = tuple([(a.name, *a.args) for a in fd.attrs])
    fun.entry = ir.Entry(
        fd.name,
        tuple([(n, entry_type(lw, p)) for n, p in zip(parameter_names(fd), fd.params, strict=True)]),
        view(fd.ret_type, written(lw, fd.ret)),
        tuple([p.type is not None and is_unique(p.type) for p in fd.params]),
        fd.doc,
    )


class EntryParams:
    """The core parameters of an entry: one size each for its size parameters and size expressions."""

    def __init__(self, lw: Lowerer, fd: ast.FunDef, frame: Frame) -> None:
        self.lw = lw
        self.fd = fd
        self.frame = frame
        self.sizes: list[Var] = []
        self.params: list[Var] = []
        self.values: list[Value] = []
        self._by_binding: dict[Binding, Var] = {}
        self._scalars: dict[Binding, Var] = {}
        self._written: dict[str, tuple[Var, SizeExp]] = {}
        for name, p in zip(parameter_names(fd), fd.params, strict=True):
            assert p.type is not None
            self.values.append(self.make(p.type, name, (), p.span))
            inner = pattern_vars(p)
            if len(inner) == 1 and type(self.values[-1]) is Leaf and self.params[-1].type is I64:
                assert inner[0][0].binding is not None
                self._scalars[inner[0][0].binding] = self.params[-1]
        for b, v in self._by_binding.items():
            if b not in self._scalars:
                frame.vals[b] = Leaf(v)
        scheme = fd.binding.scheme if fd.binding is not None else None
        for b in scheme.sizes if scheme is not None else ():
            if b not in frame.vals and b not in self._scalars:
                v = Var(b.name, I64)
                self.sizes.append(v)
                frame.vals[b] = Leaf(v)

    def size(self, s: Size) -> Atom:
        s = resolve_size(s)
        if type(s) is SizeConst:
            return i64(s.value)
        if type(s) is SizeVar:
            known = self._scalars.get(s.binding) or self._by_binding.get(s.binding)
            if known is None:
                known = self._by_binding[s.binding] = Var(s.binding.name, I64)
                self.sizes.append(known)
            return known
        if type(s) is SizeExp:
            if s.key not in self._written:
                v = Var("size", I64)
                self.sizes.append(v)
                self._written[s.key] = (v, s)
            return self._written[s.key][0]
        v = Var("n", I64)
        self.sizes.append(v)
        return v

    def make(self, t: SType, name: str, outer: tuple[Atom, ...], span: Span) -> Value:
        t, _ = head(t, self.frame)
        if type(t) is TPrim:
            v = Var(name, ArrayType(t.prim, outer) if outer else t.prim)
            self.params.append(v)
            return Leaf(v)
        if type(t) is TArray:
            dims: list[Atom] = []
            while type(t) is TArray:
                dims.append(self.size(t.size))
                t, _ = head(t.elem, self.frame)
            return Arr(tuple(dims), self.make(t, name, outer + tuple(dims), span))
        if type(t) is TRecord:
            return Rec(in_order({n: self.make(f, f"{name}_{n}", outer, span) for n, f in t.fields}))
        if type(t) is TSum:
            tag = self.make(TPrim(I8), f"{name}_tag", outer, span)
            parts = fields_of(t).items()
            return Rec({"#": tag} | {n: self.make(f, name, outer, span) for n, f in parts})
        what = "a function" if type(t) is TFun else "a value of polymorphic type"
        if type(t) is not TFun and type(t) is not TParam:
            what = "a value of unknown type"
        raise self.lw.unsupported_error(f"entry `{self.fd.name}` takes {what}: {name}", span)

    def check_size_expressions(self) -> None:
        """Arguments whose sizes are other arguments or expressions over them must have those sizes."""
        lw = self.lw
        for b, v in self._by_binding.items():
            if b in self._scalars:
                self.require(v, self._scalars[b])
        for v, s in self._written.values():
            atom = size_atom(lw, s, self.frame)
            if atom is None:
                continue
            self.require(v, atom)
            # From here on the expression is that size.
            for key, made in list(lw.b.shared.items()):
                if made is atom:
                    lw.b.shared[key] = v

    def require(self, v: Var, atom: Atom) -> None:
        ok = self.lw.b.scalar("eq", v, atom)
        message = f"{INVALID_SIZES}: one has size {{}}, but its type says {{}}"
        self.lw.b.emit(ir.Assert(ok, message, (v, atom), self.fd.span))
        require_product(self.lw, atom, self.fd.span)


def as_declared(t: SType, v: Value, fr: Frame) -> Value:
    """A result with the fields of its records in the order of its type."""
    t, fr = head(t, fr)
    if type(v) is Arr:
        for _ in v.dims:
            assert type(t) is TArray
            t, fr = head(t.elem, fr)
        return Arr(v.dims, as_declared(t, v.elem, fr))
    if type(v) is Rec and type(t) is TRecord:
        return Rec({n: as_declared(f, v.fields[n], fr) for n, f in t.fields})
    if type(v) is Rec:
        parts = fields_of(t)
        return Rec({n: as_declared(parts[n], f, fr) if n in parts else f for n, f in v.fields.items()})
    return v


def parameter_names(fd: ast.FunDef) -> Iterator[str]:
    """The names of the parameters; an unnamed one is called `argK`, K counting from 0."""
    for i, p in enumerate(fd.params):
        q: ast.Pat = p
        while type(q) is ast.PAscript or type(q) is ast.PAttr:
            q = q.pat
        yield q.name if type(q) is ast.PVar else f"arg{i}"


# --- the source's view ----------------------------------------------------------------------------------


def written(lw: Lowerer, t: ast.TypeExp | None) -> str | None:
    """A type as the source has it, on one line; None if it is not written."""
    return None if t is None else lw.text_of(t.span) or None


def entry_type(lw: Lowerer, p: ast.Pat) -> ir.EntryType:
    """The view of a parameter, its type as written if the pattern says it."""
    assert p.type is not None
    q: ast.Pat = p
    while type(q) is ast.PAttr:
        q = q.pat
    return view(p.type, written(lw, q.texp) if type(q) is ast.PAscript else None)


def view(t: SType, text: str | None) -> ir.EntryType:
    """The entry type of a source type."""
    t, _ = head(t, Frame(None))
    shown = text if text is not None else type_text(t)
    if type(t) is TPrim:
        return ir.EntryType("scalar", shown, t.prim)
    if type(t) is TArray:
        dims: list[str | int | None] = []
        while type(t) is TArray:
            dims.append(dim_text(t.size))
            t, _ = head(t.elem, Frame(None))
        return ir.EntryType("array", shown, view(t, None), tuple(dims))
    fields = sum_fields(t) if type(t) is TSum else t.fields if type(t) is TRecord else ()
    kind = "tuple" if type(t) is TRecord and t.is_tuple else "record"
    constructors = tuple(sorted([(n, len(ts)) for n, ts in t.constrs])) if type(t) is TSum else ()
    return ir.EntryType(kind, shown, None, (), tuple([(n, view(f, None)) for n, f in fields]), constructors)


def sum_fields(t: TSum) -> tuple[tuple[str, SType], ...]:
    return (("#", TPrim(I8)), *fields_of(t).items())


def dim_text(s: Size) -> str | int | None:
    s = resolve_size(s)
    if type(s) is SizeConst:
        return s.value
    if type(s) is SizeVar and s.binding.kind != "skolem":
        return s.binding.name
    return None


def type_text(t: SType) -> str:
    """A type in the source's notation."""
    t, _ = head(t, Frame(None))
    if type(t) is TPrim:
        return t.prim.name
    if type(t) is TArray:
        d = dim_text(t.size)
        return ("*" if t.unique else "") + f"[{'' if d is None else d}]" + type_text(t.elem)
    if type(t) is TRecord:
        if t.is_tuple:
            return "(" + ", ".join(type_text(f) for _, f in t.fields) + ")"
        return "{" + ", ".join(f"{n}: {type_text(f)}" for n, f in t.fields) + "}"
    if type(t) is TSum:
        return " | ".join(" ".join([f"#{c}", *map(type_text, args)]) for c, args in t.constrs)
    return "?"


