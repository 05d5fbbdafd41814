"""The whole table of the AD tests."""

from __future__ import annotations

import ad_cases_bins  # noqa: F401  (each fills the table)
import ad_cases_control  # noqa: F401
import ad_cases_more  # noqa: F401
import ad_cases_soacs  # noqa: F401
from ad_cases import CASES, Case

__all__ = ["CASES", "Case"]
