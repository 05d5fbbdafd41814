"""Tracebacks of errors show the caller's frames, and futad's own where they are asked for."""

from __future__ import annotations

import traceback
from pathlib import Path

import numpy as np
import pytest

import futad
import futad.numpy as fnp
from futad.numpy import f64

OWN = str(Path(futad.__file__).parent)
SOURCE = "entry main (xs: []f64) (i: i64) = xs[i] * xs[i]"


def shapes(x: f64):
    return x + fnp.arange(3) + fnp.arange(4)


def cases(folder):
    file = folder / "f.fut"
    file.write_text("entry main (x: i32) = y")
    main = futad.compile(SOURCE, backend="interp").main
    xs = np.ones(2)
    return {
        "compile": lambda: futad.compile("entry main (x: i32) = y"),
        "syntax": lambda: futad.compile("entry main (x: i32) = ("),
        "load": lambda: futad.load(file),
        "no file": lambda: futad.load(folder / "none.fut"),
        "bounds": lambda: main(xs, 5),
        "rank": lambda: main(np.ones((2, 2)), 0),
        "count": lambda: main(xs),
        "gradient": lambda: futad.grad(main)(xs, 5),
        "no entry": lambda: futad.grad(len),
        "argnums": lambda: futad.grad(main, argnums=7),
        "vjp": lambda: futad.vjp(main, xs, 5),
        "jvp": lambda: futad.jvp(main, (xs, 5), (xs, 0)),
        "hessian": lambda: futad.hessian(main)(xs, 5),
        "bound": lambda: futad.bind(main, i=5)(xs),
        "traced": lambda: futad.function(shapes)(1.0),
        "source": lambda: futad.function(shapes).source(),
    }


def test_frames(tmp_path, monkeypatch):
    for asked in (False, True):
        monkeypatch.setenv("FUTAD_DEBUG", str(int(asked)))
        more = 0
        for name, call in cases(tmp_path).items():
            with pytest.raises(futad.Error) as e:
                call()
            frames = [f for f in traceback.extract_tb(e.value.__traceback__) if f.filename.startswith(OWN)]
            text = "".join(traceback.format_exception(e.value))
            assert asked or (len(frames) <= 3 and "direct cause" not in text and "During handling" not in text), name
            more += len(frames) > 3
        assert not asked or more >= 10
