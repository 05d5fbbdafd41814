"""What a core function has as parameters and results: variables in the place of the values of one call."""

from __future__ import annotations

from typing import Any

from futad.core.types import I8, I64, ArrayType, Atom, Const, Var, elem_of
from futad.source.lower.core import Lowerer
from futad.source.lower.sizes import fields_of, head, size_atom, type_key
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
    in_order,
    leaves,
    rebuild,
    walk_shapes,
)
from futad.source.types import (
    Binding,
    Size,
    SizeConst,
    SizeMeta,
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


def borrow(lw: Lowerer, args: tuple[Value, ...]) -> None:
    """Each application of a function value may consume what it was given before, and so consumes a copy."""
    lw.borrowed.update(a for v in args for a in leaves(v))


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


class Signature:
    """The variables that stand for a function's results, of sizes in terms of its parameters where its type says so."""

    def __init__(self, lw: Lowerer, params: set[Var]) -> None:
        self.lw = lw
        self.params = params
        self.sizes: list[Var] = []  # that the function returns
        self.vars: list[Var] = []
        self._known: dict[Binding, Var] = {}

    def ret(self) -> tuple[Var, ...]:
        return (*self.sizes, *self.vars)

    def size(self, s: Size, fr: Frame) -> Atom:
        s = resolve_size(s)
        if type(s) is SizeConst:
            return Const(I64, s.value)
        if type(s) is not SizeVar:
            self.sizes.append(Var("n", I64))
            return self.sizes[-1]
        v = fr.lookup(s.binding)
        if type(v) is Leaf and (type(v.atom) is Const or v.atom in self.params):
            return v.atom
        known = self._known.get(s.binding)
        if known is None:
            known = self._known[s.binding] = Var(s.binding.name, I64)
            self.sizes.append(known)
        return known

    def value(self, t: SType, fr: Frame, outer: tuple[Atom, ...] = ()) -> Value:
        t, fr = head(t, fr)
        if type(t) is TPrim:
            self.vars.append(Var("r", ArrayType(t.prim, outer) if outer else t.prim))
            return Leaf(self.vars[-1])
        if type(t) is TArray:
            dims: list[Atom] = []
            while type(t) is TArray:
                dims.append(self.size(t.size, fr))
                t, fr = head(t.elem, fr)
            return Arr(tuple(dims), self.value(t, fr, outer + tuple(dims)))
        if type(t) is TRecord:
            return Rec({n: self.value(f, fr, outer) for n, f in in_order(dict(t.fields)).items()})
        if type(t) is TSum:
            tag = self.value(TPrim(I8), fr, outer)
            return Rec({"#": tag} | {n: self.value(f, fr, outer) for n, f in fields_of(t).items()})
        raise self.lw.unsupported_error("a recursive function whose result's type is not known")


__all__ = ["Abstraction", "Signature", "borrow"]
