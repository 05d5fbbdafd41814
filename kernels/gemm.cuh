/* Matrix products by tiles: BM x BN of the result a block, BK of the sum at a time, TM x TN in a thread's registers.
 *
 * c[b, i, j] = sum over l < k of a[b, i, l] * b[b, l, j], for i < m, j < n.  Operands are functors (docs/kernels.md),
 * so that any layout is read as it lies and what surrounds the product elementwise is fused into it.  While one tile
 * is multiplied the next is on its way from memory into registers.
 */
#ifndef FUTAD_GEMM_CUH
#define FUTAD_GEMM_CUH
#include "block.cuh"

/* A strided matrix; INNER says which index is contiguous, 0 the first, 1 the second. */
template <class S, int INNER>
struct futad_matrix {
  typedef S T;
  enum { inner = INNER };
  S *pointer;
  futad_ix batch, row, column;
  FUTAD_DEV S load(futad_ix b, futad_ix i, futad_ix j) const { return pointer[b * batch + i * row + j * column]; }
  FUTAD_DEV void store(futad_ix b, futad_ix i, futad_ix j, S x) const { pointer[b * batch + i * row + j * column] = x; }
};

/* The result is added to what is there. */
template <class S>
struct futad_matrix_accumulate {
  S *pointer;
  futad_ix batch, row, column;
  FUTAD_DEV void store(futad_ix b, futad_ix i, futad_ix j, S x) const { pointer[b * batch + i * row + j * column] += x; }
};

/* An operand whose elements `f(batch, i, j)` computes. */
template <class S, int INNER, class F>
struct futad_computed {
  typedef S T;
  enum { inner = INNER };
  F f;
  FUTAD_DEV S load(futad_ix b, futad_ix i, futad_ix j) const { return f(b, i, j); }
};
template <class S, int INNER, class F>
FUTAD_DEV futad_computed<S, INNER, F> futad_compute(const F &f) {
  return futad_computed<S, INNER, F>{f};
}

/* The same in two parts, that the loads of all elements are on their way before the first is needed: `f(batch, i, j)`
 * reads, of elements of the matrix alone, `g` makes of what was read the element. */
template <class S, int INNER, class F, class G>
struct futad_read_first {
  typedef S T;
  enum { inner = INNER };
  F f;
  G g;
};
template <class S, int INNER, class F, class G>
FUTAD_DEV futad_read_first<S, INNER, F, G> futad_compute(const F &f, const G &g) {
  return futad_read_first<S, INNER, F, G>{f, g};
}

/* What is read for an element, and when: `fetch` before the tile at hand is multiplied, `make` after it. `in`: whether
 * there is such an element, which is 0 else.  Where reading comes first another one is read instead (`near`, which is
 * there if there is any), for loads in branches wait for each other. */
template <class T>
struct futad_variable {
  typedef T type;
};
template <class T>
struct futad_variable<const T> {
  typedef T type;
};
template <class X>
struct futad_reads {
  typedef typename futad_variable<typename X::T>::type Read;
  static FUTAD_DEV Read fetch(const X &x, bool in, bool, futad_ix b, futad_ix i, futad_ix j, futad_ix, futad_ix) {
    return in ? (Read)x.load(b, i, j) : Read(0);
  }
  static FUTAD_DEV Read make(const X &, bool, const Read &read) { return read; }
};
template <class S, int INNER, class F, class G>
struct futad_reads<futad_read_first<S, INNER, F, G>> {
  typedef futad_read_first<S, INNER, F, G> X;
  typedef decltype(((const F *)0)->operator()(futad_ix(), futad_ix(), futad_ix())) Read;
  static FUTAD_DEV Read fetch(const X &x, bool in, bool any, futad_ix b, futad_ix i, futad_ix j, futad_ix near_i,
                              futad_ix near_j) {
    return any ? x.f(b, in ? i : near_i, in ? j : near_j) : Read{};
  }
  static FUTAD_DEV S make(const X &x, bool in, const Read &read) { return in ? (S)x.g(read) : S(0); }
};

/* A result of which `f(batch, i, j, x)` makes what it likes. */
template <class F>
struct futad_consumed {
  F f;
  template <class S>
  FUTAD_DEV auto store(futad_ix b, futad_ix i, futad_ix j, S x) const {
    return f(b, i, j, x);
  }
};
template <class F>
FUTAD_DEV futad_consumed<F> futad_consume(const F &f) {
  return futad_consumed<F>{f};
}

/* Sums that a product takes along: nothing, or those of the rows of `a`, to `f(batch, i, sum)`. */
struct futad_no_sums {
  enum { wanted = 0 };
};
template <class F>
struct futad_sums {
  enum { wanted = 1 };
  F f;
};
template <class F>
FUTAD_DEV futad_sums<F> futad_sum_to(const F &f) {
  return futad_sums<F>{f};
}

/* Folds that a product takes along: nothing, or what the elements of a row of each tile are by an operator, in order
 * unless it COMMUTES, to `f(batch, i, tile, x)`. */
struct futad_no_folds {
  enum { wanted = 0 };
};
template <int COMMUTES, class Op, class F>
struct futad_folds {
  enum { wanted = 1, commutes = COMMUTES };
  Op op;
  F f;
};
template <int COMMUTES, class Op, class F>
FUTAD_DEV futad_folds<COMMUTES, Op, F> futad_fold_to(const Op &op, const F &f) {
  return futad_folds<COMMUTES, Op, F>{op, f};
}

/* What becomes of a sum with two more elements: their product is added.  `padded`: two zeros change nothing. */
template <class T>
struct futad_add_product {
  enum { padded = 1, squares = 0 };
  FUTAD_DEV T start() const { return T(0); }
  FUTAD_DEV T next(T sum, T x, T y) const { return sum + x * y; }
};

/* Another step, `f(sum, x, y)`, from `first` on. */
template <class T, class F>
struct futad_other_step {
  enum { padded = 0, squares = 0 };
  T first;
  F f;
  FUTAD_DEV T start() const { return first; }
  FUTAD_DEV T next(T sum, T x, T y) const { return f(sum, x, y); }
};
template <class T, class F>
FUTAD_DEV futad_other_step<T, F> futad_step(T first, const F &f) {
  return futad_other_step<T, F>{first, f};
}

/* The square of their difference is added, from `first` on. */
template <class T>
struct futad_add_square {
  enum { padded = 1, squares = 1 };
  T first;
  FUTAD_DEV T start() const { return first; }
  FUTAD_DEV T next(T sum, T x, T y) const {
    T d = x - y;
    return sum + d * d;
  }
};
template <class T>
FUTAD_DEV futad_add_square<T> futad_square_step(T first) {
  return futad_add_square<T>{first};
}

/* --- products by the matrix units ------------------------------------------------------------------------------------
 *
 * Of f64 alone: their f32 would be rounded to fewer digits.  A warp multiplies 16x4 by 4x8 elements at a time.  Lane l
 * has, with g = l / 4 and t = l % 4, of the left matrix rows g and g + 8 of column t, of the right one row t of column g,
 * of the result columns 2t and 2t + 1 of rows g and g + 8 (PTX ISA, "Matrix Fragments for mma.m16n8k4"). */
#if defined(FUTAD_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
#define FUTAD_MATRIX_UNITS 1
#else
#define FUTAD_MATRIX_UNITS 0
#endif

template <class T>
struct futad_in_units {
  enum { value = 0 };
};
template <>
struct futad_in_units<double> {
  enum { value = FUTAD_MATRIX_UNITS };
};

#ifdef FUTAD_EMULATED
FUTAD_INLINE void futad_multiply_4(double *c, const double *a, const double *b) { futad_emu::multiply(c, a, b); }
FUTAD_INLINE void futad_multiply_8(double *c, const double *a, const double *b) {
  futad_multiply_4(c, a, b);
  futad_multiply_4(c, a + 2, b + 1);
}
#elif FUTAD_MATRIX_UNITS && __CUDA_ARCH__ >= 900
FUTAD_INLINE void futad_multiply_4(double *c, const double *a, const double *b) {
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(b[0]));
}
/* Twice as deep: columns t and t + 4 of the left matrix, rows t and t + 4 of the right one. */
FUTAD_INLINE void futad_multiply_8(double *c, const double *a, const double *b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
#elif FUTAD_MATRIX_UNITS
FUTAD_INLINE void futad_multiply_4(double *c, const double *a, const double *b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[0]), "+d"(c[1])
      : "d"(a[0]), "d"(b[0]));
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[2]), "+d"(c[3])
      : "d"(a[1]), "d"(b[0]));
}
FUTAD_INLINE void futad_multiply_8(double *c, const double *a, const double *b) {
  futad_multiply_4(c, a, b);
  futad_multiply_4(c, a + 2, b + 1);
}
#endif

/* The threads' parts of a BM x BN tile of the result: by the matrix units, or each TM x TN elements.  `at(i, row, col)`
 * says which element of the tile the thread's i-th one is; they are in order of rows, in a row of columns. */
template <class T, int BM, int BN, int BK, int TM, int TN, bool UNITS>
struct futad_parts;

template <class T, int BM, int BN, int BK, int TM, int TN>
struct futad_parts<T, BM, BN, BK, TM, TN, true> {
  enum {
    /* Warps below and beside each other, as many below as there are rows for, or four if columns are for the others; and
     * 16x8 tiles of one. */
    warps = BM / TM * (BN / TN) / 32,
    down = BN == 8 ? warps : BM < 64 ? BM / 16 : 4,
    beside = warps / down,
    high = BM / 16 / down,
    wide = BN / 8 / beside,
    group = 2,
    rows = 2 * high,    /* of the result, that a thread has elements of */
    columns = 2 * wide, /* and of each so many */
    lanes = 4,          /* that have the others, in one warp; the rest has another warp */
    pad = 4             /* keeps the lanes' elements of the operands in banks of their own */
  };
  static_assert(down * beside == warps && down * high * 16 == BM && beside * wide * 8 == BN, "a tile for each warp");
  T sum[high][wide][4];
  int row, col; /* of the first element */

  FUTAD_DEV int lane() const { return futad_lane() % 4; }

  FUTAD_DEV futad_parts() {
    row = futad_warp() / beside * (16 * high) + futad_lane() / 4;
    col = futad_warp() % beside * (8 * wide) + futad_lane() % 4 * 2;
  }
  template <class Step>
  FUTAD_DEV void start(const Step &) {
#pragma unroll
    for (int i = 0; i < high; i++) {
#pragma unroll
      for (int j = 0; j < wide; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) sum[i][j][e] = T(0);
      }
    }
  }
  FUTAD_DEV int row_of(int r) const { return row + r / 2 * 16 + r % 2 * 8; }
  FUTAD_DEV int col_of(int c) const { return col + c / 2 * 8 + c % 2; }
  FUTAD_DEV T of(int r, int c) const { return sum[r / 2][c / 2][r % 2 * 2 + c % 2]; }
  FUTAD_DEV void set(int r, int c, T x) { sum[r / 2][c / 2][r % 2 * 2 + c % 2] = x; }

  template <class Step>
  FUTAD_DEV void add(const T *pa, const T *pb, int, const Step &) {
    const int deep = BK % 8 == 0 ? 2 : 1, t = futad_lane() % 4, g = futad_lane() / 4;
#pragma unroll
    for (int k = 0; k < BK; k += 4 * deep) {
      T a[high][2 * deep], b[wide][deep];
#pragma unroll
      for (int h = 0; h < deep; h++) {
        const T *ra = pa + (k + 4 * h + t) * (BM + pad) + row, *rb = pb + (k + 4 * h + t) * (BN + pad) + (col - 2 * t) + g;
#pragma unroll
        for (int i = 0; i < high; i++) a[i][2 * h] = ra[16 * i], a[i][2 * h + 1] = ra[16 * i + 8];
#pragma unroll
        for (int j = 0; j < wide; j++) b[j][h] = rb[8 * j];
      }
#pragma unroll
      for (int i = 0; i < high; i++) {
#pragma unroll
        for (int j = 0; j < wide; j++) {
          if constexpr (deep == 2) {
            futad_multiply_8(sum[i][j], a[i], b[j]);
          } else {
            futad_multiply_4(sum[i][j], a[i], b[j]);
          }
        }
      }
    }
  }
};

template <class T, int BM, int BN, int BK, int TM, int TN>
struct futad_parts<T, BM, BN, BK, TM, TN, false> {
  enum {
    across = BN / TN,
    /* A thread's elements come in groups of `group` neighbours, so that a warp reads shared memory in whole lines. */
    least = TM < TN ? TM : TN,
    group = 16 / (int)sizeof(T) < least ? 16 / (int)sizeof(T) : least,
    beside = 1,
    rows = TM,
    columns = TN,
    lanes = across,
    pad = 16 / sizeof(T) /* keeps rows aligned and columns out of one bank */
  };
  T sum[TM][TN];
  int ty, tx;

  FUTAD_DEV futad_parts() : ty((int)threadIdx.x / across), tx((int)threadIdx.x % across) {}
  FUTAD_DEV int lane() const { return tx; }
  template <class Step>
  FUTAD_DEV void start(const Step &step) {
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
      for (int j = 0; j < TN; j++) sum[i][j] = step.start();
    }
  }
  FUTAD_DEV int row_of(int i) const { return i / group * (BM / TM * group) + ty * group + i % group; }
  FUTAD_DEV int col_of(int j) const { return j / group * (across * group) + tx * group + j % group; }
  FUTAD_DEV T of(int i, int j) const { return sum[i][j]; }

  /* `here`: of the sum's elements, those in the tile at hand. */
  template <class Step>
  FUTAD_DEV void add(const T *pa, const T *pb, int here, const Step &step) {
#pragma unroll
    for (int kk = 0; kk < BK; kk++) {
      if (!Step::padded && kk >= here) break;
      T x[TM], y[TN];
#pragma unroll
      for (int i = 0; i < TM; i++) x[i] = pa[kk * (BM + pad) + row_of(i)];
#pragma unroll
      for (int j = 0; j < TN; j++) y[j] = pb[kk * (BN + pad) + col_of(j)];
#pragma unroll
      for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] = step.next(sum[i][j], x[i], y[j]);
      }
    }
  }
};

/* Which of a ROWS x COLS tile's elements thread `t` moves in its `step`-th iteration, neighbouring threads taking neighbours
 * along the contiguous index. */
template <int INNER, int ROWS, int COLS, int THREADS>
struct futad_tile_walk {
  enum { elements = ROWS * COLS, iterations = (elements + THREADS - 1) / THREADS };
  static FUTAD_DEV bool inside(int t, int step) { return elements % THREADS == 0 || t + step * THREADS < elements; }
  static FUTAD_DEV int row(int t, int step) {
    int at = t + step * THREADS;
    return INNER ? at / COLS : at % ROWS;
  }
  static FUTAD_DEV int col(int t, int step) {
    int at = t + step * THREADS;
    return INNER ? at % COLS : at / ROWS;
  }
};

/* The threads' parts of the sums of a tile's rows (or, unless ROWS, columns) put together and given to `to(i, sum)`: by
 * way of a tile in shared memory, which nobody reads then. */
template <class Walk, bool ROWS, int COUNT, int BK, int THREADS, class T, class To>
FUTAD_DEV void futad_sums_of(const T *part, T *tile, const To &to) {
  int t = (int)threadIdx.x;
#pragma unroll
  for (int s = 0; s < Walk::iterations; s++) {
    int i = ROWS ? Walk::row(t, s) : Walk::col(t, s), l = ROWS ? Walk::col(t, s) : Walk::row(t, s);
    if (Walk::inside(t, s)) tile[i * BK + l] = part[s];
  }
  __syncthreads();
  for (int i = t; i < COUNT; i += THREADS) {
    T total = T(0);
    for (int l = 0; l < BK; l++) total += tile[i * BK + l];
    to(i, total);
  }
  __syncthreads();
}

/* Of what has been summed, x y, makes |x|^2 - 2 x y + |y|^2, which is the sum of (x - y)^2.  Its error is at most about
 * 2 k eps (|x|^2 + |y|^2) (Higham, "Accuracy and Stability of Numerical Algorithms", 3.1), so that where it is less than
 * a 64th of |x|^2 + |y|^2, or either is no number, the squares themselves are added: never more than 7 of the 53 bits
 * are lost beside that sum.  `squares_a`, `squares_b`: |x|^2 of the tile's rows, |y|^2 of its columns. */
template <class Parts, class A, class B, class T, class Step>
FUTAD_DEV void futad_squares_of(Parts &made, const A &a, const B &b, const T *squares_a, const T *squares_b,
                                futad_ix batch, futad_ix row0, futad_ix col0, futad_ix m, futad_ix n, futad_ix k0,
                                futad_ix k1, const Step &step) {
#pragma unroll
  for (int r = 0; r < Parts::rows; r++) {
    futad_ix row = row0 + made.row_of(r);
#pragma unroll
    for (int c = 0; c < Parts::columns; c++) {
      futad_ix col = col0 + made.col_of(c);
      T both = squares_a[made.row_of(r)] + squares_b[made.col_of(c)], square = both - 2 * made.of(r, c);
      T sum = step.start();
      if (square > both / 64) {
        sum += square;
      } else if (row < m && col < n) {
#pragma unroll 1
        for (futad_ix l = k0; l < k1; l++) {
          T x = futad_reads<A>::make(a, true, futad_reads<A>::fetch(a, true, true, batch, row, l, row, l));
          T y = futad_reads<B>::make(b, true, futad_reads<B>::fetch(b, true, true, batch, l, col, l, col));
          sum = step.next(sum, x, y);
        }
      }
      made.set(r, c, sum);
    }
  }
}

/* What `c.store` returns for the columns of a tile is combined and given to `to.f(z, i, tile, x)`. */
template <int BM, class Parts, class C, class Folds>
FUTAD_DEV void futad_row_folds(const Parts &parts, const C &c, futad_ix z, futad_ix row0, futad_ix col0, futad_ix m,
                               futad_ix n, futad_ix tile, const Folds &to) {
  typedef decltype(to.op.neutral()) V;
  /* Neighbouring columns that a thread has, then those of its neighbours: the order of columns. */
  const int GROUP = Folds::commutes ? Parts::columns : Parts::group;
  FUTAD_SHARED(V, others, Parts::beside > 1 ? BM * Parts::beside : 1); /* what the warps beside each other have */
  V totals[Parts::beside > 1 ? Parts::rows : 1];
#pragma unroll
  for (int i = 0; i < Parts::rows; i++) {
    futad_ix row = row0 + parts.row_of(i);
    V total = to.op.neutral();
#pragma unroll
    for (int g = 0; g < Parts::columns; g += GROUP) {
      V part = to.op.neutral();
#pragma unroll
      for (int j = g; j < g + GROUP; j++) {
        futad_ix col = col0 + parts.col_of(j);
        if (row < m && col < n) part = to.op.combine(part, c.store(z, row, col, parts.of(i, j)));
      }
#pragma unroll
      for (int d = 1; d < Parts::lanes; d *= 2) {
        auto other = futad_shfl_xor(FUTAD_ALL, part, d);
        part = parts.lane() & d ? to.op.combine(other, part) : to.op.combine(part, other);
      }
      total = g ? to.op.combine(total, part) : part;
    }
    if constexpr (Parts::beside > 1) {
      totals[i] = total;
    } else {
      if (parts.lane() == 0 && row < m) to.f(z, row, tile, total);
    }
  }
  if constexpr (Parts::beside > 1) {
    /* Nobody reads what was there: the tiles' barriers have been passed since. */
#pragma unroll
    for (int i = 0; i < Parts::rows; i++) {
      if (parts.lane() == 0) others[parts.row_of(i) * Parts::beside + futad_warp() % Parts::beside] = totals[i];
    }
    __syncthreads();
    for (int r = (int)threadIdx.x; r < BM; r += (int)blockDim.x) {
      V total = others[r * Parts::beside];
      for (int w = 1; w < Parts::beside; w++) total = to.op.combine(total, others[r * Parts::beside + w]);
      if (row0 + r < m) to.f(z, row0 + r, tile, total);
    }
  }
}

/* `folds`: what `c.store` returns is folded over the columns of each tile (`futad_row_folds`).
 * `sums`: the rows of `a` are summed and given to `sums.f(z, i, sum)`.  `step`: what takes the place of adding products;
 * squares of differences are made of products where the matrix units are fast (`futad_squares_of`). */
template <class T, int BM, int BN, int BK, int TM, int TN, class A, class B, class C, class Folds = futad_no_folds,
          class Sums = futad_no_sums, class Step = futad_add_product<T>>
FUTAD_DEV void futad_gemm(const A &a, const B &b, const C &c, futad_ix batches, futad_ix splits, futad_ix m, futad_ix n,
                          futad_ix k, const Folds &folds = Folds(), const Sums &sums_to = Sums(),
                          const Step &step = Step()) {
  typedef futad_parts<T, BM, BN, BK, TM, TN, futad_in_units<T>::value && Step::padded> Parts;
  const int THREADS = BM / TM * (BN / TN), PAD = Parts::pad;
  typedef futad_tile_walk<A::inner, BM, BK, THREADS> WalkA;
  typedef futad_tile_walk<B::inner, BK, BN, THREADS> WalkB;
  FUTAD_SHARED(T, tile_a, 2 * BK * (BM + PAD)); /* by columns of a */
  FUTAD_SHARED(T, tile_b, 2 * BK * (BN + PAD));
  const bool SQUARES = futad_in_units<T>::value && Step::squares; /* by products */
  FUTAD_SHARED(T, squares_a, SQUARES ? BM : 1);
  FUTAD_SHARED(T, squares_b, SQUARES ? BN : 1);

  int t = (int)threadIdx.x;
  Parts made;
  /* Numbers of blocks, parts and steps fit into 32 bits, in which divisions are cheap. */
  uint32_t columns = n > 0 ? (uint32_t)((n + BN - 1) / BN) : 1, parts = (uint32_t)splits; /* sums need no column */
  futad_ix row0 = (futad_ix)(blockIdx.x / columns) * BM, col0 = (futad_ix)(blockIdx.x % columns) * BN;
  for (uint32_t z = blockIdx.z; z < (uint32_t)batches * parts; z += gridDim.z) {
    futad_ix batch = z / parts, split = z % parts;
    futad_ix share = (futad_ix)(((uint32_t)((k + BK - 1) / BK) + parts - 1) / parts) * BK;
    futad_ix k0 = split * share, k1 = k0 + share < k ? k0 + share : k;

    /* Which iterations are within the matrices, apart from the sum's index: a bit each, for registers are dear here. */
    unsigned rows = 0, cols = 0;
#pragma unroll
    for (int s = 0; s < WalkA::iterations; s++) {
      rows |= (unsigned)(WalkA::inside(t, s) && row0 + WalkA::row(t, s) < m) << s;
    }
#pragma unroll
    for (int s = 0; s < WalkB::iterations; s++) {
      cols |= (unsigned)(WalkB::inside(t, s) && col0 + WalkB::col(t, s) < n) << s;
    }

    typename futad_reads<A>::Read next_a[WalkA::iterations];
    typename futad_reads<B>::Read next_b[WalkB::iterations];
    auto in_a = [&](int s, int left) { return (rows >> s & 1) && WalkA::col(t, s) < left; };
    auto in_b = [&](int s, int left) { return (cols >> s & 1) && WalkB::row(t, s) < left; };
    T part[Sums::wanted ? WalkA::iterations : 1]; /* of the sums of rows: each iteration's elements are always of one row */
#pragma unroll
    for (int s = 0; s < (Sums::wanted ? WalkA::iterations : 0); s++) part[s] = T(0);
    T squared_a[SQUARES ? WalkA::iterations : 1], squared_b[SQUARES ? WalkB::iterations : 1];
#pragma unroll
    for (int s = 0; s < (SQUARES ? WalkA::iterations : 0); s++) squared_a[s] = T(0);
#pragma unroll
    for (int s = 0; s < (SQUARES ? WalkB::iterations : 0); s++) squared_b[s] = T(0);
    made.start(step);

    int page = 0, here = 0; /* here: of the sum's elements, those in the tile at hand */
    for (futad_ix l = k0 - BK; l < k1; l += BK) {
      /* The next tile starts on its way. */
      int left = k1 - l - BK < BK ? (int)(k1 - l - BK) : BK;
      futad_ix from = l + BK;
#pragma unroll
      for (int s = 0; s < WalkA::iterations; s++) {
        next_a[s] = futad_reads<A>::fetch(a, in_a(s, left), left > 0 && row0 < m, batch, row0 + WalkA::row(t, s),
                                          from + WalkA::col(t, s), row0, from);
      }
#pragma unroll
      for (int s = 0; s < WalkB::iterations; s++) {
        next_b[s] = futad_reads<B>::fetch(b, in_b(s, left), left > 0 && col0 < n, batch, from + WalkB::row(t, s),
                                          col0 + WalkB::col(t, s), from, col0);
      }
      if (l >= k0) {
        made.add(tile_a + page * BK * (BM + PAD), tile_b + page * BK * (BN + PAD), here, step);
        page ^= 1;
      }
      here = left;
      /* Into the other half of shared memory: the tile just multiplied may still be read. */
      T *qa = tile_a + page * BK * (BM + PAD), *qb = tile_b + page * BK * (BN + PAD);
#pragma unroll
      for (int s = 0; s < WalkA::iterations; s++) {
        T x = futad_reads<A>::make(a, in_a(s, left), next_a[s]);
        if (Sums::wanted) part[Sums::wanted ? s : 0] += x;
        if (SQUARES) squared_a[SQUARES ? s : 0] += x * x;
        if (WalkA::inside(t, s)) qa[WalkA::col(t, s) * (BM + PAD) + WalkA::row(t, s)] = x;
      }
#pragma unroll
      for (int s = 0; s < WalkB::iterations; s++) {
        T x = futad_reads<B>::make(b, in_b(s, left), next_b[s]);
        if (SQUARES) squared_b[SQUARES ? s : 0] += x * x;
        if (WalkB::inside(t, s)) qb[WalkB::row(t, s) * (BN + PAD) + WalkB::col(t, s)] = x;
      }
      __syncthreads();
    }

    if constexpr (SQUARES) {
      futad_sums_of<WalkA, true, BM, BK, THREADS>(squared_a, tile_a, [=](int i, T sum) { squares_a[i] = sum; });
      futad_sums_of<WalkB, false, BN, BK, THREADS>(squared_b, tile_b, [=](int j, T sum) { squares_b[j] = sum; });
      futad_squares_of(made, a, b, squares_a, squares_b, batch, row0, col0, m, n, k0, k1, step);
    }
    if constexpr (Folds::wanted) {
      futad_row_folds<BM>(made, c, z, row0, col0, m, n, blockIdx.x % columns, folds);
    } else {
#pragma unroll
      for (int i = 0; i < Parts::rows; i++) {
        futad_ix row = row0 + made.row_of(i);
#pragma unroll
        for (int j = 0; j < Parts::columns; j++) {
          futad_ix col = col0 + made.col_of(j);
          if (row < m && col < n) c.store(z, row, col, made.of(i, j));
        }
      }
    }
    if constexpr (Sums::wanted) {
      if (col0 == 0) {
        futad_sums_of<WalkA, true, BM, BK, THREADS>(part, tile_a, [&](int i, T sum) {
          if (row0 + i < m) sums_to.f(z, row0 + i, sum);
        });
      }
    }
  }
}

#endif
