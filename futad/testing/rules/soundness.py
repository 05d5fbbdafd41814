"""`check_rule`: a rule applied to many small programs, and both sides run.

    report = check_rule(rule, cases=300)
    assert report.ok, report.counterexample

Of a rule as text, programs are instances of its left side (`instances.py`); of one in Python, they are aimed at the
constructs that it looks at (`aimed.py`).  A case is a program in which the rule applied.  It is run by the interpreter
before and after, on inputs of sizes 0, 1, 2 and 7, with zeros, NaN, infinities and the ends of the types' ranges among
them; then its derivative along a direction is.  The rule must leave the values as they are: floats to 1e-9 of the
largest, or with `exact` to the last bit.  It may not make a program fail, or one succeed that failed; what comes out is
well-formed.  What a rule changes nonetheless it says (`Rule.changes`).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.alias import Aliases, aliases, consumed_roots, stale
from futad.core.check import check_program
from futad.core.interp import Interpreter, TooLong
from futad.core.text import program_text
from futad.core.types import AccType, Const, Prim, Var
from futad.errors import Error, ExecutionError, InternalError
from futad.rewrite.context import Context
from futad.rewrite.dce import asserting_functions
from futad.rewrite.pattern import TextRule
from futad.rewrite.rules.shipped import ENTER, LEAVE
from futad.rewrite.simplify import Schedule, Simplifier, simplify
from futad.rewrite.strategy import Result, Rule, Strategy, fail
from futad.testing.programs.core_derived import derived_program
from futad.testing.rules.aimed import aimed
from futad.testing.rules.hot import RULES as HOT_RULES
from futad.testing.rules.hot import hot_program
from futad.testing.rules.instances import random_instance
from futad.testing.rules.values import arguments, differ, huge, infinite, shown

STEPS = 20_000  # statements of a run
TRIES = 60  # programs made for one in which the rule applies
FIRES = 3  # applications in one program


@dataclass(slots=True)
class Counterexample:
    """A program in which a rule is wrong."""

    rule: str
    what: str
    before: ir.Program
    after: ir.Program | None
    args: list[Any]

    def __str__(self) -> str:
        params = next(iter(self.before.funs.values())).body.params
        inputs = f"on\n{shown(params, self.args)}\n" if self.args else ""
        after = f"after:\n{program_text(self.after)}" if self.after is not None else ""
        return f"rule {self.rule}: {self.what}\n{inputs}before:\n{program_text(self.before)}\n{after}".rstrip()


@dataclass(slots=True)
class Report:
    """What the check of a rule found: `cases` programs in which it applied, of `tried` ones."""

    rule: str
    cases: int
    tried: int
    counterexample: Counterexample | None
    wanted: int

    @property
    def ok(self) -> bool:
        """There is no counterexample, and the rule applied at all."""
        return self.counterexample is None and self.cases > 0

    def __str__(self) -> str:
        if self.counterexample is not None:
            return str(self.counterexample)
        if not self.cases:
            return f"rule {self.rule}: applies in none of {self.tried} programs"
        return f"rule {self.rule}: {self.cases} cases"


@dataclass(slots=True)
class Found:
    """A case that is wrong: its program, inputs and how."""

    program: ir.Program
    args: list[Any]
    what: str
    kind: str = "values"


class Checker:
    """Looks at one rule."""

    def __init__(self, rule: Rule, exact: bool) -> None:
        changes = rule.changes
        self.rule, self.exact = rule, exact and "rounding" not in changes
        self.failures, self.nan, self.zeros = ("failures" in changes, "nan" in changes, "zeros" in changes)
        self.derived = "derived" in changes
        own = [any(r is rule for r in side) for side in (ENTER, LEAVE)]
        scoped = [getattr(h, "scoped", False) for h in rule.heads]
        self.sides = own if any(own) else [not all(scoped), any(scoped)]

    # -- applying

    def applied(self, program: ir.Program, tidy: bool = True) -> Any:
        """The program with the rule applied, a few times at most; None if it does not apply.  `tidy`: without what is
        dead code then."""
        left = [FIRES]

        def go(stm: ir.Stm, ctx: Any) -> Result:
            out = self.rule.apply(stm, ctx) if left[0] else None
            left[0] -= out is not None
            return out

        s = Strategy(self.rule.name, go)
        schedule = Schedule(s if self.sides[0] else fail, s if self.sides[1] else fail)
        written = stale(program) if self.rule.name in HOT_RULES else None  # as their pass does
        new = simplify(program, None, schedule, written) if tidy else untidied(program, schedule, written)
        return new if left[0] < FIRES else None

    def result(self, program: ir.Program) -> ir.Program | None:
        """The program afterwards; None if the rule raises an error."""
        try:
            return self.applied(program)
        except Exception:
            return None

    # -- judging

    def wrong(self, program: ir.Program, args: list[Any]) -> Found | None:
        """How the rule changes what the program does on these inputs; None if it does not, or does not apply."""
        if not meant(program):
            return None
        try:
            new = self.applied(program)
        except Exception as e:
            return Found(program, args, f"the rule raises {type(e).__name__}: {e}", "raises")
        if new is None:
            return None
        why = ill_formed(new)
        if why is not None:
            return Found(program, [], f"the result is not well-formed: {why}", "form")
        return self.unequal(program, new, args)

    def unequal(self, old: ir.Program, new: ir.Program, args: list[Any]) -> Found | None:
        consts = constants(old)
        wild, over = infinite([*args, *consts]), huge([*args, *consts])
        nan = self.nan or self.derived and any(ir.DERIVED in s.attrs for s in statements(old))
        if nan and (wild or over):
            return None
        before, after = outcome(old, args), outcome(new, args)
        if before is None or before == "internal":
            return None  # takes too long, or reads what is not there: it means nothing
        if after is None:
            return Found(old, args, "afterwards it does not end", "fails")
        if isinstance(before, str):
            # What nothing needs any more goes with dead code, and its failure with it: that is not the rule's doing.
            kept = outcome(self.applied(old, tidy=False), args)
            if kept == "internal":
                # Reads without checks may have relied on the failure before them.
                what = "afterwards it reads or writes out of bounds"
                return None if unchecked(old) else Found(old, args, what, "fails")
            if kept is None or isinstance(kept, str) or self.failures:
                return None
            return Found(old, args, f"it fails ({before}), afterwards not", "succeeds")
        if isinstance(after, str):
            what = "it reads or writes out of bounds" if after == "internal" else f"it fails ({after})"
            return Found(old, args, f"afterwards {what}", "fails")
        if nan and infinite(before):
            return None
        for k, (x, y) in enumerate(zip(before, after, strict=True)):
            if differ(x, y, self.exact, self.zeros or not self.exact, wild, over):
                x, y = np.asarray(x), np.asarray(y)
                types = f" ({x.dtype} {x.shape}, afterwards {y.dtype} {y.shape})" if _kind(x) != _kind(y) else ""
                return Found(old, args, f"result {k} is {x.tolist()}, afterwards {y.tolist()}{types}", "values")
        return None

    def slopes(self, program: ir.Program, rng: random.Random) -> Found | None:
        """How the rule changes the derivative along a direction, at a place where all numbers are moderate."""
        if infinite(consts := constants(program)) or huge(consts):
            return None
        try:
            old = derived_program(program, "main", "jvp")
        except Error:
            return None  # what has no derivative
        try:
            new = self.applied(old)
        except Exception as e:
            return Found(old, [], f"on its derivative the rule raises {type(e).__name__}: {e}", "slopes")
        if new is None:
            return None
        funs = [p.funs["main_jvp"] for p in (old, new)]
        args = arguments(rng, funs[0], 0.0)
        first = len(program.funs["main"].body.params)  # integers and bools stand still
        args[first:] = [a if np.asarray(a).dtype.kind == "f" else np.zeros_like(a) for a in args[first:]]
        made = [expanded(ir.Program({f.name: f})) for f in funs]
        if made[0] is None:
            return None
        if made[1] is None:
            return Found(program, args, "its derivative cannot be taken afterwards", "slopes")
        if isinstance(outcome(program, args[:first]), str):
            return None  # what fails has no derivative, and passes may lose failures of what nothing needs
        results = [outcome(p, args, "main_jvp") for p in made if p is not None]
        if any(isinstance(r, str) or r is None for r in results) or infinite(results[0]):
            return None
        for k, (x, y) in enumerate(zip(*results, strict=True)):
            if np.asarray(x).dtype.kind == "f" and differ(x, y, False):
                what = f"with tangents, result {k} is {x.tolist()}, afterwards {y.tolist()}"
                return Found(ir.Program({funs[0].name: funs[0]}), args, what, "slopes")
        return None


def statements(program: ir.Program) -> list[ir.Stm]:
    """All statements, also of nested scopes."""
    return [s for f in program.funs.values() for s in ir.statements(f.body.stms)]


def constants(program: ir.Program) -> list[Any]:
    """The floats that are written in a program."""
    found = [a for s in statements(program) for a in s.exp.operands() if isinstance(a, Const) and a.type.is_float]
    return [a.type.dtype.type(a.value) for a in found]


def unchecked(program: ir.Program) -> bool:
    """Whether an index is not checked."""
    return any(isinstance(s.exp, ir.At | ir.Update) and s.exp.check is None for s in statements(program))


def _kind(x: np.ndarray[Any, Any]) -> Any:
    return x.dtype, x.shape


def untidied(program: ir.Program, schedule: Schedule, written: set[Var] | None) -> ir.Program:
    """The program simplified, with dead code left where it stands."""
    derivatives = any(f.body.has(ir.Derivative) for f in program.funs.values())

    def body(f: ir.Fun) -> ir.Lambda:
        ctx = Context(aliases(f.body, f.body.result + f.body.params), derivatives)
        if written is not None:
            ctx.told(written)
        ctx.ranges.sizes.update(f.body.params[: f.num_sizes])
        return Simplifier(ctx, schedule, asserting_functions(program)).scope(f.body)

    funs = {n: ir.Fun(n, body(f), f.num_sizes, f.ret, f.entry, f.attrs, f.span) for n, f in program.funs.items()}
    return ir.Program(funs, program.name)


def meant(program: ir.Program) -> bool:
    """Whether a program is well-formed and keeps the promise of core IR: what is consumed, and whatever may share its
    memory, is not used again."""
    return ill_formed(program) is None and all(_kept(f.body, aliases(f.body), set()) for f in program.funs.values())


def _kept(lam: ir.Lambda, known: Aliases, gone: set[Var]) -> bool:
    gone = set(gone)
    before: list[Var] = [*lam.params]
    for s in lam.stms:
        if any(v in gone for v in ir.stm_free(s)) or not all(_kept(x, known, gone) for x in s.exp.lambdas()):
            return False
        own = {known.root(a) for a in s.exp.consumes() if isinstance(a, Var)}
        inside = [v for x in s.exp.lambdas() for v in x.free()]
        if any(not isinstance(v.type, Prim | AccType) and known.root(v) in own for v in inside):
            return False
        roots = consumed_roots(s.exp, known)
        if roots:
            outside = [v for v in ir.stm_free(s) if v not in before]
            arrays = [v for v in (*before, *outside) if not isinstance(v.type, Prim | AccType)]
            gone |= {v for v in arrays if known.root(v) in roots}
        before += s.pat
    return not any(a in gone for a in lam.result)


def ill_formed(program: ir.Program) -> str | None:
    try:
        check_program(program)
    except InternalError as e:
        return e.message
    return None


def expanded(program: ir.Program) -> ir.Program | None:
    """The program without derivatives."""
    from futad.pipeline import compile_program

    try:
        return compile_program(program, stop_after="ad")
    except Exception:
        return None


def outcome(program: ir.Program, args: list[Any], name: str = "main") -> Any:
    """Results; the kind of its failure; None if it takes too long."""
    m = Interpreter(program)
    m.limit = STEPS
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return m.run(name, args)
    except TooLong:
        return None
    except InternalError:
        return "internal"
    except ExecutionError as e:
        return type(e).__name__


def programs(rule: Rule, seed: int) -> Iterator[ir.Program | None]:
    """Programs in which the rule may apply, without end; None where an attempt makes none."""
    for k in itertools.count():
        rng = random.Random(f"{rule.name}/{seed}/{k}")
        if isinstance(rule, TextRule):
            yield random_instance(rule.scheme, rng)
        else:
            yield hot_program(rule, rng) if rule.name in HOT_RULES else aimed(rule, rng)


def check_rule(rule: Rule, cases: int = 300, seed: int = 0, *, exact: bool = False, slopes: bool = True) -> Report:
    """Look for a program in which `rule` is wrong, in `cases` of those in which it applies; deterministic by `seed`.

    `exact`: floats have to agree to the last bit.  `slopes`: derivatives are compared, too, in every fourth case.
    """
    c = Checker(rule, exact)
    done = tried = 0
    for program in programs(rule, seed):
        if done >= cases or tried >= cases * TRIES:
            break
        tried += 1
        rng = random.Random(f"{seed}/{tried}")
        if program is None or not meant(program):
            continue
        try:
            new = c.applied(program)
        except Exception:
            new = program
        if new is None:
            continue
        done += 1
        fun = program.funs["main"]
        for special in (0.0, 0.5, 0.2):
            found = c.wrong(program, arguments(rng, fun, special))
            if found is not None:
                break
        else:
            found = c.slopes(program, rng) if slopes and done % 4 == 0 else None
        if found is not None:
            from futad.testing.rules.shrink import least

            small = least(c, found)
            return Report(rule.name, done, tried, Counterexample(
                rule.name, small.what, small.program, c.result(small.program), small.args), cases)  # fmt: skip
    return Report(rule.name, done, tried, None, cases)


__all__ = ["Checker", "Counterexample", "Found", "Report", "check_rule"]
