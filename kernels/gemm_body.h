/* The body of gemm.h, included once an element type (FUTAD_GEMM_T, suffix FUTAD_GEMM_S). */

#define T FUTAD_GEMM_T
#define F(name) FUTAD_GEMM_NAME(futad_gemm_##name##_, FUTAD_GEMM_S)
#define VL ((int64_t)(FUTAD_GEMM_BYTES / sizeof(T)))
#define NR (FUTAD_GEMM_NV * VL)
#define MR FUTAD_GEMM_MR
#define KC ((int64_t)(sizeof(T) == 4 ? FUTAD_GEMM_KC / 4 * 5 : FUTAD_GEMM_KC))

/* Wherever they lie. */
typedef T F(vec) __attribute__((vector_size(FUTAD_GEMM_BYTES), aligned(sizeof(T)), may_alias));
typedef T F(row) __attribute__((vector_size(MR * sizeof(T)), aligned(sizeof(T)), may_alias));

/* C's part of a tile that lies in `from`, vector after vector, row after row (see `tile`). */
static FUTAD_GEMM_ONCE void F(edge)(const T *from, int vectors, T *c, int64_t rsC, int64_t csC, int64_t last,
                                    int64_t rows, int64_t columns, int add) {
  const int64_t before = (vectors - 1) * VL;
  for (int64_t i = 0; i < rows; i++, from += vectors * VL)
    for (int64_t j = 0; j < columns; j++) {
      FUTAD_GEMM_PLAIN;
      T *at = c + i * rsC + j * csC;
      const T x = from[j < before ? j : before + j - last];
      *at = add ? *at + x : x;
    }
}

/* The transpose of MR x MR elements: out[q * width + r] = in[r * stride + q]. */
static inline __attribute__((always_inline)) void F(iteration)(const T *in, int64_t stride, T *restrict out,
                                                          int64_t width) {
#if FUTAD_GEMM_SHUFFLE && FUTAD_GEMM_MR == 8
  F(row) x[8], y[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) x[i] = *(const F(row) *)(in + i * stride);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++)
    if (!(i & 2)) {
      x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    *(F(row) *)(out + i * width) = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *(F(row) *)(out + (i + 4) * width) = __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#elif FUTAD_GEMM_SHUFFLE
  F(row) x[4], y[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) x[i] = *(const F(row) *)(in + i * stride);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 4, 2, 6);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 5, 3, 7);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    *(F(row) *)(out + i * width) = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 4, 5);
    *(F(row) *)(out + (i + 2) * width) = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 6, 7);
  }
#else
  for (int q = 0; q < MR; q++)
    for (int r = 0; r < MR; r++) out[q * width + r] = in[r * stride + q];
#endif
}

/* A whole tile of C that lies by columns, from one of so many columns by rows. */
static FUTAD_GEMM_ONCE void F(turned)(const T *from, int64_t columns, T *restrict c, int64_t csC) {
  for (int64_t j = 0; j < columns; j += MR) F(iteration)(from + j, columns, c + j * csC, csC);
}

/* A tile of C, of `height` rows and `vectors` vectors of columns, (op)= A B over kc steps.  Only the first `rows` rows
   and `columns` columns are there; further rows are the last one again, in A, and are not stored.  Vector v is at
   column v * VL, but the last one at `last` in C and at `lastB` in B. */
static inline __attribute__((always_inline)) void F(tile)(const int height, const int vectors, const int64_t kc,
                                                          const T *a, const int64_t rsA, const int64_t csA, const T *b,
                                                          const int64_t rsB, const int64_t lastB, T *restrict c,
                                                          const int64_t rsC, const int64_t csC, const int64_t last,
                                                          const int64_t rows, const int64_t columns, const int add) {
  F(vec) sums[MR][FUTAD_GEMM_NV];
  const T *row[MR];
#pragma GCC unroll 8
  for (int i = 0; i < height; i++) {
    row[i] = a + (i < rows ? i : rows - 1) * rsA;
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) sums[i][v] = (F(vec)){0};
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++)
      if (csC == 1) __builtin_prefetch(c + (i < rows ? i : rows - 1) * rsC + v * VL, 1);
  }
  for (int64_t p = 0, q = 0; p < kc; p++, q += csA, b += rsB) {
    F(vec) x[FUTAD_GEMM_NV];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) x[v] = *(const F(vec) *)(b + (v == vectors - 1 ? lastB : v * VL));
#pragma GCC unroll 8
    for (int i = 0; i < height; i++) {
      const T s = row[i][q];
#pragma GCC unroll 3
      for (int v = 0; v < vectors; v++) sums[i][v] += s * x[v];
#pragma GCC unroll 3
      for (int v = 0; v < vectors; v++) FUTAD_GEMM_HOLD(x[v]);
    }
  }
  if (csC == 1 && columns >= VL) {
#pragma GCC unroll 8
    for (int i = 0; i < height; i++) {
      if (i >= rows) break;
      F(vec) old[FUTAD_GEMM_NV];
      T *at = c + i * rsC;
      if (add) {
        /* All are read before any is written: two of them may share columns. */
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) old[v] = *(const F(vec) *)(at + (v == vectors - 1 ? last : v * VL));
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) sums[i][v] += old[v];
      }
#pragma GCC unroll 3
      for (int v = 0; v < vectors; v++) *(F(vec) *)(at + (v == vectors - 1 ? last : v * VL)) = sums[i][v];
    }
  } else {
    T one[MR * NR];
#pragma GCC unroll 8
    for (int i = 0; i < height; i++)
#pragma GCC unroll 3
      for (int v = 0; v < vectors; v++) *(F(vec) *)(one + (i * vectors + v) * VL) = sums[i][v];
    if (rsC == 1 && !add && height == MR && rows >= MR && columns == vectors * VL && columns % MR == 0)
      F(turned)(one, vectors * VL, c, csC);
    else
      F(edge)(one, vectors, c, rsC, csC, last, rows < height ? rows : height, columns, add);
  }
}

/* MR x kc elements, contiguous along p: out[p * width + r] = in[r * stride + p]. */
static FUTAD_GEMM_ONCE void F(iteration_rows)(int64_t kc, const T *in, int64_t stride, T *restrict out,
                                                               int64_t width) {
  if (kc >= MR)
    for (int64_t p = 0; p < kc; p += MR) {
      const int64_t from = futad_gemm_least(p, kc - MR);
      F(iteration)(in + from, stride, out + from * width, width);
    }
  else
    for (int64_t p = 0; p < kc; p++)
      for (int r = 0; r < MR; r++) {
        FUTAD_GEMM_PLAIN;
        out[p * width + r] = in[r * stride + p];
      }
}

/* Slivers of MR rows of an mc x kc block, k-major, zero-padded to a whole sliver. */
static FUTAD_GEMM_ONCE void F(pack_a)(int64_t mc, int64_t kc, const T *A, int64_t rs, int64_t cs, T *restrict out) {
  const int64_t whole = cs == 1 || rs == 1 ? mc / MR * MR : 0;
  if (cs == 1)
    for (int64_t i = 0; i < whole; i += MR) F(iteration_rows)(kc, A + i * rs, rs, out + i * kc, MR);
  else if (rs == 1)
    for (int64_t p = 0; p < kc; p++)
      for (int64_t i = 0; i < whole; i += MR) *(F(row) *)(out + i * kc + p * MR) = *(const F(row) *)(A + i + p * cs);
  for (int64_t i = whole; i < mc; i += MR)
    for (int64_t p = 0; p < kc; p++)
      for (int64_t r = 0; r < MR; r++) {
        FUTAD_GEMM_PLAIN;
        out[i * kc + p * MR + r] = i + r < mc ? A[(i + r) * rs + p * cs] : (T)0;
      }
}

/* Slivers of whole vectors of columns of a kc x nc panel, k-major; columns beyond the last are zeros.  Only those that
   start from column `start` on, before `end`. */
static FUTAD_GEMM_ONCE void F(pack)(int64_t kc, int64_t nc, const T *B, int64_t rs, int64_t cs, T *restrict out,
                                    int64_t start, int64_t end) {
  int64_t vectors;
  for (int64_t j = 0; j < nc && j < end; j += vectors * VL) {
    vectors = futad_gemm_vectors(nc - j, VL);
    const int64_t width = vectors * VL;
    if (j < start) {
      out += kc * width;
      continue;
    }
    for (int64_t v = 0; v < vectors; v++) {
      const int64_t at = nc < VL ? j : futad_gemm_least(j + v * VL, nc - VL);
      T *to = out + v * VL;
      if (cs == 1 && nc >= VL)
        for (int64_t p = 0; p < kc; p++) *(F(vec) *)(to + p * width) = *(const F(vec) *)(B + p * rs + at);
      else if (rs == 1 && nc >= VL && VL % MR == 0)
        for (int64_t c = 0; c < VL; c += MR) F(iteration_rows)(kc, B + (at + c) * cs, cs, to + c, width);
      else
        for (int64_t p = 0; p < kc; p++)
          for (int64_t c = 0; c < VL; c++) {
            FUTAD_GEMM_PLAIN;
            to[p * width + c] = at + c < nc ? B[p * rs + (at + c) * cs] : (T)0;
          }
    }
    out += kc * width;
  }
}

/* Columns of C, as many as a sliver of B has, with all their rows; A's tiles start `step` apart. */
#define TILES(vectors)                                                                                                 \
  for (int64_t i = 0; i < m; i += MR, A += step, C += MR * rsC) {                                                      \
    if (2 * (m - i) > MR)                                                                                              \
      F(tile)(MR, vectors, k, A, rsA, csA, B, rsB, lastB, C, rsC, csC, last, m - i, columns, add);                     \
    else                                                                                                               \
      F(tile)(MR / 2, vectors, k, A, rsA, csA, B, rsB, lastB, C, rsC, csC, last, m - i, columns, add);                 \
  }
static FUTAD_GEMM_ONCE void F(sliver)(int64_t m, int64_t columns, int64_t k, const T *A, int64_t step, int64_t rsA,
                                      int64_t csA, const T *B, int64_t rsB, int64_t lastB, T *C, int64_t rsC,
                                      int64_t csC, int64_t last, int add) {
  if (columns > 2 * VL) {
    TILES(3)
  } else if (columns > VL) {
    TILES(2)
  } else {
    TILES(1)
  }
}
#undef TILES

/* The columns of the next panel where `rest` are left; what remains for the last one is no less than a vector. */
static inline int64_t F(columns)(int64_t rest, int64_t most) {
  return rest <= most ? rest : rest < most + VL ? most - NR : most;
}

static FUTAD_GEMM_ONCE int FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(
    int64_t m, int64_t n, int64_t k, const T *A, int64_t rsA, int64_t csA, const T *B, int64_t rsB, int64_t csB,
    const T *packed, T *C, int64_t rsC, int64_t csC, int accumulate) {
  if (m <= 0 || n <= 0) return 0;
  if (k <= 0 || m * n * k <= FUTAD_GEMM_TINY) {
    if (k > 0 || !accumulate)
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
          T sum = 0, *at = C + i * rsC + j * csC;
          for (int64_t p = 0; p < k; p++) {
            FUTAD_GEMM_PLAIN;
            sum += A[i * rsA + p * csA] * B[p * rsB + j * csB];
          }
          *at = accumulate ? *at + sum : sum;
        }
    return 0;
  }
  if (csC != 1 && rsC == 1 && (m <= 16 * MR || n < NR || k > KC || accumulate)) {
    /* The transpose of C has contiguous rows; else whole tiles are turned round. */
    const T *a = A;
    const int64_t rows = m, rs = rsA, cs = csA;
    A = B, rsA = csB, csA = rsB, B = a, rsB = cs, csB = rs, m = n, n = rows, rsC = csC, csC = 1, packed = NULL;
  }
  const int as_it_lies = csA == 1 && m <= FUTAD_GEMM_FEW && (sizeof(T) == 4 || k > KC);
  const int iteration_a = n > 4 * NR && !as_it_lies;
  const int iteration_b = !packed && (n < VL || csB != 1 || (m > 16 * MR && n * k > 2048));
  const int in_slivers = packed || iteration_b;
  const int64_t parts = (k + KC - 1) / KC, kc_max = (k + parts - 1) / parts;
  /* All of A stays near: panels are narrow then, which saves the memory for wide ones. */
  const int near = iteration_b && (!iteration_a || m * kc_max * (int64_t)sizeof(T) <= FUTAD_GEMM_NEAR);
  const int64_t width_max = near ? FUTAD_GEMM_NARROW * NR : FUTAD_GEMM_NC;
  const int64_t mc_max = iteration_a ? ((near ? m : futad_gemm_least(m, FUTAD_GEMM_MC)) + MR - 1) / MR * MR : 0;
  const int64_t nc_max = iteration_b ? (futad_gemm_least(n, width_max) + VL - 1) / VL * VL : 0;
  /* + 8 vectors, so that both buffers can start on a cache line. */
  T *space = futad_gemm_reserve((size_t)((mc_max + nc_max) * kc_max + 8 * VL) * sizeof(T));
  if (!space) return 1;
  T *pb = space, *pa = space + (nc_max * kc_max + VL - 1) / VL * VL;
  const int64_t mc_step = iteration_a && !near ? FUTAD_GEMM_MC : m;
  for (int64_t jc = 0, nc; jc < n; jc += nc) {
    nc = F(columns)(n - jc, FUTAD_GEMM_NC);
    for (int64_t pc = 0; pc < k; pc += kc_max) {
      const int64_t kc = futad_gemm_least(k - pc, kc_max);
      const int add = accumulate || pc > 0;
      for (int64_t jp = jc, np; jp < jc + nc; jp += np) {
        np = F(columns)(jc + nc - jp, near ? width_max : nc);
        const T *panel = B + pc * rsB + jp * csB;
        if (iteration_b) F(pack)(kc, np, panel, rsB, csB, pb, 0, np);
        for (int64_t ic = 0; ic < m; ic += mc_step) {
          const int64_t mc = futad_gemm_least(m - ic, mc_step);
          const T *block = A + ic * rsA + pc * csA;
          if (iteration_a && !(near && jp > jc)) F(pack_a)(mc, kc, block, rsA, csA, pa);
          for (int64_t j = 0, width; j < np; j += width) {
            width = futad_gemm_vectors(np - j, VL) * VL;
            const int64_t columns = futad_gemm_least(width, np - j);
            const int64_t last = columns < VL ? 0 : columns - VL;
            const T *b = packed ? packed + (jp + j) * k + pc * width : iteration_b ? pb + j * kc : panel + j;
            F(sliver)(mc, columns, kc, iteration_a ? pa : block, iteration_a ? kc * MR : MR * rsA,
                      iteration_a ? 1 : rsA, iteration_a ? MR : csA, b, in_slivers ? width : rsB,
                      in_slivers ? width - VL : last, C + ic * rsC + (jp + j) * csC, rsC, csC, last, add);
          }
        }
      }
    }
  }
  return 0;
}

/* The same on several threads, after thread_pool.h: each takes a stripe of rows, or of columns where there are more of
 * those. */
#ifdef FUTAD_POOL_H
struct F(job) {
  int64_t m, n, k, rsA, csA, rsB, csB, rsC, csC, side, per;
  const T *A, *B, *packed;
  T *C;
  int accumulate, by_rows, failed;
};

static void F(part)(void *job, int64_t i) {
  struct F(job) *const j = job;
  const int64_t from = i * j->per < j->side ? i * j->per : j->side;
  const int64_t size = futad_gemm_least(j->per, j->side - from);
  const int64_t row = j->by_rows ? from : 0, column = j->by_rows ? 0 : from;
  const T *packed = j->packed;
  if (packed && !j->by_rows) {
    /* Slivers are those of the whole matrix, unless its last ones are narrower and in different parts. */
    const int64_t after = j->n - from - size;
    packed = (from == 0 || j->n - from >= VL) && (after == 0 || after >= VL) ? packed + from * j->k : NULL;
  }
  if (FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(
          j->by_rows ? size : j->m, j->by_rows ? j->n : size, j->k, j->A + row * j->rsA, j->rsA, j->csA,
          j->B + column * j->csB, j->rsB, j->csB, packed, j->C + row * j->rsC + column * j->csC, j->rsC, j->csC,
          j->accumulate))
    __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}
#endif

static __attribute__((unused)) int FUTAD_GEMM_NAME(futad_gemm_parallel_, FUTAD_GEMM_S)(
    int64_t m, int64_t n, int64_t k, const T *A, int64_t rsA, int64_t csA, const T *B, int64_t rsB, int64_t csB,
    const T *packed, T *C, int64_t rsC, int64_t csC, int accumulate) {
#ifdef FUTAD_POOL_H
  const double work = (double)m * (double)n * (double)k;
  if (work >= (double)FUTAD_POOL_MEETING * FUTAD_GEMM_SPEED && futad_pool_threads() > 1) {
    static struct futad_speed speeds[64]; /* of products with about as much work */
    struct futad_speed *const speed = &speeds[futad_gemm_size(work)];
    const int64_t ns = futad_pool_expected(work, 1.0 / FUTAD_GEMM_SPEED, speed);
    const int by_rows = m >= n;
    const int64_t side = by_rows ? m : n, unit = by_rows ? MR : NR;
    int64_t threads = futad_pool_threads();
    const int64_t per = (side + unit * threads - 1) / (unit * threads) * unit;
    threads = (side + per - 1) / per;
    struct F(job) job = {m, n, k, rsA, csA, rsB, csB, rsC, csC, side, per, A, B, packed, C, accumulate, by_rows, 0};
    if (threads > 1 && futad_pool_several(ns, speed)) {
      futad_pool_run_of(threads, ns, futad_pool_measured(speed), F(part), &job);
      return job.failed;
    }
    if (futad_pool_watched(speed)) {
      const int64_t began = futad_pool_clock();
      const int failed = FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(m, n, k, A, rsA, csA, B, rsB, csB, packed, C, rsC,
                                                                    csC, accumulate);
      futad_pool_took(futad_pool_clock() - began, work, true, speed);
      return failed;
    }
  }
#endif
  return FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(m, n, k, A, rsA, csA, B, rsB, csB, packed, C, rsC, csC, accumulate);
}

#undef T
#undef F
#undef VL
#undef NR
#undef MR
#undef KC
