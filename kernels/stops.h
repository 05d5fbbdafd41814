/* Code that ends early when it is told to (`Target.stops`), and is compiled sooner than it runs: each loop asks in each
 * iteration, and matrix products and contractions are a few loops, which ask, too.
 *
 *   futad_stop(stop)        from another thread: calls end with FUTAD_STOPPED, from now on or no longer
 *   FUTAD_STOPS(label);     goes to the label if so
 */
#ifndef FUTAD_STOPS_H
#define FUTAD_STOPS_H

#include "prelude.h"
#include "interrupts.h"

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

/* As in gemm.h; 1 if it was to stop.  `packed` is NULL.  Four rows of two vectors stay in registers, which the compiler
 * need not find, for a block of the inner axis; of the second matrix the block is packed. */
#ifdef __AVX512F__
#define FUTAD_PLAIN_BYTES 64
#elif defined(__AVX__)
#define FUTAD_PLAIN_BYTES 32
#else
#define FUTAD_PLAIN_BYTES 16
#endif
#define FUTAD_PLAIN_DEPTH 128
#define FUTAD_GEMM_H
#define FUTAD_PLAIN_GEMM(T, t)                                                                                     \
  typedef t futad_vector_##T __attribute__((vector_size(FUTAD_PLAIN_BYTES), may_alias));                           \
  static __attribute__((noinline, unused)) int futad_gemm_##T(                                                     \
      int64_t m, int64_t n, int64_t k, const t *a, int64_t a_row, int64_t a_column, const t *b, int64_t b_row,      \
      int64_t b_column, const t *packed, t *c, int64_t c_row, int64_t c_column, int accumulate) {                  \
    enum { lanes = FUTAD_PLAIN_BYTES / sizeof(t), wide = 2 * lanes };                                              \
    futad_vector_##T block[FUTAD_PLAIN_DEPTH][2];                                                                  \
    (void)packed;                                                                                                  \
    if (n < wide && n < m)                                                                                         \
      return futad_gemm_##T(n, m, k, b, b_column, b_row, a, a_column, a_row, NULL, c, c_column, c_row, accumulate); \
    if (k <= 0 && !accumulate)                                                                                     \
      for (int64_t i = 0; i < m; i++)                                                                              \
        for (int64_t j = 0; j < n; j++) c[i * c_row + j * c_column] = 0;                                           \
    for (int64_t j0 = 0; j0 < n; j0 += wide)                                                                       \
      for (int64_t p0 = 0; p0 < k; p0 += FUTAD_PLAIN_DEPTH) {                                                      \
        const int64_t w = n - j0 < wide ? n - j0 : wide;                                                           \
        const int64_t d = k - p0 < FUTAD_PLAIN_DEPTH ? k - p0 : FUTAD_PLAIN_DEPTH;                                 \
        for (int64_t p = 0; p < d; p++) {                                                                          \
          t *to = (t *)block[p];                                                                                   \
          const t *from = b + (p0 + p) * b_row + j0 * b_column;                                                    \
          for (int64_t j = 0; j < wide; j++) to[j] = j < w ? from[j * b_column] : 0;                               \
        }                                                                                                          \
        for (int64_t i0 = 0; i0 < m; i0 += 4) {                                                                    \
          const int64_t rows = m - i0 < 4 ? m - i0 : 4;                                                            \
          const t *x0 = a + i0 * a_row + p0 * a_column, *x1 = rows > 1 ? x0 + a_row : x0;                          \
          const t *x2 = rows > 2 ? x1 + a_row : x0, *x3 = rows > 3 ? x2 + a_row : x0;                              \
          futad_vector_##T s00 = {0}, s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00; \
          if (FUTAD_TO_STOP()) return 1;                                                                           \
          for (int64_t p = 0; p < d; p++) {                                                                        \
            const futad_vector_##T y0 = block[p][0], y1 = block[p][1];                                             \
            s00 += *x0 * y0, s01 += *x0 * y1, s10 += *x1 * y0, s11 += *x1 * y1;                                    \
            s20 += *x2 * y0, s21 += *x2 * y1, s30 += *x3 * y0, s31 += *x3 * y1;                                    \
            x0 += a_column, x1 += a_column, x2 += a_column, x3 += a_column;                                        \
          }                                                                                                        \
          const futad_vector_##T sums[4][2] = {{s00, s01}, {s10, s11}, {s20, s21}, {s30, s31}};                    \
          for (int64_t i = 0; i < rows; i++)                                                                       \
            for (int64_t j = 0; j < w; j++) {                                                                      \
              t *to = c + (i0 + i) * c_row + (j0 + j) * c_column;                                                  \
              *to = (accumulate || p0 ? *to : 0) + ((const t *)sums[i])[j];                                        \
            }                                                                                                      \
        }                                                                                                          \
      }                                                                                                            \
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
