/* Reduce and scan over a warp and over a block, in order, for any associative operator.
 *
 * An operator is a struct with `T`, `T neutral() const` and `T combine(T left, T right) const` (docs/kernels.md).
 */
#ifndef FUTAD_BLOCK_CUH
#define FUTAD_BLOCK_CUH
#include "device.cuh"

/* Shuffles of values of any size, word by word. */
#define FUTAD_SHUFFLE(name, shuffle)                                        \
  template <class T>                                                        \
  FUTAD_DEV T name(unsigned mask, T value, int where) {                     \
    futad_words<T> w;                                                       \
    w.value = value;                                                        \
    _Pragma("unroll") for (int i = 0; i < (int)futad_words<T>::count; i++)  \
        w.words[i] = shuffle(mask, w.words[i], where);                      \
    return w.value;                                                         \
  }
FUTAD_SHUFFLE(futad_shfl, __shfl_sync)
FUTAD_SHUFFLE(futad_shfl_up, __shfl_up_sync)
FUTAD_SHUFFLE(futad_shfl_down, __shfl_down_sync)
FUTAD_SHUFFLE(futad_shfl_xor, __shfl_xor_sync)

FUTAD_INLINE int futad_lane() { return (int)(threadIdx.x & 31); }
FUTAD_INLINE int futad_warp() { return (int)(threadIdx.x >> 5); }

/* x of lane 0 to lane 31 combined in this order; the result is in lane 0. */
template <class Op>
FUTAD_DEV typename Op::T futad_warp_reduce(const Op &op, typename Op::T x) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    typename Op::T right = futad_shfl_down(FUTAD_ALL, x, d);
    if (futad_lane() + d < 32) x = op.combine(x, right);
  }
  return x;
}

/* Inclusive scan over the lanes. */
template <class Op>
FUTAD_DEV typename Op::T futad_warp_scan(const Op &op, typename Op::T x) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    typename Op::T left = futad_shfl_up(FUTAD_ALL, x, d);
    if (futad_lane() >= d) x = op.combine(left, x);
  }
  return x;
}

/* As `futad_warp_reduce`, the result in every lane. */
template <class Op>
FUTAD_DEV typename Op::T futad_warp_reduce_all(const Op &op, typename Op::T x) {
  return futad_shfl(FUTAD_ALL, futad_warp_reduce(op, x), 0);
}

/* As `futad_warp_scan`; `total` is the result of the last lane. */
template <class Op>
FUTAD_DEV typename Op::T futad_warp_scan_all(const Op &op, typename Op::T x, typename Op::T *total) {
  x = futad_warp_scan(op, x);
  *total = futad_shfl(FUTAD_ALL, x, 31);
  return x;
}

/* An operator that `f(left, right)` computes. */
template <class V, class F>
struct futad_operation {
  typedef V T;
  enum { commutative = 0 };
  F f;
  T start;
  FUTAD_DEV T neutral() const { return start; }
  FUTAD_DEV T combine(T x, T y) const { return f(x, y); }
};
template <class V, class F>
FUTAD_DEV futad_operation<V, F> futad_operator(const F &f, V start) {
  return futad_operation<V, F>{f, start};
}

/* The x of a block of any number of whole warps up to MOST threads, combined in the order of the threads; every thread
 * gets the result. */
template <int MOST, class Op>
FUTAD_DEV typename Op::T futad_block_reduce_upto(const Op &op, typename Op::T x) {
  typedef typename Op::T T;
  FUTAD_SHARED(T, sums, MOST / 32);
  x = futad_warp_reduce(op, x);
  __syncthreads(); /* the last call's readers have finished */
  if (futad_lane() == 0) sums[futad_warp()] = x;
  __syncthreads();
  T total = sums[0];
  for (int w = 1; w < (int)blockDim.x / 32; w++) total = op.combine(total, sums[w]);
  return total;
}

/* Inclusive scan over the threads of a block of any number of whole warps up to MOST threads; `total` is the result of
 * the last. */
template <int MOST, class Op>
FUTAD_DEV typename Op::T futad_block_scan_upto(const Op &op, typename Op::T x, typename Op::T *total) {
  typedef typename Op::T T;
  FUTAD_SHARED(T, sums, MOST / 32);
  x = futad_warp_scan(op, x);
  __syncthreads(); /* the last call's readers have finished */
  if (futad_lane() == 31) sums[futad_warp()] = x;
  __syncthreads();
  T before = sums[0], all = sums[0];
  for (int w = 1; w < (int)blockDim.x / 32; w++) {
    if (w == futad_warp()) before = all;
    all = op.combine(all, sums[w]);
  }
  *total = all;
  return futad_warp() ? op.combine(before, x) : x;
}

/* Inclusive scan over the threads of a block.  `before` is the result of the thread before (neutral for the first),
 * `total` that of the last. */
template <int BLOCK, class Op>
FUTAD_DEV typename Op::T futad_block_scan(const Op &op, typename Op::T x, typename Op::T *before,
                                          typename Op::T *total) {
  typedef typename Op::T T;
  FUTAD_SHARED(T, sums, BLOCK / 32);
  x = futad_warp_scan(op, x);
  T left = futad_shfl_up(FUTAD_ALL, x, 1);
  __syncthreads(); /* the last call's readers have finished */
  if (futad_lane() == 31) sums[futad_warp()] = x;
  __syncthreads();
  T warps = op.neutral(), all = sums[0];
  for (int w = 1; w < BLOCK / 32; w++) {
    if (w == futad_warp()) warps = all;
    all = op.combine(all, sums[w]);
  }
  *total = all;
  *before = futad_lane() ? op.combine(warps, left) : warps;
  return op.combine(warps, x);
}

/* Whether this is the block of the grid that gets here last; if so it sees what all others have written.  The counter
 * is zero before, and again when all have come. */
FUTAD_INLINE bool futad_last_block(uint32_t *counter) {
  FUTAD_SHARED(int, last, 1);
  __syncthreads(); /* whoever of the block has written has done so */
  if (threadIdx.x == 0) {
    __threadfence(); /* what was written comes before the count, */
    last[0] = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
    __threadfence(); /* and the count before what is read; the barrier orders the others after this thread */
  }
  __syncthreads();
  return last[0] != 0;
}

#endif
