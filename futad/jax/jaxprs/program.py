"""`compile`: from a function of JAX to an entry of a program."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import jax
from jax import export

from futad.api.bind import bind
from futad.api.executable import Origin
from futad.api.options import takes_budget
from futad.api.program import WHOLE, Function, Program
from futad.core import ir
from futad.core.budget import Options, chosen
from futad.core.builder import Builder
from futad.core.check import check_program
from futad.core.entry import EntryType
from futad.core.types import I64, ZERO, Atom, Const, Type, Var, array_of, elem_of, shape_of
from futad.errors import Span, UsageError
from futad.jax.jaxprs.importer import JaxprImporter, located, span_of
from futad.jax.jaxprs.lifted import dense, whole
from futad.jax.jaxprs.specs import is_wide, leaf_type, numbered, read_leaf, struct_of, tree_type
from futad.jax.jaxprs.table import elem_of_aval, shape_of_aval

_PLAIN = re.compile(r"[A-Za-z_]\w*\Z")


@takes_budget(WHOLE)
def compile(f: Callable[..., Any], *specs: Any, name: str | None = None, backend: str = "auto", check: bool = False,
            **options: Unpack[Options]) -> Function:  # fmt: skip
    """The function f of JAX as an entry of a program: called with NumPy arrays, differentiated by `futad.grad` and its
    like, run by futad's backends.

    `specs`: for each argument its element type and shape, as a tree that the argument has: `futad.jax.f64["n", 3]`,
    `"f64[n, 3]"`, an array, a `jax.ShapeDtypeStruct`, a number.  Sizes that are names may be any positive number in
    each call, without compiling again; names that occur twice are one size.  Trees of JAX become records (dicts, named
    tuples, registered classes) and tuples.  Where a spec has 64 bits, f is traced in JAX's 64-bit mode.  `name`: of the
    entry, by default f's.  `backend`, `check`: as of `futad.load`.

    Derivatives are those of the program that JAX traces.  Raises UsageError that names the primitive and the line of f
    where futad has no rule for one, DtypeError for element types such as complex64; what JAX raises when it traces f
    passes through.
    """
    if not callable(f):
        raise UsageError(f"futad.jax.compile takes a function, not {type(f).__name__}")
    engine, budget = chosen(**options)
    core, hidden = imported(f, specs, name or entry_name(f))
    check_program(core, "import")
    made = Program(core, backend=backend, check=check, name=core.name, budget=budget, engine=engine or "transform",
                   origin=Origin.of_core(core))
    (entry,) = made.entries.values()
    first = len(specs)
    return bind(entry, *[...] * first, *hidden) if hidden else entry


def entry_name(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", "") or type(f).__name__
    return name if _PLAIN.match(name) else "main"


def argument_names(f: Callable[..., Any], count: int) -> list[str]:
    """The names of the positional parameters, where they can be told."""
    names: list[str] = []
    try:
        for p in inspect.signature(f).parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            elif p.kind is p.VAR_POSITIONAL:
                names += [f"{p.name}{i}" for i in range(len(names), count)]
    except (TypeError, ValueError):
        pass
    return (names + [f"x{i}" for i in range(len(names), count)])[:count]


def imported(f: Callable[..., Any], specs: Sequence[Any], name: str) -> tuple[ir.Program, list[Any]]:
    """The program of which f is the entry, and the values of its last arguments: large constants of f."""
    names = argument_names(f, len(specs))
    read = [jax.tree_util.tree_map(read_leaf, spec) for spec in specs]
    flat = [jax.tree_util.tree_flatten(spec) for spec in read]
    leaves = [leaf for part, _ in flat for leaf in part]
    scope = next((d.scope for leaf in leaves for d in getattr(leaf, "shape", ()) if export.is_symbolic_dim(d)), None)
    scope = scope or export.SymbolicScope()
    wide = any(map(is_wide, leaves)) and not jax.config.jax_enable_x64
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        args = [
            jax.tree_util.tree_unflatten(tree, [struct_of(leaf, scope, f"argument '{n}'") for leaf in part])
            for n, (part, tree) in zip(names, flat, strict=True)
        ]
        closed, out = jax.make_jaxpr(f, return_shape=True)(*args)
        with located(place := defined_at(f)):
            return program_of(closed, out, names, [tree for _, tree in flat], name, place)


def defined_at(f: Callable[..., Any]) -> Span | None:
    code = getattr(inspect.unwrap(f), "__code__", None)
    return span_of(code.co_filename, code.co_firstlineno) if code is not None else None


def program_of(
    closed: Any, out: Any, names: Sequence[str], trees: Sequence[Any], name: str, place: Span | None = None
) -> tuple[ir.Program, list[Any]]:
    """The program of a traced function whose arguments have these names and trees, and whose result is like `out`;
    `place`: where it is defined."""
    avals = [v.aval for v in closed.jaxpr.invars]
    sizes = size_parameters(avals)
    size_vars = list(sizes.values())
    importer = JaxprImporter(sizes)
    owner = [n for n, tree in zip(names, trees, strict=True) for _ in range(tree.num_leaves)]
    params = [
        Var(n, array_of(elem_of_aval(a, f"argument '{n}'"), *[importer.size(d) for d in shape_of_aval(a)]))
        for n, a in zip(owner, avals, strict=True)
    ]
    assert_sizes(importer, sizes, place)
    b = Builder()
    results = [dense(b, v) for v in importer.run(b, closed, [whole(p) for p in params])]
    hidden = importer.hidden

    def shown(t: Type) -> EntryType:
        return leaf_type(elem_of(t), tuple([_dim(d, size_vars) for d in shape_of(t)]))

    values, ret, types = returned(results, size_vars)
    leaf_types, at = [shown(v.type) for v in params], 0
    inputs = []
    for n, tree in zip(names, trees, strict=True):
        inputs.append((n, tree_type(numbered(tree, at), leaf_types, f"argument '{n}'")))
        at += tree.num_leaves
    inputs += [(v.name, shown(v.type)) for v, _ in hidden]
    result = tree_type(numbered(jax.tree_util.tree_structure(out)), [shown(t) for t in types], "the result")
    body = ir.Lambda((*size_vars, *params, *[v for v, _ in hidden]), (*importer.top.stms, *b.stms), tuple(values))
    fun = ir.Fun(name, body, len(size_vars), tuple(ret), ir.Entry(name, tuple(inputs), result))
    return ir.Program({name: fun}, name), [value for _, value in hidden]


def returned(results: Sequence[Atom], sizes: Sequence[Var]) -> tuple[list[Atom], list[Var], list[Type]]:
    """The core results, variables of their types, and the types of those that callers see: arrays whose sizes are no
    parameters bring these along."""
    values: list[Atom] = []
    ret: list[Var] = []
    types: list[Type] = []
    brought: dict[Atom, Var] = {}
    for r in results:
        for s in shape_of(r.type):
            if isinstance(s, Var) and s not in sizes and s not in brought:
                brought[s] = Var("size", I64)
                ret.append(brought[s])
                values.append(s)
        types.append(array_of(elem_of(r.type), *[brought.get(s, s) for s in shape_of(r.type)]))
        ret.append(Var("r", types[-1]))
        values.append(r)
    return values, ret, types


def _dim(d: Atom, sizes: Sequence[Var]) -> str | int | None:
    if isinstance(d, Const):
        return int(d.value)
    return d.name if d in sizes else None


def size_parameters(avals: Sequence[Any]) -> dict[str, Var]:
    """A parameter for each symbol that is a dimension, and for each expression that is one."""
    texts = list(dict.fromkeys([str(d) for a in avals for d in a.shape if not isinstance(d, int)]))
    return {t: Var(re.sub(r"\W+", "_", t).strip("_"), I64) for t in texts}


def assert_sizes(importer: JaxprImporter, sizes: Mapping[str, Var], place: Span | None) -> None:
    """Dimensions that are expressions of others are what these say; others have an element, as JAX takes for granted
    where it leaves out checks."""
    for text, v in sizes.items():
        if _PLAIN.match(text):
            some, message = importer.top.op("lt", ZERO, v), f"the size {text} is {{}}, and has to be positive"
            importer.top.add(ir.Stm((), ir.Assert(some, message, (v,), place)))
        else:
            del importer.known[text]
            wanted = importer.size(text)
            importer.known[text] = v
            message = f"a dimension of an argument is {{}}, but {text} is {{}}"
            importer.top.add(ir.Stm((), ir.Assert(importer.top.op("eq", v, wanted), message, (v, wanted), place)))
