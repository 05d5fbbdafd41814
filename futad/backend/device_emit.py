"""Kernels as CUDA C, for a device and for the CPU simulator alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from futad.backend.device_alias import constant_names, qualifiers
from futad.backend.device_index import Indices, narrow_params
from futad.backend.device_product import emit_product
from futad.backend.device_runtime import RUNTIME
from futad.backend.device_same_place import same_place
from futad.backend.emit import Emitter, c_type
from futad.core.scalarlib import same_bits
from futad.core.types import I64, Prim
from futad.flatten import kernel as kir
from futad.flatten.kernel import DeviceModule, Kernel
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.views import Mem
from futad.imp.walk import statements

_NAME = re.compile(r"\b[A-Za-z][A-Za-z0-9]*_\d+\b")
_NUMBER = re.compile(r"_\d+\b")  # of a variable: they differ from load to load, and the text is the cache's key
_NATIVE = ("add", "min", "max", "and", "or", "xor")


UNROLLED = 8  # iterations of a loop that the compiler may unroll whole
SHORT = 16  # statements of a loop of which it may unroll a few iterations
LARGE = 500  # statements of a kernel that may need more than 128 registers a thread
THREADS = 128  # of a block of which each does a point, at most


COLUMNS = 8  # of rows that a warp writes at a time
ROWS = 32 * (COLUMNS + 1)  # elements of a warp's shared memory for that

HEADERS: dict[str, set[type]] = {
    "gemm.cuh": {kir.Tile},
    "scan.cuh": {kir.Together, kir.ScanAll},
    "histogram.cuh": {kir.SubHist, kir.Atomic, kir.Locked},
    "transpose.cuh": {kir.Transpose},
    "radix_sort.cuh": {kir.RadixStep},
    "rows.cuh": {kir.RowsOut},
}


class DeviceEmitter(Emitter):
    """The text of one kernel."""

    def __init__(self, known: dict[str, str] | None = None, moves: bool = False, follows: bool = True) -> None:
        """`known`: which parameters are apart from what else the kernel has (`device_alias.py`); `moves`: stores of
        what was loaded are copies, which in checked execution of memory are no use of the value; `follows`: an earlier
        kernel may have failed."""
        super().__init__()
        self.moves, self.follows = moves, follows
        self.known = known or {}
        self.constant: set[str] = set()  # pointers that are only read through
        self.together_at: set[int] = set()  # the updates that the threads of a warp may make together
        self.labels: list[str] = []
        self.jumps: set[str] = set()
        self.functors = 0
        self.warps = False  # whether warps do together what blocks do else
        self.most = kir.BLOCK_LIMIT  # threads of a block
        self.stops = False  # whether all threads go to the end together after a failure
        self.indices = Indices()
        self.quotients: dict[tuple[str, str], str] = {}  # variables that hold them, for remainders
        self.handlers |= {
            kir.Guarded: self.guarded,
            kir.Stride: self.stride,
            kir.Single: self.single,
            kir.Sync: self.sync,
            kir.Stop: self.stop,
            kir.ByWarps: self.by_warps,
            kir.LastBlock: self.last_block,
            kir.Atomic: self.atomic,
            kir.Tile: lambda s: emit_product(self, s),
            kir.Locked: self.locked,
            kir.Together: self.together,
            kir.ScanAll: self.scan_all,
            kir.SubHist: self.sub_hist,
            kir.SharedUpdate: self.shared_update,
            kir.RadixStep: self.radix_step,
            kir.Transpose: lambda s: self.line(
                f"futad_transpose({s.source}, {s.target}, 1, {self.expr(s.rows)}, {self.expr(s.columns)});"
            ),
        }

    def kernel(self, k: Kernel) -> str:
        """The kernel's parameters and body, without its name."""
        params = ["int64_t *futad_error"]
        if k.local_slots:
            params += ["unsigned char *futad_heap_data", "int64_t futad_heap_bytes"]
        narrow = narrow_params(k)
        self.indices = Indices()
        given = {n: f"futad_given{i}" if n in narrow else n for i, (n, _, _) in enumerate(k.params)}
        self.constant = constant_names(k, self.known)
        self.together_at = same_place(k)
        alone = {n: "__restrict__ " if n in self.known else "" for n, _, _ in k.params}
        params += [f"{self.pointer_type(n, t) + alone[n] if p else c_type(t) + ' '}{given[n]}" for n, t, p in k.params]
        self.line(f"({', '.join(params)}) {{")
        self.depth = 1
        self.warps = k.kind == "warp"
        self.most = kir.WIDE_LIMIT if k.kind == "alone-wide" else kir.BLOCK_LIMIT
        self.stops = any(isinstance(s, kir.Stop) for s in statements(k.body))
        together = any(isinstance(s, kir.RowsOut) for s in statements(k.body))
        self.begin("rows" if together else k.kind)
        for n, _, _ in k.params:
            if n in narrow:
                self.line(f"const futad_ix {n} = (futad_ix){given[n]};")
        self.indices.names |= narrow
        if k.local_slots:
            self.line("const struct futad_heap futad_heap = {futad_heap_data, futad_heap_bytes};")
        for slot in k.local_slots:
            self.line(f"struct futad_slot slot_{slot} = {{0, 0}};")
        self.block(k.body)
        for slot in k.local_slots:
            self.line(f"futad_release(&futad_heap, &slot_{slot});")
        self.depth = 0
        self.line("}")
        return "\n".join(self.lines)

    def begin(self, kind: str) -> None:
        """Return at once after a failure, alike in all threads that do something together; then who they are."""
        if not self.follows:
            pass
        elif kind in (*kir.TOGETHER, "tile"):
            self.line("FUTAD_SHARED(int, futad_stop, 1);")
            self.line("if (threadIdx.x == 0) futad_stop[0] = futad_failed(futad_error);")
            self.line("__syncthreads();")
            self.line("if (futad_stop[0]) return;")
        elif kind in ("warp", "rows"):
            self.line("if (__any_sync(FUTAD_ALL, futad_failed(futad_error))) return;")
        else:
            self.line("if (futad_failed(futad_error)) return;")
        if kind == "warp":
            self.line("const futad_ix futad_tid = futad_lane(), futad_width = 32;")
            self.line("const futad_ix futad_block = (futad_ix)blockIdx.x * (blockDim.x / 32) + futad_warp();")
            self.line("const futad_ix futad_blocks = (futad_ix)gridDim.x * (blockDim.x / 32);")
        else:
            self.line("const futad_ix futad_tid = threadIdx.x, futad_width = blockDim.x;")
            self.line("const futad_ix futad_block = blockIdx.x, futad_blocks = gridDim.x;")
        self.line("const futad_ix futad_thread = futad_block * futad_width + futad_tid;")
        self.line("const futad_ix futad_threads = futad_blocks * futad_width;")
        if self.stops:
            self.line("int futad_wrong = 0;")
        if kind == "rows":
            self.line(f"FUTAD_SHARED(double, futad_rows, {THREADS // 32 * ROWS});")

    def pointer_type(self, name: str, elem: Prim) -> str:
        return f"{'const ' if name in self.constant else ''}{c_type(elem)} *"

    def pointer(self, s: ir.Pointer) -> None:
        init = "" if s.base is None else f" = {self.address(s.base, s.offset)}"
        self.line(f"{self.pointer_type(s.name, s.elem)}{'' if s.mutable else 'const '}{s.name}{init};")

    def swap(self, s: ir.Swap) -> None:
        if s.left not in self.constant:
            super().swap(s)
            return
        assert s.elem is not None
        t = self.pointer_type(s.left, s.elem)
        self.line(f"{{ {t}swapped = {s.left}; {s.left} = {s.right}; {s.right} = swapped; }}")

    def expr(self, e: Expr) -> str:
        match e:
            case ir.Bin("+" | "-" | "*" as op, a, b):
                return f"({self.wide(a)} {op} {self.wide(b)})"
            case ir.Bin("/" | "%" as op, a, b):
                return self.divided(e, op, a, b)
            case ir.Scalar(op, args, arg, result) if arg is I64:
                return self.operation(op, [self.wide(a) for a in args], arg, result)
        return super().expr(e)

    def wide(self, e: Expr) -> str:
        """An expression of i64 in 64 bits."""
        text = self.expr(e)
        return f"(int64_t){text}" if self.indices.narrow(e) and not isinstance(e, ir.Num) else text

    def divided(self, e: Expr, op: str, a: Expr, b: Expr) -> str:
        """A quotient or remainder of numbers that are not negative."""
        kind, text = ("futad_ix", self.expr) if self.indices.narrow(e) else ("int64_t", self.wide)
        left, right = text(a), text(b)
        if isinstance(b, ir.Num):
            return f"({left} {op} {right})"
        name = "futad_quotient" if op == "/" else "futad_remainder"
        known = self.quotients.get((left, right)) if op == "%" else None
        if known is not None:
            return f"({left} - ({kind}){known} * {right})"
        return f"{name}{'_ix' if kind == 'futad_ix' else ''}({left}, {right})"

    def place(self, e: Expr) -> str:
        """A place in an array."""
        match e:
            case ir.Bin("+" | "-" | "*" as op, a, b):
                return f"({self.place(a)} {op} {self.place(b)})"
        return self.expr(e) if self.indices.narrow(e) else f"(futad_ix){self.expr(e)}"

    def index(self, e: Expr) -> str:
        text = self.place(e)
        return text[1:-1] if isinstance(e, ir.Bin) and e.op in "+-*" else text

    # -- statements

    def nested(self, body: list[ir.Stmt]) -> None:
        saved = dict(self.quotients)
        super().nested(body)
        self.quotients = saved

    def decl(self, s: ir.Decl) -> None:
        e = s.init
        if e is None or s.mutable or s.type is not I64 or not self.indices.narrow(e):
            super().decl(s)
            text = self.wide
        else:
            self.line(f"const futad_ix {s.name} = {self.expr(e)};")
            self.indices.names.add(s.name)
            text = self.expr
        if isinstance(e, ir.Bin) and e.op == "/" and not s.mutable:
            self.quotients[text(e.left), text(e.right)] = s.name

    def counter(self, name: str, narrow: bool) -> str:
        """The declaration of what a loop or function counts by."""
        if narrow:
            self.indices.names.add(name)
        return f"{'futad_ix' if narrow else 'int64_t'} {name}"

    def for_(self, s: ir.For) -> None:
        if isinstance(s.bound, ir.Num) and s.bound.value > UNROLLED:
            # Unrolled whole, all arrays that it runs over would be in registers, and spilled.  A few iterations of a
            # short one have their reads under way together, as the compiler does it where no bound is known.
            inside = list(statements(s.body))
            short = len(inside) <= SHORT and not any(b for x in inside for b in x.bodies())
            self.line(f"#pragma unroll {4 if short else 1}")
        start, bound = self.expr(s.start), self.expr(s.bound)
        i = self.counter(s.var, self.indices.narrow(s.start) and self.indices.narrow(s.bound))
        self.line(f"for ({i} = {start}; {s.var} < {bound}; {s.var} += {s.step}) {{")
        self.nested(s.body)
        self.line("}")

    def sync(self, s: kir.Sync) -> None:
        text = "__syncwarp();" if self.warps else "__syncthreads();"
        if self.lines[-1].strip() != text:
            self.line(text)

    def stop(self, s: kir.Stop) -> None:
        label = self.labels[-1]
        self.jumps.add(label)
        self.line(f"if (__syncthreads_or(futad_wrong)) goto {label};")

    def by_warps(self, s: kir.ByWarps) -> None:
        i = self.counter(s.var, self.indices.narrow(s.bound))
        step = "futad_width / 32"
        self.line(f"for ({i} = futad_warp(); {s.var} < {self.expr(s.bound)}; {s.var} += {step}) {{")
        self.depth += 1
        self.line("const futad_ix futad_tid = futad_lane(), futad_width = 32, futad_block = futad_warp();")
        self.depth -= 1
        outside, self.warps = self.warps, True
        self.nested(s.body)
        self.warps = outside
        self.line("}")

    def guarded(self, s: kir.Guarded) -> None:
        self.line("{")
        self.labels.append(s.label)
        self.nested(s.body)
        self.labels.pop()
        self.line(f"}} {s.label}:;" if s.label in self.jumps else "}")

    def fail(self) -> str:
        """The jump that a failing check takes."""
        if self.stops:
            self.line("  futad_wrong = 1;")
        label = self.labels[-1]
        if not label or label.endswith("{}"):  # in a function
            return f"return {label};" if label else "return;"
        self.jumps.add(label)
        return f"goto {label};"

    def stride(self, s: kir.Stride) -> None:
        bound = self.expr(s.bound)
        if isinstance(s.start, str):
            start, narrow = s.start, self.indices.narrow(s.bound)
            if start != "futad_tid" and not narrow:
                bound, narrow = f"(futad_ix){bound}", True  # the number of the launch's points
        else:
            start, narrow = self.expr(s.start), self.indices.narrow(s.start) and self.indices.narrow(s.bound)
        if s.after:
            self.rows_by_warps(s, start, bound, narrow)
            return
        i = self.counter(s.var, narrow)
        self.line(f"for ({i} = {start}; {s.var} < {bound}; {s.var} += {s.step}) {{")
        self.nested(s.body)
        self.line("}")

    def rows_by_warps(self, s: kir.Stride, start: str, bound: str, narrow: bool) -> None:
        """A loop over points whose iterations a warp ends together."""
        i, first = self.counter(s.var, narrow), "futad_first"
        t = "futad_ix" if narrow else "int64_t"
        own = [x for x in s.body if isinstance(x, ir.Decl) and x.mutable]
        self.line(f"for ({t} {first} = {start} - futad_lane(); {first} < {bound}; {first} += {s.step}) {{")
        self.depth += 1
        self.line(f"const {i} = {first} + futad_lane();")
        self.block([*own])
        self.line(f"if ({s.var} < {bound}) {{")
        self.nested([x for x in s.body if x not in own])
        self.line("}")
        for rows in s.after:
            self.rows_out(rows, first, bound)
        self.depth -= 1
        self.line("}")

    def rows_out(self, s: kir.RowsOut, first: str, bound: str) -> None:
        """Columns of a warp's rows, as many at a time as there is room for."""
        t, width = c_type(s.values[0].type), len(s.values)
        many = f"{bound} - {first} < 32 ? {bound} - {first} : 32"
        for at in range(0, width, COLUMNS):
            xs = [x.name for x in s.values[at : at + COLUMNS]]
            self.line("{")
            self.line(f"  const {t} futad_row[] = {{{', '.join(xs)}}};")
            start = self.index(ir.add(s.offset, ir.num(at)))
            to = f"{s.pointer} + {start} + {first} * {width}"
            tile = f"({t} *)(futad_rows + futad_warp() * {ROWS})"
            self.line(f"  futad_put_rows<{len(xs)}>({tile}, {to}, (futad_ix){width}, (int)({many}), futad_row);")
            self.line("}")

    def single(self, s: kir.Single) -> None:
        self.line("if (futad_tid == 0) {")
        self.nested(s.body)
        self.line("}")

    def last_block(self, s: kir.LastBlock) -> None:
        self.line("if (futad_last_block((uint32_t *)(futad_error + 6))) {")
        self.nested(s.body)
        self.line("}")

    def fresh(self, what: str) -> str:
        """A name for a type or a function of the kernel."""
        self.functors += 1
        return f"{what}{self.functors}"

    def tuple(self, types: list[Prim]) -> str:
        """The C type of so many values together; a struct if they are several."""
        if len(types) == 1:
            return c_type(types[0])
        name = self.fresh("futad_tuple")
        self.line(f"struct {name} {{ {' '.join(f'{c_type(t)} x{i};' for i, t in enumerate(types))} }};")
        return name

    def function(self, f: kir.Function, params: list[str], unpack: list[str], result: str, values: list[Prim]) -> str:
        """Emits a function, and returns its name; `unpack` are the declarations of its parameters' parts."""
        name = self.fresh("futad_function")
        self.line(f"auto {name} = [&]({', '.join(params)}) -> {result} {{")
        self.depth += 1
        for text in unpack:
            self.line(text)
        # A failing check ends the function, with any value.
        self.labels.append("" if result == "void" else f"{result}{{}}")
        self.block(f.body)
        self.labels.pop()
        if result != "void":
            made = ", ".join(f"({c_type(t)}){self.expr(x)}" for t, x in zip(values, f.results, strict=True))
            self.line(f"return {result}{{{made}}};" if len(values) > 1 else f"return {made};")
        self.depth -= 1
        self.line("};")
        return name

    def unpacked(self, refs: list[ir.Ref], source: str) -> list[str]:
        """Declarations of the parts of a tuple."""
        if len(refs) == 1:
            return [f"const {c_type(refs[0].type)} {refs[0].name} = {source};"]
        return [f"const {c_type(r.type)} {r.name} = {source}.x{i};" for i, r in enumerate(refs)]

    def operator(self, f: kir.Function, neutral: list[Expr], t: str) -> str:
        k = len(neutral)
        types = [x.type for x in neutral]
        left, right = f.params[:k], f.params[k:]
        unpack = [*self.unpacked(left, "futad_left"), *self.unpacked(right, "futad_right")]
        name = self.function(f, [f"{t} futad_left", f"{t} futad_right"], unpack, t, types)
        return f"futad_operator<{t}>({name}, {self.packed(neutral, t)})"

    def packed(self, values: Sequence[Expr], t: str) -> str:
        if len(values) == 1:
            return f"({t}){self.expr(values[0])}"
        return f"{t}{{{', '.join(f'({c_type(x.type)}){self.expr(x)}' for x in values)}}}"

    def together(self, s: kir.Together) -> None:
        self.line("{")
        self.depth += 1
        t = self.tuple([x.type for x in s.neutral])
        op = self.operator(s.operator, s.neutral, t)
        if s.carry is None:
            call = f"{self.among('reduce')}({op}, {self.packed(s.parts, t)})"
            self.line(f"const {t} futad_made = {call};")
            self.unpack_to(s.parts, "futad_made")
        else:
            self.line(f"auto futad_op = {op};")
            self.line(f"{t} futad_total, futad_carry = {self.packed(s.carry, t)};")
            call = f"{self.among('scan')}(futad_op, {self.packed(s.parts, t)}, &futad_total)"
            self.line(f"const {t} futad_made = futad_op.combine(futad_carry, {call});")
            self.unpack_to(s.parts, "futad_made")
            self.line("futad_carry = futad_op.combine(futad_carry, futad_total);")
            self.unpack_to(s.carry, "futad_carry")
        self.depth -= 1
        self.line("}")

    def among(self, what: str) -> str:
        """The function by which the threads that do something together reduce or scan."""
        return f"futad_warp_{what}_all" if self.warps else f"futad_block_{what}_upto<{self.most}>"

    def unpack_to(self, refs: list[ir.Ref], source: str) -> None:
        for i, r in enumerate(refs):
            self.line(f"{r.name} = {source}{f'.x{i}' if len(refs) > 1 else ''};")

    def scan_all(self, s: kir.ScanAll) -> None:
        types = [x.type for x in s.neutral]
        t = self.tuple(types)
        (i,) = s.element.params
        narrow = self.indices.narrow(s.total)
        element = self.function(s.element, [self.counter(i.name, narrow)], [], t, types)
        j, *values = s.put.params
        put = self.function(
            s.put, [self.counter(j.name, narrow), f"{t} futad_value"], self.unpacked(values, "futad_value"), "void", []
        )
        op = self.operator(s.operator, s.neutral, t)
        self.line(f"futad_scan_by<{s.items}>({op}, {element}, {put}, {self.expr(s.total)}, {s.state});")

    def radix_step(self, s: kir.RadixStep) -> None:
        args = ", ".join(x.pointer if isinstance(x, Mem) else self.expr(x) for x in s.args)
        self.line(f"futad_radix_{s.step}<{kir.TILE_THREADS}, {s.items}>({args});")

    def sub_hist(self, s: kir.SubHist) -> None:
        elem = s.neutral.type
        t = c_type(elem)
        self.line("{")
        self.depth += 1
        bins = "0"
        for k, count in enumerate(s.bins):
            self.line(f"const int64_t futad_first{k} = {bins};")
            bins = f"futad_first{k} + {self.wide(count)}"
        self.line(f"auto futad_at = [&](int64_t bin) -> {t} * {{")
        for k in reversed(range(1, len(s.bins))):
            self.line(f"  if (bin >= futad_first{k}) return {s.targets[k]} + (bin - futad_first{k});")
        self.line(f"  return {s.targets[0]} + bin;")
        self.line("};")
        combined = self.operation(s.op, ["futad_left", "futad_right"], elem, elem)
        op = f"[=]({t} futad_left, {t} futad_right) -> {t} {{ return {combined}; }}"
        op = f"futad_atomic_operator<{t}, {_kind(s.op)}>({op}, {self.packed([s.neutral], t)})"
        narrow = self.indices.narrow(s.total)
        if s.rows is None:
            (i,) = s.update.params
            params = [self.counter(i.name, narrow), "const auto &futad_add"]
            update = self.function(s.update, params, [], "void", [])
            self.line(f"futad_subhist_points<{s.cells}>({op}, {self.expr(s.total)}, {bins}, futad_at, {update});")
        else:
            self.staged_rows(s, s.rows, op, bins)
        self.depth -= 1
        self.line("}")

    def staged_rows(self, s: kir.SubHist, r: kir.StagedRows, op: str, bins: str) -> None:
        narrow = self.indices.narrow(s.total)
        elem, types = r.load.results[0].type, [x.type for x in r.before.results]
        row, made = c_type(elem), self.tuple(types)
        i, j = r.load.params
        inside = [self.counter(i.name, narrow), self.counter(j.name, self.indices.narrow(r.columns))]
        load = self.function(r.load, inside, [], row, [elem])
        i, rows = r.before.params
        before = self.function(r.before, [self.counter(i.name, narrow), f"const {row} *{rows.name}"], [], made, types)
        i, j, rows, *values = s.update.params
        params = [self.counter(i.name, narrow), self.counter(j.name, self.indices.narrow(r.width))]
        params += [f"const {row} *{rows.name}", f"{made} futad_made", "const auto &futad_add"]
        update = self.function(s.update, params, self.unpacked(values, "futad_made"), "void", [])
        sizes = ", ".join(map(self.expr, (s.total, r.columns, r.width)))
        kinds = f"{s.cells}, {r.room}, {row}, {made}"
        self.line(f"futad_subhist_rows<{kinds}>({op}, {sizes}, {bins}, futad_at, {load}, {before}, {update});")

    def shared_update(self, s: kir.SharedUpdate) -> None:
        at = f"{self.wide(s.index)} + futad_first{s.which}" if s.which else self.expr(s.index)
        self.line(f"futad_add({at}, ({c_type(s.value.type)}){self.expr(s.value)});")

    def locked(self, s: kir.Locked) -> None:
        self.line(f"futad_locked(&{s.locks}[{self.index(s.index)}], [&]() {{")
        self.nested(s.body)
        self.line("});")

    def atomic(self, s: kir.Atomic) -> None:
        t = s.value.type
        place, value, c = f"&{s.pointer}[{self.index(s.index)}]", self.expr(s.value), c_type(t)
        update = self.operation(s.op, ["a", "b"], t, t)
        made = "futad_update_together" if id(s) in self.together_at else "futad_update"
        self.line(f"{made}<{_kind(s.op)}>({place}, ({c}){value}, []({c} a, {c} b) -> {c} {{ return {update}; }});")

    def store(self, s: ir.Store) -> None:
        if self.moves and s.op is None and isinstance(s.value, ir.Load):
            from_ = f"&{s.value.pointer}[{self.index(s.value.index)}]"
            self.line(f"futad_copy(&{s.pointer}[{self.index(s.index)}], {from_}, 1);")
        else:
            super().store(s)

    def copy(self, s: ir.Copy) -> None:
        to, source = self.address(s.target, s.offset), self.address(s.source, s.source_offset)
        self.line(f"futad_copy({to}, {source}, {self.expr(s.count)});")

    def check(self, s: ir.Check) -> None:
        values = [f", {self.bits(v)}" for v in s.values[:4]]
        values += [", 0"] * (4 - len(values))
        self.line(f"if (!{self.expr(s.cond)}) {{")
        self.line(f"  futad_fail(futad_error, {s.code}, {s.place}{''.join(values)});")
        self.line(f"  {self.fail()}")
        self.line("}")

    def bits(self, v: Expr) -> str:
        return f"(int64_t)futad_bits_f64((double){self.expr(v)})" if v.type.is_float else f"(int64_t){self.expr(v)}"

    def slot(self, s: str | int) -> str:
        return s if isinstance(s, str) else f"&slot_{s}"

    def slot_ref(self, s: ir.SlotRef) -> None:
        self.line(f"struct futad_slot *{s.name} = {self.slot(s.slot)};")

    def ensure(self, s: ir.Ensure) -> None:
        t = c_type(s.elem)
        const = "" if s.mutable else "const "
        count = self.expr(s.count)
        memory = f"futad_ensure(&futad_heap, {self.slot(s.slot)}, {count}, sizeof({t}))"
        self.line(f"{t} *{const}{s.name} = ({t} *){memory};")
        self.line(f"if (!{s.name}) {{")
        self.line(f"  futad_fail(futad_error, 4, -1, {count}, sizeof({t}), 0, 0);")
        self.line(f"  {self.fail()}")
        self.line("}")

    def gemm(self, s: ir.Gemm) -> None:
        m, n, k = [self.expr(x) for x in s.sizes]
        t = c_type(s.elem)

        def at(x: tuple[str, Expr, Expr, Expr], i: str, j: str) -> str:
            p, offset, rows, columns = x
            return f"{p}[{self.expr(offset)} + {i} * {self.expr(rows)} + {j} * {self.expr(columns)}]"

        self.line(f"for (int64_t i = 0; i < {m}; i++)")
        self.line(f"  for (int64_t j = 0; j < {n}; j++) {{")
        self.line(f"    {t} sum = {at(s.c, 'i', 'j') if s.accumulate else '0'};")
        self.line(f"    for (int64_t k = 0; k < {k}; k++) sum += {at(s.a, 'i', 'k')} * {at(s.b, 'k', 'j')};")
        self.line(f"    {at(s.c, 'i', 'j')} = sum;")
        self.line("  }")


def _kind(op: str) -> str:
    """How an update by an operation is made at once."""
    return f"FUTAD_ATOMIC_{op.upper() if op in _NATIVE else 'CAS'}"


def canonical(text: str) -> str:
    """The text with its variables numbered in order of appearance, so that equal kernels are equal."""
    names: dict[str, str] = {}
    return _NAME.sub(lambda m: names.setdefault(m[0], f"v_{len(names)}"), text)


def without_numbers(text: str) -> str:
    """A text about variables, as it is whichever numbers they have."""
    return _NUMBER.sub("", text)


def _bounds(k: Kernel) -> str:
    """Threads of a block, and how many blocks a multiprocessor should hold: the second limits registers.  Where it is
    left out the compiler may prefer more threads to keeping all values in registers."""
    if k.kind == "tile":
        return f"{kir.TILE_THREADS}, FUTAD_TILE_BLOCKS"  # `kernels/device.cuh`
    if k.kind == "thread" and sum(1 for _ in statements(k.body)) > LARGE:
        return f"{THREADS}, 3"
    if k.kind in ("alone", "alone-wide"):
        return f"{kir.WIDE_LIMIT if k.kind == 'alone-wide' else kir.BLOCK_LIMIT}, 1"
    of = {"thread": f"{THREADS}, 4", "warp": "128, 4", "single": "1, 1"}
    return of.get(k.kind, f"{kir.BLOCK_LIMIT}, 2")


def emit_kernels(module: DeviceModule, moves: bool = False) -> tuple[str, dict[Kernel, str]]:
    """The source of a module's kernels, and under what name each is; equal kernels are emitted once.  `moves`: see
    `DeviceEmitter`."""
    named: dict[str, str] = {}
    names: dict[Kernel, str] = {}
    known, after = qualifiers(module), kir.after_failures(module)
    parts = [RUNTIME]
    used = {type(s) for k in module.kernels for s in statements(k.body)}
    parts += [f'#include "{header}"\n' for header, kinds in HEADERS.items() if used & kinds]
    for k in module.kernels:
        text = canonical(DeviceEmitter(known[k], moves, k in after).kernel(k))
        if text not in named:
            named[text] = f"futad_{k.name}"
            bounds = _bounds(k)
            parts.append(f"/* {without_numbers(k.what)} */")
            parts.append(f'extern "C" __global__ void __launch_bounds__({bounds}) {named[text]}{text}')
        names[k] = named[text]
    return same_bits("\n".join(parts) + "\n"), names


__all__ = ["DeviceEmitter", "emit_kernels", "without_numbers"]
