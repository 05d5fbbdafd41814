/* An inclusive scan by the whole grid, for any associative operator.
 *
 * `in.load(i)`, `out.store(i, value)`; out may write where in reads.  Every element is read
 * and written once: a block publishes the sum of its tile, then looks back over the tiles before until it meets one whose
 * prefix is known (Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016).
 */
#ifndef FUTAD_SCAN_CUH
#define FUTAD_SCAN_CUH
#include "block.cuh"

/* One tile of BLOCK * ITEMS elements, ITEMS consecutive ones a thread; memory is read and written in the order of the
 * threads, by way of shared memory. */
template <int BLOCK, int ITEMS, class Op>
struct futad_tile {
  typedef typename Op::T T;
  T items[ITEMS]; /* each thread's, scanned */
  T before;       /* what the threads before it sum up to */
  T total;        /* of the tile */

  static FUTAD_DEV T *buffer() {
    FUTAD_SHARED(T, memory, BLOCK * ITEMS);
    return memory;
  }

  template <class In>
  FUTAD_DEV void load(const Op &op, const In &in, int64_t begin, int64_t end) {
    T *memory = buffer(); /* each thread has written out what it now overwrites */
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      int at = k * BLOCK + (int)threadIdx.x;
      if (begin + at < end) {
        memory[at] = in.load(begin + at);
      } else {
        memory[at] = op.neutral();
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      T x = memory[(int)threadIdx.x * ITEMS + k];
      items[k] = k ? op.combine(items[k ? k - 1 : 0], x) : x;
    }
    futad_block_scan<BLOCK>(op, items[ITEMS - 1], &before, &total);
  }

  /* Writes the scan, everything before the tile summing up to `prefix`. */
  template <class Out>
  FUTAD_DEV void store(const Op &op, const Out &out, int64_t begin, int64_t end, T prefix) {
    T *memory = buffer();
    T left = op.combine(prefix, before);
    /* The barriers of the block's scan are behind us: nobody reads the elements any more. */
#pragma unroll
    for (int k = 0; k < ITEMS; k++) memory[(int)threadIdx.x * ITEMS + k] = op.combine(left, items[k]);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      int at = k * BLOCK + (int)threadIdx.x;
      if (begin + at < end) out.store(begin + at, memory[at]);
    }
  }
};

/* The state in memory: the next tile, how many blocks have finished, the number of this launch; then for each tile a
 * flag, its sum and its prefix.  A flag is 4 * launch + 1 when the sum is there, + 2 when the prefix is; flags of
 * earlier launches count for nothing, so nothing needs clearing.  A tile's flag has the same place whatever the number
 * of tiles, so nothing else is ever taken for one. */
template <class T>
struct futad_scan_tile {
  uint32_t *flag;
  enum { words = futad_words<T>::count };
  FUTAD_DEV futad_scan_tile(uint32_t *state, int64_t tile) : flag(state + 3 + tile * (1 + 2 * words)) {}
  FUTAD_DEV uint32_t *sum() const { return flag + 1; }
  FUTAD_DEV uint32_t *prefix() const { return flag + 1 + words; }
};

/* What the tiles before `tile` sum up to, found by one warp; in every lane. */
template <class Op>
FUTAD_DEV typename Op::T futad_look_back(const Op &op, uint32_t *state, int64_t tile, uint32_t launch) {
  typedef typename Op::T T;
  T found = op.neutral();
  for (int64_t base = tile - 32;; base -= 32) {
    int64_t at = base + futad_lane();
    futad_scan_tile<T> other(state, at < 0 ? 0 : at);
    uint32_t status, known, need;
    for (;;) {
      uint32_t flag = at < 0 ? 4 * launch + 2 : futad_load_acquire(other.flag);
      status = flag >> 2 == launch ? flag & 3 : 0;
      known = __ballot_sync(FUTAD_ALL, status == 2);
      need = known ? FUTAD_ALL << (31 - __clz((int)known)) : FUTAD_ALL;
      if (!(__ballot_sync(FUTAD_ALL, status == 0) & need)) break;
      FUTAD_SPIN();
    }
    T x = op.neutral();
    if (at >= 0 && need >> futad_lane() & 1) {
      x = futad_load_words<T>(status == 2 ? other.prefix() : other.sum());
    }
    x = futad_shfl(FUTAD_ALL, futad_warp_reduce(op, x), 0);
    found = op.combine(x, found);
    if (known) return found;
  }
}

/* The whole grid over `total` elements; the state is zero before its first launch. */
template <int BLOCK, int ITEMS, class Op, class In, class Out>
FUTAD_DEV void futad_scan_flat(const Op &op, const In &in, const Out &out, int64_t total, uint32_t *state) {
  typedef typename Op::T T;
  FUTAD_SHARED(int64_t, next, 1);
  FUTAD_SHARED(T, shared_prefix, 1);
  int64_t tiles = (total + BLOCK * ITEMS - 1) / (BLOCK * ITEMS);
  futad_tile<BLOCK, ITEMS, Op> tile;
  if (tiles <= 1) {
    /* No state is needed. */
    if (blockIdx.x == 0 && tiles == 1) {
      tile.load(op, in, 0, total);
      tile.store(op, out, 0, total, op.neutral());
    }
    return;
  }
  uint32_t launch = state[2];
  for (;;) {
    /* Tiles are taken in order, so that whoever is waited for has been taken by a running block. */
    if (threadIdx.x == 0) next[0] = atomicAdd(state, 1u);
    __syncthreads();
    int64_t t = next[0], begin = t * BLOCK * ITEMS;
    if (t >= tiles) break;
    tile.load(op, in, begin, total);
    if (futad_warp() == 0) {
      futad_scan_tile<T> own(state, t);
      if (t > 0 && futad_lane() == 0) {
        futad_store_words(own.sum(), tile.total);
        futad_store_release(own.flag, 4 * launch + 1);
      }
      T prefix = t > 0 ? futad_look_back(op, state, t, launch) : op.neutral();
      if (futad_lane() == 0) {
        futad_store_words(own.prefix(), op.combine(prefix, tile.total));
        futad_store_release(own.flag, 4 * launch + 2);
        shared_prefix[0] = prefix;
      }
    }
    __syncthreads();
    tile.store(op, out, begin, total, shared_prefix[0]);
  }
  if (threadIdx.x == 0) {
    __threadfence(); /* the state was read and counted up before it is said so */
    if (atomicInc(state + 1, gridDim.x - 1) == gridDim.x - 1) {
      __threadfence();
      state[0] = 0;
      state[2] = (launch + 1) & 0x3fffffffu;
    }
  }
}

/* What is scanned and where it goes, computed: `f(i)`, `f(i, value)`. */
template <class F>
struct futad_from {
  F f;
  FUTAD_DEV auto load(int64_t i) const { return f(i); }
};
template <class F>
struct futad_into {
  F f;
  template <class T>
  FUTAD_DEV void store(int64_t i, T x) const {
    f(i, x);
  }
};
template <int ITEMS, class Op, class F, class G>
FUTAD_DEV void futad_scan_by(const Op &op, const F &element, const G &put, int64_t total, uint32_t *state) {
  futad_scan_flat<256, ITEMS>(op, futad_from<F>{element}, futad_into<G>{put}, total, state);
}

#endif
