/* Segmented reduction: `segments` segments of `n` elements each, by threads, warps, blocks or the grid.
 *
 * `in.load(segment, i)`, `out.store(segment, value)`.  Operators need not commute; where `Op::commutative` is not 0,
 * neighbouring threads read neighbouring elements in strides, else each warp takes stretches in order.
 */
#ifndef FUTAD_REDUCE_CUH
#define FUTAD_REDUCE_CUH
#include "block.cuh"

/* A thread a segment. */
template <class Op, class In, class Out>
FUTAD_DEV void futad_reduce_thread(const Op &op, const In &in, const Out &out, int64_t segments, int64_t n) {
  int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t s = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; s < segments; s += step) {
    typename Op::T x = op.neutral();
    for (int64_t i = 0; i < n; i++) x = op.combine(x, in.load(s, i));
    out.store(s, x);
  }
}

/* Elements begin <= i < end of a segment by the lanes of one warp; the result is in lane 0. */
template <class Op, class In>
FUTAD_DEV typename Op::T futad_reduce_range_by_warp(const Op &op, const In &in, int64_t segment, int64_t begin,
                                                    int64_t end) {
  typedef typename Op::T T;
  T x = op.neutral();
  if (Op::commutative) {
    for (int64_t i = begin + futad_lane(); i < end; i += 32) x = op.combine(x, in.load(segment, i));
    return futad_warp_reduce(op, x);
  }
  /* Each lane takes as many consecutive elements as fill a 32-byte sector. */
  const int each = sizeof(T) >= 32 ? 1 : 32 / (int)sizeof(T);
  for (int64_t base = begin; base < end; base += 32 * each) {
    int64_t first = base + futad_lane() * each;
    T y = op.neutral();
#pragma unroll
    for (int k = 0; k < each; k++) {
      if (first + k < end) y = op.combine(y, in.load(segment, first + k));
    }
    y = futad_warp_reduce(op, y);
    x = op.combine(x, y); /* of use in lane 0 only */
  }
  return x;
}

/* A warp a segment. */
template <int BLOCK, class Op, class In, class Out>
FUTAD_DEV void futad_reduce_warp(const Op &op, const In &in, const Out &out, int64_t segments, int64_t n) {
  int64_t step = (int64_t)gridDim.x * (BLOCK / 32);
  for (int64_t s = (int64_t)blockIdx.x * (BLOCK / 32) + futad_warp(); s < segments; s += step) {
    typename Op::T x = futad_reduce_range_by_warp(op, in, s, 0, n);
    if (futad_lane() == 0) out.store(s, x);
  }
}

/* Elements begin <= i < end of a segment by the block; every thread gets the result. */
template <int BLOCK, class Op, class In>
FUTAD_DEV typename Op::T futad_reduce_range(const Op &op, const In &in, int64_t segment, int64_t begin, int64_t end) {
  typedef typename Op::T T;
  T x = op.neutral();
  if (Op::commutative) {
#pragma unroll 4
    for (int64_t i = begin + threadIdx.x; i < end; i += BLOCK) x = op.combine(x, in.load(segment, i));
    return futad_block_reduce<BLOCK>(op, x);
  }
  const int warps = BLOCK / 32;
  int64_t share = (end - begin + warps - 1) / warps, first = begin + share * futad_warp();
  x = futad_reduce_range_by_warp(op, in, segment, first, first + share < end ? first + share : end);
  /* Only lane 0 holds the warp's result. */
  return futad_block_reduce<BLOCK>(op, futad_lane() == 0 ? x : op.neutral());
}

/* A block a segment. */
template <int BLOCK, class Op, class In, class Out>
FUTAD_DEV void futad_reduce_block(const Op &op, const In &in, const Out &out, int64_t segments, int64_t n) {
  for (int64_t s = blockIdx.x; s < segments; s += gridDim.x) {
    typename Op::T x = futad_reduce_range<BLOCK>(op, in, s, 0, n);
    if (threadIdx.x == 0) out.store(s, x);
  }
}

/* Values written by other blocks, as words. */
template <class T>
struct futad_parts {
  const uint32_t *words;
  FUTAD_DEV T load(int64_t segment, int64_t i) const { return futad_load_words<T>(words + i * futad_words<T>::count); }
};

/* `parts` blocks a segment: each reduces a stretch, and the last of a segment to finish reduces the parts.  The
 * counters are zero before and after. */
template <int BLOCK, class Op, class In, class Out>
FUTAD_DEV void futad_reduce_grid(const Op &op, const In &in, const Out &out, int64_t segments, int64_t n, int64_t parts,
                                 uint32_t *partials, uint32_t *counters) {
  typedef typename Op::T T;
  const int64_t words = futad_words<T>::count;
  FUTAD_SHARED(int, last, 1);
  int64_t segment = blockIdx.x / parts, part = blockIdx.x % parts;
  int64_t share = (n + parts - 1) / parts, first = share * part;
  int64_t end = first + share < n ? first + share : n;
  T x = futad_reduce_range<BLOCK>(op, in, segment, first, end);
  if (threadIdx.x == 0) {
    futad_store_words(partials + blockIdx.x * words, x);
    __threadfence();
    last[0] = atomicInc(&counters[segment], (uint32_t)parts - 1) == (uint32_t)parts - 1;
  }
  __syncthreads();
  if (last[0]) {
    __threadfence();
    futad_parts<T> all = {partials + segment * parts * words};
    x = futad_reduce_range<BLOCK>(op, all, 0, 0, parts);
    if (threadIdx.x == 0) out.store(segment, x);
  }
}

#endif
