"""A user's file under `mypy --strict`: calls of the whole interface, which run as well."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.needs import needs_cc
from tests.support.paths import ROOT

USER = r'''
import numpy as np
import futad
from futad.scipy import minimize, least_squares, linear_operator, objective

prog = futad.compile(r"""
entry loss [n] (w: [n]f64) (x: [n]f64): f64 = f64.sum (map2 (\a b -> (a - b) ** 2) w x)
entry residuals [n] (w: [n]f64) (x: [n]f64): [n]f64 = map2 (-) w x
""")
w, x = np.zeros(3), np.ones(3)
value = prog.loss(w, x)
value = prog["loss"](w, x)
names = list(prog)
g = futad.grad(prog.loss)(w, x)
v, g = futad.value_and_grad(prog.loss, argnums=(0, 1))(w, x)
h = futad.hessian(prog.loss)(w, x)
j = futad.jacfwd(prog.residuals)(w, x)
j = futad.jacrev(prog.residuals, argnums=1)(w, x)
y, pull = futad.vjp(prog.residuals, w, x)
adjoints = pull(y)
y, dy = futad.jvp(prog.residuals, (w, x), (w, None))
y, dys = futad.jmp(prog.residuals, (w, x), (np.eye(3), None))
y, pull = futad.mjp(prog.residuals, w, x)
hv = futad.hvp(prog.loss, (w, x), x, argnums=0)
batch = futad.vmap(prog.loss, in_axes=(0, None))(np.eye(3), x)
bound = futad.bind(prog.loss, x=x)
futad.grad(bound)(w)
futad.grad(prog.loss, memory="64MB")(w, x)
spec = prog.residuals.shapes((3,), (3,))
out = np.zeros(3)
prog.residuals(w, x, out=out)
r = minimize(prog.loss, (w, x), method="BFGS")
print(r.x, r.fun)
least_squares(prog.residuals, (w, x))
op = linear_operator(prog.residuals, (w, x))
o = objective(prog.loss, (w, x))
print(o.x0, o.fun(o.x0))
futad.testing.check_grads(prog.loss, w, x)
print(prog.backend)
prog.executor()
J = futad.sparse_jacobian(prog.residuals)(w, x)
try:
    prog.loss(w, np.ones(4))
except futad.ShapeError as error:
    print(error.message, error.hint)
'''


@pytest.mark.slow
def test_the_file_is_typed(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-incremental", "user.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "user.py").write_text(USER.replace("argnums=(0, 1))", "argnums='w')"))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and 'has incompatible type "str"' in done.stdout, "a wrong call is found"


@pytest.mark.slow
@needs_cc
def test_the_file_runs(capsys):
    pytest.importorskip("scipy")
    assert USER.count("(prog") + USER.count("prog.") >= 30
    exec(USER, {"__name__": "user"})  # noqa: S102
    assert "but size n is 3" in capsys.readouterr().out
