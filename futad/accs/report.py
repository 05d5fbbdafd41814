"""What became of each accumulator, and why: the text of `futad dev FILE --after accs --why`."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.ir import Lambda
from futad.core.types import Atom, Var
from futad.rewrite.strategy import Stats


class Report:
    """Notes by accumulator; a variable of such a type is known by the one it leads back to."""

    def __init__(self, stats: Stats | None, lines: list[str] | None) -> None:
        self.stats = stats
        self.lines = lines
        self.roots: dict[Var, Var] = {}
        self.notes: dict[Var, list[tuple[str, str]]] = {}

    def note(self, what: str, acc: Atom, why: str) -> None:
        if self.stats is not None:
            self.stats.count(what)
        if self.lines is not None and type(acc) is Var:
            self.notes.setdefault(self.roots.get(acc, acc), []).append((what, why))

    def trace(self, lam: Lambda) -> None:
        """Note which accumulator each variable of such a type leads back to, and list them in order."""
        for stm in lam.stms:
            e = stm.exp
            match e:
                case ir.WithAcc():
                    for p in e.lam.params:
                        self.roots[p] = p
                        self.notes.setdefault(p, [])
                case ir.Mapping():
                    self._follow(e.lam.params, e.arrays)
                case ir.Loop():
                    self._follow(e.variables, e.inits)
            for inner in e.lambdas():
                self.trace(inner)
            match e:
                case ir.UpdateAcc():
                    self._follow(stm.pat, (e.acc,))
                case ir.Mapping():
                    self._follow(stm.pat, e.lam.result)
                case ir.Loop():
                    self._follow(stm.pat, e.body.result)
                case ir.If():
                    self._follow(stm.pat, e.then.result)

    def _follow(self, to: Sequence[Var], source: Sequence[Atom]) -> None:
        for v, a in zip(to, source, strict=False):
            if type(a) is Var and a in self.roots:
                self.roots[v] = self.roots[a]

    def explain(self) -> None:
        """Write a line per accumulator."""
        assert self.lines is not None
        for acc, notes in self.notes.items():
            kinds = [what for what, _ in notes]
            last = "acc_removed" if "acc_removed" in kinds else "acc_kept"
            reasons = list(dict.fromkeys(why for what, why in notes if what in (last, "acc_reduced")))
            self.lines.append(f"{acc!r}: {'; '.join(reasons) or 'kept: updated outside of maps'}")
