"""The whole table of the AD tests."""

from __future__ import annotations

from tests.support import (  # noqa: F401  (each of the others fills the table)
    ad_cases_bins,
    ad_cases_control,
    ad_cases_more,
    ad_cases_soacs,
)
from tests.support.ad_cases import CASES, Case

__all__ = ["CASES", "Case"]
