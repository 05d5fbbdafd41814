"""The rules by construct, both modes side by side; each module fills the table."""

from futad.ad.rules import acc, array, call, contraction, hist, loop, scalar, soac, tasks  # noqa: F401
