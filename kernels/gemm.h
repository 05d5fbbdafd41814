/* Matrix product with packing and register tiles: C (op)= A B for any row and column strides.
 *
 *   futad_gemm_f64(m, n, k, A, rsA, csA, B, rsB, csB, C, rsC, csC, accumulate)
 *   futad_gemm_f32(...)
 *
 * A is m x k, B k x n, C m x n; element (i, j) of A is A[i * rsA + j * csA], strides in elements (0 and negative
 * ones too; rows of C must not overlap).  accumulate: 0 writes C, 1 adds to it.  Returns 0, or 1 if the packing
 * buffers could not be allocated (C is then unchanged).
 *
 * The blocking is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): a
 * KC x NC panel of B and an MC x KC block of A are copied into contiguous slivers of NR columns and MR rows;
 * the kernel keeps an MR x NR tile of C in vector registers (plain local arrays would be spilled, hence the
 * compiler's vector extension).  Sums over k are taken in blocks of KC, each from left to right.
 */
#ifndef FUTAD_GEMM_H
#define FUTAD_GEMM_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__AVX512F__)
#define FUTAD_GEMM_BYTES 64
#define FUTAD_GEMM_MR 8
#elif defined(__AVX__)
#define FUTAD_GEMM_BYTES 32
#define FUTAD_GEMM_MR 4
#else
#define FUTAD_GEMM_BYTES 16
#define FUTAD_GEMM_MR 4
#endif
#define FUTAD_GEMM_NV 3 /* vectors a row of the tile */
#define FUTAD_GEMM_KC 256
#define FUTAD_GEMM_MC 96
#define FUTAD_GEMM_NC 768

/* One packing buffer a thread, grown on demand and kept for the thread's life. */
static __thread void *futad_gemm_space;
static __thread size_t futad_gemm_space_bytes;

static void *futad_gemm_reserve(size_t bytes) {
  if (futad_gemm_space_bytes < bytes) {
    free(futad_gemm_space);
    futad_gemm_space = aligned_alloc(64, (bytes + 63) / 64 * 64);
    futad_gemm_space_bytes = futad_gemm_space ? bytes : 0;
  }
  return futad_gemm_space;
}

#define FUTAD_GEMM_PASTE(a, b) a##b
#define FUTAD_GEMM_NAME(a, b) FUTAD_GEMM_PASTE(a, b)

#define FUTAD_GEMM_T double
#define FUTAD_GEMM_S f64
#include "gemm_body.h"
#undef FUTAD_GEMM_T
#undef FUTAD_GEMM_S
#define FUTAD_GEMM_T float
#define FUTAD_GEMM_S f32
#include "gemm_body.h"
#undef FUTAD_GEMM_T
#undef FUTAD_GEMM_S
#endif
