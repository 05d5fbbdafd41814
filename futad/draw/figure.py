"""What a picture of a function shows: boxes with ports, one for each statement.

Scalar statements that depend on each other directly share a box of formulas; a construct with a scope is a box around
the boxes of its body.  A value flows from a port to the ports of the same key in the scope where it is bound: a box
has ports above for what it uses, below for what it binds, and inside it they stand for the scope's parameters and
results.  Sizes of arrays are written on the ports, and are no values that flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.ir import Exp, Fun, Lambda, Stm
from futad.core.types import Atom, Var
from futad.draw.groups import grouped, is_scalar, places, uses
from futad.draw.names import Names, wrapped

# The kinds of boxes, with what the legend says of them.
KINDS = {
    "nest": "nest of maps",
    "product": "matrix product",
    "fold": "reduction or scan",
    "scatter": "scatter, histogram, accumulator",
    "loop": "loop",
    "branch": "branch",
    "data": "moves or makes an array",
    "scalar": "scalars",
    "other": "call, derivative, assertion",
}
OF_CLASS: dict[type[Exp], str] = {
    ir.Map: "nest", ir.MatMul: "product", ir.Contraction: "product", ir.Reduce: "fold", ir.Scan: "fold",
    ir.Fused: "fold", ir.Scatter: "scatter", ir.Hist: "scatter", ir.WithAcc: "scatter",
    ir.UpdateAcc: "scatter", ir.For: "loop", ir.While: "loop",
    ir.If: "branch", ir.At: "data", ir.Update: "data", ir.Iota: "data", ir.Replicate: "data", ir.ArrayLit: "data",
    ir.Concat: "data", ir.Reshape: "data", ir.Rearrange: "data", ir.ArgSort: "data", ir.Copy: "data",
    ir.Scratch: "data", ir.Alias: "data", ir.Op: "scalar",
}  # fmt: skip

# Reverse mode calls an adjoint x_bar: what binds one, or uses it, is of the return sweep.
ADJOINT = "_bar"


@dataclass(slots=True, eq=False)
class Port:
    """Where a value enters or leaves a box: what it is `outside` and `inside`, None where nothing is drawn of it.
    Without a `label` it is a dot."""

    outside: Var | None
    inside: Var | None
    label: str = ""


@dataclass(slots=True, eq=False)
class Box:
    """A box, for `stms` themselves (those inside have boxes of their own), which bind what the picture calls `binds`.

    `lines` is its text, or `title` if it has others inside; `sweep`: forward, return, both, or neither ("").
    """

    kind: str
    title: str
    lines: list[str] = field(default_factory=list)
    ins: list[Port] = field(default_factory=list)
    outs: list[Port] = field(default_factory=list)
    inside: list[Box] = field(default_factory=list)
    stms: tuple[Stm, ...] = ()
    binds: list[str] = field(default_factory=list)
    note: str = ""
    sweep: str = ""


def figure(fun: Fun) -> Box:
    """The boxes of a function."""
    return _Drawer(fun).whole()


class _Drawer:
    def __init__(self, fun: Fun) -> None:
        self.fun, self.names = fun, Names()
        self.hidden = set(fun.body.params[: fun.num_sizes])
        self.adjoint: set[Atom] = set()
        self.place = f"{fun.name}" + (f" at {fun.span}" if fun.span is not None else "")

    def whole(self) -> Box:
        lam = self.fun.body
        for v in self.hidden:
            self.names.var(v)
        box = Box("function", self.fun.name, note=self.place)
        box.ins = [Port(None, p, self.names.labelled(p)) for p in lam.params if p not in self.hidden]
        box.inside = self.scope(lam)
        box.outs = self.results([], lam.result)
        if not self.adjoint:
            _forget_sweeps(box)
        return box

    # -- scopes

    def scope(self, lam: Lambda) -> list[Box]:
        """The boxes of a scope's statements, in order."""
        used = {v for s in lam.stms if not is_scalar(s) for v in uses(s.exp)} | {*lam.result}
        boxes: list[Box] = []
        for group in grouped(lam.stms):
            if is_scalar(group[0]):
                others = {v for s in lam.stms if is_scalar(s) and s not in group for v in uses(s.exp)}
                boxes.append(self.scalars(group, used | others))
            else:
                boxes.append(self.statement(group[0]))
        return boxes

    def scalars(self, stms: Sequence[Stm], used: Set[Atom]) -> Box:
        made = {v for s in stms for v in s.pat}
        inputs = dict.fromkeys(v for s in stms for v in uses(s.exp) if v not in made)
        outs = [v for s in stms for v in s.pat if v in used]
        for s in stms:
            self.note_adjoints(s.pat, uses(s.exp))
        lines = self.names.lines(stms, used)
        box = Box("scalar", "", lines, self.free(inputs), [Port(v, None, self.names.var(v)) for v in outs], [])
        return self.finished(box, stms, [v for v in outs or made])

    def statement(self, s: Stm) -> Box:
        e = s.exp
        kind = OF_CLASS.get(type(e), "other")
        box = Box(kind, "")
        used = dict.fromkeys(uses(e))
        match e:
            case ir.Mapping():
                folds = [f.lam for f in e.folds]
                box.title = f"map over {self.names.data(e.width)}" + self.folds(folds)
                self.body(box, s, e.lam, list(zip(e.lam.params, e.arrays, strict=True)), folds)
            case ir.Reduce() | ir.Scan():
                word = "reduce" if isinstance(e, ir.Reduce) else "scan"
                box.title = f"{word} over {self.names.data(e.width)}{self.folds([e.lam])}"
                self.body(box, s, None, [(None, a) for a in e.arrays], [e.lam])
            case ir.For():
                i = e.body.params[0]
                box.title = f"for {self.names.var(i)} < {self.names.data(e.bound)}"
                self.body(box, s, e.body, list(zip(e.body.params[1:], e.inits, strict=True)), [], "↻ ", [i])
            case ir.While():
                box.title = "while"
                self.body(box, s, e.body, list(zip(e.body.params, e.inits, strict=True)), [], "↻ ")
            case ir.WithAcc():
                box.title = f"accumulate ({e.op})"
                self.body(box, s, e.lam, list(zip(e.lam.params, e.arrays, strict=True)), [])
            case ir.Jvp() | ir.Vjp():
                box.title = "derivative, forward" if isinstance(e, ir.Jvp) else "derivative, reverse"
                self.body(box, s, e.lam, list(zip(e.lam.params, e.args, strict=True)), [])
            case _ if e.lambdas():
                box.title = f"if {self.names.data(e.cond)}" if isinstance(e, ir.If) else type(e).__name__.lower()
                self.parts(box, s, e)
            case _:
                self.note_adjoints(s.pat, used)
                box.lines = self.names.leaf(s)
                box.ins = self.free(used)
                box.outs = [Port(v, None, self.names.labelled(v)) for v in s.pat]
        return self.finished(box, (s,), s.pat or used)

    def body(
        self, box: Box, s: Stm, lam: Lambda | None, given: Sequence[tuple[Var | None, Atom]], folds: Sequence[Lambda],
        sign: str = "", counters: Sequence[Var] = (),
    ) -> None:  # fmt: skip
        """A construct around one scope: `given` are its parameters with their arguments, `folds` its operators, of
        which those of more than one operation have boxes of their own."""
        box.ins = [Port(None, i, self.names.var(i)) for i in counters]
        for p, a in given:
            outside = a if isinstance(a, Var) and a not in self.hidden else None
            if p is not None:
                self.note_adjoints((p,), [a])
                box.ins.append(Port(outside, p, sign + self.names.labelled(p)))
            elif outside is not None:
                box.ins.append(Port(outside, None))
        complicated = [f for f in folds if not self.names.operator(f)]
        box.stms = tuple([x for f in folds if f not in complicated for x in f.stms])  # said by their signs
        around = [v for v in uses(s.exp) if v not in {a for _, a in given}]
        box.ins += self.free(dict.fromkeys(around))
        box.inside = self.scope(lam) if lam is not None else []
        box.inside += [self.part("operator", f, ()) for f in complicated]
        inner: list[Atom | None] = [*(lam.result if lam is not None else ())]
        if len(inner) != len(s.pat):  # a fold's, which its operator makes; a derivative's beside the results
            self.note_adjoints(s.pat, uses(s.exp))
            inner = [*inner, *[None] * len(s.pat)][: len(s.pat)]
        box.outs = self.results(s.pat, inner)
        if not box.inside:
            box.lines, box.title = wrapped(box.title), ""

    def parts(self, box: Box, s: Stm, e: Exp) -> None:
        """A construct of several scopes: each is a box in it."""
        box.ins = self.free(dict.fromkeys(uses(e)))
        names = ["then", "else"] if isinstance(e, ir.If) else [f for f, k in type(e).kinds.items() if k == "lambda"]
        names += ["scope"] * (len(e.lambdas()) - len(names))
        branch = isinstance(e, ir.If)
        if not branch:
            self.note_adjoints(s.pat, uses(e))
        box.inside = [self.part(n, f, s.pat if branch else ()) for n, f in zip(names, e.lambdas(), strict=True)]
        box.outs = self.results(s.pat, s.pat if branch else [None] * len(s.pat))

    def part(self, title: str, lam: Lambda, pat: Sequence[Var]) -> Box:
        """A scope as a box of no statement's own, whose results are those of `pat`."""
        free = {v: None for s in lam.stms for v in uses(s.exp)} | {v: None for v in lam.result if isinstance(v, Var)}
        bound = {*lam.params, *[v for s in lam.stms for v in s.pat]}
        box = Box("branch" if pat else "other", title)
        box.ins = [Port(None, p, self.names.labelled(p)) for p in lam.params]
        box.ins += self.free({v: None for v in free if v not in bound})
        box.inside = self.scope(lam)
        box.outs = self.results(pat, lam.result)
        box.sweep = _together([b.sweep for b in box.inside])
        if not box.inside:
            box.lines, box.title = [title], ""
        box.note = self.place
        return box

    # -- ports and their text

    def free(self, used: Iterable[Var]) -> list[Port]:
        return [Port(v, v) for v in used if v not in self.hidden]

    def results(self, pat: Sequence[Var], values: Sequence[Atom | None]) -> list[Port]:
        """The ports of results: `values` inside, `pat` outside (nothing is, of a whole function)."""
        out = []
        for k, a in enumerate(values):
            v = pat[k] if pat else None
            shown = isinstance(a, Var) and a not in self.hidden
            label = self.names.labelled(v) if v is not None else self.names.labelled(a) if isinstance(a, Var) else ""
            if a is not None and not isinstance(a, Var):
                label = f"{label} = {self.names.data(a)}" if label else self.names.data(a)
            out.append(Port(v, a if shown and isinstance(a, Var) else None, label))
            if v is not None:
                self.note_adjoints((v,), [a] if a is not None else [])
        return out

    def folds(self, lams: Sequence[Lambda]) -> str:
        signs = [self.names.operator(f) or "…" for f in lams]
        return f", fold {' '.join(signs)}" if signs else ""

    def note_adjoints(self, pat: Iterable[Var], used: Iterable[Atom]) -> None:
        """Remember which of the variables are adjoints, or come of some."""
        other = not self.adjoint.isdisjoint(used)
        self.adjoint.update(v for v in pat if other or v.name.endswith(ADJOINT))

    def finished(self, box: Box, stms: Sequence[Stm], bound: Iterable[Var]) -> Box:
        box.stms = (*stms, *box.stms)
        box.binds = [self.names.var(v) for s in box.stms for v in s.pat]
        place = next((p for s in stms for p in places(s)), None)
        where = str(place) if place is not None else self.place
        box.note = "\n".join([*[_short(self.names.stm(s)) for s in stms], where])
        box.sweep = _together(["return" if v in self.adjoint else "forward" for v in bound])
        return box


def _short(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."


def _together(sweeps: Iterable[str]) -> str:
    found = {x for x in sweeps if x}
    return found.pop() if len(found) == 1 else "both" if found else ""


def _forget_sweeps(box: Box) -> None:
    box.sweep = ""
    for inner in box.inside:
        _forget_sweeps(inner)


__all__ = ["KINDS", "Box", "Port", "figure"]
