"""What a backend makes of a call beside what the interpreter makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core.interp import Interpreter
from futad.errors import Error


def agree(core: Any, backend: Any, name: str, args: list[Any], tolerance: float = 0.0) -> bool:
    """Whether the call has a result; asserts that it is the interpreter's, or that both fail."""
    try:
        expected = Interpreter(core).run(name, args)
    except Error as error:
        # Of several places that are out of range either may be reported.
        with pytest.raises(type(error)):
            backend.run(name, args)
        return False
    for a, e in zip(backend.run(name, args), expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(e).dtype
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance, err_msg=f"{name} {args[:2]}")
    return True
