"""Errors in JAX, PyTorch and SciPy name a line of the user's: of the function, of the program, or the argument."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import Error

SOURCE = """
entry at [n] (x: [n]f64) (i: i64): f64 = x[i] * 2
entry loss [n] (w: [n]f64): f64 = assert (w[0] < 5) (f64.sum (map (\\x -> x * x) w))
"""
X = np.arange(3.0)
PROGRAM = futad.compile(SOURCE, "net.fut", backend="interp")
HERE = r"test_host_messages.py:\d+:1: error: "


def message(call: Callable[[], Any]) -> str:
    with pytest.raises(Error) as e:
        call()
    return str(e.value)


def test_functions_of_jax() -> None:
    jax = pytest.importorskip("jax")
    from jax import numpy as jnp

    import futad.jax

    entry, big = futad.jax.function(PROGRAM.loss), np.ones(3, complex)
    functions: dict[str, tuple[Callable[[Any], Any], str]] = {
        "no rule": (lambda x: jnp.fft.rfft(x).real, "primitive 'fft' has no rule"),
        "a parameter": (lambda x: jax.lax.exp(x, accuracy=jax.lax.AccuracyMode.HIGHEST), "'exp' with accuracy="),
        "an element type": (lambda x: (x * 1j).real, "element type complex128"),
        "of the result": (lambda x: x.astype("bfloat16"), "element type bfloat16"),
        "a constant": (lambda x: x + (big * 2).real + (jnp.asarray(big) * x).real, "complex128"),
        "an entry": (lambda x: 2 * entry(x), "primitive 'futad' is an entry, which cannot be compiled again"),
    }
    with jax.enable_x64(True):
        for name, (f, text) in functions.items():
            shown = message(lambda f=f: futad.jax.compile(f, X, backend="interp"))
            assert re.match(rf"(?s)\S*{HERE}.*{re.escape(text)}", shown) and f'"{name}": (' in shown, shown
        assert "argument 'x': element type complex128" in message(lambda: futad.jax.compile(lambda x: x, big))


def test_sizes_of_functions_of_jax() -> None:
    pytest.importorskip("jax")
    import futad.jax

    def total(x: Any) -> Any:
        return x.sum()

    shown = message(lambda: futad.jax.compile(total, "f32[n]", backend="interp")(np.zeros(0, np.float32)))
    assert re.search(r"test_host_messages.py:\d+:1: .*the size n is 0", shown) and "def total(x" in shown


def test_lines_of_the_user_come_before_those_of_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A primitive in a package that is installed is named by the line that calls the package."""
    pytest.importorskip("jax")
    import futad.jax
    from futad.jax.jaxprs import importer

    (tmp_path / "spectra.py").write_text("from jax import numpy as jnp\ndef power(x): return abs(jnp.fft.rfft(x))\n")
    spec = importlib.util.spec_from_file_location("spectra", tmp_path / "spectra.py")
    assert spec is not None and spec.loader is not None
    spectra = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(spectra)
    shown = [message(lambda: futad.jax.compile(lambda x: spectra.power(x), np.float32(X))) for _ in range(1)]
    monkeypatch.setattr(importer, "_INSTALLED", (str(tmp_path),))
    shown.append(message(lambda: futad.jax.compile(lambda x: spectra.power(x), np.float32(X))))
    shown.append(message(lambda: futad.jax.compile(spectra.power, np.float32(X))))
    files = [re.match(r"(\S+):\d+:1: error", s)[1].rpartition("/")[2] for s in shown]  # type: ignore[index]
    assert files == ["spectra.py", "test_host_messages.py", "spectra.py"] or sys.platform == "win32"


def test_programs_in_scipy_and_torch() -> None:
    pytest.importorskip("scipy")
    import futad.scipy

    assertion = r"net.fut:3:\d+: .*w\[0\] < 5"
    assert re.match(assertion, message(lambda: futad.scipy.minimize(PROGRAM.loss, (X + 9,))))
    assert "argument 'w': expected" in message(lambda: futad.scipy.minimize(PROGRAM.loss, (np.arange(3),)))
    torch = pytest.importorskip("torch")
    import futad.torch

    loss, at = futad.torch.function(PROGRAM.loss), futad.torch.function(PROGRAM.at)
    x = torch.arange(3.0, dtype=torch.float64, requires_grad=True)
    y = loss(x)
    with torch.no_grad():
        x.data += 9  # which autograd does not notice
    calls = [lambda: loss(x), y.backward, lambda: torch.func.grad(loss)(x), lambda: torch.func.vmap(loss)(x[:, None])]
    for call in calls:
        assert re.match(assertion, message(call))
    assert re.match(r"net.fut:2:\d+: .*\[3\]", message(lambda: torch.func.jvp(lambda x: at(x, 3), (x,), (x,))))
