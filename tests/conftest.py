"""All tests check the IR after every pass."""

from __future__ import annotations

import os

from futad import checks

os.environ.setdefault(checks.VARIABLE, checks.IR)
