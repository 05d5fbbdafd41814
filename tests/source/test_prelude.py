"""The prelude's declarations, each parsed alone, are those of its files parsed whole."""

from typing import Any

from futad.source import ast as A
from futad.source.ast import FunDef, ValSpec
from futad.source.parse import parse
from futad.source.prelude import HERE, TEXTS, prelude


def plain(x: Any) -> Any:
    """A tree without identity: nodes are lists of all their fields, places with them."""
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if type(x).__module__ not in (A.__name__, "futad.errors"):
        return x
    fields = [name for c in type(x).__mro__ for name in getattr(c, "__slots__", ())] or list(vars(x))
    return [type(x).__name__, *[plain(getattr(x, name, None)) for name in fields]]


def test_each_alone_is_what_it_is_in_its_file() -> None:
    seen = []
    for file, prefix in TEXTS.items():
        for d in parse((HERE / file).read_text(), file).decls:
            assert isinstance(d, FunDef | ValSpec)
            d.name = prefix + d.name
            seen.append(d.name)
            made = prelude().get(d.name)
            assert made is not None and plain(made) == plain(d), d.name
            assert str(made.span).startswith(f"{file}:")
    assert seen == list(prelude()) and len(seen) > 100


def test_each_use_has_a_tree_of_its_own() -> None:
    assert prelude().get("map") is not prelude().get("map")
    assert prelude().get("no such name") is None
