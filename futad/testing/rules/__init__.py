"""Whether rewrite rules are right: instances, both sides run, least counterexamples."""

from futad.testing.rules.soundness import Counterexample, Report, check_rule

__all__ = ["Counterexample", "Report", "check_rule"]
