"""Every pass on random programs: the result checks and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from futad.ad.expand import expand
from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.types import F32, shape_of
from futad.optimise.fusion import fuse
from futad.optimise.hoist import hoist
from futad.optimise.inline import inline
from futad.rewrite.simplify import simplify
from futad.testing.programs import core as genprog
from futad.testing.programs.core_derived import derived_program, result_sizes
from tests.support.slow import slow_but

TAIL = [simplify, fuse, simplify, hoist, simplify]


def run(p: ir.Program, args: list[object], name: str = "main") -> list[object]:
    return Interpreter(p).run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])


def check_passes(p: ir.Program, passes: list, args: list[object], want: list[object], name: str, what: str) -> None:
    for k, f in enumerate(passes):
        p = f(p)
        check_program(p, f"{f.__name__} ({k})")
        for x, y in zip(run(p, args, name), want, strict=True):
            x, y = np.asarray(x), np.asarray(y)
            assert x.dtype == y.dtype and x.shape == y.shape, what
            if x.dtype.kind == "f":
                # Only the order of sums may differ: a few ulps of values the generator keeps near 1.
                tol = 1e-4 if x.dtype == F32.dtype else 1e-9
                np.testing.assert_allclose(x, y, rtol=tol, atol=tol, err_msg=f"{what}, {f.__name__} ({k})")
            else:
                np.testing.assert_array_equal(x, y, err_msg=f"{what}, {f.__name__} ({k})")


@pytest.mark.slow
@pytest.mark.parametrize("block", slow_but([0], range(4)))
def test_random_programs(block):
    for seed in range(15 * block, 15 * block + 15):
        s = genprog.program(seed)
        check_passes(s.program, [simplify, inline, *TAIL], s.args, run(s.program, s.args), "main", f"seed {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_random_derivatives(kind):
    rng = np.random.default_rng(0)
    for seed in range(16):
        s = genprog.differentiable(seed)
        main = s.program.funs["main"]
        p = derived_program(s.program, "main", kind)
        name = f"main_{kind}"
        fun = p.funs[name]
        # A vjp takes the sizes of the results' adjoints as well, between the sizes and the values.
        k = main.num_sizes
        values = run(s.program, s.args)
        extra = [values[i] for i in result_sizes(main)] if kind == "vjp" else []
        args = [*s.args[:k], *extra, *s.args[k:]]
        env = dict(zip(fun.body.params, args, strict=False))
        for v in fun.body.params[len(args) :]:
            shape = tuple([int(env[d]) if isinstance(d, ir.Var) else d.value for d in shape_of(v.type)])
            elem = v.type if isinstance(v.type, ir.Prim) else v.type.elem
            value = rng.normal(size=shape) if elem.is_float else np.zeros(shape)
            args.append(value.astype(elem.dtype)[()] if shape else elem.dtype.type(value))
        want = run(expand(inline(p)), args, name)
        q = expand(simplify(inline(simplify(p))))
        check_program(q, "ad")
        check_passes(q, TAIL, args, want, name, f"seed {seed}")
