"""The syntax tree of the source language, with spans; inference fills `type` and the fields marked so.

After `source.check` every expression has a resolved type, every `EVar` its binding and the instantiation
of the binding's parameters, and `EApp.new_sizes` the skolems that a call makes.  Lowering reads only this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from futad.core.types import Prim
from futad.errors import Lint, Span
from futad.source.types import Binding, Scheme, Size, SType

# --- type expressions ------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class TypeExp:
    span: Span


@dataclass(slots=True, eq=False, repr=False)
class TEName(TypeExp):
    """`t`, `M.t`, or an abbreviation applied to sizes and types: `mat [n][m] f64`."""

    name: str
    args: list[TypeExp | Expr | None] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class TEArray(TypeExp):
    """`[size]elem`; size None is `[]`."""

    size: Expr | None
    elem: TypeExp


@dataclass(slots=True, eq=False, repr=False)
class TETuple(TypeExp):
    elems: list[TypeExp]


@dataclass(slots=True, eq=False, repr=False)
class TERecord(TypeExp):
    fields: list[tuple[str, TypeExp]]


@dataclass(slots=True, eq=False, repr=False)
class TESum(TypeExp):
    constrs: list[tuple[str, list[TypeExp]]]


@dataclass(slots=True, eq=False, repr=False)
class TEArrow(TypeExp):
    name: str | None
    param: TypeExp
    result: TypeExp


@dataclass(slots=True, eq=False, repr=False)
class TEUnique(TypeExp):
    """`*t`"""

    elem: TypeExp


@dataclass(slots=True, eq=False, repr=False)
class TEExists(TypeExp):
    """`?[n].t`"""

    sizes: list[str]
    elem: TypeExp


# --- patterns ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class Pat:
    span: Span
    type: SType | None = field(default=None, init=False)


@dataclass(slots=True, eq=False, repr=False)
class PVar(Pat):
    name: str
    binding: Binding | None = field(default=None, init=False)


@dataclass(slots=True, eq=False, repr=False)
class PWild(Pat):
    pass


@dataclass(slots=True, eq=False, repr=False)
class PTuple(Pat):
    elems: list[Pat]


@dataclass(slots=True, eq=False, repr=False)
class PRecord(Pat):
    fields: list[tuple[str, Pat]]


@dataclass(slots=True, eq=False, repr=False)
class PAscript(Pat):
    """`pat: type`"""

    pat: Pat
    texp: TypeExp


@dataclass(slots=True, eq=False, repr=False)
class PLit(Pat):
    """A literal, in `match`."""

    lit: Expr


@dataclass(slots=True, eq=False, repr=False)
class PConstr(Pat):
    name: str
    args: list[Pat]


@dataclass(slots=True, eq=False, repr=False)
class PAttr(Pat):
    """`#[attr] pat` (true_dep on loop parameters)"""

    attr: Attr
    pat: Pat


def pattern_names(p: Pat) -> list[PVar]:
    """The variables of a pattern, left to right."""
    if isinstance(p, PVar):
        return [p]
    if isinstance(p, (PAscript, PAttr)):
        return pattern_names(p.pat)
    if isinstance(p, PTuple):
        return [v for q in p.elems for v in pattern_names(q)]
    if isinstance(p, PRecord):
        return [v for _, q in p.fields for v in pattern_names(q)]
    if isinstance(p, PConstr):
        return [v for q in p.args for v in pattern_names(q)]
    return []


class AttrText(str):
    """A text in quotes among the arguments of an attribute, where a plain str is a name."""


@dataclass(slots=True, eq=False, repr=False)
class Attr:
    """`#[name]`, `#[name(args)]`: name and a tuple of numbers, truth values, texts, names and nested attributes."""

    span: Span
    name: str
    args: tuple[Any, ...] = ()


# --- expressions --------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class Expr:
    span: Span
    type: SType | None = field(default=None, init=False)  # by inference


def type_of(e: Expr | Pat) -> SType:
    """The type of an expression or pattern that has been typed."""
    assert e.type is not None
    return e.type


@dataclass(slots=True, eq=False, repr=False)
class ELit(Expr):
    """A number or bool; `suffix` is the literal's own type or None; `value` int, float or bool."""

    value: Any
    suffix: Prim | None
    bits: bool = False  # written in hexadecimal or binary: a pattern of bits, which may fill the type


@dataclass(slots=True, eq=False, repr=False)
class EString(Expr):
    """A string (array of u8, UTF-8) or, with `char`, one character's code."""

    value: str
    char: bool = False


@dataclass(slots=True, eq=False, repr=False)
class EVar(Expr):
    """A name, qualified (`f64.exp`) or an operator (`+`), used as a value."""

    name: str
    binding: Binding | None = field(default=None, init=False)
    targs: dict[Binding, SType] = field(default_factory=dict, init=False)  # type parameter -> instance
    sargs: dict[Binding, Size] = field(default_factory=dict, init=False)  # size parameter -> instance


@dataclass(slots=True, eq=False, repr=False)
class ETuple(Expr):
    """Tuples; `()` is the empty one."""

    elems: list[Expr]


@dataclass(slots=True, eq=False, repr=False)
class ERecord(Expr):
    """`{a = e, b}`; in field order as written."""

    fields: list[tuple[str, Expr]]


@dataclass(slots=True, eq=False, repr=False)
class EArray(Expr):
    elems: list[Expr]


@dataclass(slots=True, eq=False, repr=False)
class ERange(Expr):
    """`start..second...end`; kind is '...', '..<' or '..>'."""

    start: Expr
    second: Expr | None
    end: Expr
    kind: str
    new_sizes: tuple[Binding, ...] = field(default=(), init=False)  # the size, if it is not evident


@dataclass(slots=True, eq=False, repr=False)
class EApp(Expr):
    """`fun arg`: one argument a node (curried).  Operators too: `x + y` is EApp(EApp(EVar('+'), x), y).

    `first`: written `fun <| arg`, where the function is evaluated first.
    """

    fun: Expr
    arg: Expr
    first: bool = False
    new_sizes: tuple[Binding, ...] = field(default=(), init=False)  # skolems in `type` made by this call


@dataclass(slots=True, eq=False, repr=False)
class EAnd(Expr):
    """`x && y`, short-circuiting; `EOr` is `x || y`."""

    left: Expr
    right: Expr


@dataclass(slots=True, eq=False, repr=False)
class EOr(Expr):
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False, repr=False)
class ENeg(Expr):
    """`-x`; `bracketed` where it is in parentheses of its own."""

    arg: Expr
    bracketed: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False, repr=False)
class ENot(Expr):
    """`!x`: logical or bitwise."""

    arg: Expr


@dataclass(slots=True, eq=False, repr=False)
class ELambda(Expr):
    """`\\p1 p2 -> body` (`ret` the ascribed result type); sections `(+ x)`, `(x +)` too (desugared by the parser)."""

    params: list[Pat]
    body: Expr
    ret: TypeExp | None = None


@dataclass(slots=True, eq=False, repr=False)
class EProjSection(Expr):
    """`(.a.b)`: the function that projects a path of fields."""

    path: list[str]


@dataclass(slots=True, eq=False, repr=False)
class ELocalOpen(Expr):
    """`M.(e)`: the names of module M are in scope in e.  Inference replaces it by e."""

    module: str
    expr: Expr


@dataclass(slots=True, eq=False, repr=False)
class EHole(Expr):
    """`???`: an expression left out; evaluating it is an error."""


@dataclass(slots=True, eq=False, repr=False)
class EIndexSection(Expr):
    """`(.[i, j])`"""

    index: list[Expr | ESlice]


@dataclass(slots=True, eq=False, repr=False)
class EIf(Expr):
    cond: Expr
    then: Expr
    orelse: Expr
    new_sizes: tuple[Binding, ...] = field(default=(), init=False)


@dataclass(slots=True, eq=False, repr=False)
class ELet(Expr):
    """`let [n] pat = rhs in body`; `sizes` are the bound size names."""

    sizes: list[str]
    pat: Pat
    rhs: Expr
    body: Expr
    size_bindings: tuple[Binding, ...] = field(default=(), init=False)
    new_sizes: tuple[Binding, ...] = field(default=(), init=False)  # sizes that go out of scope in `type`


@dataclass(slots=True, eq=False, repr=False)
class ELetFun(Expr):
    """`let f params = ... in body`"""

    fun: FunDef
    body: Expr


@dataclass(slots=True, eq=False, repr=False)
class ESlice:
    """`i:j:s` inside an index; missing parts None."""

    span: Span
    start: Expr | None
    end: Expr | None
    stride: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class EIndex(Expr):
    """`a[i, j:k]`"""

    array: Expr
    index: list[Expr | ESlice]
    new_sizes: tuple[Binding, ...] = field(default=(), init=False)  # sizes of slices, in order


@dataclass(slots=True, eq=False, repr=False)
class EUpdate(Expr):
    """`a with [i, j] = v`; `let a[i] = v in body` is ELet of it."""

    array: Expr
    index: list[Expr | ESlice]
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class ERecordUpdate(Expr):
    """`r with a.b = v`"""

    record: Expr
    path: list[str]
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class EProject(Expr):
    """`e.field` (`e.0` too)"""

    record: Expr
    field_name: str


@dataclass(slots=True, eq=False, repr=False)
class EAscript(Expr):
    """`e : t`"""

    expr: Expr
    texp: TypeExp


@dataclass(slots=True, eq=False, repr=False)
class ECoerce(Expr):
    """`e :> t`: sizes checked at run time."""

    expr: Expr
    texp: TypeExp


@dataclass(slots=True, eq=False, repr=False)
class ForIn:
    """`for pat in array`"""

    span: Span
    pat: Pat
    array: Expr


@dataclass(slots=True, eq=False, repr=False)
class ForI:
    """`for i < bound`"""

    span: Span
    var: PVar
    bound: Expr


@dataclass(slots=True, eq=False, repr=False)
class WhileForm:
    span: Span
    cond: Expr


@dataclass(slots=True, eq=False, repr=False)
class ELoop(Expr):
    """`loop [n] pat = init form do body`; `init` None means the pattern's own names."""

    sizes: list[str]
    pat: Pat
    init: Expr | None
    form: ForIn | ForI | WhileForm
    body: Expr
    size_bindings: tuple[Binding, ...] = field(default=(), init=False)
    # Sizes of the loop variables that change from iteration to iteration: 'size' bindings usable in pat's types.
    loop_sizes: tuple[Binding, ...] = field(default=(), init=False)
    new_sizes: tuple[Binding, ...] = field(default=(), init=False)


@dataclass(slots=True, eq=False, repr=False)
class EAssert(Expr):
    cond: Expr
    expr: Expr


@dataclass(slots=True, eq=False, repr=False)
class EAttr(Expr):
    """`#[attr] e`"""

    attr: Attr
    expr: Expr


@dataclass(slots=True, eq=False, repr=False)
class EConstr(Expr):
    """`#name args`"""

    name: str
    args: list[Expr]


@dataclass(slots=True, eq=False, repr=False)
class EMatch(Expr):
    scrutinee: Expr
    cases: list[tuple[Pat, Expr]]
    new_sizes: tuple[Binding, ...] = field(default=(), init=False)


# --- declarations -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class TypeParam:
    """`[n]` (kind 'size'), `'t` (kind 'type'), `'~t` and `'^t` (kinds 'lifted', 'fullylifted')."""

    span: Span
    name: str
    kind: str
    binding: Binding | None = field(default=None, init=False)


@dataclass(slots=True, eq=False, repr=False)
class FunDef:
    """`def`, `let` or `entry` at top level, and local functions.  No parameters: a constant.

    `binding.scheme` is the generalised type; `implicit` the size and type parameters that inference
    added (quantified in the scheme after the written ones).  `recursive`: it occurs in its own definition, perhaps by
    way of other functions.
    """

    span: Span
    name: str
    tparams: list[TypeParam]
    params: list[Pat]
    ret: TypeExp | None
    body: Expr
    entry: bool = False
    attrs: list[Attr] = field(default_factory=list)
    doc: str = ""
    binding: Binding | None = field(default=None, init=False)
    ret_type: SType | None = field(default=None, init=False)
    implicit: tuple[Binding, ...] = field(default=(), init=False)
    recursive: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False, repr=False)
class ValSpec:
    """`val name tparams: type`: an intrinsic, in the prelude; in module types, a specification."""

    span: Span
    name: str
    tparams: list[TypeParam]
    texp: TypeExp
    binding: Binding | None = field(default=None, init=False)


@dataclass(slots=True, eq=False, repr=False)
class TypeDef:
    """`type name params = t`; `lifted` is '', '~', '^', or '?' if the definition tells.

    In a module type `sig with name params = t`, `refines` is how the type is declared in `sig`.
    """

    span: Span
    name: str
    params: list[TypeParam]
    texp: TypeExp
    lifted: str = ""
    refines: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ImportDecl:
    span: Span
    path: str
    name: str | None = None  # module m = import "..."


@dataclass(slots=True, eq=False, repr=False)
class LocalDecl:
    """`local dec`: not visible to importers."""

    span: Span
    decl: Decl


@dataclass(slots=True, eq=False, repr=False)
class OpenDecl:
    """`open mod-exp`"""

    span: Span
    mod: Any


@dataclass(slots=True, eq=False, repr=False)
class ModDecl:
    """`module name params : sig = mod-exp`; module expressions come with the module system."""

    span: Span
    name: str
    body: Any


Decl = FunDef | TypeDef | ValSpec | ImportDecl | LocalDecl | OpenDecl | ModDecl


@dataclass(slots=True, eq=False, repr=False)
class File:
    """One parsed file; `imports` maps each import path to its File once loaded."""

    path: str
    text: str
    decls: list[Decl]
    imports: dict[str, File] = field(default_factory=dict)


@dataclass(slots=True)
class CheckedProgram:
    """What inference hands to lowering: all reachable function definitions in dependency order
    (imports and used prelude functions first), and which of them are entries."""

    funs: list[FunDef]
    entries: list[FunDef]
    files: list[File]
    warnings: list[Lint] = field(default_factory=list)


__all__ = [n for n in dict(globals()) if n[0].isupper()] + ["Scheme"]
