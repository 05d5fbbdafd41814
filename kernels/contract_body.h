/* The body of contract.h, included once an element type (FUTAD_GEMM_T, suffix FUTAD_GEMM_S, integers of its size
 * FUTAD_CONTRACT_I). */

#define T FUTAD_GEMM_T
#define F(name) FUTAD_GEMM_NAME(futad_contract_##name##_, FUTAD_GEMM_S)
#define VEC FUTAD_GEMM_NAME(futad_gemm_vec_, FUTAD_GEMM_S)
#define VL ((int64_t)(FUTAD_GEMM_BYTES / sizeof(T)))
#define MR FUTAD_GEMM_MR

typedef FUTAD_CONTRACT_I F(mask) __attribute__((vector_size(FUTAD_GEMM_BYTES)));

struct F(job) {
  struct futad_contract_plan plan;
  const T *A, *B;
  T *C;
  int64_t units, parts;
};

/* A tile of `height` rows and `vectors` vectors of lanes, over n terms; the last vector starts at `last`.  Rows from
   `rows` on are the last one again, and are not stored. */
static inline __attribute__((always_inline)) void F(outer)(const int height, const int vectors, const int64_t n,
                                                           const T *A, const int64_t *ra, const int64_t *ka, const T *B,
                                                           const int64_t *kb, const int64_t last, T *C,
                                                           const int64_t *rc, const int64_t rows, const bool add) {
  VEC sums[MR][4];
#pragma GCC unroll 8
  for (int i = 0; i < height; i++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sums[i][v] = (VEC){0};
  for (int64_t p = 0; p < n; p++) {
    const T *a = A + ka[p], *b = B + kb[p];
    VEC x[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) x[v] = *(const VEC *)(b + (v == vectors - 1 ? last : v * VL));
#pragma GCC unroll 8
    for (int i = 0; i < height; i++) {
      const T s = a[ra[i]];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) sums[i][v] += s * x[v];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) FUTAD_GEMM_HOLD(x[v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < height; i++) {
    if (i >= rows) break;
    VEC old[4];
    T *at = C + rc[i];
    if (add) {
      /* All are read before any is written: two of them may share columns. */
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) old[v] = *(const VEC *)(at + (v == vectors - 1 ? last : v * VL));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) sums[i][v] += old[v];
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) *(VEC *)(at + (v == vectors - 1 ? last : v * VL)) = sums[i][v];
  }
}

static FUTAD_GEMM_ONCE void F(tile)(int vectors, int64_t n, const T *A, const int64_t *ra, const int64_t *ka,
                                    const T *B, const int64_t *kb, int64_t last, T *C, const int64_t *rc, int64_t rows,
                                    bool add) {
  if (rows > 1 && vectors == 2) {
    if (rows > MR / 2)
      F(outer)(MR, 2, n, A, ra, ka, B, kb, last, C, rc, rows, add);
    else
      F(outer)(MR / 2, 2, n, A, ra, ka, B, kb, last, C, rc, rows, add);
  } else if (rows > 1) {
    F(outer)(MR, 1, n, A, ra, ka, B, kb, last, C, rc, rows, add);
  } else if (vectors == 4) {
    F(outer)(1, 4, n, A, ra, ka, B, kb, last, C, rc, rows, add);
  } else if (vectors == 2) {
    F(outer)(1, 2, n, A, ra, ka, B, kb, last, C, rc, rows, add);
  } else {
    F(outer)(1, 1, n, A, ra, ka, B, kb, last, C, rc, rows, add);
  }
}

/* A tile of neighbouring columns' vectors where a summed axis, the outermost, moves through B as these columns do, and A
   is the same for all: of `groups` such places, each with `inner` terms, a vector is read once for all columns. */
static inline __attribute__((always_inline)) void F(window)(const int vectors, const int64_t groups, const int64_t inner,
                                                            const T *A, const T *B, const int64_t *kb,
                                                            const int64_t step, const int64_t last, T *C,
                                                            const int64_t rc) {
  VEC sums[FUTAD_CONTRACT_WINDOW][2];
#pragma GCC unroll 4
  for (int i = 0; i < FUTAD_CONTRACT_WINDOW; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sums[i][v] = (VEC){0};
#pragma GCC unroll 8
  for (int64_t at = 0; at < groups + FUTAD_CONTRACT_WINDOW - 1; at++)
    for (int64_t p = 0; p < inner; p++) {
      const T *b = B + at * step + kb[p];
      VEC x[2];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) x[v] = *(const VEC *)(b + (v == vectors - 1 ? last : v * VL));
#pragma GCC unroll 4
      for (int i = 0; i < FUTAD_CONTRACT_WINDOW; i++) {
        if ((uint64_t)(at - i) >= (uint64_t)groups) continue;
        const T s = A[(at - i) * inner + p];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sums[i][v] += s * x[v];
      }
    }
#pragma GCC unroll 4
  for (int i = 0; i < FUTAD_CONTRACT_WINDOW; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) *(VEC *)(C + i * rc + (v == vectors - 1 ? last : v * VL)) = sums[i][v];
}

/* All lanes of neighbouring columns, if they are a window's; the terms then have all that is summed. */
static FUTAD_GEMM_ONCE void F(windows)(const struct F(job) *job, int64_t column, const int64_t *ka, const int64_t *kb) {
  struct futad_walk columns = job->plan.columns;
  const struct futad_walk *sums = &job->plan.sums;
  const int axis = columns.axes - 1;
  const int64_t step = sums->step[0][1], lanes = job->plan.lanes;
  const bool back = step != columns.step[axis][1]; /* then the last column comes first, for the order of the terms */
  const int64_t rc = back ? -columns.step[axis][2] : columns.step[axis][2];
  futad_walk_start(&columns, column + (back ? FUTAD_CONTRACT_WINDOW - 1 : 0));
  const T *B = job->B + columns.place[1];
  T *C = job->C + columns.place[2], A[FUTAD_CONTRACT_TERMS];
  for (int64_t p = 0; p < sums->count; p++) A[p] = job->A[columns.place[0] + ka[p]];
  const int64_t groups = sums->size[0], inner = sums->count / groups;
  for (int64_t j = 0, vectors; j < lanes; j += vectors * VL) {
    const int64_t rest = (lanes - j + VL - 1) / VL;
    vectors = rest & 1 ? 1 : 2; /* see below */
    const int64_t last = vectors < rest ? (vectors - 1) * VL : lanes - j - VL;
    if (vectors == 2 && groups == 3) /* whose branches are decided when this is compiled */
      F(window)(2, 3, inner, A, B + j, kb, step, last, C + j, rc);
    else if (vectors == 2)
      F(window)(2, groups, inner, A, B + j, kb, step, last, C + j, rc);
    else
      F(window)(1, groups, inner, A, B + j, kb, step, last, C + j, rc);
  }
}

/* Fewer lanes than a vector has. */
static FUTAD_GEMM_ONCE void F(narrow)(int64_t lanes, int64_t n, const T *A, const int64_t *ra, const int64_t *ka,
                                      const T *B, const int64_t *kb, T *C, const int64_t *rc, int64_t rows, bool add) {
  for (int64_t i = 0; i < rows; i++) {
    T sums[FUTAD_GEMM_BYTES / sizeof(T)] = {0};
    for (int64_t p = 0; p < n; p++) {
      const T s = A[ra[i] + ka[p]], *b = B + kb[p];
      for (int64_t j = 0; j < lanes; j++) sums[j] += s * b[j];
    }
    for (int64_t j = 0; j < lanes; j++) C[rc[i] + j] = add ? C[rc[i] + j] + sums[j] : sums[j];
  }
}

/* Pieces of work from `from` to before `to`, each some rows by some vectors of the lanes. */
static FUTAD_GEMM_ONCE void F(outers)(struct F(job) *job, int64_t from, int64_t to, int64_t n, const int64_t *ka,
                                      const int64_t *kb, bool add) {
  const int64_t lanes = job->plan.lanes, block = FUTAD_CONTRACT_BLOCK * VL, blocks = (lanes + block - 1) / block;
  const int64_t groups = (job->plan.rows.count + FUTAD_CONTRACT_ROWS - 1) / FUTAD_CONTRACT_ROWS;
  struct futad_walk rows = job->plan.rows, columns = job->plan.columns;
  const bool windows = lanes >= VL && futad_contract_window(&job->plan, n);
  for (int64_t unit = from; unit < to; unit++) {
    if (windows && unit % blocks == 0 && unit + FUTAD_CONTRACT_WINDOW * blocks <= to) {
      const int64_t column = unit / blocks, size = columns.size[columns.axes - 1];
      if (column % size + FUTAD_CONTRACT_WINDOW <= size) {
        F(windows)(job, column, ka, kb);
        unit += FUTAD_CONTRACT_WINDOW * blocks - 1;
        continue;
      }
    }
    const int64_t group = unit % groups * FUTAD_CONTRACT_ROWS, start = unit / groups % blocks * block;
    const int64_t left = rows.count - group < FUTAD_CONTRACT_ROWS ? rows.count - group : FUTAD_CONTRACT_ROWS;
    const int64_t width = lanes - start < block ? lanes - start : block;
    futad_walk_start(&columns, unit / groups / blocks);
    futad_walk_start(&rows, group);
    const T *A = job->A + columns.place[0], *B = job->B + columns.place[1] + start;
    T *C = job->C + columns.place[2] + start;
    for (int64_t i = 0; i < left; i += MR) {
      const int64_t high = left - i < MR ? left - i : MR;
      int64_t ra[MR], rc[MR];
      for (int64_t r = 0; r < MR; r++) {
        ra[r] = rows.place[0], rc[r] = rows.place[2];
        if (r < high - 1) futad_walk_next(&rows);
      }
      if (i + MR < left) futad_walk_next(&rows);
      if (width < VL) {
        F(narrow)(width, n, A, ra, ka, B, kb, C, rc, high, add);
        continue;
      }
      for (int64_t j = 0, vectors; j < width; j += vectors * VL) {
        /* Tiles of one vector come first: a last vector that starts earlier is of a tile that has what it repeats. */
        const int64_t rest = (width - j + VL - 1) / VL, most = high > 1 ? 2 : 4;
        vectors = (rest & -rest) < most ? rest & -rest : most;
        const int64_t last = vectors < rest ? (vectors - 1) * VL : width - j - VL;
        F(tile)((int)vectors, n, A, ra, ka, B + j, kb, last, C + j, rc, high, add);
      }
    }
  }
}

/* A run of elements, in moves of a fixed number each, of which the last one starts earlier. */
static inline __attribute__((always_inline)) void F(moved)(T *restrict to, const T *from, int64_t count) {
#define MOVES(k)                                                                        \
  if (count >= k) {                                                                     \
    for (int64_t j = 0; j + k < count; j += k) memcpy(to + j, from + j, k * sizeof(T)); \
    memcpy(to + count - k, from + count - k, k * sizeof(T));                            \
    return;                                                                             \
  }
  MOVES((int64_t)(FUTAD_GEMM_BYTES / sizeof(T)))
#if FUTAD_GEMM_BYTES > 32
  MOVES((int64_t)(32 / sizeof(T)))
#endif
  MOVES((int64_t)(16 / sizeof(T)))
  for (int64_t j = 0; j < count; j++) to[j] = from[j];
#undef MOVES
}

/* Pieces of work, each some columns, whose elements of B are put side by side, by some rows. */
static FUTAD_GEMM_ONCE void F(packed)(struct F(job) *job, int64_t from, int64_t to, int64_t n, const int64_t *ka,
                                      const int64_t *kb, bool add) {
  enum { block = FUTAD_CONTRACT_WIDE * (FUTAD_GEMM_BYTES / sizeof(T)) };
  _Alignas(FUTAD_GEMM_BYTES) T B[FUTAD_CONTRACT_PACKED * block], tile[MR * block];
  int64_t kp[FUTAD_CONTRACT_PACKED], cb[block], cc[block], run[block + 1], row[block + 1];
  struct futad_walk rows = job->plan.rows, columns = job->plan.columns, both = job->plan.both;
  const int64_t blocks = (columns.count + block - 1) / block;
  const int64_t groups = (rows.count + FUTAD_CONTRACT_SHARED - 1) / FUTAD_CONTRACT_SHARED;
  for (int64_t unit = from; unit < to; unit++) {
    const int64_t start = unit % blocks * block, group = unit / blocks % groups * FUTAD_CONTRACT_SHARED;
    const int64_t wide = futad_gemm_least(columns.count - start, block), width = (wide + VL - 1) / VL * VL;
    const int64_t left = futad_gemm_least(rows.count - group, FUTAD_CONTRACT_SHARED);
    futad_walk_start(&both, unit / blocks / groups);
    futad_walk_start(&rows, group);
    futad_walk_start(&columns, start);
    int64_t runs = 0, beside = 0; /* where columns begin whose elements of B are side by side, and those of C */
    for (int64_t j = 0; j < wide; j++, futad_walk_next(&columns)) {
      cb[j] = columns.place[1], cc[j] = columns.place[2];
      if (!j || cb[j] != cb[j - 1] + 1) run[runs++] = j;
      if (!j || cc[j] != cc[j - 1] + 1) row[beside++] = j;
    }
    run[runs] = row[beside] = wide;
    for (int64_t p = 0; p < n; p++) {
      const T *at = job->B + both.place[1] + kb[p];
      kp[p] = p * width;
      if (FUTAD_CONTRACT_RUN * runs > wide)
        for (int64_t j = 0; j < wide; j++) B[p * width + j] = at[cb[j]];
      else
        for (int64_t r = 0; r < runs; r++) F(moved)(B + p * width + run[r], at + cb[run[r]], run[r + 1] - run[r]);
      for (int64_t j = wide; j < width; j++) B[p * width + j] = 0;
    }
    for (int64_t i = 0; i < left; i += MR) {
      const int64_t high = futad_gemm_least(left - i, MR);
      int64_t ra[MR], rc[MR], rt[MR];
      for (int64_t r = 0; r < MR; r++) {
        ra[r] = rows.place[0], rc[r] = rows.place[2], rt[r] = r * width;
        if (r < high - 1) futad_walk_next(&rows);
      }
      if (i + MR < left) futad_walk_next(&rows);
      for (int64_t j = 0, vectors; j < width; j += vectors * VL) {
        vectors = width - j >= 2 * VL ? 2 : 1;
        F(tile)((int)vectors, n, job->A + both.place[0], ra, ka, B + j, kp, (vectors - 1) * VL, tile + j, rt, high, false);
      }
      for (int64_t r = 0; r < high; r++) {
        for (int64_t b = 0; b < beside; b++) {
          T *C = job->C + both.place[2] + rc[r] + cc[row[b]];
          const T *sums = tile + rt[r] + row[b];
          const int64_t length = row[b + 1] - row[b];
          for (int64_t j = 0; j < length; j++) C[j] = add ? C[j] + sums[j] : sums[j];
        }
      }
    }
  }
}

/* What is left of a stretch, in lanes of which the others are zero. */
static FUTAD_GEMM_ONCE void F(some)(const T *from, int64_t rest, T *restrict to) {
  for (int64_t l = 0; l < VL; l++) to[l] = l < rest ? from[l] : (T)0;
}

/* The partial sums of a tile, vector after vector, row after row, added up. */
static FUTAD_GEMM_ONCE void F(folded)(const T *from, int64_t width, T *C, const int64_t *rc, const int64_t *cc,
                                      int64_t rows, int64_t columns, bool add) {
  for (int64_t i = 0; i < rows; i++, from += width * VL)
    for (int64_t j = 0; j < columns; j++) {
      FUTAD_GEMM_PLAIN;
      T sum = 0, *at = C + rc[i] + cc[j];
      for (int64_t l = 0; l < VL; l++) sum += from[j * VL + l];
      *at = add ? *at + sum : sum;
    }
}

/* A tile of dot products: partial sums of n stretches of `lanes` terms each. */
static inline __attribute__((always_inline)) void F(dots)(const int height, const int width, const int64_t lanes,
                                                          const int64_t n, const T *A, const int64_t *ra,
                                                          const int64_t *ka, const T *B, const int64_t *cb,
                                                          const int64_t *kb, T *C, const int64_t *rc, const int64_t *cc,
                                                          const int64_t rows, const int64_t columns, const bool add) {
  VEC sums[4][8];
#pragma GCC unroll 4
  for (int i = 0; i < height; i++)
#pragma GCC unroll 8
    for (int j = 0; j < width; j++) sums[i][j] = (VEC){0};
  const int64_t whole = lanes / VL * VL, rest = lanes - whole;
  for (int64_t p = 0; p < n; p++) {
    const T *a = A + ka[p], *b = B + kb[p];
    for (int64_t t = 0; t < whole; t += VL) {
      VEC x[4];
#pragma GCC unroll 4
      for (int i = 0; i < height; i++) x[i] = *(const VEC *)(a + ra[i] + t);
#pragma GCC unroll 8
      for (int j = 0; j < width; j++) {
        VEC y = *(const VEC *)(b + cb[j] + t);
        FUTAD_CONTRACT_HELD(y);
#pragma GCC unroll 4
        for (int i = 0; i < height; i++) sums[i][j] += x[i] * y;
      }
    }
    if (rest) {
      T left[4][FUTAD_GEMM_BYTES / sizeof(T)], right[FUTAD_GEMM_BYTES / sizeof(T)];
      for (int i = 0; i < height; i++) F(some)(a + ra[i] + whole, rest, left[i]);
#pragma GCC unroll 8
      for (int j = 0; j < width; j++) {
        F(some)(b + cb[j] + whole, rest, right);
#pragma GCC unroll 4
        for (int i = 0; i < height; i++) sums[i][j] += *(const VEC *)left[i] * *(const VEC *)right;
      }
    }
  }
  T parts[4 * 8 * (FUTAD_GEMM_BYTES / sizeof(T))];
#pragma GCC unroll 4
  for (int i = 0; i < height; i++)
#pragma GCC unroll 8
    for (int j = 0; j < width; j++) *(VEC *)(parts + (i * width + j) * VL) = sums[i][j];
  F(folded)(parts, width, C, rc, cc, rows < height ? rows : height, columns, add);
}

#define WIDE 6
static FUTAD_GEMM_ONCE void F(dot_tile)(int64_t lanes, int64_t n, const T *A, const int64_t *ra, const int64_t *ka,
                                        const T *B, const int64_t *cb, const int64_t *kb, T *C, const int64_t *rc,
                                        const int64_t *cc, int64_t rows, int64_t columns, bool add) {
  if (rows > 1)
    F(dots)(4, WIDE, lanes, n, A, ra, ka, B, cb, kb, C, rc, cc, rows, columns, add);
  else
    F(dots)(1, WIDE, lanes, n, A, ra, ka, B, cb, kb, C, rc, cc, rows, columns, add);
}

static FUTAD_GEMM_ONCE void F(dot_tiles)(struct F(job) *job, int64_t from, int64_t to, int64_t n, int64_t start,
                                         int64_t lanes, const int64_t *ka, const int64_t *kb, bool add) {
  struct futad_walk rows = job->plan.rows, columns = job->plan.columns, both = job->plan.both;
  const int64_t groups = (rows.count + 3) / 4, tiles = (columns.count + WIDE - 1) / WIDE;
  for (int64_t unit = from; unit < to; unit++) {
    const int64_t j = unit % tiles * WIDE, i = unit / tiles % groups * 4;
    const int64_t high = rows.count - i < 4 ? rows.count - i : 4;
    const int64_t wide = columns.count - j < WIDE ? columns.count - j : WIDE;
    futad_walk_start(&both, unit / tiles / groups);
    futad_walk_start(&rows, i);
    futad_walk_start(&columns, j);
    int64_t ra[4], rc[4], cb[WIDE], cc[WIDE];
    for (int64_t r = 0; r < 4; r++) {
      ra[r] = rows.place[0], rc[r] = rows.place[2];
      if (r < high - 1) futad_walk_next(&rows);
    }
    for (int64_t r = 0; r < WIDE; r++) {
      cb[r] = columns.place[1], cc[r] = columns.place[2];
      if (r < wide - 1) futad_walk_next(&columns);
    }
    F(dot_tile)(lanes, n, job->A + both.place[0] + start, ra, ka, job->B + both.place[1] + start, cb, kb,
                job->C + both.place[2], rc, cc, high, wide, add);
  }
}

/* Sums one at a time. */
static FUTAD_GEMM_ONCE void F(gathered)(struct F(job) *job, int64_t from, int64_t to, int64_t n, const int64_t *ka,
                                        const int64_t *kb, bool add) {
  struct futad_walk columns = job->plan.columns;
  futad_walk_start(&columns, from);
  for (int64_t unit = from; unit < to; unit++, futad_walk_next(&columns)) {
    const T *A = job->A + columns.place[0], *B = job->B + columns.place[1];
    T sum = 0, *at = job->C + columns.place[2];
    for (int64_t p = 0; p < n; p++) sum += A[ka[p]] * B[kb[p]];
    *at = add ? *at + sum : sum;
  }
}

static void F(part)(void *of, int64_t part) {
  struct F(job) *job = of;
  const int64_t from = job->units * part / job->parts, to = job->units * (part + 1) / job->parts;
  const bool dots = job->plan.kind == 2;
  struct futad_walk sums = job->plan.sums;
  int64_t ka[FUTAD_CONTRACT_TERMS], kb[FUTAD_CONTRACT_TERMS];
  const int64_t stretch = dots && job->plan.lanes < FUTAD_CONTRACT_STRETCH ? job->plan.lanes : FUTAD_CONTRACT_STRETCH;
  int64_t most = dots                ? FUTAD_CONTRACT_STRETCH / stretch
                 : job->plan.kind == 3 ? FUTAD_CONTRACT_PACKED
                                       : FUTAD_CONTRACT_TERMS;
  if (most > FUTAD_CONTRACT_TERMS) most = FUTAD_CONTRACT_TERMS;
  futad_walk_start(&sums, 0);
  for (int64_t k = 0, n; k < sums.count; k += n) {
    n = sums.count - k < most ? sums.count - k : most;
    for (int64_t p = 0; p < n; p++, futad_walk_next(&sums)) ka[p] = sums.place[0], kb[p] = sums.place[1];
    if (dots)
      for (int64_t start = 0; start < job->plan.lanes; start += stretch)
        F(dot_tiles)(job, from, to, n, start, futad_gemm_least(stretch, job->plan.lanes - start), ka, kb, k + start > 0);
    else if (job->plan.kind == 1)
      F(outers)(job, from, to, n, ka, kb, k > 0);
    else if (job->plan.kind == 3)
      F(packed)(job, from, to, n, ka, kb, k > 0);
    else
      F(gathered)(job, from, to, n, ka, kb, k > 0);
  }
}

static FUTAD_GEMM_ONCE void FUTAD_GEMM_NAME(futad_contract_, FUTAD_GEMM_S)(int axes, const int64_t *sizes, int outs,
                                                                        const T *A, const int64_t *a, const T *B,
                                                                        const int64_t *b, T *C, const int64_t *c,
                                                                        bool parallel) {
  struct F(job) job = {.A = A, .B = B, .C = C, .parts = 1};
  double work = 1;
  for (int k = 0; k < outs; k++) {
    if (sizes[k] <= 0) return;
    work *= (double)sizes[k];
  }
  for (int k = outs; k < axes; k++) work *= sizes[k] > 0 ? (double)sizes[k] : 0;
  if (work == 0) {
    struct futad_walk w = {.count = 1};
    for (int k = 0; k < outs; k++) futad_walk_add(&w, sizes[k], 0, 0, c[k]);
    futad_walk_start(&w, 0);
    for (int64_t i = 0; i < w.count; i++, futad_walk_next(&w)) C[w.place[2]] = 0;
    return;
  }
  if (futad_contract_planned(&job.plan, axes, sizes, outs, a, b, c, VL)) job.A = B, job.B = A;
  const struct futad_contract_plan *plan = &job.plan;
  const int64_t block = FUTAD_CONTRACT_BLOCK * VL;
  job.units = plan->columns.count;
  if (plan->kind == 1)
    job.units *= ((plan->rows.count + FUTAD_CONTRACT_ROWS - 1) / FUTAD_CONTRACT_ROWS) *
                 ((plan->lanes + block - 1) / block);
  else if (plan->kind == 3)
    job.units = plan->both.count *
                ((plan->rows.count + FUTAD_CONTRACT_SHARED - 1) / FUTAD_CONTRACT_SHARED) *
                ((plan->columns.count + FUTAD_CONTRACT_WIDE * VL - 1) / (FUTAD_CONTRACT_WIDE * VL));
  else if (plan->kind == 2)
    job.units = plan->both.count * ((plan->rows.count + 3) / 4) * ((plan->columns.count + WIDE - 1) / WIDE);
#ifdef FUTAD_POOL_H
  if (parallel && job.units > 1 && futad_pool_threads() > 1) {
    const double guess = plan->kind ? 1.0 / FUTAD_GEMM_SPEED : 1;
    static struct futad_speed speeds[4][64]; /* of contractions of a kind with about as much work */
    struct futad_speed *const speed = &speeds[plan->kind & 3][futad_gemm_size(work)];
    const int64_t ns = futad_pool_expected(work, guess, speed);
    if (work * guess >= FUTAD_POOL_MEETING && futad_pool_several(ns, speed)) {
      job.parts = futad_gemm_least(job.units, FUTAD_CONTRACT_PARTS * futad_pool_threads());
      futad_pool_run_of(job.parts, ns, futad_pool_measured(speed), F(part), &job);
      return;
    }
    if (work * guess >= FUTAD_POOL_MEETING && futad_pool_watched(speed)) {
      const int64_t began = futad_pool_clock();
      F(part)(&job, 0);
      futad_pool_took(futad_pool_clock() - began, work, true, speed);
      return;
    }
  }
#endif
  (void)parallel;
  F(part)(&job, 0);
}

#undef T
#undef F
#undef VEC
#undef VL
#undef MR
#undef WIDE
