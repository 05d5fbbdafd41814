"""What users without a host are told."""

from __future__ import annotations

import sys

import pytest

import futad.jax


def test_jax_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"futad.jax needs JAX: pip install 'futad\[jax\]'"):
        futad.jax.__getattr__("function")
    with pytest.raises(AttributeError, match="has no attribute 'functions'"):
        futad.jax.__getattr__("functions")
    assert "function" in dir(futad.jax)
