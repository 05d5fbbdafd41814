"""Loops that fill an array."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.operator import scalar_op
from futad.core.types import ArrayType, Atom, Const, Var
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.strategy import Result, rule

LEGAL = Legality("loop-fills", "a loop that adds to each element of zeros once stores there instead", fires=False)
ZEROS = LEGAL.condition("zeros before", "what was there is part of the sum")
AS_MANY = LEGAL.condition("as many iterations as rows", "rows without an iteration are not zero but undefined")
SAME_PLACE = LEGAL.condition("read where written", "an element is read that an earlier iteration wrote")
EACH_ONCE = LEGAL.condition("each element once", "an element is added to again, or never")
CARRIED_ON = LEGAL.condition("carried on", "the next iteration has another array")
ADDED_ONLY = LEGAL.condition("added to only", "others read the zero")


@rule(ir.For, changes=("zeros",))
def loop_fills(stm: Stm, ctx: Context) -> Result:
    """`loop a = replicate n 0 for i < n do a with [i] = a[i] + v` -> `loop a = scratch n for i < n do a with [i] = v`,
    for positions that go up or down with the iteration: the zeros are never seen."""
    e: Any = stm.exp
    i, *params = e.body.params
    for k, a in enumerate(params):
        zeros = ctx.exp(e.inits[k])
        if type(a.type) is not ArrayType or type(zeros) is not ir.Replicate or not AS_MANY(a.type.shape[0] == e.bound):
            continue
        uses = [s for s in e.body.stms if a in ir.stm_free(s)]
        if len(uses) != 2 or a in e.body.result or zeros.shape != a.type.shape:
            continue
        if not ZEROS(is_const(zeros.value, 0)):
            continue
        old, new = uses
        read, write = old.exp, new.exp
        if type(read) is not ir.At or type(write) is not ir.Update or len(read.index) != 1:
            continue
        if not SAME_PLACE(read.index == write.index):
            continue
        after, (x,) = new.pat[0], old.pat
        others = [s for s in e.body.stms if x in ir.stm_free(s) or after in ir.stm_free(s)]
        if e.body.result.count(after) != 1 or not CARRIED_ON(e.body.result[k] is after):
            continue
        if not ADDED_ONLY(x not in e.body.result and len(others) == 1):
            continue
        (added,) = others
        value = _added_to(added, x)
        if value is None or added.pat != (write.value,):
            continue
        if not EACH_ONCE(_each_once(read.index[0], i, e.bound, e.body, ctx)):
            continue
        start = Var(a.name, a.type)
        alone = Stm(added.pat, ir.Copy(value) if type(value.type) is ArrayType else ir.Alias(value), added.attrs)
        stms = tuple([alone if s is added else s for s in e.body.stms if s is not old])
        inits = (*e.inits[:k], start, *e.inits[k + 1 :])
        loop = ir.For(e.bound, inits, Lambda(e.body.params, stms, e.body.result))
        return [Stm((start,), ir.Scratch(a.type.elem, a.type.shape)), Stm(stm.pat, loop, stm.attrs)]
    return None


def _added_to(s: Stm, x: Var) -> Atom | None:
    """The v of `x + v` or `v + x`, of numbers or elementwise."""
    e: Any = s.exp
    args: tuple[Atom, ...]
    if type(e) is ir.Map and len(e.arrays) == 2 and len(set(e.arrays)) == 2 and scalar_op(e.lam) == "add":
        args = e.arrays
    elif type(e) is ir.Op and e.op == "add" and e.args[0] is not e.args[1]:
        args = e.args
    else:
        return None
    return next((a for a in args if a is not x), None) if x in args else None


def _each_once(at: Any, i: Var, bound: Atom, body: Lambda, ctx: Context) -> bool:
    """Whether `at` is the iteration `i`, or `bound` - 1 - i."""
    if at is i:
        return True
    e: Any = next((s.exp for s in body.stms if s.pat == (at,)), None)
    if type(e) is not ir.Op or e.op != "sub" or e.args[1] is not i:
        return False
    last: Any = ctx.exp(e.args[0])
    if type(e.args[0]) is Const and type(bound) is Const:
        return e.args[0].value == bound.value - 1
    return type(last) is ir.Op and last.op == "sub" and last.args[0] is bound and is_const(last.args[1], 1)


FILL_LEAVE = (loop_fills,)
