"""What to write for names of NumPy's that a traced value or futad.numpy does not have."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from types import FunctionType

from futad.python.place import here, line_at

# Functions of the library in the language, by NumPy's names.
_LINALG = {
    "inv": "inv", "solve": "solve", "det": "det", "slogdet": "slogdet", "cholesky": "cholesky", "qr": "qr",
    "eigh": "eigh", "eigvalsh": "eigh", "svd": "svd", "lstsq": "lstsq",
}  # fmt: skip
_TAKES = {
    "solve": ("[n] (a: [n][n]f64) (b: [n]f64)", "a b"), "lstsq": ("[m][n] (a: [m][n]f64) (b: [m]f64)", "a b"),
    "qr": ("[m][n] (a: [m][n]f64)", "a"), "svd": ("[m][n] (a: [m][n]f64)", "a"),
}  # fmt: skip
_OTHERS = {
    "copy": "arrays do not change: write x", "item": "a traced number is its own item: write x without .item()",
    "tolist": "write x without .tolist()", "flatten": "write x.ravel()", "block_until_ready": "write x",
    "softmax": "write fnp.exp(x - fnp.logsumexp(x))", "log_softmax": "write x - fnp.logsumexp(x)",
    "median": "write fnp.sort(x), and index it", "append": "write fnp.concatenate([x, y])",
    "hstack": "write fnp.concatenate([x, y])", "argwhere": "write fnp.filter(lambda i: mask[i], fnp.arange(n))",
    "nonzero": "write fnp.filter(lambda i: mask[i], fnp.arange(n))", "vectorize": "write fnp.map(f, x)",
    "sigmoid": "write 1 / (1 + fnp.exp(-x))", "relu": "write fnp.maximum(x, 0.0)", "pow": "write x ** y",
    "expit": "write 1 / (1 + fnp.exp(-x))", "xlogy": "write fnp.where(x == 0, 0.0, x * fnp.log(y))",
    "random": 'the language has random numbers: import "futad/random" (docs/library.md)',
    "linalg": 'the language has linear algebra: import "futad/linalg" (docs/library.md); fnp has norm, matmul, einsum',
    "fft": "compute transforms with NumPy, and pass what they make as an argument",
}  # fmt: skip


def has(name: str) -> bool:
    """Whether futad.numpy has a function of that name."""
    return not name.startswith("_") and isinstance(getattr(sys.modules.get("futad.numpy"), name, None), FunctionType)


def instead(name: str) -> str:
    """The hint for a name; what it says to write exists."""
    if has(name):
        return f"write fnp.{name}"
    if name in _OTHERS:
        return _OTHERS[name]
    if name in _LINALG:
        params, args = _TAKES.get(name, ("[n] (a: [n][n]f64)", "a"))
        text = f"entry {name} {params} = linalg.{_LINALG[name]} {args}"
        return f"the language has it: futad.compile('module linalg = import \"futad/linalg\" {text}')"
    called = [n for n in re.findall(r"(\w+)\(", line_at(here()) or "") if has(n) and n not in ("map", "filter")]
    if called and name not in called:
        return f"write fnp.{called[-1]}"  # what was called is a function of NumPy's that asks another one
    known = [n for n, f in vars(sys.modules["futad.numpy"]).items() if isinstance(f, FunctionType) and n[0] != "_"]
    near = difflib.get_close_matches(name, known, 1, 0.7)
    more = f"futad.numpy has {near[0]}" if near else "docs/programs-in-python.md lists what futad.numpy has"
    return f"there is no fnp.{name}; {more}"


def usage(message: str) -> str | None:
    """How a function of futad.numpy is called, of Python's error that it is not called so."""
    found = re.match(r"(\w+)\(\) (?:missing|got|takes)", message)
    if found is None or not has(found[1]):
        return None
    if found[1] == "where" and "missing" in message:
        return "write fnp.where(test, a, b); for the places, fnp.filter(lambda i: test[i], fnp.arange(n))"
    parameters = inspect.signature(getattr(sys.modules["futad.numpy"], found[1])).parameters.values()
    shown = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    return f"it is fnp.{found[1]}({', '.join(shown)})"


__all__ = ["has", "instead", "usage"]
