"""What tests need that a machine may lack: compilers, CUDA's toolkit, ADBench's data; marks that skip where it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from futad.errors import BackendError
from futad.runtime import cc, cubin
from tests.support.paths import ADBENCH


def has_cxx() -> bool:
    """Whether there is a C++ compiler, which the CPU simulator needs."""
    try:
        cc.find_cxx_compiler()
    except BackendError:
        return False
    return True


def without_compilers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No C compiler is to be found, by name, on the PATH, which is the empty `folder`, or as a package."""
    for variable in ("FUTAD_CC", "CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(cc, "find_spec", lambda name: None)
    cc._find.cache_clear()


needs_cc = pytest.mark.skipif(not cc.compiler_available(), reason="no C compiler")
needs_cxx = pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")
needs_toolkit = pytest.mark.skipif(not cubin.toolkit_available(), reason="neither NVRTC nor nvcc")
needs_adbench = pytest.mark.skipif(not ADBENCH.is_dir(), reason="ADBench's files are not beside the checkout")
