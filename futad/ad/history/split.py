"""Where a stretch of iterations is split, and how many states a budget allows: scalar code of the program itself.

A stretch of n iterations of which the first state is there, with room for `free` more, is split after k of them: these
are run, the state is kept, and what follows is reversed first.  With s = free + 1 states, an iteration is run at most t
times if C(s + t, t) >= n.  Binomial splits give the least number of runs, t n - C(s + t, t - 1) with the least such t;
t is found anew for each stretch, so nothing but positions is kept.
Source: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26(1), 2000; Siskind and Pearlmutter,
"Divide-and-conquer checkpointing for arbitrary programs with no user annotation", OMS 33, 2018, section 5, for the
limits on space, on time, and on both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from futad.ad.emit import fresh_like
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.types import BOOL, I64, ONE, ZERO, Atom, Var, i64
from futad.errors import Span

Values = Sequence[Atom]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Of a loop whose iterations are blocks of another's: iterations of a block and in all, the bytes that each block
    saves; whether nothing is run again; the bytes of the least budget."""

    length: Atom
    iterations: Atom
    bytes: Atom
    whole: Atom
    least: Atom
    blocks: Atom
    start: Atom  # the first iteration after them


@dataclass(frozen=True, slots=True)
class Plan:
    """A budget; where it is bytes, how many of them a loop has, and into how many such parts they are divided; how many
    reverse derivatives are around; where the loop stands in the source; and what it is that is run again, if not one
    iteration."""

    budget: Budget
    memory: Atom | None = None
    parts: Atom = ONE
    adjoints: int = 0
    place: Span | None = None
    leaf: Leaf | None = None
    working: bool = True  # the stack may have a place for the state of the iteration that is reversed


def while_(
    b: Builder, inits: Values, go_on: Callable[..., Atom], step: Callable[..., Values], names: Sequence[str] = (),
    last: Sequence[Var] = (), like: Sequence[Var] = (),
) -> list[Var]:  # fmt: skip
    """`loop vs = inits while go_on(builder, *vs) do step(builder, *vs)`; the final values, of which the last ones are
    bound to `last`.  `like`: variables of the last ones' types, if sizes among them change."""
    lead = [Var(names[min(i, len(names) - 1)] if names else "t", a.type) for i, a in enumerate(inits)]
    lead = lead[: len(inits) - len(like)]
    params = [*lead, *fresh_like(like)]
    cond = Var("go_on", BOOL)
    inner = Builder()
    values = step(inner, *params)
    again = go_on(inner, *values)
    exp = ir.While((go_on(b, *inits), *inits), ir.Lambda((cond, *params), tuple(inner.stms), (again, *values)))
    results = [*fresh_like(lead), *fresh_like(like)][: len(params) - len(last)] + [*last]
    b.add(ir.Stm((Var("go_on", BOOL), *results), exp))
    return results


def split(b: Builder, budget: Budget, n: Atom, free: Atom) -> Atom:
    """After how many of n > 0 iterations to keep a state, with room for free >= 1; all i64.

    Exact where n (s + t) < 2^63.
    """
    if budget.method == "bisection":  # where all states fit, they are kept
        half = b.op("max", b.op("shr", n, ONE), ONE)
        return b.op("select", b.op("le", n, b.op("add", free, ONE)), ONE, half, hint="k")
    s = b.op("add", free, ONE, hint="s")
    # Where there is room for every state the formulas give 1, too, by three divisions.
    fits, formulas = b.body(lambda _: [ONE]), b.body(lambda c: [_binomial(c, n, s)])
    (k,) = b.emit(ir.If(b.op("le", n, s), fits, formulas), "k", types=[I64])
    return k


def _binomial(b: Builder, n: Atom, s: Atom) -> Atom:
    """The split of n > 0 iterations with s states that gives the least number of runs."""
    # before = C(s + t - 1, t - 1), all_ = C(s + t, t)
    t, before, all_ = while_(
        b, (ZERO, ZERO, ONE),
        lambda b, t, before, all_: b.op("lt", all_, n),
        lambda b, t, before, all_: _next(b, s, t, all_),
        ("t", "before", "all"),
    )  # fmt: skip
    least = b.op("max", b.op("sub", b.op("add", s, t), ONE), ONE)
    fewer = b.op("quot", b.op("mul", before, s), least)  # C(s + t - 2, t - 1)
    other = b.op("quot", b.op("mul", all_, s), b.op("add", s, t))  # C(s + t - 1, t)
    k = b.op("min", before, b.op("sub", n, fewer))
    return b.op("max", b.op("max", k, b.op("sub", n, other)), ONE, hint="k")


def _next(b: Builder, s: Atom, t: Atom, all_: Atom) -> Values:
    t = b.op("add", t, ONE)
    return t, all_, b.op("quot", b.op("mul", all_, b.op("add", s, t)), t)


def needs_length(budget: Budget) -> bool:
    """Whether the number of states is known only with that of iterations."""
    return budget.reruns is not None or budget.checkpoints == "log"


def needs_sizes(plan: Plan) -> bool:
    """Whether states whose sizes change are limited in number, so that their memory is known only with their sizes."""
    return plan.memory is None or plan.adjoints > 0


def states(b: Builder, plan: Plan, n: Atom | None, size: Atom) -> Atom:
    """How many states the budget allows, the first one among them: may be less than one if it is bytes.

    `n`: the number of iterations, if it is known; `size`: bytes of a state, with its position.
    """
    budget = plan.budget
    if plan.memory is not None:
        found: Atom = b.op("quot", plan.memory, b.op("max", size, ONE), hint="fit")
        if plan.adjoints:
            # The states of the derivative around have this one's in them: room is shared as by a square.
            share = b.op("to_f64", b.op("max", found, ONE))
            for _ in range(plan.adjoints):
                share = b.op("sqrt", share)
            found = b.op("min", found, b.op("max", b.op("to_i64", share), ONE))
    elif isinstance(budget.checkpoints, int):
        found = i64(budget.checkpoints + 1)
    else:
        assert n is not None
        found = b.op("add", _least(b, budget, n), ONE)
    return found if n is None else b.op("min", found, b.op("max", n, ONE), hint="states")


def _least(b: Builder, budget: Budget, n: Atom) -> Atom:
    """The least number of states beside the first one with which no iteration is run more often than allowed."""
    if budget.method == "bisection":
        # After t halves there is room for all states of what is left.
        most = budget.reruns if budget.reruns is not None else 62
        t, rest = while_(
            b, (ZERO, n),
            lambda b, t, rest: b.op("and", b.op("lt", t, i64(most)), b.op("lt", ONE, rest)),
            lambda b, t, rest: (b.op("add", t, ONE), b.op("shr", b.op("add", rest, ONE), ONE)),
        )  # fmt: skip
        return b.op("add", t, b.op("sub", b.op("max", rest, ONE), ONE))
    r = budget.reruns

    def step(b: Builder, c: Atom, all_: Atom) -> Values:
        c = b.op("add", c, ONE)
        after = b.op("add", c, ONE)
        if r is None:  # C(2 c + 1, c)
            up = b.op("mul", i64(2), b.op("add", b.op("mul", i64(2), c), ONE))
        else:  # C(c + 1 + r, r)
            up = b.op("add", after, i64(r))
        return c, b.op("quot", b.op("mul", all_, up), after)

    start = ONE if r is None else i64(r + 1)
    c, _ = while_(b, (ZERO, start), lambda b, c, all_: b.op("lt", all_, n), step, ("c", "all"))
    return c


def blocks(b: Builder, plan: Plan, n: Atom, saved: Atom, size: Atom) -> Leaf:
    """How a loop of n iterations is cut into blocks (`leaves.py`) that saves `saved` bytes an iteration, and whose
    states take `size`: of all n where that fits, else of the power of two with the fewest runs."""
    memory = plan.memory
    assert memory is not None
    everything = b.op("mul", n, saved)
    whole = b.op("le", everything, memory, hint="whole")
    before = b.op("sub", n, ONE)

    def fits(b: Builder, a: Atom, *_: Atom) -> Atom:
        there = b.op("le", b.op("add", b.op("mul", a, saved), size), memory)
        return b.op("and", b.op("not", whole), b.op("and", there, b.op("lt", a, n)))

    def step(b: Builder, a: Atom, best: Atom, cost: Atom) -> Values:
        m = b.op("quot", before, a, hint="blocks")
        room = b.op("quot", b.op("sub", memory, b.op("mul", a, saved)), b.op("max", size, ONE))
        this = b.op("mul", a, _runs(b, b.op("add", m, ONE), b.op("min", room, b.op("max", m, ONE))), hint="cost")
        better = b.op("lt", this, cost)
        return b.op("mul", a, i64(2)), b.op("select", better, a, best), b.op("min", this, cost)

    _, best, _ = while_(b, (ONE, ONE, i64((1 << 63) - 1)), fits, step, ("a", "best", "cost"))
    length = b.op("select", whole, b.op("max", n, ONE), best, hint="length")
    m = b.op("quot", b.op("max", before, ZERO), length, hint="blocks")
    least = b.op("min", everything, b.op("add", saved, size), hint="least")
    kept = b.op("mul", b.op("min", length, n), saved, hint="kept")
    return Leaf(length, n, kept, whole, least, m, b.op("mul", m, length, hint="start"))


def _runs(b: Builder, n: Atom, s: Atom) -> Atom:
    """T(n, s) of `rerun.py`."""
    more = b.op("max", s, i64(2))
    t, _, all_ = while_(
        b, (ZERO, ZERO, ONE),
        lambda b, t, before, all_: b.op("lt", all_, n),
        lambda b, t, before, all_: _next(b, more, t, all_),
        ("t", "before", "all"),
    )  # fmt: skip
    fewer = b.op("quot", b.op("mul", all_, t), b.op("add", more, ONE))  # C(s + t, t - 1)
    alone = b.op("quot", b.op("mul", n, b.op("sub", n, ONE)), i64(2))
    return b.op("select", b.op("lt", s, i64(2)), alone, b.op("sub", b.op("mul", t, n), fewer), hint="runs")
