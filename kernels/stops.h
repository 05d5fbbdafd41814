/* Code that ends early when it is told to (`Target.stops`), and is compiled sooner than it runs: each loop asks in each
 * iteration, and matrix products and contractions are plain loops, which ask, too.
 *
 *   futad_stop(stop)        from another thread: calls end with FUTAD_STOPPED, from now on or no longer
 *   FUTAD_STOPS(label);     goes to the label if so
 */
#ifndef FUTAD_STOPS_H
#define FUTAD_STOPS_H

#include "prelude.h"

#define FUTAD_STOPPED 6 /* a code of `ctx->error` */

static bool futad_stopping;

void futad_stop(int32_t stop) { __atomic_store_n(&futad_stopping, stop != 0, __ATOMIC_RELAXED); }

#define FUTAD_TO_STOP() FUTAD_UNLIKELY(__atomic_load_n(&futad_stopping, __ATOMIC_RELAXED))
#define FUTAD_STOPS(label)               \
  do {                                   \
    if (FUTAD_TO_STOP()) {               \
      ctx->error.code = FUTAD_STOPPED;   \
      goto label;                        \
    }                                    \
  } while (0)

/* As in gemm.h; 1 if it was to stop.  `packed` is NULL.  A row of the result is added to in vectors, which the compiler
 * need not find. */
#define FUTAD_GEMM_H
#define FUTAD_PLAIN_GEMM(T, t)                                                                                     \
  typedef t futad_vector_##T __attribute__((vector_size(32), aligned(sizeof(t)), may_alias));                      \
  static __attribute__((noinline, unused)) int futad_gemm_##T(                                                     \
      int64_t m, int64_t n, int64_t k, const t *a, int64_t a_row, int64_t a_column, const t *b, int64_t b_row,      \
      int64_t b_column, const t *packed, t *c, int64_t c_row, int64_t c_column, int accumulate) {                  \
    const int64_t lanes = 32 / sizeof(t), whole = b_column == 1 && c_column == 1 ? n / lanes * lanes : 0;          \
    (void)packed;                                                                                                  \
    for (int64_t i = 0; i < m; i++) {                                                                              \
      t *to = c + i * c_row;                                                                                       \
      if (!accumulate)                                                                                             \
        for (int64_t j = 0; j < n; j++) to[j * c_column] = 0;                                                      \
      for (int64_t p = 0; p < k; p++) {                                                                            \
        const t x = a[i * a_row + p * a_column], *y = b + p * b_row;                                               \
        if (FUTAD_TO_STOP()) return 1;                                                                             \
        for (int64_t j = 0; j < whole; j += lanes)                                                                 \
          *(futad_vector_##T *)(to + j) += x * *(const futad_vector_##T *)(y + j);                                 \
        for (int64_t j = whole; j < n; j++) to[j * c_column] += x * y[j * b_column];                               \
      }                                                                                                            \
    }                                                                                                              \
    return 0;                                                                                                      \
  }
FUTAD_PLAIN_GEMM(f32, float)
FUTAD_PLAIN_GEMM(f64, double)

/* As in contract.h; 1 if it was to stop.  One sum after the other, the last axis innermost. */
#define FUTAD_CONTRACT_H
#define FUTAD_UNLESS_STOPPED(call, label) \
  do {                                    \
    if (call) {                           \
      ctx->error.code = FUTAD_STOPPED;    \
      goto label;                         \
    }                                     \
  } while (0)
#define FUTAD_PLAIN_CONTRACT(T, t)                                                                                    \
  FUTAD_INLINE int futad_contract_##T(int axes, const int64_t *sizes, int outs, const t *A, const int64_t *a,         \
                                      const t *B, const int64_t *b, t *C, const int64_t *c, bool parallel) {          \
    int64_t at[16] = {0}, x = 0, y = 0, z = 0;                                                                        \
    const int last = axes - 1;                                                                                        \
    const bool sums = axes > outs;                                                                                    \
    const int64_t n = sums ? sizes[last] : 1, by_a = sums ? a[last] : 0, by_b = sums ? b[last] : 0;                   \
    bool terms = true;                                                                                                \
    (void)parallel;                                                                                                   \
    for (int k = 0; k < axes; k++) {                                                                                  \
      if (sizes[k] <= 0 && k < outs) return 0;                                                                        \
      if (sizes[k] <= 0) terms = false;                                                                               \
    }                                                                                                                 \
    for (;;) {                                                                                                        \
      t sum = 0;                                                                                                      \
      while (terms) {                                                                                                 \
        if (FUTAD_TO_STOP()) return 1;                                                                                \
        int k = last - 1;                                                                                             \
        for (int64_t j = 0; j < n; j++) sum += A[x + j * by_a] * B[y + j * by_b];                                     \
        for (; k >= outs; k--) {                                                                                      \
          x += a[k], y += b[k];                                                                                       \
          if (++at[k] < sizes[k]) break;                                                                              \
          x -= at[k] * a[k], y -= at[k] * b[k], at[k] = 0;                                                            \
        }                                                                                                             \
        if (k < outs) break;                                                                                          \
      }                                                                                                               \
      C[z] = sum;                                                                                                     \
      int k = outs - 1;                                                                                               \
      for (; k >= 0; k--) {                                                                                           \
        x += a[k], y += b[k], z += c[k];                                                                              \
        if (++at[k] < sizes[k]) break;                                                                                \
        x -= at[k] * a[k], y -= at[k] * b[k], z -= at[k] * c[k], at[k] = 0;                                           \
      }                                                                                                               \
      if (k < 0) return 0;                                                                                            \
    }                                                                                                                 \
  }
FUTAD_PLAIN_CONTRACT(f32, float)
FUTAD_PLAIN_CONTRACT(f64, double)
#define FUTAD_OPEN_DONE(call) (call)
#define FUTAD_OPEN_STOPS \
  if (FUTAD_TO_STOP()) return 1
#endif
