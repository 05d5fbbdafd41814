"""Executables: the tables that `kernels/program_*.h` need to read, call and write the entries of emitted C.

`program_text` is a whole program: what `CBackend` emits, the tables, and a `main` that reads values on stdin or
answers the server protocol.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from futad.backend.c import CBackend
from futad.backend.c_emit import c_string
from futad.core.failure import FailureSite
from futad.core.ir import EntryType, Fun
from futad.core.types import Prim
from futad.errors import EXCEEDS, NEGATIVE_SIZE, line_of, show_at
from futad.runtime.structure import leaf_types
from futad.runtime.values import Leaf, Signature, leaf_text, signature_of

_PRIMS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bool")
_NAME = re.compile(r"[A-Za-z_][\w.']*")


def program_text(backend: CBackend, *, server: bool) -> str:
    """The C of an executable; it includes headers of `kernels/`."""
    tables = _Tables(backend)
    main = [f"program_{part}.h" for part in (("variables", "compound", "server") if server else ("main",))]
    return "\n".join(
        [
            "#define _GNU_SOURCE",
            backend.source,
            f"#define FUTAD_VALUE_RANK {tables.rank}",
            '#include "program_values.h"',
            '#include "program_tables.h"',
            f"#define FUTAD_NEGATIVE_SIZE {c_string(NEGATIVE_SIZE.replace('{}', '%lld'))}",
            f"#define FUTAD_EXCEEDS {c_string(EXCEEDS)}",
            *tables.lines(),
            '#include "program_entries.h"',
            *[f'#include "{name}"' for name in main],
            "",
        ]
    )


@dataclass(slots=True)
class _Type:
    """A type of the interface: `fields` names and numbers of types, `leaves` the scalars and arrays it consists of,
    `variants` the constructors of a sum type: name, the first of its fields, how many it has."""

    name: str
    kind: str
    leaves: list[tuple[Prim, int]]
    is_tuple: bool = False
    rank: int = 0
    elem: int = 0
    fields: list[tuple[str, int]] = field(default_factory=list)
    variants: list[tuple[str, int, int]] = field(default_factory=list)


class _Tables:
    """Collects the types of all entries, then prints everything."""

    def __init__(self, backend: CBackend) -> None:
        self.layout = backend.layout()
        self.types: list[_Type] = []
        self.numbers: dict[str, int] = {}  # by structure, written without abbreviations
        self.aliases: dict[str, int] = {}
        self.entries: list[tuple[Fun, Signature]] = []
        for symbol in self.layout.functions:
            fun = backend.program.funs[symbol]
            if fun.entry is not None:
                self.entries.append((fun, signature_of(fun)))
        for fun, _ in self.entries:
            assert fun.entry is not None
            for t in [*[t for _, t in fun.entry.params], fun.entry.result]:
                self.number(t)
        self._name_types()
        self.rank = max([r for t in self.types for _, r in t.leaves] + [1])

    # -- types

    def number(self, t: EntryType) -> int:
        """The number of a type, entered into the table if it is new."""
        t, rank = _stripped(t)
        structure = "[]" * rank + _structure(t)
        found = self.numbers.get(structure)
        if found is None:
            found = self.numbers[structure] = len(self.types)
            made = _Type(structure, "ARRAY" if rank else "PRIMITIVE" if t.kind == "scalar" else "RECORD", [])
            self.types.append(made)
            made.leaves = [(p, rank + r) for p, r in _leaves(t)]
            if not rank and t.constructors:
                made.kind = "SUM"
                first = 1  # field 0 is the tag
                for name, count in t.constructors:
                    made.variants.append((name, first, count))
                    first += count
            made.is_tuple = not rank and t.kind == "tuple"
            made.rank = rank
            made.fields = [
                (name, self.number(EntryType("array", "", f, (None,) * rank) if rank else f)) for name, f in t.fields
            ]
            if rank:
                made.elem = self.number(t)
        alias = t.text.lstrip("*")
        if not rank and t.kind in ("record", "tuple") and _NAME.fullmatch(alias):
            self.aliases.setdefault(alias, found)
        return found

    def _name_types(self) -> None:
        """Types get the first abbreviation the entries use for them: it has no spaces, which commands would have to
        quote.  What they are without abbreviation still names them."""
        short: dict[int, str] = {}
        for alias, number in self.aliases.items():
            if alias not in self.numbers:
                short.setdefault(number, alias)
        for structure, number in self.numbers.items():
            t = self.types[number]
            if number in short:
                self.aliases[structure] = number
                t.name = short[number]
        for structure, number in self.numbers.items():
            t = self.types[number]
            if t.kind == "ARRAY" and t.elem in short:
                self.aliases[structure] = number
                t.name = "[]" * t.rank + short[t.elem]

    # -- text

    def lines(self) -> list[str]:
        out = self._type_lines()
        for i, (fun, signature) in enumerate(self.entries):
            out += self._entry_lines(i, fun, signature)
        rows = [self._entry_row(i, fun, signature) for i, (fun, signature) in enumerate(self.entries)]
        out += _table("struct futad_entry futad_entries", rows)
        out.append(f"static const int futad_number_of_entries = {len(self.entries)};")
        for i, p in enumerate(self.layout.places):
            out += _table(f"int futad_place_prims_{i}", [str(_prim(t)) for t in p.types])
        return out + _table("struct futad_place futad_places", [_place(i, p) for i, p in enumerate(self.layout.places)])

    def _type_lines(self) -> list[str]:
        out = []
        for i, t in enumerate(self.types):
            out += _table(f"struct futad_field futad_fields_{i}", [f"{{{c_string(n)}, {k}}}" for n, k in t.fields])
            variants = [f"{{{c_string(n)}, {first}, {count}}}" for n, first, count in t.variants]
            out += _table(f"struct futad_variant futad_variants_{i}", variants)
            leaves = [f'{{"", "", {_prim(p)}, {rank}, {{{{false, 0}}}}}}' for p, rank in t.leaves]
            out += _table(f"struct futad_leaf futad_type_leaves_{i}", leaves)
        rows = [
            f"{{{c_string(t.name)}, FUTAD_{t.kind}, {str(t.is_tuple).lower()}, {t.rank}, {t.elem}, {len(t.fields)}, "
            f"futad_fields_{i}, {len(t.leaves)}, futad_type_leaves_{i}, {len(t.variants)}, futad_variants_{i}}}"
            for i, t in enumerate(self.types)
        ]
        out += _table("struct futad_type futad_types", rows)
        out.append(f"static const int futad_type_count = {len(self.types)};")
        aliases = [(a, n) for a, n in self.aliases.items() if a != self.types[n].name]
        out += _table("struct futad_alias futad_aliases", [f"{{{c_string(a)}, {n}}}" for a, n in aliases])
        out.append(f"static const int futad_alias_count = {len(aliases)};")
        return out

    def _entry_lines(self, i: int, fun: Fun, signature: Signature) -> list[str]:
        entry = signature.entry
        results = self.layout.functions[fun.name].results
        unique = [j < len(entry.unique) and entry.unique[j] for j in range(len(entry.params))]
        consumed = [u for u, (_, t) in zip(unique, entry.params, strict=True) for _ in leaf_types(t)]
        shown = ["-1" if j in signature.witnesses else str(_prim(p)) for j, (p, _) in enumerate(results)]
        return [
            *_table(f"char *const futad_sizes_{i}", [c_string(n) for n in signature.size_names]),
            *_table(f"int futad_params_{i}", [str(self.number(t)) for _, t in entry.params]),
            *_table(f"bool futad_consumed_{i}", [str(u).lower() for u in unique]),
            *_table(f"struct futad_leaf futad_leaves_{i}", [_leaf(leaf) for leaf in signature.params]),
            *_table(f"bool futad_leaf_consumed_{i}", [str(u).lower() for u in consumed]),
            *_table(f"int futad_shown_{i}", shown),
            *_table(f"int futad_ranks_{i}", [str(rank) for _, rank in results]),
        ]

    def _entry_row(self, i: int, fun: Fun, signature: Signature) -> str:
        entry, f = signature.entry, self.layout.functions[fun.name]
        attributes = "".join(f"{_attribute(a)}\n" for a in fun.attrs)
        cells = [
            c_string(entry.name), c_string(signature.text()), c_string(attributes), f.symbol,
            str(len(signature.size_names)), f"futad_sizes_{i}",
            str(len(entry.params)), f"futad_params_{i}", f"futad_consumed_{i}",
            str(len(signature.params)), f"futad_leaves_{i}", f"futad_leaf_consumed_{i}",
            str(self.number(entry.result)), str(entry.result.text.startswith("*")).lower(),
            str(len(f.results)), f"futad_shown_{i}", f"futad_ranks_{i}",
        ]  # fmt: skip
        return f"{{{', '.join(cells)}}}"


def _stripped(t: EntryType) -> tuple[EntryType, int]:
    """The element type that is no array, and the number of dimensions around it."""
    rank = 0
    while t.kind == "array":
        rank += len(t.dims)
        assert isinstance(t.elem, EntryType)
        t = t.elem
    return t, rank


def _structure(t: EntryType) -> str:
    """A type without abbreviations, sizes and uniqueness."""
    inner, rank = _stripped(t)
    if inner.kind == "scalar":
        assert isinstance(inner.elem, Prim)
        return "[]" * rank + inner.elem.name
    if inner.constructors:
        parts, payloads = [], iter(inner.fields[1:])
        for name, count in inner.constructors:
            shown = [_structure(next(payloads)[1]) for _ in range(count)]
            parts.append(" ".join([f"#{name}", *[f"({p})" if " " in p else p for p in shown]]))
        text = " | ".join(parts)
        return "[]" * rank + (f"({text})" if rank else text)
    if inner.kind == "tuple":
        return "[]" * rank + "(" + ", ".join(_structure(f) for _, f in inner.fields) + ")"
    return "[]" * rank + "{" + ", ".join(f"{n}: {_structure(f)}" for n, f in inner.fields) + "}"


def _leaves(t: EntryType) -> list[tuple[Prim, int]]:
    inner, rank = _stripped(t)
    if inner.kind == "scalar":
        assert isinstance(inner.elem, Prim)
        return [(inner.elem, rank)]
    return [(p, rank + r) for _, f in inner.fields for p, r in _leaves(f)]


def _prim(p: Prim) -> int:
    return _PRIMS.index(p.name)


def _attribute(a: Any) -> str:
    """An attribute without its brackets: `foo`, `bar(3)`."""
    if isinstance(a, tuple):
        name, *args = a
    elif hasattr(a, "name"):
        name, args = a.name, list(a.args)
    else:
        return str(a)
    return f"{name}({', '.join(map(_attribute, args))})" if args else str(name)


def _leaf(leaf: Leaf) -> str:
    dims = [f"{{false, {d}}}" if isinstance(d, int) else f"{{true, {d[1]}}}" for d in leaf.dims]
    return (
        f"{{{c_string(leaf.path)}, {c_string(leaf_text(leaf))}, {_prim(leaf.elem)}, {len(leaf.dims)}, "
        f"{{{', '.join(dims) or '{false, 0}'}}}}}"
    )


def _place(i: int, p: FailureSite) -> str:
    before = after = ""
    if p.span is not None:
        before = f"{p.span}: "
        _, newline, rest = show_at(p.span, "error", "", line_of({}, p.span)).partition("\n")
        after = newline + rest
    return f"{{{c_string(before)}, {c_string(p.message)}, {c_string(after)}, {len(p.types)}, futad_place_prims_{i}}}"


def _table(head: str, rows: list[str]) -> list[str]:
    """A constant array; C has no empty ones."""
    body = [f"  {row}," for row in rows] or ["  {0}," if head.startswith("struct") else "  0,"]
    return [f"static __attribute__((unused)) const {head}[] = {{", *body, "};"]
