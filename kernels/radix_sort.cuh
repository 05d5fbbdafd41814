/* Stable sort of integer keys with their payload (indices, as a rule), 8 bits a pass from the lowest.
 *
 * A pass is three kernels: `count` the digits of each tile, `scan` the counts (by digits, then by tiles), `scatter`
 * the elements.  Keys are int32_t, int64_t, uint32_t or uint64_t.
 */
#ifndef FUTAD_RADIX_SORT_CUH
#define FUTAD_RADIX_SORT_CUH
#include "scan.cuh"

enum { FUTAD_RADIX_BITS = 8, FUTAD_RADIX_DIGITS = 256 };

/* Signed keys with the sign turned sort as unsigned ones. */
template <class K>
FUTAD_DEV int futad_radix_digit(K key, int shift) {
  uint64_t bits = (uint64_t)key;
  if ((K)-1 < (K)0) bits ^= 1ull << (8 * sizeof(K) - 1);
  return (int)(bits >> shift & (FUTAD_RADIX_DIGITS - 1));
}

/* counts[digit * tiles + tile], a tile being BLOCK * ITEMS keys; any grid. */
template <int BLOCK, int ITEMS, class K>
FUTAD_DEV void futad_radix_count(const K *keys, int64_t n, int shift, uint32_t *counts) {
  FUTAD_SHARED(uint32_t, digits, FUTAD_RADIX_DIGITS);
  int64_t tiles = (n + BLOCK * ITEMS - 1) / (BLOCK * ITEMS);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    /* Each thread has read what it now clears. */
    for (int d = threadIdx.x; d < FUTAD_RADIX_DIGITS; d += BLOCK) digits[d] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      int64_t i = tile * BLOCK * ITEMS + k * BLOCK + threadIdx.x;
      if (i < n) atomicAdd(&digits[futad_radix_digit(keys[i], shift)], 1u);
    }
    __syncthreads();
    for (int d = threadIdx.x; d < FUTAD_RADIX_DIGITS; d += BLOCK) counts[d * tiles + tile] = digits[d];
  }
}

struct futad_radix_add {
  typedef uint32_t T;
  enum { commutative = 1 };
  FUTAD_DEV T neutral() const { return 0; }
  FUTAD_DEV T combine(T x, T y) const { return x + y; }
};
struct futad_radix_counts {
  uint32_t *pointer;
  FUTAD_DEV uint32_t load(int64_t i) const { return pointer[i]; }
  FUTAD_DEV void store(int64_t i, uint32_t x) const { pointer[i] = x; }
};

/* The counts become their inclusive sums; `state` as for the grid's scan. */
template <int BLOCK, int ITEMS>
FUTAD_DEV void futad_radix_scan(uint32_t *counts, int64_t tiles, uint32_t *state) {
  futad_radix_add op;
  futad_radix_counts at = {counts};
  futad_scan_flat<BLOCK, ITEMS>(op, at, at, tiles * FUTAD_RADIX_DIGITS, state);
}

/* Elements to their places; BLOCK and ITEMS as in `count`.  A null `payload` stands for 0, 1, 2, ..., with null
 * `keys_out` only the payload moves. */
template <int BLOCK, int ITEMS, class K, class V>
FUTAD_DEV void futad_radix_scatter(const K *keys, const V *payload, K *keys_out, V *payload_out, int64_t n, int shift,
                                   const uint32_t *sums) {
  const int WARPS = BLOCK / 32;
  FUTAD_SHARED(uint32_t, places, WARPS * FUTAD_RADIX_DIGITS);
  int64_t tiles = (n + BLOCK * ITEMS - 1) / (BLOCK * ITEMS);
  uint32_t *mine = places + futad_warp() * FUTAD_RADIX_DIGITS;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    /* Each warp takes a stretch of the tile, in order; first it counts its digits, and each element's place among those
     * of its digit is how many came before. */
    int64_t base = tile * BLOCK * ITEMS + futad_warp() * (32 * ITEMS) + futad_lane();
    K key[ITEMS];
    uint32_t rank[ITEMS];
    for (int d = futad_lane(); d < FUTAD_RADIX_DIGITS; d += 32) mine[d] = 0;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      int64_t i = base + k * 32;
      bool in = i < n;
      key[k] = in ? keys[i] : K(0);
      /* Lanes beyond the end match nobody inside. */
      int digit = futad_radix_digit(key[k], shift);
      uint32_t peers = __match_any_sync(FUTAD_ALL, in ? digit : -1);
      rank[k] = (in ? mine[digit] : 0) + __popc(peers & ((1u << futad_lane()) - 1));
      __syncwarp();
      if (in && futad_lane() == 31 - __clz((int)peers)) mine[digit] += __popc(peers);
      __syncwarp();
    }
    __syncthreads();
    /* Counts to the places where each warp's digits begin. */
    for (int d = threadIdx.x; d < FUTAD_RADIX_DIGITS; d += BLOCK) {
      int64_t at = d * tiles + tile;
      uint32_t place = at ? sums[at - 1] : 0;
      for (int w = 0; w < WARPS; w++) {
        uint32_t count = places[w * FUTAD_RADIX_DIGITS + d];
        places[w * FUTAD_RADIX_DIGITS + d] = place;
        place += count;
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      int64_t i = base + k * 32;
      if (i < n) {
        uint32_t to = mine[futad_radix_digit(key[k], shift)] + rank[k];
        if (keys_out) keys_out[to] = key[k];
        payload_out[to] = payload ? payload[i] : (V)i;
      }
    }
    __syncthreads();
  }
}

#endif
