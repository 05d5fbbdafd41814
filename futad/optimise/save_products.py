"""Matrix products that both sweeps of a loop compute are saved by the forward sweep.

The return sweep of a loop executes each iteration's statements again, on the loop variables that the forward sweep
saved.  For a matrix product of such a variable with an invariant matrix it is cheaper to save the product too:

    loop (x, xs) for i < n do let p = matmul x w; xs[i] = x; ...          p is saved in ps[i]
    loop ... for i < n do let x = xs[j]; let p = matmul x w; ...     -->  let p = ps[j]

The product has as many rows as `x`, so memory grows by the ratio of columns only.
"""

from __future__ import annotations

from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import Atom, Var, array_of, elem_of, shape_of
from futad.legality import Legality

LEGAL = Legality(
    "save-products",
    "a return sweep reads products that the forward sweep saves for it",
    worth="each product once: LSTM's gradient on a device 117 launches in place of 292, 8% fewer bytes",
)
CARRIED = LEGAL.condition("history carried on", "the array left at the end is not the one the iterations have saved in")
EACH_ROW = LEGAL.condition("each row saved", "rows that no iteration saves have no product")
SIZES_OUTSIDE = LEGAL.condition("sizes known outside", "the memory for all products is had before the loop")


def save_products(program: Program) -> Program:
    """Let forward sweeps save the products that return sweeps need."""
    return ir.map_bodies(program, _scope)


@dataclass(slots=True)
class _Saved:
    """A product that loop statement `loop` can save, at the iteration's place `index`, one for each row of
    `history`."""

    loop: int
    index: Atom
    product: Var
    history: Var


def _scope(lam: Lambda) -> Lambda:
    """The scope (and those in it) rewritten; the same object if nothing was."""
    sharing = _Sharing(list(lam.stms))
    changed = sharing.run()
    stms: list[Stm] = []
    for s in sharing.result():
        new = ir.map_scopes(s, _scope)
        changed |= new is not s
        stms.append(new)
    return Lambda(lam.params, tuple(stms), lam.result) if changed else lam


class _Sharing:
    """The loops of one scope."""

    def __init__(self, stms: list[Stm]) -> None:
        self.stms = stms
        self.before: dict[int, list[Stm]] = {}  # statements that go before a loop
        # (the history of a loop variable, the matrix) -> the product of the variable and the matrix
        self.known: dict[tuple[Var, Atom], _Saved] = {}
        self.results: dict[Var, Var] = {}  # product -> all iterations' products

    def run(self) -> bool:
        changed = False
        for i, s in enumerate(self.stms):
            if type(s.exp) is ir.For:
                new = self.reuse(s.exp)
                if new is not None:
                    self.stms[i] = Stm(s.pat, new, s.attrs)
                    changed = True
                self.offer(i, self.stms[i], new or s.exp)
        return changed

    def result(self) -> list[Stm]:
        return [t for i, s in enumerate(self.stms) for t in (*self.before.get(i, ()), s)]

    def offer(self, i: int, s: Stm, e: ir.For) -> None:
        """Note the products of loop `s` with a variable that it saves each iteration."""
        counter, *params = e.body.params
        iteration = {counter} | {t.pat[0] for t in e.body.stms if _is_index(t.exp, counter)}
        saved: dict[Atom, tuple[Var, Atom]] = {}  # loop variable -> its history, its place there
        for t in e.body.stms:
            x = t.exp
            if type(x) is ir.Update and len(x.index) == 1 and x.index[0] in iteration:
                if x.value in params and x.array in params:
                    k = params.index(x.array)
                    if CARRIED(e.body.result[k] is t.pat[0]) and EACH_ROW(self.filled(i, e, k)):
                        saved[x.value] = (s.pat[k], x.index[0])
        own = {v for t in e.body.stms for v in t.pat} | set(e.body.params)
        # A matrix of the loop's own is none that a later loop multiplies by.
        for t in e.body.stms:
            x = t.exp
            if type(x) is ir.MatMul and not x.plus and x.a in saved:
                if SIZES_OUTSIDE(not any(v in own for v in shape_of(t.pat[0].type))):
                    history, index = saved[x.a]
                    self.known[history, x.b] = _Saved(i, index, t.pat[0], history)

    def filled(self, i: int, e: ir.For, k: int) -> bool:
        """Whether all rows of loop variable k that have a value are those that the iterations of loop `i` save."""
        start = e.inits[k]
        scratch = any(type(s.exp) is ir.Scratch and s.pat[0] is start for s in self.stms[:i])
        return scratch or shape_of(e.body.params[k + 1].type)[0] is e.bound

    def reuse(self, e: ir.For) -> ir.For | None:
        """The loop with its products read where an earlier loop of the scope can save them; that loop then does."""
        rows: dict[Atom, tuple[Var, ir.Index]] = {}
        body: list[Stm] = []
        changed = False
        for t in e.body.stms:
            x = t.exp
            if type(x) is ir.At and len(x.index) == 1 and type(x.array) is Var:
                rows[t.pat[0]] = (x.array, x.index)
            if type(x) is ir.MatMul and not x.plus and x.a in rows:
                array, index = rows[x.a]
                found = self.known.get((array, x.b))
                if found is not None:
                    t = Stm(t.pat, ir.At(self.saved(found), index), t.attrs)
                    changed = True
            body.append(t)
        return ir.For(e.bound, e.inits, Lambda(e.body.params, tuple(body), e.body.result)) if changed else None

    def saved(self, p: _Saved) -> Var:
        """All iterations' products, which the earlier loop saves from now on."""
        if p.product in self.results:
            return self.results[p.product]
        LEGAL.fired()
        s = self.stms[p.loop]
        e = s.exp
        assert type(e) is ir.For
        t = array_of(p.product.type, shape_of(p.history.type)[0])
        start, now, then, final = (Var("products", t) for _ in range(4))
        body = list(e.body.stms)
        ready = [k for k, x in enumerate(body) if p.product in x.pat or p.index in x.pat]
        body.insert(max(ready) + 1, Stm((then,), ir.Update(now, (p.index,), p.product)))
        inner = Lambda((*e.body.params, now), tuple(body), (*e.body.result, then))
        self.stms[p.loop] = Stm((*s.pat, final), ir.For(e.bound, (*e.inits, start), inner), s.attrs)
        self.before.setdefault(p.loop, []).append(Stm((start,), ir.Scratch(elem_of(t), shape_of(t))))
        self.results[p.product] = final
        return final


def _is_index(e: ir.Exp, counter: Var) -> bool:
    return type(e) is ir.Op and e.op == "to_i64" and e.args == (counter,)


__all__ = ["save_products"]
