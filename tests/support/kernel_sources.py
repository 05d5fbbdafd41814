"""CUDA sources that instantiate every template of `kernels/`, for the tests."""

from __future__ import annotations

import re

_KERNEL = re.compile(
    r"^FUTAD_KERNEL (?:__launch_bounds__\([\d, ]+\) )?(\w+)\((?:[^\n]*\}\n|.*?\n\}\n)", re.MULTILINE | re.DOTALL
)


def pick(source: str, pattern: str) -> str:
    """The source with only those kernels whose whole name matches."""
    return _KERNEL.sub(lambda m: m[0] if re.fullmatch(pattern, m[1]) else "", source)


OPERATORS = """
/* Composition of linear functions: associative, not commutative. */
struct Linear {
  struct T { int64_t a, b; };
  enum { commutative = 0 };
  FUTAD_DEV T neutral() const { T r = {1, 0}; return r; }
  FUTAD_DEV T combine(T x, T y) const { T r = {x.a * y.a, x.b * y.a + y.b}; return r; }
};
struct LinearIn {
  const int64_t *a, *b;
  FUTAD_DEV Linear::T load(int64_t i) const { Linear::T r = {a[i], b[i]}; return r; }
};
struct LinearOut {
  int64_t *a, *b;
  FUTAD_DEV void store(int64_t i, Linear::T x) const { a[i] = x.a; b[i] = x.b; }
};
#define LINEAR const int64_t *a, const int64_t *b, int64_t *ra, int64_t *rb, int64_t segments, int64_t n
#define LINEAR_USE Linear op; LinearIn in = {a, b}; LinearOut out = {ra, rb};
"""


SCAN = (
    '#include "futad_scalar.cuh"\n#include "scan.cuh"\n'
    + OPERATORS
    + """
FUTAD_KERNEL __launch_bounds__(128) linear_flat(LINEAR, uint32_t *state) {
  LINEAR_USE futad_scan_flat<128, 3>(op, in, out, segments * n, state);
}
FUTAD_KERNEL __launch_bounds__(256) add_by(const double *x, double *r, int64_t n, uint32_t *state) {
  auto plus = [](double a, double b) -> double { return a + b; };
  auto element = [=](int64_t i) -> double { return x[i]; };
  auto put = [=](int64_t i, double v) { r[i] = v; };
  futad_scan_by<5>(futad_operator<double>(plus, 0.0), element, put, n, state);
}
"""
)

# A block's own functions, called again and again.
BLOCK = (
    '#include "block.cuh"\n'
    + OPERATORS
    + """
FUTAD_KERNEL __launch_bounds__(128) linear_blocks(LINEAR, int64_t *rest) {
  LINEAR_USE
  for (int64_t s = 0; s < segments; s++) {
    Linear::T before, total, x = in.load(s * n + threadIdx.x);
    x = futad_block_scan<128>(op, x, &before, &total);
    out.store(s * n + threadIdx.x, x);
    rest[(s * n + threadIdx.x) * 2] = before.b;
    rest[(s * n + threadIdx.x) * 2 + 1] = total.b;
  }
}
FUTAD_KERNEL __launch_bounds__(128) linear_warps(LINEAR, int64_t *totals) {
  LINEAR_USE
  for (int64_t s = 0; s < segments; s++) {
    Linear::T total, x = in.load(s * n + threadIdx.x);
    out.store(s * n + threadIdx.x, futad_warp_scan_all(op, x, &total));
    totals[(s * n + threadIdx.x) * 2] = total.b;
    totals[(s * n + threadIdx.x) * 2 + 1] = futad_warp_reduce_all(op, x).b;
  }
}
FUTAD_KERNEL __launch_bounds__(256) linear_upto(LINEAR, int64_t *totals) {
  LINEAR_USE
  auto compose = [](Linear::T x, Linear::T y) -> Linear::T { return Linear().combine(x, y); };
  auto same = futad_operator<Linear::T>(compose, op.neutral());
  for (int64_t s = 0; s < segments; s++) {
    Linear::T total, x = in.load(s * n + threadIdx.x);
    out.store(s * n + threadIdx.x, futad_block_scan_upto<256>(same, x, &total));
    totals[(s * n + threadIdx.x) * 2] = total.b;
  }
  for (int64_t s = 0; s < segments; s++) {
    totals[(s * n + threadIdx.x) * 2 + 1] = futad_block_reduce_upto<256>(same, in.load(s * n + threadIdx.x)).b;
  }
}
"""
)

# Stretches summed up by blocks, their sums by the block that is done last.
LAST = (
    '#include "block.cuh"\n'
    + OPERATORS
    + """
FUTAD_KERNEL __launch_bounds__(128) sum_up(const int64_t *x, int64_t n, int64_t *sums, int64_t *r, uint32_t *counter) {
  int64_t all = (int64_t)gridDim.x * blockDim.x, me = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int64_t i = me; i < n; i += all) sum += x[i];
  sums[me] = sum;
  if (futad_last_block(counter)) {
    for (int64_t i = threadIdx.x; i < all; i += blockDim.x) r[threadIdx.x] += sums[i];
  }
}
"""
)

_HIST_TYPES = {
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "futad_f16", "f32": "float", "f64": "double",
}  # fmt: skip
#: (operator, its expression in x and y, its neutral element, the types the tests use it at)
HIST_OPERATORS = {
    "add": ("ADD", "futad_add(x, y)", "T(0)", tuple(_HIST_TYPES)),
    "min": ("MIN", "x < y ? x : y", "T(100)", ("i8", "i32", "i64", "u32", "u64", "f32")),
    "max": ("MAX", "x > y ? x : y", "T(0)", ("u16", "i32", "i64", "u32", "u64", "f64")),
    "and": ("AND", "T(x & y)", "T(-1)", ("i8", "i32", "u64")),
    "or": ("OR", "T(x | y)", "T(0)", ("u16", "i32", "i64")),
    "xor": ("XOR", "T(x ^ y)", "T(0)", ("u8", "u32", "i64")),
    "mul": ("CAS", "T(x * y)", "T(1)", ("i8", "u16", "i32", "f32", "f64", "u64")),
}
#: the operators that are tried in shared memory too
HIST_SHARED = ("add", "max", "mul")
#: bins of a sub-histogram there
HIST_CELLS = 4


def _histogram() -> str:
    out = [
        '#include "futad_scalar.cuh"\n#include "histogram.cuh"\n',
        "template <class T> FUTAD_DEV T futad_add(T x, T y) { return T(x + y); }\n",
    ]
    for name, (atomic, expression, neutral, types) in HIST_OPERATORS.items():
        for t in types:
            c, kind = _HIST_TYPES[t], f"FUTAD_ATOMIC_{atomic}"
            head = f"int64_t n, int64_t bins, const int64_t *at, const {c} *values, {c} *dest"
            op = f"auto op = []({c} x, {c} y) -> {c} {{ typedef {c} T; return {expression}; }};"
            out.append(
                f"FUTAD_KERNEL global_{name}_{t}({head}) {{\n  {op}\n"
                "  int64_t me = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
                "  int64_t all = (int64_t)gridDim.x * blockDim.x;\n"
                "  for (int64_t i = me; i < n; i += all)\n"
                f"    if (at[i] >= 0 && at[i] < bins) futad_update<{kind}>(dest + at[i], values[i], op);\n}}\n"
            )
            if name in HIST_SHARED:
                out.append(
                    f"FUTAD_KERNEL blocks_{name}_{t}({head}) {{\n  typedef {c} T;\n  {op}\n"
                    "  auto place = [=](int64_t bin) { return dest + bin; };\n"
                    "  auto update = [=](int64_t i, const auto &add) {\n"
                    "    if (at[i] >= 0 && at[i] < bins) add(at[i], values[i]);\n  };\n"
                    f"  futad_subhist_points<{HIST_CELLS}>(futad_atomic_operator<{c}, {kind}>(op, {neutral}), n, bins, "
                    "place, update);\n}\n"
                )
    return "".join(out)


HISTOGRAM = _histogram()

#: elements that have room in shared memory
ROWS_ROOM = 100
# Rows that go to the place that the sum of their elements says, backwards and doubled, and a count for each row.
SUBHIST_ROWS = f"""
#include "futad_scalar.cuh"
#include "histogram.cuh"
FUTAD_KERNEL __launch_bounds__(256, 2) rows_f64(int64_t n, int64_t columns, int64_t places, const double *x,
                                                double *sums, double *counts) {{
  auto plus = [](double a, double b) -> double {{ return a + b; }};
  int64_t bins = places * columns;
  auto at = [=](int64_t bin) {{ return bin < bins ? sums + bin : counts + (bin - bins); }};
  auto load = [=](int64_t i, int64_t j) {{ return x[i * columns + j]; }};
  auto before = [=](int64_t i, const double *row) -> int64_t {{
    double total = 0;
    for (int64_t j = 0; j < columns; j++) total += row[j];
    return futad_remainder((int64_t)total, places);
  }};
  auto update = [=](int64_t i, int64_t j, const double *row, int64_t place, const auto &add) {{
    add(place * columns + j, 2 * row[columns - 1 - j]);
    if (j == 0) add(bins + place, 1.0);
  }};
  futad_subhist_rows<64, {ROWS_ROOM}, double, int64_t>(futad_atomic_operator<double, FUTAD_ATOMIC_ADD>(plus, 0.0), n,
      columns, columns, bins + places, at, load, before, update);
}}
"""

# The largest value and where it was first: 16 bytes, in two arrays.
LOCKS = """
#include "histogram.cuh"
FUTAD_KERNEL locked_best(int64_t n, int64_t bins, const int64_t *at, const double *values, double *best, int64_t *where,
                         uint32_t *locks) {
  int64_t me = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, all = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = me; i < n; i += all) {
    int64_t bin = at[i];
    if (bin < 0 || bin >= bins) continue;
    futad_locked(locks + bin % 16, [&]() {
      if (values[i] > best[bin] || (values[i] == best[bin] && i < where[bin])) {
        best[bin] = values[i];
        where[bin] = i;
      }
    });
  }
}
"""

#: element type, BM, BN, BK, TM, TN
GEMM_SHAPES = {
    "f32_large": ("float", 64, 128, 8, 8, 4),
    "f32": ("float", 64, 64, 16, 4, 4),
    "f32_small": ("float", 32, 32, 16, 2, 2),
    "f64": ("double", 64, 64, 8, 4, 4),
    "f64_small": ("double", 32, 32, 16, 2, 2),
    "f64_narrow": ("double", 256, 8, 4, 4, 2),
    "f32_narrow": ("float", 256, 8, 4, 4, 2),
}
#: the shapes that are also compiled to add to what is there
GEMM_ACCUMULATED = ("f32", "f64")


BOUNDS = "256, 2"  # as products are emitted: two blocks a multiprocessor


def _gemm() -> str:
    out = ['#include "gemm.cuh"\n']
    for name, (t, bm, bn, bk, tm, tn) in GEMM_SHAPES.items():
        layouts = [(0, 1), (1, 0)] if name in ("f32_large", "f64") else [(1, 1)]
        for left, right in layouts:
            for kind, c in (("set", f"futad_matrix<{t}, 1>"), ("add", f"futad_matrix_accumulate<{t}>")):
                if kind == "add" and ((left, right) == (1, 0) or name not in GEMM_ACCUMULATED):
                    continue
                out.append(
                    f"FUTAD_KERNEL __launch_bounds__({BOUNDS}) {kind}_{name}_{left}{right}("
                    f"{t} *a, int64_t ab, int64_t ar, int64_t ac, {t} *b, int64_t bb, int64_t br, int64_t bc, "
                    f"{t} *c, int64_t cb, int64_t cr, int64_t cc, int64_t batches, int64_t splits, "
                    f"int64_t m, int64_t n, int64_t k) {{\n"
                    f"  futad_matrix<{t}, {left}> x = {{a, ab, ar, ac}};\n"
                    f"  futad_matrix<{t}, {right}> y = {{b, bb, br, bc}};\n"
                    f"  {c} z = {{c, cb, cr, cc}};\n"
                    f"  futad_gemm<{t}, {bm}, {bn}, {bk}, {tm}, {tn}>(x, y, z, batches, splits, m, n, k);\n}}\n"
                )
    return "".join(out)


GEMM = _gemm()

# Operands that are computed, a result that is consumed elementwise, and the sums that a product takes along: a is
# 2 x weight, c = a b + bias, of whose squares the rows are summed tile by tile, and the rows of a.
# `first`: the operands are read first and computed later; reads of no element are counted.
GEMM_FUSED = '#include "gemm.cuh"\n' + "".join(
    f"""FUTAD_KERNEL __launch_bounds__({BOUNDS}) fused_{name}_{inner}{first}(
    const {t} *x, const {t} *weight, const {t} *b, const {t} *bias, {t} *c, {t} *rows, {t} *sums, int64_t *outside,
    int64_t batches, int64_t m, int64_t n, int64_t k) {{
  struct pair {{ {t} x0; {t} x1; }};
  int64_t tiles = (n + {bn - 1}) / {bn};
  auto read_left = [=](int64_t z, int64_t i, int64_t l) -> pair {{
    if (z >= batches || i >= m || l >= k) outside[0] = 1;
    return pair{{x[{"(z * m + i) * k + l" if inner else "(z * k + l) * m + i"}], weight[z * k + l]}};
  }};
  auto make_left = [=](pair read) -> {t} {{ return 2 * read.x0 * read.x1; }};
  auto read_right = [=](int64_t z, int64_t l, int64_t j) -> {t} {{
    if (z >= batches || l >= k || j >= n) outside[0] = 1;
    return b[(z * k + l) * n + j];
  }};
  auto make_right = [=]({t} read) -> {t} {{ return read + 1; }};
  auto left = [=](int64_t z, int64_t i, int64_t l) -> {t} {{ return make_left(read_left(z, i, l)); }};
  auto right = [=](int64_t z, int64_t l, int64_t j) -> {t} {{ return make_right(read_right(z, l, j)); }};
  auto result = [=](int64_t z, int64_t i, int64_t j, {t} v) -> {t} {{
    {t} y = v + bias[j];
    c[(z * m + i) * n + j] = y;
    return y * y;
  }};
  auto plus = [=]({t} x, {t} y) -> {t} {{ return x + y; }};
  auto to_rows = [=](int64_t z, int64_t i, int64_t tile, {t} v) {{ rows[(z * m + i) * tiles + tile] = v; }};
  auto to_sums = [=](int64_t z, int64_t i, {t} v) {{ sums[z * m + i] = v; }};
  futad_gemm<{t}, {bm}, {bn}, {bk}, {tm}, {tn}>(
      futad_compute<{t}, {inner}>({"read_left, make_left" if first else "left"}),
      futad_compute<{t}, 1>({"read_right, make_right" if first else "right"}), futad_consume(result),
      batches, 1, m, n, k, futad_fold_to<1>(futad_operator<{t}>(plus, 0), to_rows), futad_sum_to(to_sums));
}}
"""
    for name, (t, bm, bn, bk, tm, tn) in GEMM_SHAPES.items()
    for inner in (0, 1)
    for first in ("", "_first")
    if not name.endswith("narrow")  # emitted for folds over pairs alone
)

# Sums of squared differences, from `first` on, whose rows are summed.
GEMM_SQUARES = '#include "gemm.cuh"\n' + "".join(
    f"""FUTAD_KERNEL __launch_bounds__({BOUNDS}) squares_{name}(const {t} *x, const {t} *y, {t} *c, {t} *rows,
    {t} first, int64_t m, int64_t n, int64_t k) {{
  futad_ix tiles = (futad_ix)(n + {bn - 1}) / {bn};
  futad_matrix<const {t}, 1> left = {{x, 0, k, 1}};
  futad_matrix<const {t}, 0> right = {{y, 0, 1, k}};
  auto result = [=](futad_ix z, futad_ix i, futad_ix j, {t} v) -> {t} {{ return c[i * (futad_ix)n + j] = v; }};
  auto plus = [=]({t} x, {t} y) -> {t} {{ return x + y; }};
  auto to_rows = [=](futad_ix z, futad_ix i, futad_ix tile, {t} v) {{ rows[i * tiles + tile] = v; }};
  futad_gemm<{t}, {bm}, {bn}, {bk}, {tm}, {tn}>(left, right, futad_consume(result), 1, 1, m, n, k,
      futad_fold_to<1>(futad_operator<{t}>(plus, 0), to_rows), futad_no_sums(), futad_square_step<{t}>(first));
}}
"""
    for name, (t, bm, bn, bk, tm, tn) in GEMM_SHAPES.items()
    if t == "double"
)

TRANSPOSE = """
#include "transpose.cuh"
FUTAD_KERNEL __launch_bounds__(256) transpose_f32(const float *x, float *y, int64_t b, int64_t r, int64_t c) {
  futad_transpose(x, y, b, r, c);
}
FUTAD_KERNEL __launch_bounds__(256) transpose_f64(const double *x, double *y, int64_t b, int64_t r, int64_t c) {
  futad_transpose(x, y, b, r, c);
}
FUTAD_KERNEL __launch_bounds__(256) transpose_u8(const uint8_t *x, uint8_t *y, int64_t b, int64_t r, int64_t c) {
  futad_transpose(x, y, b, r, c);
}
"""


def _radix() -> str:
    out = ['#include "radix_sort.cuh"\n']
    for name, k, v in (("i32", "int32_t", "int32_t"), ("i64", "int64_t", "int64_t")):
        out.append(
            f"FUTAD_KERNEL __launch_bounds__(128) count_{name}(const {k} *keys, int64_t n, int32_t shift, "
            "uint32_t *counts) { futad_radix_count<128, 4>(keys, n, shift, counts); }\n"
            f"FUTAD_KERNEL __launch_bounds__(128) scatter_{name}(const {k} *keys, const {v} *payload, {k} *keys_out, "
            f"{v} *payload_out, int64_t n, int32_t shift, const uint32_t *sums) {{ futad_radix_scatter<128, 4>("
            "keys, payload, keys_out, payload_out, n, shift, sums); }\n"
        )
    out.append(
        "FUTAD_KERNEL __launch_bounds__(128) scan_counts(uint32_t *counts, int64_t tiles, uint32_t *state) {"
        " futad_radix_scan<128, 7>(counts, tiles, state); }\n"
    )
    return "".join(out)


RADIX = _radix()

SOURCES = {
    "block": BLOCK,
    "last": LAST,
    "scan": SCAN,
    "histogram": HISTOGRAM,
    "subhist_rows": SUBHIST_ROWS,
    "locks": LOCKS,
    "gemm": GEMM,
    "gemm_fused": GEMM_FUSED,
    "gemm_squares": GEMM_SQUARES,
    "transpose": TRANSPOSE,
    "radix": RADIX,
}
