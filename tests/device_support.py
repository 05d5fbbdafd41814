"""What the tests of the emulated device need: a C++ compiler."""

from __future__ import annotations

import pytest

from futad.errors import BackendError
from futad.runtime import cc


def has_cxx() -> bool:
    try:
        cc.find_cxx_compiler()
    except BackendError:
        return False
    return True


needs_cxx = pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")
