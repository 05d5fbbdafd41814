"""The prelude's declarations and those of the module `intrinsics`, each parsed when a program first names it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from futad.source import ast as A
from futad.source.parse import parse

HERE = Path(__file__).parent
# The texts, and what their names begin with in a program.
TEXTS = {"prelude.fut": "", "intrinsics.fut": "intrinsics."}
# A declaration begins in the first column, perhaps with attributes on lines of their own, and goes on in others.
_DECLARATION = re.compile(r"^(?:#\[.*\]\n)*(?:val|def) +\(?([^\s():\[]+).*\n?(?:[ \t].*\n?|\n)*", re.MULTILINE)


class Prelude:
    """The declarations by name; each use of a fresh one, since checking writes into the nodes."""

    def __init__(self) -> None:
        self.parsed: dict[str, bytes] = {}  # pickled, as that is quicker to read; "" of those asked for once
        self.texts: dict[str, tuple[str, str]] = {}  # name: file, and its text up to and with the declaration
        for file, prefix in TEXTS.items():
            text = (HERE / file).read_text(encoding="utf-8")
            for m in _DECLARATION.finditer(text):
                # Lines before it are empty, so that places are those in the file.
                self.texts[prefix + m[1]] = file, "\n" * text.count("\n", 0, m.start()) + m[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def get(self, name: str) -> A.FunDef | A.ValSpec | None:
        """The declaration of that name, unchecked."""
        if name not in self.texts:
            return None
        if self.parsed.get(name):
            again: A.FunDef | A.ValSpec = pickle.loads(self.parsed[name])
            return again
        file, text = self.texts[name]
        (made,) = parse(text, file).decls
        assert isinstance(made, A.FunDef | A.ValSpec)
        made.name = name
        self.parsed[name] = pickle.dumps(made, pickle.HIGHEST_PROTOCOL) if name in self.parsed else b""
        return made


@lru_cache(maxsize=1)
def prelude() -> Prelude:
    """The prelude, its texts read once."""
    return Prelude()
