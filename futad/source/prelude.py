"""The prelude's declarations and those of the module `intrinsics`, parsed once and kept on disk."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from futad.runtime import cache
from futad.source import ast as A
from futad.source.parse import GRAMMAR, parse

HERE = Path(__file__).parent
# The texts, and what their names begin with in a program.
TEXTS = {"prelude.fut": "", "intrinsics.fut": "intrinsics."}


class Prelude:
    """The declarations by name; each use of a fresh copy, since checking writes into the nodes."""

    def __init__(self, pickled: dict[str, bytes]) -> None:
        self.pickled = pickled

    def __iter__(self) -> Iterator[str]:
        return iter(self.pickled)

    def get(self, name: str) -> A.FunDef | A.ValSpec | None:
        """The declaration of that name, unchecked."""
        raw = self.pickled.get(name)
        return pickle.loads(raw) if raw is not None else None


@lru_cache(maxsize=1)
def prelude() -> Prelude:
    """The prelude, from the disk cache if it is there and sound."""
    texts = {name: (HERE / name).read_bytes() for name in TEXTS}
    code = b"".join((HERE / f"{n}.py").read_bytes() for n in ("ast", "actions", "actions_decl", "lexer", "prelude"))
    key = hashlib.sha256(b"".join(texts.values()) + GRAMMAR.read_bytes() + code).hexdigest()
    tree = f"prelude-{key[:24]}.tree"
    raw = cache.read(tree)
    if raw is not None:
        return Prelude(pickle.loads(raw))
    made: dict[str, bytes] = {}
    for name, text in texts.items():
        for d in parse(text.decode(), name).decls:
            if isinstance(d, (A.FunDef, A.ValSpec)):
                d.name = TEXTS[name] + d.name
                made[d.name] = pickle.dumps(d, protocol=4)
    cache.write(tree, pickle.dumps(made, protocol=4))
    return Prelude(made)
