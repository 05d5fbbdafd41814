"""What a program needs at least of a machine, and how long that takes at its ceilings (`ceilings.py`).

Operations are counted by the interpreter, which runs the program as it is after all passes of its target: invariant
code is out of loops, products are products, borders are apart.  Loops and branches that depend on data count as they
went.  Integers, comparisons, selections and signs count nothing.

    multiply-adds   of matrix products and contractions; every other addition or product of floats is half of one, as
                    if all of them fitted together
    calls           of functions that take several instructions, division and square root among them, each of its kind
    bytes           of the arguments and of the results, once

A gradient with its value needs what the value needs and, for each operation that depends on the arguments it is taken
by, what the table's rule of reverse mode adds: a product with each partial derivative and what that is made of, a
product of matrices or contraction again for each factor.  Additions of adjoints do not count, nor is anything computed
twice.  Some programs need less, as most adjoints are zero (those of a minimum); so the compiled derivative is counted,
too, if its run in the interpreter is no longer than `LONGEST`, and of both the one counts that takes less.

The bound is the largest one of three times: of arithmetic, the sum of multiply-adds and calls, which the same units of
a processor execute; of divisions and square roots, for which it has another unit; and of moving the bytes, which goes
on meanwhile (S. Williams, A. Waterman, D. Patterson, "Roofline",
CACM 52, 2009).  It knows nothing of chains of operations that wait for each other, of places that follow from data, nor
of results in between that leave the caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from ceilings import of_bytes

from futad.ad.activity import carries, propagate
from futad.ad.rules.scalar import scaled
from futad.ad.tidy.unfuse import unfuse
from futad.api.program import Function
from futad.backend.kernel_cost import is_flop
from futad.core import ir
from futad.core.builder import Builder
from futad.core.interp import Interpreter, TooLong
from futad.core.scalarops import OPS
from futad.core.types import Prim, Var, prim, prim_of
from futad.core.work import MULTIPLY_ADD, Where
from futad.pipeline import compile_program
from futad.target import Target

LONGEST = 20_000  # statements that the interpreter runs of a compiled derivative
DIVISIONS = ("div", "sqrt", "rsqrt")
Operations = Counter[tuple[str, str]]  # by name and by type


@dataclass(slots=True)
class Need:
    """Operations by type, calls by function and type ("exp f64"), bytes."""

    multiply_adds: dict[str, float] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    bytes: int = 0

    @property
    def ceilings(self) -> set[str]:
        """The names of the ceilings (`ceilings.py`) that bound it."""
        types = self.multiply_adds.keys() | self.others.keys()
        memory = [of_bytes(self.bytes)] if self.bytes else []
        return {*[f"multiply-add {t}" for t in types], *self.calls, *memory}

    def parts(self, ceilings: dict[str, float]) -> dict[str, float]:
        """Seconds at the ceilings, so much a second each."""
        products = [n / ceilings[f"multiply-add {t}"] for t, n in self.multiply_adds.items()]
        products += [n / 2 / ceilings[f"multiply-add {t}"] for t, n in self.others.items()]
        return {
            "products": sum(products),
            "functions": sum(n / ceilings[call] for call, n in self.calls.items() if not _divides(call)),
            "divisions": sum(n / ceilings[call] for call, n in self.calls.items() if _divides(call)),
            "copying": self.bytes / ceilings[of_bytes(self.bytes)] if self.bytes else 0.0,
        }

    def seconds(self, ceilings: dict[str, float]) -> float:
        """The bound."""
        parts = self.parts(ceilings)
        return max(parts["products"] + parts["functions"], parts["divisions"], parts["copying"])


def _divides(call: str) -> bool:
    return call.split()[0] in DIVISIONS


def least(needs: Sequence[Need], ceilings: dict[str, float]) -> dict[str, Any]:
    """Of several ways to compute the same the one that takes least: its bound, the parts of it, what it needs."""
    best = min(needs, key=lambda n: n.seconds(ceilings))
    of = {name: ceilings[name] for name in sorted(best.ceilings)}
    return {"seconds": best.seconds(of), "parts": best.parts(of), "needs": asdict(best), "ceilings": of}


# --- counting ---------------------------------------------------------------------------------------------------------


def needs(
    entry: Function, both: Function, wrt: Sequence[int], args: Sequence[Any], target: Target
) -> tuple[Need, list[Need]]:
    """What the entry needs with these arguments; what `both`, its value and gradient by the arguments numbered `wrt`,
    needs, in one or two ways."""
    run = _Run(entry, args, target)
    results = [*run.results, *[args[i] for i in wrt]]
    gradient = [_need(run.executed() + run.pulled(wrt), args, results)]
    try:
        gradient.append(_need(_Run(both, args, target, LONGEST).executed(), args, results))
    except TooLong:
        pass
    return _need(run.executed(), args, run.results), gradient


class _Run:
    """A run of a compiled entry in the interpreter."""

    def __init__(self, entry: Function, args: Sequence[Any], target: Target, longest: float = float("inf")) -> None:
        program = ir.map_bodies(compile_program(entry.executable.core, target=target), unfuse)
        self.fun = program.funs[entry.symbol]
        machine = Interpreter(program, count=True)
        machine.limit = longest
        self.results = machine.run(entry.symbol, entry.signature.flatten(list(args)))
        self.operations = machine.tally.operations

    def executed(self) -> Operations:
        out: Operations = Counter()
        for (_, name, t), times in self.operations.items():
            out[name, t.name] += times
        return out

    def pulled(self, wrt: Sequence[int]) -> Operations:
        """What reverse mode adds."""
        params = self.fun.body.params[self.fun.num_sizes :]
        active: set[Var] = {params[i] for i in wrt}
        propagate(self.fun.body.stms, active)
        out: Operations = Counter()
        for (where, name, t), times in self.operations.items():
            for op, at in _pull(where, name, t, active):
                out[op, at] += times
        return out


def _pull(where: Where, name: str, t: Prim, active: set[Var]) -> list[tuple[str, str]]:
    """What an operation that is executed once adds to a return sweep."""
    if not isinstance(where, ir.Stm):
        return []  # a fold: of a sum nothing
    e = where.exp
    if isinstance(e, ir.MatMul | ir.Contraction):
        return [(name, t.name)] * sum(a in active for a in (e.a, e.b)) if name == MULTIPLY_ADD else []
    if not isinstance(e, ir.Op) or not t.is_float or where.pat[0] not in active or carries(e):
        return []
    b = Builder()
    seed = b.ex(Var("seed", prim_of(where.pat[0])))
    for i, a in enumerate(e.args):
        if a in active:
            scaled(name, i, [b.ex(x) for x in e.args], b.ex(where.pat[0]), seed)
    found = [(s.exp.op, prim_of(s.exp.args[-1]).name) for s in b.stms if isinstance(s.exp, ir.Op)]
    # Several partial derivatives have a quotient, say, in common.
    return [f for k, f in enumerate(found) if OPS[f[0]].cost == 1 or f not in found[:k]]


def _need(operations: Operations, args: Sequence[Any], results: Sequence[Any]) -> Need:
    need = Need(bytes=sum(np.asarray(a).nbytes for a in (*args, *results) if np.ndim(a)))
    for (name, t), times in sorted(operations.items()):
        if name == MULTIPLY_ADD:
            need.multiply_adds[t] = need.multiply_adds.get(t, 0) + times
        elif is_flop(name, prim(t)) and OPS[name].cost == 1:
            need.others[t] = need.others.get(t, 0) + times
        elif is_flop(name, prim(t)):
            need.calls[f"{name} {t}"] = times
    return need


__all__ = ["Need", "least", "needs"]
