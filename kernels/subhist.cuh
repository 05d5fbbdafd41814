/* Updates of few places by way of sub-histograms in shared memory: each block adds up its own, and in the end adds that
 * to memory.
 *
 * `op` is an operator as in histogram.cuh, `at(bin)` the address of a bin, and updates are made by calls of a functor
 * `add(bin, value)`, bins within 0 <= bin < bins.
 */
#ifndef FUTAD_SUBHIST_CUH
#define FUTAD_SUBHIST_CUH
#include "histogram.cuh"

/* Updates of those of the bins that are here. */
template <class Op>
struct futad_shared_adder {
  const Op &op;
  typename Op::T *sub;
  int64_t first, count;
  FUTAD_DEV void operator()(int64_t bin, typename Op::T value) const {
    bin -= first;
    if (bin >= 0 && bin < count) futad_atomic_update(op, sub + bin, value);
  }
};

/* `body(block, blocks, add)` with a sub-histogram of CELLS bins, of which another block has others if they are more: of
 * `ceil(bins / CELLS)` consecutive blocks all are the same `block` of `blocks`.  Their number is a multiple of that. */
template <int CELLS, class Op, class At, class Body>
FUTAD_DEV void futad_with_subhist(const Op &op, int64_t bins, const At &at, const Body &body) {
  typedef typename Op::T T;
  FUTAD_SHARED(T, sub, CELLS);
  uint32_t passes = bins > CELLS ? (uint32_t)((bins + CELLS - 1) / CELLS) : 1;
  int64_t first = (int64_t)(blockIdx.x % passes) * CELLS;
  int64_t count = bins - first < CELLS ? bins - first : CELLS;
  for (int64_t k = threadIdx.x; k < count; k += blockDim.x) sub[k] = op.neutral();
  __syncthreads();
  body(blockIdx.x / passes, gridDim.x / passes, futad_shared_adder<Op>{op, sub, first, count});
  __syncthreads();
  for (int64_t k = threadIdx.x; k < count; k += blockDim.x) futad_atomic_update(op, at(first + k), sub[k]);
}

/* `update(i, add)` for each i below n. */
template <int CELLS, class Op, class At, class Update>
FUTAD_DEV void futad_subhist_points(const Op &op, int64_t n, int64_t bins, const At &at, const Update &update) {
  futad_with_subhist<CELLS>(op, bins, at, [&](uint32_t block, uint32_t blocks, const futad_shared_adder<Op> &add) {
    int64_t step = (int64_t)blocks * blockDim.x;
    for (int64_t i = (int64_t)block * blockDim.x + threadIdx.x; i < n; i += step) update(i, add);
  });
}

/* Points that read rows of `columns` elements of type R, `load(i, j)`, and then update `width` places each: as many at a
 * time as have room among ROOM elements in shared memory, at least one and at most one a thread.  `before(i, row)` of
 * each, by one thread, is what `update(i, j, row, before, add)` needs, for j below `width`. */
template <int CELLS, int ROOM, class R, class Before, class Op, class At, class Load, class First, class Update>
FUTAD_DEV void futad_subhist_rows(const Op &op, int64_t n, int64_t columns, int64_t width, int64_t bins, const At &at,
                                  const Load &load, const First &before, const Update &update) {
  FUTAD_SHARED(R, rows, ROOM);
  FUTAD_SHARED(Before, made, 256);
  int d = (int)columns, w = (int)width, t = (int)threadIdx.x, threads = (int)blockDim.x;
  int apart = d | 1; /* neighbouring rows begin in different banks */
  int most = ROOM / apart < threads ? ROOM / apart : threads;
  futad_with_subhist<CELLS>(op, bins, at, [&](uint32_t block, uint32_t blocks, const futad_shared_adder<Op> &add) {
    for (int64_t first = (int64_t)block * most; first < n; first += (int64_t)blocks * most) {
      int count = n - first < most ? (int)(n - first) : most;
      for (int e = t; e < count * d; e += threads) {
        int p = (int)((uint32_t)e / (uint32_t)d), j = e - p * d;
        rows[p * apart + j] = load(first + p, j);
      }
      __syncthreads();
      if (t < count) made[t] = before(first + t, rows + t * apart);
      __syncthreads();
      for (int e = t; e < count * w; e += threads) {
        int p = (int)((uint32_t)e / (uint32_t)w), j = e - p * w;
        update(first + p, j, rows + p * apart, made[p], add);
      }
      __syncthreads();
    }
  });
}

#endif
