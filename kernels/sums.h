/* Sums, and additions of rows, in the vector types of GCC and clang (`futad/backend/c_sums.py`, `c_row_additions.py`).
 *
 *   futad_wide_T           a vector of T, wherever it lies; half of one, a quarter: futad_half_T, futad_quarter_T
 *   futad_from_T(v, n)     its lanes from the n-th on, zeros in the others
 *   futad_total_T(v)       the sum of its lanes
 *   futad_count(v, n)      how many of n numbers are 1, the others being 0; n is a multiple of 8
 */
#ifndef FUTAD_SUMS_H
#define FUTAD_SUMS_H

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define FUTAD_LOW_2(v) __builtin_shufflevector(v, v, 0, 1)
#define FUTAD_HIGH_2(v) __builtin_shufflevector(v, v, 2, 3)
#define FUTAD_LOW_4(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define FUTAD_HIGH_4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define FUTAD_LOW_8(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define FUTAD_HIGH_8(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
#endif

#define FUTAD_SUM_2(v) ((v)[0] + (v)[1])
#ifdef FUTAD_LOW_2
#define FUTAD_SUM_4(v) ({ __auto_type v2 = FUTAD_LOW_2(v) + FUTAD_HIGH_2(v); FUTAD_SUM_2(v2); })
#define FUTAD_SUM_8(v) ({ __auto_type v4 = FUTAD_LOW_4(v) + FUTAD_HIGH_4(v); FUTAD_SUM_4(v4); })
#define FUTAD_SUM_16(v) ({ __auto_type v8 = FUTAD_LOW_8(v) + FUTAD_HIGH_8(v); FUTAD_SUM_8(v8); })
#else
#define FUTAD_SUM_4(v) (((v)[0] + (v)[2]) + ((v)[1] + (v)[3]))
#define FUTAD_SUM_8(v) ((((v)[0] + (v)[4]) + ((v)[2] + (v)[6])) + (((v)[1] + (v)[5]) + ((v)[3] + (v)[7])))
#define FUTAD_SUM_16(v)                                                                                      \
  (((((v)[0] + (v)[8]) + ((v)[4] + (v)[12])) + (((v)[2] + (v)[10]) + ((v)[6] + (v)[14]))) +                           \
   ((((v)[1] + (v)[9]) + ((v)[5] + (v)[13])) + (((v)[3] + (v)[11]) + ((v)[7] + (v)[15]))))
#endif

#define FUTAD_AT_LEAST_2(t, parts) (FUTAD_VECTOR / parts < 2 * sizeof(t) ? 2 * sizeof(t) : FUTAD_VECTOR / parts)
#define FUTAD_SUMS(T, t, bits, whole)                                                                                 \
  typedef t futad_wide_##T __attribute__((vector_size(FUTAD_VECTOR), aligned(sizeof(t)), may_alias));                 \
  typedef t futad_half_##T __attribute__((vector_size(FUTAD_AT_LEAST_2(t, 2)), aligned(sizeof(t)), may_alias));       \
  typedef t futad_quarter_##T __attribute__((vector_size(FUTAD_AT_LEAST_2(t, 4)), aligned(sizeof(t)), may_alias));    \
  typedef bits futad_lanes_of_##T __attribute__((vector_size(FUTAD_VECTOR), aligned(sizeof(t)), may_alias));          \
  static const bits futad_kept_##T[2 * FUTAD_VECTOR / sizeof(t)] = {                                                  \
      [FUTAD_VECTOR / sizeof(t)... 2 * FUTAD_VECTOR / sizeof(t) - 1] = -1};                                           \
  FUTAD_INLINE futad_wide_##T futad_from_##T(futad_wide_##T v, int64_t first) {                                       \
    const bits *kept = futad_kept_##T + FUTAD_VECTOR / sizeof(t) - first;                                             \
    return (futad_wide_##T)((futad_lanes_of_##T)v & *(const futad_lanes_of_##T *)kept);                               \
  }                                                                                                                   \
  FUTAD_INLINE t futad_total_##T(futad_wide_##T v) { return whole(v); }

#if FUTAD_VECTOR == 64
FUTAD_SUMS(f64, double, int64_t, FUTAD_SUM_8)
FUTAD_SUMS(f32, float, int32_t, FUTAD_SUM_16)
#elif FUTAD_VECTOR == 32
FUTAD_SUMS(f64, double, int64_t, FUTAD_SUM_4)
FUTAD_SUMS(f32, float, int32_t, FUTAD_SUM_8)
#else
FUTAD_SUMS(f64, double, int64_t, FUTAD_SUM_2)
FUTAD_SUMS(f32, float, int32_t, FUTAD_SUM_4)
#endif

#if defined(__AVX512F__) && !defined(__clang__)
typedef long long futad_counted_t __attribute__((vector_size(64), aligned(8), may_alias));
#define FUTAD_ARE_SET(v) (unsigned char)__builtin_ia32_ptestmq512(v, v, -1)
#elif defined(__AVX__)
typedef long long futad_counted_t __attribute__((vector_size(32), aligned(8), may_alias));
typedef double futad_signs_t __attribute__((vector_size(32)));
#define FUTAD_ARE_SET(v) __builtin_ia32_movmskpd256((futad_signs_t)-(v))
#endif

FUTAD_INLINE int64_t futad_count(const int64_t *v, int64_t n) {
  int64_t count = 0;
#ifdef FUTAD_ARE_SET
  const int64_t lanes = sizeof(futad_counted_t) / sizeof(int64_t);
  for (int64_t i = 0; i < n; i += lanes)
    count += __builtin_popcount((unsigned)FUTAD_ARE_SET(*(const futad_counted_t *)(v + i)));
#else
  for (int64_t i = 0; i < n; i++) count += v[i];
#endif
  return count;
}

#endif
