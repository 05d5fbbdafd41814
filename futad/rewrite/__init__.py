"""Rules, the combinators that schedule them, and the simplifier."""

from futad.rewrite.simplify import simplify
from futad.rewrite.strategy import Stats

__all__ = ["Stats", "simplify"]
