"""The text of C programs for one or several threads, and what is specific to C in lowering to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from futad.backend import (
    c_blocks,
    c_counts,
    c_lanes,
    c_merged_regions,
    c_reports,
    c_row_additions,
    c_sums,
    c_tails,
    c_tasks,
    c_threads,
)  # fmt: skip
from futad.backend.c_calls import calls_first
from futad.backend.c_divisions import divided_once
from futad.backend.c_runtime import RUNTIME, THREADS
from futad.backend.emit import Emitter, c_type
from futad.core.measures import words_of
from futad.core.scalarlib import vector_functions
from futad.core.scalarops import OPS
from futad.core.types import Prim
from futad.imp import ir, records
from futad.imp.contraction import Contract
from futad.imp.dispatch import STACK_LIMIT
from futad.imp.ir import Expr, Num
from futad.imp.loops.facts import LoopFacts
from futad.imp.moves import Move
from futad.imp.report import Reports
from futad.imp.tasks import Fork, Own
from futad.imp.walk import loads_in, parts, statements

FEW = 4  # elements that are folded one by one
FAR = 16  # elements that GCC may step over in vectors
LONG = (ir.For, ir.While, ir.VectorisedFor, ir.Blocks, ir.Gemm, Contract)  # what makes an iteration of a loop long


# Iterations that are run again are to give the bits that they gave the first time, and each budget the same derivative.
# Which of the two products of a b + c d a compiler contracts with the sum hangs on the code around.
UNCONTRACTED = (
    "#if defined(__GNUC__) && !defined(__clang__)",
    '#pragma GCC optimize("fp-contract=off")',
    "#else",
    "#pragma STDC FP_CONTRACT OFF",
    "#endif",
)


class CEmitter(Emitter):
    """C for one or several threads."""

    reports: Reports | None = None  # of what is bound
    stops = False  # see `Target.stops`
    interrupts = True  # see kernels/interrupts.h
    records_header = "records.h"
    merges = True  # see `c_merged_regions`

    def __init__(self, module: ir.Module, multicore: bool, grain: int) -> None:
        super().__init__()
        self.handlers[ir.Report] = self.report
        self.handlers[ir.VectorisedFor] = lambda s: c_lanes.emit(self, s)
        self.handlers[ir.Blocks] = lambda s: c_blocks.emit(self, s)
        self.handlers[ir.Stack] = self.stack
        self.handlers[ir.Stream] = self.stream
        self.handlers[ir.Append] = self.append
        self.handlers[ir.Transpose] = self.transpose
        self.handlers[ir.Pack] = self.pack
        self.handlers[Move] = self.moving
        self.handlers[Contract] = self.contract
        self.handlers[ir.Spare] = lambda s: self.line(f"futad_spare(&{s.slot}, &{s.spare}, {s.pointer});")
        self.handlers[ir.Trace] = self.trace
        self.handlers[ir.Measure] = self.measure
        self.handlers[Fork] = lambda s: c_tasks.emit(self, s)
        self.handlers[Own] = lambda s: c_tasks.own(self, s)
        self.handlers[ir.Parallel] = lambda s: (c_merged_regions.emit_nest if self.merged else c_threads.emit)(self, s)
        self.handlers[records.Keep] = self.keep
        self.handlers[records.Field] = self.field
        self.handlers[records.Release] = lambda s: self.line(f"futad_give_back(ctx, {self.expr(s.record)});")
        self.handlers[ir.StreamEnd] = lambda s: self.line("FUTAD_STREAM_END();")
        self.grain = grain
        self.module = module
        self.multicore = multicore
        self.label = "failed"
        self.declared: dict[str, str] = {}  # the variables of the function that is being emitted
        self.regions: list[str] = []  # and its parallel regions
        self.declarations: list[str] = []  # of these
        self.once: set[ir.Stmt] = set()  # its statements that are done once in a call
        self.works: dict[str, str] = {}  # what they cost, by the variable for their number of threads
        self.number_of_regions = 0
        self.recursing: set[str] = set()  # the functions that may call recursive ones, and these
        self.in_frame = False  # in one of these
        self.asks = False  # where these have room: an interrupt is asked for, in loops that may take long
        self.records = False  # whether there are records
        self.home = "ctx->slots"  # where the slots are
        self.number_of_tasks = 0
        self.forks = False
        self.merged = False  # in the function of a merged region
        self.in_lanes = False  # in a loop that the C compiler should vectorise
        self.selects = False  # and in which a choice must not become a branch

    def text(self) -> str:
        """The whole source file."""
        self.recursing = _recursing(self.module)
        rank = max([len(r.shape) for f in self.module.functions if not f.local for r in f.results] + [1])
        bools = max([len(bool_arrays(f)) for f in self.module.functions], default=0)
        measures = words_of(self.module.sites)
        slots = max(1, self.module.slots + bools)
        kinds = {type(s) for f in self.module.functions for s in statements(f.body)}
        self.records, self.forks = any(issubclass(k, records.Keep) for k in kinds), Fork in kinds
        last = slots + bool(self.recursing)
        if not self.interrupts or self.reports is not None:  # checks call Python, and have memory of their own
            self.line("#define FUTAD_UNINTERRUPTED 1")
        self.line(f"#define FUTAD_SLOTS {last + self.records + self.forks + (measures > 0)}")
        if self.records:
            self.line(f"#define FUTAD_RECORDS_SLOT {last}")
        self.line(f"#define FUTAD_MAX_RANK {rank}")
        if self.multicore:
            self.line('#include "thread_pool.h"')
        if measures:
            self.line("#define FUTAD_TELLS 1")
        runtime, threads = self.runtime()
        if self.stops:
            self.line('#include "stops.h"')
        self.line(runtime.rstrip("\n"))
        if self.multicore:
            self.line(f"#define FUTAD_GRAIN {self.grain}")
            self.line(threads.rstrip("\n"))
        if self.recursing:
            self.lines += [f"#define FUTAD_STACK_SLOT {slots}", '#include "recursion.h"']
        if self.records:
            self.line(f'#include "{self.records_header}"')
        if self.forks:
            self.lines += [f"#define FUTAD_TASKS_SLOT {last + self.records}", '#include "tasks.h"']
        if kinds & {ir.Gemm, ir.Pack}:  # or C compilers would read it for nothing, and without -O compile it
            self.line('#include "gemm.h"')
        if ir.Transpose in kinds:
            self.line('#include "transpose.h"')
        if Contract in kinds:
            self.line('#include "contract.h"')
            if any(s.ranges for f in self.module.functions for s in statements(f.body) if isinstance(s, Contract)):
                self.line('#include "contract_open.h"')
        if ir.Trace in kinds:
            self.line('#include "values_text.h"')
        if measures:
            self.lines += [f"#define FUTAD_MEASURES {measures}", '#include "measures.h"']
        if self.reports is not None:
            self.lines += c_reports.runtime(self.reports)
        functions = len(self.lines)
        if any(("way", "rerun") in site.facts for site in self.module.sites):
            self.lines += UNCONTRACTED
        self.lines += [f"{self.head(f)};" for f in self.module.functions if f.recursive is not None]
        for f in self.module.functions:
            self.function(f)
        head, text = self.lines[:functions], "\n".join(self.lines[functions:])
        if any(x in text for x in ("futad_wide_f", "futad_quarter_f", "futad_count(")):
            head.append('#include "sums.h"')
        if "struct futad_merged merged;" in text:
            head.insert(functions, '#include "merged_regions.h"')
        head[:0] = [f"#define FUTAD_OWN_{name} 1" for name in vector_functions(text)]
        return "\n".join([*head, text, ""] if text else [*head, ""])

    def runtime(self) -> tuple[str, str]:
        """The C that the file begins with, and what threads need."""
        return RUNTIME, THREADS

    def body(self, f: ir.Function) -> None:
        """The statements of a function."""
        self.block(f.body)

    def piece(self) -> None:
        """What a piece of a parallel nest begins with."""

    def function(self, f: ir.Function) -> None:
        at = len(self.lines)
        self.regions, self.declarations = [], []
        self.once = set() if f.local else set(_outside_loops(f.body))
        if self.multicore:
            self.declared = c_threads.declared_in(f)
        deep = not f.local and f.name in self.recursing
        self.in_frame, self.asks = f.recursive is not None, f.name in self.recursing
        self.home = "ctx->slots" if f.recursive is None else "own" if f.recursive[0] else ""
        self.line("")
        self.line(f"{self.head(f, deep)} {{")
        self.depth = 1
        if f.recursive is not None:
            self.line(f"FUTAD_ROOM(ctx, {f.recursive[1]});")
            if f.recursive[0]:
                self.line(f"struct futad_slot own[{f.recursive[0]}] = {{{{0}}}};")
        if not f.local:
            self.line("ctx->error.code = FUTAD_OK;")
            if self.module.sites:
                self.line("futad_measures_clear(ctx);")
            if self.records:
                self.line("futad_records_clear(ctx);")
            self.arguments(f)
        self.body(f)
        for i, r in enumerate(f.results):
            if f.local:
                value = self.address(r.pointer, r.offset) if r.value is None else self.expr(r.value)
                self.line(f"*result_{i} = {value};")
            elif r.value is not None:
                value = f"{c_type(r.type)} value = {self.expr(r.value)};"
                self.line(f"{{ {value} memcpy(&results[{i}].data, &value, sizeof value); }}")
            else:
                self.line(f"results[{i}].data = {self.address(r.pointer, r.offset)};")
                self.line(f"results[{i}].slot = futad_owner(ctx, results[{i}].data);")
                for d, n in enumerate(r.shape):
                    self.line(f"results[{i}].shape[{d}] = {self.expr(n)};")
        rests = self.multicore and not f.local
        leaves = [f"futad_leave(ctx, own, {f.recursive[0]});"] if f.recursive is not None and f.recursive[0] else []
        if rests:
            self.line("futad_pool_idle();")
        for line in leaves:
            self.line(line)
        self.line("return FUTAD_OK;")
        self.depth = 0
        self.line("failed: __attribute__((unused));")
        if rests:
            self.line("  futad_pool_idle();")
        for line in leaves:
            self.line(f"  {line}")
        if f.recursive is not None:
            self.line("  ctx->values[0] += FUTAD_ON(ctx)->deep;")
        self.line("  return ctx->error.code;")
        self.line("}")
        if deep:
            self.line("")
            self.line(f"{self.head(f)} {{")
            self.line(f"  struct futad_entered entered = {{futad_on_{c_name(f.name)}, ctx, args, results, 0}};")
            self.line(f"  futad_on_stack(ctx, futad_enter{'_forking' if self.forks else ''}, &entered);")
            self.line("  return entered.code;")
            self.line("}")
        self.lines[at:at] = self.declarations
        self.lines += self.regions

    def arguments(self, f: ir.Function) -> None:
        """An entry's parameters, from what the caller gives.  Of a bool any byte but 0 is true; what follows relies on
        1, so an array that has others is copied first."""
        arrays = bool_arrays(f)
        for i, p in enumerate(f.params):
            t = c_type(p.type)
            if not p.rank:
                value = f"*(uint8_t *)args[{i}] != 0" if p.type.is_bool else f"*({t} *)args[{i}]"
                self.line(f"const {t} {p.name} = {value};")
            elif i not in arrays:
                self.line(f"{t} *const {p.name} = args[{i}];")
        for k, i in enumerate(arrays):
            p = f.params[i]
            assert p.count is not None
            args = f"{self.slot(self.module.slots + k)}, args[{i}], {self.size(p.count)}"
            self.line(f"bool *const {p.name} = futad_bools(ctx, {args});")
        if arrays:
            self.line("if (FUTAD_UNLIKELY(ctx->error.code)) goto failed;")

    def head(self, f: ir.Function, deep: bool = False) -> str:
        """The declaration of a function; `deep`: of the part of an entry that runs where recursive functions have
        room."""
        if not f.local:
            params = "struct futad_context *ctx, void **args, struct futad_result *results"
            if deep:
                return f"static __attribute__((noinline)) int64_t futad_on_{c_name(f.name)}({params})"
            return f"int64_t futad_entry_{c_name(f.name)}({params})"
        parts = ["struct futad_context *ctx"]
        parts += [f"{c_type(p.type)} {'*const ' if p.rank else 'const '}{p.name}" for p in f.params]
        for i, r in enumerate(f.results):
            if r.value is None:
                parts.append(f"{c_type(r.type)} **result_{i}, struct futad_slot *{r.slot}")
            else:
                parts.append(f"{c_type(r.type)} *result_{i}")
        once = "noinline, noclone" if f.same_bits else "noinline"
        return f"static __attribute__(({once})) int64_t futad_fun_{c_name(f.name)}({', '.join(parts)})"

    def invoke(self, s: ir.Invoke) -> None:
        args = ["ctx", *[a if isinstance(a, str) else self.expr(a) for a in s.args]]
        for name, slot in s.results:
            args.append(f"&{name}")
            if slot is not None:
                args.append(self.slot(slot))
        self.line(f"if (FUTAD_UNLIKELY(futad_fun_{c_name(s.name)}({', '.join(args)}))) goto {self.label};")

    # -- memory and failure

    def slot(self, s: str | int) -> str:
        return s if isinstance(s, str) else f"&{self.home}[{s}]"

    def slot_ref(self, s: ir.SlotRef) -> None:
        self.line(f"struct futad_slot *{s.name} = {self.slot(s.slot)};")

    def ensure(self, s: ir.Ensure) -> None:
        t = c_type(s.elem)
        const = "" if s.mutable else "const "
        ensure = "futad_frame_ensure" if self.in_frame else f"futad_ensure{'_once' if s in self.once else ''}"
        self.line(f"{t} *{const}{s.name} = {ensure}(ctx, {self.slot(s.slot)}, {self.size(s.count)}, sizeof({t}));")
        self.line(f"if (FUTAD_UNLIKELY(!{s.name})) goto {self.label};")

    def copying(self, s: ir.Copy) -> str:
        # A small array of constant size is in registers, if no function is given its address.
        once = s in self.once and not isinstance(s.count, Num)
        return "futad_copy_once" if once else super().copying(s)

    def moving(self, s: Move) -> None:
        args = f"{self.address(s.target, s.offset)}, {self.address(s.source, s.source_offset)}"
        self.line(f"memmove({args}, (size_t)({self.expr(s.count)}) * sizeof({c_type(s.elem)}));")

    def keep(self, s: records.Keep) -> None:
        self.line(f"const int64_t {s.name} = futad_keep(ctx, {self.size(s.bytes)});")
        self.line(f"if (FUTAD_UNLIKELY(!{s.name})) goto {self.label};")

    def field(self, s: records.Field) -> None:
        t, at = c_type(s.elem), self.expr(ir.add(s.record, s.offset))
        self.line(f"{t} *const {s.name} = ({t} *)(intptr_t)({at});")

    def transpose(self, s: ir.Transpose) -> None:
        to = f"{self.address(s.target, s.offset)}, {self.expr(s.stride)}"
        source = f"{self.address(s.source, s.source_offset)}, {self.expr(s.source_stride)}"
        sizes = ", ".join(self.expr(n) for n in s.sizes)
        self.line(f"futad_transpose_{s.elem.bits}({to}, {source}, {sizes});")

    def append(self, s: ir.Append) -> None:
        t, source = c_type(s.elem), self.address(s.source, s.offset)
        args = f"{source}, {self.size(s.kept)}, {self.size(s.count)}, sizeof({t})"
        self.line(f"{t} *const {s.name} = futad_append(ctx, &{s.slot}, &{s.spare}, {args});")
        self.line(f"if (FUTAD_UNLIKELY(!{s.name})) goto {self.label};")

    def stack(self, s: ir.Stack) -> None:
        # Vectors then need not straddle lines of the cache.
        aligned = "FUTAD_ALIGNED " if s.count > STACK_LIMIT else ""
        self.line(f"{aligned}{c_type(s.elem)} {s.name}[{s.count}];")

    def stream(self, s: ir.Stream) -> None:
        size = f"(int64_t)sizeof({c_type(s.elem)})"
        self.line(f"futad_stream({self.address(s.target, s.offset)}, {s.source}, {self.expr(s.count)} * {size});")

    def size(self, e: Expr) -> str:
        if isinstance(e, ir.Bin) and e.op == "*":
            return f"futad_size({self.size(e.left)}, {self.size(e.right)})"
        return self.expr(e)

    def check(self, s: ir.Check) -> None:
        values = [self.bits(v) for v in s.values[:4]]
        values += ["0"] * (4 - len(values))
        self.line(f"if (FUTAD_UNLIKELY(!{self.expr(s.cond)})) {{")
        self.line(f"  futad_fail(ctx, {s.code}, {s.place}, {', '.join(values)});")
        self.line(f"  goto {self.label};")
        self.line("}")

    def trace(self, s: ir.Trace) -> None:
        tag, prim, t = c_string(s.tag), f"FUTAD_{s.elem.name.upper()}", c_type(s.elem)
        if s.value is not None:
            self.line(f"{{ {t} traced = {self.expr(s.value)}; futad_trace({tag}, {prim}, 0, NULL, &traced); }}")
            return
        shape = f"(const int64_t[]){{{', '.join(map(self.expr, s.shape))}}}"
        self.line(f"futad_trace({tag}, {prim}, {len(s.shape)}, {shape}, {self.address(s.pointer, s.offset)});")

    def measure(self, s: ir.Measure) -> None:
        values = f"(const int64_t[]){{{', '.join(map(self.expr, s.values))}}}" if s.values else "NULL"
        self.line(f"futad_measure(ctx, {s.at}, {len(s.values)}, {values});")

    def report(self, s: ir.Report) -> None:
        if self.reports is not None and self.reports.wanted(s.number):
            c_reports.emit(self, s)

    def gemm(self, s: ir.Gemm) -> None:
        args = [self.expr(n) for n in s.sizes]
        packed = f"{self.expr(s.packed[1])} ? {s.packed[0]} : NULL" if s.packed is not None else "NULL"
        for (pointer, offset, rows, columns), more in ((s.a, []), (s.b, [packed]), (s.c, [])):
            args += [self.address(pointer, offset), self.expr(rows), self.expr(columns), *more]
        function = f"futad_gemm_{'parallel_' if s.parallel else ''}{s.elem.name}"
        self.line(f"if (FUTAD_UNLIKELY({function}({', '.join(args)}, {int(s.accumulate)}))) {{")
        cause = "FUTAD_STOPPED" if self.stops else "FUTAD_MEMORY"
        self.line(f"  futad_fail(ctx, {cause}, {s.place}, {self.expr(s.sizes[2])}, 256, 0, 0);")
        self.line(f"  goto {self.label};")
        self.line("}")

    def pack(self, s: ir.Pack) -> None:
        pointer, offset, rows, columns = s.matrix
        k, n, row, column, start, end = map(self.expr, (*s.sizes, rows, columns, s.start, s.end))
        source = f"{self.address(pointer, offset)}, {row}, {column}"
        self.line(f"futad_gemm_pack_{s.elem.name}({k}, {n}, {source}, {s.name}, {start}, {end});")

    def contract(self, s: Contract) -> None:
        args = [str(len(s.sizes)), self.numbers(s.sizes), str(s.outs)]
        for pointer, offset, strides in (s.a, s.b, s.c):
            args += [self.address(pointer, offset), self.numbers(strides)]
        args.append(str(s.parallel).lower())
        name = "contract"
        if s.ranges:
            name = "contract_open"
            sizes, starts, steps = zip(*s.ranges, strict=True)
            args += [str(len(sizes)), *map(self.numbers, (sizes, starts, [n for row in steps for n in row]))]
        call = f"futad_{name}_{s.elem.name}({', '.join(args)})"
        self.line(f"FUTAD_UNLESS_STOPPED({call}, {self.label});" if self.stops else f"{call};")

    def numbers(self, exprs: Sequence[Expr]) -> str:
        """An array of i64."""
        return f"(const int64_t[]){{{', '.join(map(self.expr, exprs)) or '0'}}}"

    def bits(self, v: Expr) -> str:
        return f"futad_real_bits((double){self.expr(v)})" if v.type.is_float else f"(int64_t){self.expr(v)}"

    # -- loops

    def iteration(self, body: list[ir.Stmt], endless: bool = False) -> None:
        if self.stops and not self.in_lanes:
            self.line(f"  FUTAD_STOPS({self.label});")
        elif self.asks and not self.in_lanes and (endless or any(isinstance(x, LONG) for x in statements(body))):
            self.line(f"  FUTAD_ASKS({self.label});")
        super().iteration(body)

    def block(self, body: list[ir.Stmt]) -> None:
        if self.in_lanes:
            body = calls_first(body)
        super().block(divided_once(body, {t for op, t in IN_LANES if op == "div"} if self.in_lanes else ()))

    def for_(self, s: ir.For) -> None:
        if (region := c_merged_regions.possible(self, s)) is not None:
            c_merged_regions.emit(self, region)
        elif c_tails.possible(s):
            c_tails.emit(self, s)
        elif c_sums.possible(s):
            c_sums.emit(self, s)
        elif made := c_counts.counts(s):
            c_counts.emit(self, s, made)
        elif c_row_additions.possible(s):
            c_row_additions.emit(self, s)
        elif not s.independent and any(isinstance(x, ir.For) and c_sums.possible(x) for x in s.body):
            self.plain_for(c_sums.around(s))
        elif self.depth > 1 and s.independent and s.partials and not isinstance(s.bound, ir.Num):
            # GCC keeps the lanes of a fold in memory, and folds them one by one: that takes more than a few elements.
            self.line(f"if ({self.expr(ir.sub(s.bound, s.start))} < {FEW}) {{")
            self.branch(replace(s, independent=False, partials=[]))
            self.line("} else {")
            self.branch(s)
            self.line("}")
        else:
            self.plain_for(s)

    def branch(self, s: ir.For) -> None:
        """A loop in a branch."""
        self.depth += 1
        self.plain_for(s)
        self.depth -= 1

    def plain_for(self, s: ir.For) -> None:
        """A loop from its start to its end."""
        asked = s.independent and bool(s.partials or s.lanes) and not _strides_far(s)
        bools = [p.name for p in s.partials if p.type.is_bool] if asked else []
        for name in bools:  # GCC 12 reduces integers in lanes, but no bools
            self.line(f"bool *const whole_{name} = &{name};")
        if bools:
            self.line("{")
            self.line(f"int {', '.join(f'{name} = *whole_{name}' for name in bools)};")
        if asked:
            groups: dict[str, list[str]] = {}
            for p in s.partials:
                groups.setdefault(OPS[p.op].reduction, []).append(p.name)
            clauses = [f"simdlen(FUTAD_VECTOR / {max(4, s.lanes)})"] if s.lanes else []
            clauses += [f"reduction({op}:{','.join(names)})" for op, names in groups.items()]
            self.line(f"#pragma omp simd {' '.join(clauses)}")
        elif s.independent and not s.partials:
            self.line("FUTAD_INDEPENDENT")
        outer = self.in_lanes, self.selects
        if s.independent:
            self.in_lanes, self.selects = True, asked and s.lanes > 0 or _calls_in_lanes(s)
        super().for_(s)
        self.in_lanes, self.selects = outer
        for name in bools:
            self.line(f"*whole_{name} = {name};")
        if bools:
            self.line("}")

    def expr(self, e: ir.Expr) -> str:
        text = super().expr(e)
        if self.in_lanes and isinstance(e, ir.Load) and e.type.is_bool:
            # GCC 12 has lanes for what a comparison decides, but for choices by bools from memory none.
            return f"FUTAD_IS_SET({text})"
        return text

    def operation(self, op: str, args: list[str], arg: Prim, result: Prim) -> str:
        if self.selects and op == "select" and result.name in ("f32", "f64"):
            return f"futad_lanes_select_{result.name}({', '.join(args)})"
        if self.selects and op == "select" and result.is_bool:  # GCC has no lanes for a choice between bools
            return "(({0} & {1}) | (!{0} & {2}))".format(*args)
        text = super().operation(op, args, arg, result)
        if self.in_lanes and (op, arg.name) in IN_LANES:
            text = text.replace(f"futad_{op}_{arg.name}(", f"futad_lanes_{op}_{arg.name}(", 1)
        return text

    # -- threads

    def threads(self, s: ir.Threads) -> None:
        self.works[s.name] = self.expr(s.work)
        if self.merged:
            return
        args = ", ".join(self.expr(e) for e in (s.steps, s.work, s.extra))
        self.line(f"const int64_t {s.name} = futad_threads(ctx, {args});")

    def per_thread(self, s: ir.PerThread) -> None:
        self.line(f"{c_type(s.elem)} {'*' if s.pointer else ''}{s.name}[FUTAD_POOL_MOST];")


def _calls_in_lanes(s: ir.For) -> bool:
    """Whether a loop calls functions that have vectors: GCC moves such a call into a branch of a choice that alone has
    use for it, and then takes no vectors."""
    every = (x for t in s.body for x in parts(t) if isinstance(x, ir.Scalar))
    return any(OPS[x.op].library and OPS[x.op].vector for x in every) and not _strides_far(s)


def _strides_far(s: ir.For) -> bool:
    """Whether a loop steps through an array by a large known number of elements.

    GCC 12 that is asked for vectors reads each stretch of such a step as vectors and picks elements from them: 4096
    vectors for a step of 4096, which takes it more than ten minutes."""
    facts = LoopFacts(s.var, s.body)
    loads = [x.index for t in s.body for x in loads_in(t)] + [t.index for t in s.body if isinstance(t, ir.Store)]
    return any((place := facts.place(index)) is not None and abs(place.scale) > FAR for index in loads)


def _recursing(module: ir.Module) -> set[str]:
    """The functions that may call recursive ones, and these; an entry by its name, as it runs."""
    found = {f.name for f in module.functions if f.recursive is not None or has(f.body, Fork)}
    if not found:
        return found
    calls = {f.name: set[str]() for f in module.functions}
    for f in module.functions:
        calls[f.name] |= called(f.body)
    while more := {name for name, names in calls.items() if name not in found and not names.isdisjoint(found)}:
        found |= more
    return found


def _outside_loops(body: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """Those of the statements, branches included, that are not done again and again."""
    for s in body:
        yield s
        if isinstance(s, ir.Seq | ir.If):
            for inner in s.bodies():
                yield from _outside_loops(inner)


def called(body: Sequence[ir.Stmt]) -> set[str]:
    """The functions that statements call."""
    return {s.name for s in statements(body) if isinstance(s, ir.Invoke)}


def bool_arrays(f: ir.Function) -> list[int]:
    """Which parameters of an entry are arrays of bools."""
    return [i for i, p in enumerate(f.params) if p.rank and p.type.is_bool and not f.local]


# Operations with a variant that the C compiler can vectorise.
IN_LANES = {(op, t) for op in ("sin", "cos") for t in ("f32", "f64")} | {
    (op, "i32") for op in ("div", "mod", "quot", "rem")
}


def has(body: Sequence[ir.Stmt], kind: type[ir.Stmt]) -> bool:
    """Whether some of the statements, nested ones included, are of this kind."""
    return any(isinstance(s, kind) for s in statements(body))


def c_string(text: str) -> str:
    """A C string literal."""
    out = []
    for b in text.encode():
        plain = 32 <= b < 127 and chr(b) not in '"\\?'
        out.append(chr(b) if plain else f"\\{b:03o}")
    return '"' + "".join(out) + '"'


def c_name(name: str) -> str:
    """An entry's name in C."""
    return "".join(c if c.isalnum() and c.isascii() else f"_{ord(c):x}_" if c != "_" else "_" for c in name)


__all__ = ["CEmitter", "c_name", "c_string"]
