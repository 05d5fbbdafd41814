"""The table of intrinsics: name -> (number of arguments, lowering)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from futad.source.lower import accs, inverse, irregular, numeric, tasks
from futad.source.lower import arrays as a
from futad.source.lower import soacs as s

if TYPE_CHECKING:
    from futad.errors import Span
    from futad.source.lower.core import Lowerer

TABLE: dict[str, tuple[int, Any]] = {
    "map": (2, s.do_map),
    **{f"map{k}": (k + 1, s.do_map) for k in range(1, 6)},
    "tabulate": (2, s.do_tabulate),
    "tabulate_2d": (3, s.do_tabulate),
    "tabulate_3d": (4, s.do_tabulate),
    "reduce": (3, s.do_reduce(False)),
    "reduce_comm": (3, s.do_reduce(True)),
    "scan": (3, s.do_scan),
    "exscan": (3, s.do_exscan),
    "any": (2, s.do_any("or")),
    "all": (2, s.do_any("and")),
    "or": (1, s.do_and_or("or")),
    "and": (1, s.do_and_or("and")),
    "hist": (5, s.do_hist),
    "reduce_by_index": (5, s.do_reduce_by_index(1)),
    "reduce_by_index_2d": (5, s.do_reduce_by_index(2)),
    "reduce_by_index_3d": (5, s.do_reduce_by_index(3)),
    "scatter": (3, s.do_scatter(1)),
    "scatter_2d": (3, s.do_scatter(2)),
    "scatter_3d": (3, s.do_scatter(3)),
    "spread": (4, s.do_spread),
    "filter": (2, s.do_filter),
    "partition": (2, s.do_partition),
    "partition2": (3, s.do_partition2),
    "flatmap": (2, irregular.do_flatmap),
    "intrinsics.argsort_below": (2, a.do_argsort_below),
    "intrinsics.scatter_stream": (3, accs.do_scatter_stream),
    "intrinsics.hist_stream": (5, accs.do_hist_stream),
    "intrinsics.acc_write": (3, accs.do_write),
    "jvp": (3, s.do_jvp(False)),
    "jvp2": (3, s.do_jvp(True)),
    "vjp": (3, s.do_vjp(False)),
    "vjp2": (3, s.do_vjp(True)),
    "jmp": (3, s.do_jvp(False, many=True)),
    "jmp2": (3, s.do_jvp(True, many=True)),
    "mjp": (3, s.do_vjp(False, many=True)),
    "mjp2": (3, s.do_vjp(True, many=True)),
    "with_vjp": (3, s.do_with_vjp),
    "with_vjp_tape": (3, s.do_with_vjp_tape),
    "with_inverse": (3, inverse.do_with_inverse),
    "invert": (2, inverse.do_invert),
    "par": (3, tasks.do_par),
    "length": (1, a.do_length),
    "null": (1, a.do_null),
    "iota": (1, a.do_iota),
    "indices": (1, a.do_indices),
    "replicate": (2, a.do_replicate),
    "rep": (1, a.do_rep),
    "take": (2, a.do_take),
    "drop": (2, a.do_drop),
    "split": (1, a.do_split),
    "head": (1, a.do_head),
    "last": (1, a.do_last),
    "tail": (1, a.do_tail),
    "init": (1, a.do_init),
    "reverse": (1, a.do_reverse),
    "concat": (2, a.do_concat),
    "++": (2, a.do_concat),
    "rotate": (2, a.do_rotate),
    "transpose": (1, a.do_transpose),
    "flatten": (1, a.do_flatten(2)),
    "flatten_3d": (1, a.do_flatten(3)),
    "flatten_4d": (1, a.do_flatten(4)),
    "unflatten": (1, a.do_unflatten(2)),
    "unflatten_3d": (1, a.do_unflatten(3)),
    "unflatten_4d": (1, a.do_unflatten(4)),
    "copy": (1, a.do_copy),
    "manifest": (1, a.do_copy),
    "sized": (2, a.do_sized),
    "zip": (2, a.do_zip),
    **{f"zip{k}": (k, a.do_zip) for k in range(2, 6)},
    "unzip": (1, a.do_unzip),
    **{f"unzip{k}": (1, a.do_unzip) for k in range(2, 6)},
    "|>": (2, a.do_pipe),
    "<|": (2, a.do_back_pipe),
    ">->": (3, a.do_compose),
    "<-<": (3, a.do_back_compose),
    "flip": (3, a.do_flip),
    "curry": (3, a.do_curry),
    "uncurry": (2, a.do_uncurry),
    "const": (2, a.do_first),
    "id": (1, a.do_first),
    "opaque": (1, a.do_first),
    "trace": (1, a.do_trace),
    "break": (1, a.do_first),
    "not": numeric.op("not", 1),
    "neg": numeric.op("neg", 1),
    "foldl": (3, a.do_foldl),
    "foldr": (3, a.do_foldr),
    "iterate": (3, a.do_iterate),
    "iterate_while": (3, a.do_iterate_while(False)),
    "iterate_until": (3, a.do_iterate_while(True)),
}


def lookup(lw: Lowerer, name: str, span: Span) -> tuple[int, Any]:
    """The record of an intrinsic.  Raises UnsupportedError for one without a lowering."""
    found = TABLE.get(name)
    if found is not None:
        return found
    made: tuple[int, Any] | None = None
    if name.startswith("#project."):
        made = (1, a.do_project(tuple(name.split(".")[1:])))
    elif name.startswith("#index."):
        form = name.split(".", 1)[1]
        made = (sum(c != ":" for c in form) + 1, a.do_index_section(form))
    else:
        module, _, rest = name.partition(".")
        made = numeric.member(module, rest) if rest else None
        if made is None:
            made = numeric.operator_entry(name)
    if made is None:
        raise lw.unsupported_error(f"the function `{name}`", span)
    TABLE[name] = made
    return made
