/* Sums of products whose places are sums of the iterations: convolutions, correlations, their derivatives.
 *
 *   futad_contract_f64(axes, sizes, outs, A, a, B, b, C, c)
 *   futad_contract_f32(...)
 *
 * There are `axes` axes of these sizes; the first `outs` are those of C, the others are summed over.  Element x of C is
 * the sum of A[sum of a[k] * x[k]] * B[sum of b[k] * x[k]]; c are C's strides, of `outs` axes.  Strides are in elements,
 * of any sign, and several axes may move through the same places (windows).  C overlaps neither A nor B, and no two of
 * its elements are one.
 *
 * Where an axis of C lies side by side in one factor and is none of the other's, it runs in vector lanes: a tile of rows
 * of the other factor and vectors of this axis stays in registers while the sum is made, with the places of its terms in
 * a table, as in Dukhan, "The Indirect Convolution Algorithm" (2019); where the other factor has one row (an image's
 * filter), some neighbouring rows of C, which read the same places, are such a tile.  Where that axis fills no vector (small
 * images of many channels), all axes of C that this factor alone has are packed to one, for some rows at a time.  Where a
 * summed axis lies side by side in both, lanes are partial sums of a tile of dot products.  Else the factors' elements are
 * gathered, one sum at a time.
 */
#ifndef FUTAD_CONTRACT_H
#define FUTAD_CONTRACT_H

#include "gemm.h"

#define FUTAD_CONTRACT_AXES 16
#define FUTAD_CONTRACT_TERMS 512   /* places in a table */
#define FUTAD_CONTRACT_STRETCH 4096 /* elements of a summed axis' lanes that are read for one tile at a time */
#define FUTAD_CONTRACT_BLOCK 24    /* vectors of an axis in a piece of work */
#define FUTAD_CONTRACT_ROWS 32     /* rows in a piece of work */
#define FUTAD_CONTRACT_WINDOW 4    /* columns that read the same places */
#define FUTAD_CONTRACT_PACKED 256  /* terms that are packed at a time, */
#define FUTAD_CONTRACT_WIDE 4      /* of so many vectors of columns, */
#define FUTAD_CONTRACT_SHARED 64   /* for so many rows */
#define FUTAD_CONTRACT_RUN 4       /* elements side by side that are moved at once, if they are as many on average */
#define FUTAD_CONTRACT_PARTS 4     /* pieces a thread, where there are as many */

/* A vector that is in a register from here on: compilers would load it again for each use. */
#if defined(__x86_64__)
#define FUTAD_CONTRACT_HELD(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define FUTAD_CONTRACT_HELD(x) __asm__("" : "+w"(x))
#else
#define FUTAD_CONTRACT_HELD(x) ((void)0)
#endif

/* Some of the axes, the last one innermost, and a place in A, B and C that moves with them. */
struct futad_walk {
  int axes;
  int64_t count;
  int64_t size[FUTAD_CONTRACT_AXES], at[FUTAD_CONTRACT_AXES], step[FUTAD_CONTRACT_AXES][3], place[3];
};

static inline void futad_walk_add(struct futad_walk *w, int64_t size, int64_t a, int64_t b, int64_t c) {
  const int k = w->axes++;
  w->size[k] = size;
  w->step[k][0] = a, w->step[k][1] = b, w->step[k][2] = c;
  w->count *= size;
}

static __attribute__((unused)) void futad_walk_start(struct futad_walk *w, int64_t index) {
  w->place[0] = w->place[1] = w->place[2] = 0;
  for (int k = w->axes - 1; k >= 0; k--) {
    w->at[k] = k ? index % w->size[k] : index;
    index /= w->size[k];
    for (int f = 0; f < 3; f++) w->place[f] += w->at[k] * w->step[k][f];
  }
}

static inline void futad_walk_next(struct futad_walk *w) {
  for (int k = w->axes - 1; k >= 0; k--) {
    const bool last = ++w->at[k] == w->size[k];
    const int64_t by = last ? 1 - w->size[k] : 1;
    for (int f = 0; f < 3; f++) w->place[f] += by * w->step[k][f];
    if (!last) return;
    w->at[k] = 0;
  }
}

/* The axes by what they are of: `lanes` has the one in vector lanes. */
struct futad_contract_plan {
  int kind; /* 0: one sum at a time, 1: an axis of C in lanes, 2: a summed axis, 3: all columns, packed */
  int64_t lanes;
  struct futad_walk rows, columns, sums; /* C's axes in A alone; C's others; those that are summed */
  struct futad_walk both;                /* kinds 2 and 3: C's axes in both factors */
};

/* Whether a summed axis of that size runs in the lanes of vectors of `vector` elements, rather than an axis of C with
 * `lanes`: where it is much longer, as vectors are whole for both; and where that axis fills no vector, but this one does,
 * unless there are so many rows that packing pays, or half of one if there is but one row. */
static inline bool futad_contract_sums(int64_t size, int64_t lanes, int64_t vector, int64_t rows) {
  if (lanes >= vector || size <= lanes) return lanes < size / 8;
  return lanes < size / 8 || (rows < FUTAD_CONTRACT_ROWS && size >= (rows == 1 ? vector / 2 : vector));
}

/* How axes are walked, by factors that may be exchanged: returns whether they are. */
static __attribute__((unused)) bool futad_contract_planned(struct futad_contract_plan *plan, int axes,
                                                           const int64_t *sizes, int outs, const int64_t *a,
                                                           const int64_t *b, const int64_t *c, int64_t vector) {
  int lane = -1;
  bool swap = false;
  plan->kind = 0;
  plan->lanes = 1;
  for (int k = 0; k < outs; k++) {
    const bool first = a[k] == 1 && b[k] == 0, second = b[k] == 1 && a[k] == 0;
    if (c[k] == 1 && sizes[k] > 1 && (first || second)) lane = k, swap = first, plan->kind = 1;
    if (c[k] == 1 && sizes[k] > 1 && lane < 0) swap = b[k] == 0; /* columns lie side by side in C */
  }
  int64_t rows = 1, columns = 1; /* axes of C in the first factor alone, and in the second */
  for (int k = 0; k < outs; k++) {
    if ((swap ? a : b)[k] == 0) rows *= sizes[k];
    else if ((swap ? b : a)[k] == 0) columns *= sizes[k];
  }
  if (lane < 0 && rows > 1 && columns > 1) plan->kind = 3;
  for (int k = outs; k < axes; k++) {
    const int64_t lanes = lane >= 0 ? sizes[lane] : plan->kind == 3 ? 1 : 0;
    if (a[k] == 1 && b[k] == 1 && sizes[k] > 1 &&
        (!lanes || futad_contract_sums(sizes[k], lanes, vector, rows))) {
      lane = k, swap = false, plan->kind = 2;
      break;
    }
  }
  plan->rows = plan->columns = plan->sums = plan->both = (struct futad_walk){.count = 1};
  if (plan->kind == 1 && sizes[lane] < vector && rows > 1) plan->kind = 3;
  if (plan->kind == 3) lane = -1;
  if (lane >= 0) plan->lanes = sizes[lane];
  for (int k = 0; k < axes; k++) {
    const int64_t x = swap ? b[k] : a[k], y = swap ? a[k] : b[k];
    if (k == lane || sizes[k] == 1) continue;
    futad_walk_add(k >= outs                         ? &plan->sums
                   : plan->kind && y == 0            ? &plan->rows
                   : plan->kind >= 2 && x && y       ? &plan->both
                                                     : &plan->columns,
                   sizes[k], x, y, k < outs ? c[k] : 0);
  }
  return swap;
}

/* Whether neighbouring columns read the same places of the second factor, those of the outermost summed axis, and the
 * same elements of the first one; `n`: the terms in a table, which are to be all. */
static __attribute__((unused)) bool futad_contract_window(const struct futad_contract_plan *plan, int64_t n) {
  const struct futad_walk *columns = &plan->columns, *sums = &plan->sums;
  if (plan->rows.count > 1 || !columns->axes || !sums->axes || sums->count != n) return false;
  const int64_t *step = columns->step[columns->axes - 1], by = sums->step[0][1];
  return step[0] == 0 && step[1] != 0 && (by == step[1] || by == -step[1]);
}

#define FUTAD_GEMM_T double
#define FUTAD_GEMM_S f64
#define FUTAD_CONTRACT_I int64_t
#include "contract_body.h"
#undef FUTAD_GEMM_T
#undef FUTAD_GEMM_S
#undef FUTAD_CONTRACT_I
#define FUTAD_GEMM_T float
#define FUTAD_GEMM_S f32
#define FUTAD_CONTRACT_I int32_t
#include "contract_body.h"
#undef FUTAD_GEMM_T
#undef FUTAD_GEMM_S
#undef FUTAD_CONTRACT_I

#define FUTAD_OPEN_DONE(call) ((call), 0)
#define FUTAD_OPEN_STOPS ((void)0)
#endif
