"""The prelude's declarations, parsed once and kept on disk."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from futad.runtime.cache import cache_dir
from futad.source import ast as A
from futad.source.parse import GRAMMAR, parse, write_atomically

PRELUDE = Path(__file__).with_name("prelude.fut")


@dataclass(slots=True)
class Prelude:
    """The declarations by name; types are filled in as programs use them."""

    file: A.File
    decls: dict[str, A.FunDef | A.ValSpec]


def prelude() -> Prelude:
    """A fresh copy of the prelude (checking writes into its nodes)."""
    raw = _pickled()
    file: A.File = pickle.loads(raw)
    return Prelude(file, {d.name: d for d in file.decls if isinstance(d, (A.FunDef, A.ValSpec))})


@lru_cache(maxsize=1)
def _pickled() -> bytes:
    text = PRELUDE.read_bytes()
    here = Path(__file__).parent
    code = b"".join((here / n).read_bytes() for n in ("ast.py", "actions.py", "actions_decl.py", "lexer.py"))
    key = hashlib.sha256(text + GRAMMAR.read_bytes() + code).hexdigest()
    path = cache_dir() / f"prelude-{key[:24]}.tree"
    try:
        raw = path.read_bytes()
        if hashlib.sha256(raw[32:]).digest() == raw[:32]:
            return raw[32:]
    except OSError:
        pass
    body = pickle.dumps(parse(text.decode(), "prelude.fut"), protocol=4)
    write_atomically(path, hashlib.sha256(body).digest() + body)
    return body
