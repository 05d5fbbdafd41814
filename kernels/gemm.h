/* Matrix product with packing and register tiles: C (op)= A B for any row and column strides.
 *
 *   futad_gemm_f64(m, n, k, A, rsA, csA, B, rsB, csB, packed, C, rsC, csC, accumulate)
 *   futad_gemm_f32(...)
 *
 * A is m x k, B k x n, C m x n; element (i, j) of A is A[i * rsA + j * csA], strides in elements (0 and negative
 * ones too; rows of C must not overlap).  accumulate: 0 writes C, 1 adds to it.  Returns 0, or 1 if the packing
 * buffers could not be allocated (C is then unchanged).
 *
 *   futad_gemm_pack_f64(k, n, B, rsB, csB, packed, start, end)
 *
 * copies the right factor of several products once, or a part of it (0 to n: all); `packed` has room for k (n + 16)
 * elements.  It is NULL for a product that copies what it needs itself.
 *
 * The blocking is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): a
 * KC x NC panel of B and an MC x KC block of A are copied into contiguous slivers of NR columns and MR rows;
 * the kernel keeps an MR x NR tile of C in vector registers (plain local arrays would be spilled, hence the
 * compiler's vector extension).  Sums over k are taken in blocks of KC at most, all of about the
 * same length, each from left to right.
 *
 * Where all of A's rows are one block, panels of B are NARROW slivers wide: each is copied once all the same, and a
 * thread's buffer is that much smaller.
 *
 * What is read only a few times is not copied: A if B has few columns, or if A has few rows, which are contiguous, and
 * sums are long for the type; B if A has few rows and B's rows are contiguous.  Where columns are no multiple of a
 * vector's lanes, the last vector of a tile starts earlier and does some columns twice, so that no lane is without a
 * column (if there are fewer columns than lanes, B is copied and padded with zeros).
 */
#ifndef FUTAD_GEMM_H
#define FUTAD_GEMM_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interrupts.h"

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
#define FUTAD_GEMM_KC 256 /* for f32 a quarter more: a sum of 300 is then one block */
#define FUTAD_GEMM_MC 96
#define FUTAD_GEMM_NC 768
#define FUTAD_GEMM_NEAR (96 * 256 * 8) /* bytes of the largest block of A above; an A of so few is packed as one */
#define FUTAD_GEMM_NARROW 4            /* slivers of a panel of B beside it */
#define FUTAD_GEMM_FEW 128 /* rows that stay in a near cache as they lie */
#define FUTAD_GEMM_TINY 512 /* multiplications of a product that is not worth a tile */
#define FUTAD_GEMM_SPEED 25 /* multiplications a nanosecond, to tell how long a product takes about */

/* The number of bits of a positive number of multiplications, 63 at most. */
static inline __attribute__((unused)) int futad_gemm_size(double work) {
  return work < 9e18 ? 63 - __builtin_clzll((uint64_t)work | 1) : 63;
}

/* One packing buffer a thread, grown on demand and kept for the thread's life. */
static __thread void *futad_gemm_space;
static __thread size_t futad_gemm_space_bytes;

static void *futad_gemm_reserve(size_t bytes) {
  void *const held = futad_hold();
  if (futad_gemm_space_bytes < bytes) {
    free(futad_gemm_space);
    futad_gemm_space = aligned_alloc(64, (bytes + 63) / 64 * 64);
    futad_gemm_space_bytes = futad_gemm_space ? bytes : 0;
#ifdef FUTAD_TELLS
    futad_packed = (int64_t)futad_gemm_space_bytes;
#endif
  }
  futad_go_on(held);
  return futad_gemm_space;
}

static inline int64_t futad_gemm_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The vectors of the next sliver where `rest` columns are left.  The last sliver but one is narrower if there would
   be less than a vector for the last one: its vector that starts earlier stays within it. */
static inline int64_t futad_gemm_vectors(int64_t rest, int64_t lanes) {
  const int64_t whole = FUTAD_GEMM_NV * lanes;
  if (rest > whole && rest < whole + lanes) return FUTAD_GEMM_NV - 1;
  return rest >= whole ? FUTAD_GEMM_NV : (rest + lanes - 1) / lanes;
}

#if defined(__clang__) || __GNUC__ >= 12
#define FUTAD_GEMM_SHUFFLE 1
#else
#define FUTAD_GEMM_SHUFFLE 0
#endif

/* In the body of a loop that is to stay as short as it is: unrolled, such loops are slow to compile. */
#define FUTAD_GEMM_PLAIN __asm__ volatile("")

/* A vector that several rows of a tile use stays in its register.  Otherwise, of 16 registers, GCC loads it again for
 * each row, which takes more time than the multiplications, and clang orders the uses so that sums are spilled. */
#if defined(__x86_64__)
#define FUTAD_GEMM_HOLD(x) __asm__("" : "+v"(x))
#else
#define FUTAD_GEMM_HOLD(x) ((void)0)
#endif

#define FUTAD_GEMM_PASTE(a, b) a##b
#define FUTAD_GEMM_NAME(a, b) FUTAD_GEMM_PASTE(a, b)
#if defined(__clang__)
#define FUTAD_GEMM_ONCE __attribute__((noinline, unused))
#else
#define FUTAD_GEMM_ONCE __attribute__((noinline, noclone, unused))
#endif

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
