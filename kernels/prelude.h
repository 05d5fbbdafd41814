/* The scalar prelude: what the C and the CUDA C that futad emits may call.
 *
 * One function `futad_OP_TYPE` for every operation of the scalar-op table that C has no operator for, with
 * exactly the table's semantics (tests/core/test_scalarops.py compares every one with the table's NumPy evaluation).
 * All are static inline and, where the machine's library has vector variants, vectorisable: math.h is not
 * included, because its declarations of exp, log, ... lack the attribute that lets the compiler use glibc's
 * libmvec.  Integer arithmetic wraps; it goes through unsigned types, so nothing here overflows.
 */
#ifndef FUTAD_PRELUDE_H
#define FUTAD_PRELUDE_H

#ifdef FUTAD_DEVICE
/* CUDA C: `device.cuh` has defined what the other branch defines. */
#else

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUTAD_INLINE static inline __attribute__((unused))
#define FUTAD_LIKELY(c) __builtin_expect(!!(c), 1)
#define FUTAD_UNLIKELY(c) __builtin_expect(!!(c), 0)

#define FUTAD_INF (__builtin_inf())
#define FUTAD_NAN (__builtin_nan(""))
#define FUTAD_MATH(f) __builtin_##f
#define FUTAD_SIGNBIT(x) (__builtin_signbit(x) != 0)
#define FUTAD_POPC(x) __builtin_popcountll(x)
#define FUTAD_CLZ(x) __builtin_clzll(x)
#define FUTAD_CTZ(x) __builtin_ctzll(x)

#ifdef __FLT16_MAX__
#define FUTAD_HAS_F16 1
typedef _Float16 futad_f16;
#endif

/* --- the mathematical library ------------------------------------------------------------------------ */

/* glibc's libmvec has vector variants on x86-64: exp log pow sin cos from 2.22 on, the others from 2.35. */
#define FUTAD_CONST __attribute__((const))
#define FUTAD_VEC FUTAD_CONST
#define FUTAD_VEC35 FUTAD_CONST
#define FUTAD_VECTOR_CALLS 0 /* whether they all are */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    defined(__OPTIMIZE__) && !defined(FUTAD_NO_LIBMVEC)
#define FUTAD_GCC_VECTORS 1
#undef FUTAD_VEC
#define FUTAD_VEC __attribute__((simd("notinbranch"), const))
#if __GLIBC_PREREQ(2, 35)
#undef FUTAD_VEC35
#define FUTAD_VEC35 FUTAD_VEC
#undef FUTAD_VECTOR_CALLS
#define FUTAD_VECTOR_CALLS 1
#endif
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__clang__) && defined(__OPTIMIZE__) && \
    !defined(FUTAD_NO_LIBMVEC)
#if __clang_major__ >= 19 && __GLIBC_PREREQ(2, 35)
#define FUTAD_CLANG_VECTORS 1
#endif
#endif

/* Made of the records of operations, see futad/core/scalarlib.py. */
#include "scalar_declarations.h"

#if (FUTAD_GCC_VECTORS || FUTAD_CLANG_VECTORS) && defined(__AVX2__) && defined(__FMA__)
#include "vector_functions.h"
#endif
#if FUTAD_CLANG_VECTORS
#include "clang_vectors.h"
#endif

/* Not lgamma: it writes the sign of the gamma function to a variable that all threads share. */
double lgamma_r(double, int *);
static __attribute__((noinline, const, unused)) double futad_lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
#define FUTAD_LGAMMA futad_lgamma
/* A sum takes in a product, but no sum: with -0 that is the product, its sign included. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FUTAD_ROUNDED_MUL(x, y) __builtin_fma(x, y, -0.0)
#define FUTAD_ROUNDED_MULf(x, y) __builtin_fmaf(x, y, -0.0f)
#else
#define FUTAD_ROUNDED_MUL(x, y) ((x) * (y))
#define FUTAD_ROUNDED_MULf(x, y) ((x) * (y))
#endif
#define FUTAD_HYPOT hypot
#define FUTAD_HYPOTf hypotf

/* For vector loops: GCC makes one complex exponential of sin(x) and cos(x), which has no vector variant, but not of
 * functions whose names it does not know. */
#if defined(__x86_64__) && defined(__ELF__) && defined(__GNUC__) && !defined(__clang__)
FUTAD_VEC double futad_lanes_sin(double) __asm__("sin");
FUTAD_VEC double futad_lanes_cos(double) __asm__("cos");
FUTAD_VEC float futad_lanes_sinf(float) __asm__("sinf");
FUTAD_VEC float futad_lanes_cosf(float) __asm__("cosf");
FUTAD_INLINE double futad_lanes_sin_f64(double x) { return futad_lanes_sin(x); }
FUTAD_INLINE double futad_lanes_cos_f64(double x) { return futad_lanes_cos(x); }
FUTAD_INLINE float futad_lanes_sin_f32(float x) { return futad_lanes_sinf(x); }
FUTAD_INLINE float futad_lanes_cos_f32(float x) { return futad_lanes_cosf(x); }
#else
#define futad_lanes_sin_f64 futad_sin_f64
#define futad_lanes_cos_f64 futad_cos_f64
#define futad_lanes_sin_f32 futad_sin_f32
#define futad_lanes_cos_f32 futad_cos_f32
#endif

/* A bool in memory, as what a comparison says. */
#define FUTAD_IS_SET(place) (*(const uint8_t *)&(place) != 0)

/* c ? a : b without a branch, which the compiler would move calls into and then not vectorise. */
#define FUTAD_LANES_SELECT(T, t, u)                                 \
  FUTAD_INLINE t futad_lanes_select_##T(bool c, t a, t b) {         \
    u x, y, mask = (u)0 - (u)c;                                     \
    memcpy(&x, &a, sizeof x);                                       \
    memcpy(&y, &b, sizeof y);                                       \
    x = (x & mask) | (y & ~mask);                                   \
    memcpy(&a, &x, sizeof a);                                       \
    return a;                                                       \
  }
FUTAD_LANES_SELECT(f32, float, uint32_t)
FUTAD_LANES_SELECT(f64, double, uint64_t)

/* An integer of which the compiler does not see how it is computed, which vectors have nonetheless. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define FUTAD_HIDDEN(x) __builtin_assoc_barrier(x)
#endif
#endif
#ifndef FUTAD_HIDDEN
#define FUTAD_HIDDEN(x) (x)
#endif

/* Division in vector lanes, where there are no instructions for it: the quotient of doubles is exact enough.  It is a
 * whole number, or differs from all of them by the 2^-31st part of itself or more, which rounding does not bridge. */
FUTAD_INLINE int32_t futad_lanes_quot_i32(int32_t x, int32_t y) {
  const double q = (double)x / (double)y;
  return q < 2147483648.0 ? (int32_t)q : INT32_MIN;
}
FUTAD_INLINE int32_t futad_lanes_rem_i32(int32_t x, int32_t y) {
  return (int32_t)((uint32_t)x - (uint32_t)futad_lanes_quot_i32(x, y) * (uint32_t)y);
}
FUTAD_INLINE int32_t futad_lanes_div_i32(int32_t x, int32_t y) {
  const double q = __builtin_floor((double)x / (double)y);
  return q < 2147483648.0 ? (int32_t)q : INT32_MIN;
}
FUTAD_INLINE int32_t futad_lanes_mod_i32(int32_t x, int32_t y) {
  return (int32_t)((uint32_t)x - (uint32_t)futad_lanes_div_i32(x, y) * (uint32_t)y);
}

#endif

/* The first failure of a call.  The emitted code fills it and returns; the host turns it into an exception. */
enum futad_code {
  FUTAD_OK = 0,
  FUTAD_BOUNDS = 1,   /* a: the index, b: the size */
  FUTAD_ASSERT = 2,   /* a size check or an assert; a, b: the two sizes, if there are such */
  FUTAD_DIVISION = 3, /* an integer was divided by zero */
  FUTAD_MEMORY = 4    /* a: the bytes that could not be allocated */
};

struct futad_error {
  int64_t code;  /* a futad_code */
  int64_t place; /* which source place, numbered by the emitter */
  int64_t a, b;
};

/* --- integers ------------------------------------------------------------------------------------------ */

/* Division of signed integers floors (div, mod) or truncates (quot, rem).  The divisor is not zero: the emitted
 * code has checked.  MIN / -1 wraps to MIN, with remainder 0, without trapping. */
#define FUTAD_SIGNED(T, t, u, bits)                                                                       \
  FUTAD_INLINE t futad_quot_##T(t x, t y) { return y == -1 ? (t)(u)(0 - (u)x) : (t)(x / y); }             \
  FUTAD_INLINE t futad_rem_##T(t x, t y) { return y == -1 ? (t)0 : (t)(x % y); }                          \
  FUTAD_INLINE t futad_div_##T(t x, t y) {                                                                \
    t q = futad_quot_##T(x, y), r = futad_rem_##T(x, y);                                                  \
    return (t)(q - (r != 0 && (r ^ y) < 0));                                                              \
  }                                                                                                       \
  FUTAD_INLINE t futad_mod_##T(t x, t y) {                                                                \
    t r = futad_rem_##T(x, y);                                                                            \
    return (t)(r != 0 && (r ^ y) < 0 ? r + y : r);                                                        \
  }                                                                                                       \
  FUTAD_INLINE t futad_abs_##T(t x) { return x < 0 ? (t)(u)(0 - (u)x) : x; }                              \
  FUTAD_INLINE t futad_sgn_##T(t x) { return (t)((x > 0) - (x < 0)); }                                    \
  FUTAD_INLINE t futad_shl_##T(t x, t y) { return (u)y < bits ? (t)(u)((uint64_t)(u)x << y) : (t)0; }     \
  FUTAD_INLINE t futad_shr_##T(t x, t y) { return (t)(x >> ((u)y < bits ? y : bits - 1)); }               \
  FUTAD_INLINE t futad_ushr_##T(t x, t y) { return (u)y < bits ? (t)(u)((u)x >> y) : (t)0; }              \
  FUTAD_INTEGER(T, t, u, bits)

#define FUTAD_UNSIGNED(T, t, bits)                                                             \
  FUTAD_INLINE t futad_quot_##T(t x, t y) { return (t)(x / y); }                               \
  FUTAD_INLINE t futad_rem_##T(t x, t y) { return (t)(x % y); }                                \
  FUTAD_INLINE t futad_div_##T(t x, t y) { return (t)(x / y); }                                \
  FUTAD_INLINE t futad_mod_##T(t x, t y) { return (t)(x % y); }                                \
  FUTAD_INLINE t futad_sgn_##T(t x) { return (t)(x > 0); }                                     \
  FUTAD_INLINE t futad_shl_##T(t x, t y) { return y < bits ? (t)((uint64_t)x << y) : (t)0; }   \
  FUTAD_INLINE t futad_shr_##T(t x, t y) { return y < bits ? (t)(x >> y) : (t)0; }             \
  FUTAD_INLINE t futad_ushr_##T(t x, t y) { return y < bits ? (t)(x >> y) : (t)0; }            \
  FUTAD_INTEGER(T, t, t, bits)

/* A negative exponent counts as 0.  clz and ctz of 0 are the width. */
#define FUTAD_INTEGER(T, t, u, bits)                                                           \
  FUTAD_INLINE t futad_min_##T(t x, t y) { return x < y ? x : y; }                             \
  FUTAD_INLINE t futad_max_##T(t x, t y) { return x > y ? x : y; }                             \
  FUTAD_INLINE t futad_pow_##T(t x, t y) {                                                     \
    uint64_t base = (uint64_t)x, r = 1;                                                        \
    u e = y > 0 ? (u)y : 0;                                                                    \
    for (; e; e = (u)(e >> 1)) {                                                               \
      if (e & 1) r *= base;                                                                    \
      base *= base;                                                                            \
    }                                                                                          \
    return (t)r;                                                                               \
  }                                                                                            \
  FUTAD_INLINE int32_t futad_popc_##T(t x) { return FUTAD_POPC((u)x); }              \
  FUTAD_INLINE int32_t futad_clz_##T(t x) { return x ? FUTAD_CLZ((u)x) - (64 - bits) : bits; } \
  FUTAD_INLINE int32_t futad_ctz_##T(t x) { return x ? FUTAD_CTZ((u)x) : bits; }

FUTAD_SIGNED(i8, int8_t, uint8_t, 8)
FUTAD_SIGNED(i16, int16_t, uint16_t, 16)
FUTAD_SIGNED(i32, int32_t, uint32_t, 32)
FUTAD_SIGNED(i64, int64_t, uint64_t, 64)
FUTAD_UNSIGNED(u8, uint8_t, 8)
FUTAD_UNSIGNED(u16, uint16_t, 16)
FUTAD_UNSIGNED(u32, uint32_t, 32)
FUTAD_UNSIGNED(u64, uint64_t, 64)

/* The upper half of the double-width product. */
#define FUTAD_MUL_HI(T, t, wide, bits) \
  FUTAD_INLINE t futad_mul_hi_##T(t x, t y) { return (t)(((wide)x * (wide)y) >> bits); }
FUTAD_MUL_HI(i8, int8_t, int32_t, 8)
FUTAD_MUL_HI(i16, int16_t, int32_t, 16)
FUTAD_MUL_HI(i32, int32_t, int64_t, 32)
FUTAD_MUL_HI(u8, uint8_t, uint32_t, 8)
FUTAD_MUL_HI(u16, uint16_t, uint32_t, 16)
FUTAD_MUL_HI(u32, uint32_t, uint64_t, 32)
#ifdef FUTAD_DEVICE
FUTAD_INLINE int64_t futad_mul_hi_i64(int64_t x, int64_t y) { return __mul64hi(x, y); }
FUTAD_INLINE uint64_t futad_mul_hi_u64(uint64_t x, uint64_t y) { return __umul64hi(x, y); }
#else
FUTAD_MUL_HI(i64, int64_t, __int128, 64)
FUTAD_MUL_HI(u64, uint64_t, unsigned __int128, 64)
#endif

/* --- f64 and f32 ------------------------------------------------------------------------------------------ */

/* psi(x): reflection, recurrence to x >= 10, asymptotic series (Abramowitz and Stegun 6.3.7, 6.3.5, 6.3.18).  Multiples
 * of pi are taken of the distance to the nearest whole number, which is exact: near poles pi x would lose all digits. */
FUTAD_INLINE double futad_digamma_f64(double x) {
  const double pi = 3.14159265358979323846;
  double acc = 0.0;
  if (x != x || x == -FUTAD_INF) return FUTAD_NAN;
  if (x == FUTAD_INF) return x;
  if (x == 0) return -1 / x;
  if (x <= 0) {
    if (x == FUTAD_MATH(floor)(x)) return FUTAD_NAN;
    acc = -pi / tan(pi * (x - FUTAD_MATH(floor)(x + 0.5)));
    x = 1 - x;
  }
  while (x < 10) {
    acc -= 1 / x;
    x += 1;
  }
  double r = 1 / (x * x);
  double tail = r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * 691 / 32760)))));
  return acc + log(x) - 0.5 / x - tail;
}

/* The x at which erf is y; see scalarmath.py. */
FUTAD_INLINE double futad_inverse_erf(double y) {
  const double pi = 3.14159265358979323846, c = 0.147;
  double a = FUTAD_MATH(fabs)(y);
  if (!(a <= 1)) return FUTAD_NAN;
  if (a == 1) return y * FUTAD_INF;
  double logs = log1p(-a * a), first = 2 / (pi * c) + 0.5 * logs;
  double under = FUTAD_MATH(sqrt)(first * first - logs / c) - first;
  double x = under > 0 ? FUTAD_MATH(sqrt)(under) : 0.0;
  for (int i = 0; i < 3; i++) {
    double miss = a <= 0.5 ? erf(x) - a : (1 - a) - erfc(x);
    double step = miss * (0.5 * FUTAD_MATH(sqrt)(pi)) * exp(x * x);
    x -= step / (1 + x * step);
  }
  return FUTAD_MATH(copysign)(x, y);
}

/* psi'(x), in the same manner (6.4.7, 6.4.6, 6.4.12). */
FUTAD_INLINE double futad_trigamma_f64(double x) {
  const double pi = 3.14159265358979323846;
  double acc = 0.0, sign = 1.0;
  if (x != x || x == -FUTAD_INF || (x < 0 && x == FUTAD_MATH(floor)(x))) return FUTAD_NAN;
  if (x == FUTAD_INF || x == 0) return x == 0 ? FUTAD_INF : 0.0;
  if (x < 0) {
    double s = pi / sin(pi * (x - FUTAD_MATH(floor)(x + 0.5)));
    acc = s * s;
    sign = -1.0;
    x = 1 - x;
  }
  while (x < 10) {
    acc += sign / x / x;
    x += 1;
  }
  double r = 1 / (x * x);
  double tail = r * (1.0 / 6 - r * (1.0 / 30 - r * (1.0 / 42 - r * (1.0 / 30 - r * (5.0 / 66 - r * 691 / 2730)))));
  return acc + sign * (0.5 * r + (1 + tail) / x);
}

/* n! / y^(n+1) */
FUTAD_INLINE double futad_over_power(double y, int32_t n) {
  double out = 1 / y;
  for (int32_t i = 1; i <= n; i++) out *= i / y;
  return out;
}

/* n! zeta(n+1, y) for y > 0: recurrence to y >= n + 12, asymptotic series. */
FUTAD_INLINE double futad_zeta(double y, int32_t n) {
  const double bernoulli[8] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510};
  double acc = 0.0;
  while (y < n + 12) {
    acc += futad_over_power(y, n);
    y += 1;
  }
  double r = 1 / (y * y), tail = 1 + 0.5 * n / y, term = 1.0;
  for (int32_t k = 1; k <= 8; k++) {
    term *= (double)(2 * k + n - 2) * (2 * k + n - 1) * r / ((2 * k - 1) * (2 * k));
    tail += bernoulli[k - 1] * term;
  }
  return acc + futad_over_power(y, n - 1) * tail;
}

/* The n-th derivative of psi (6.4.9, 6.4.6, 6.4.11), 1 <= n <= 170; the derivatives of the cotangent that reflection
 * needs are a sum over all integers, and so two zeta functions more. */
FUTAD_INLINE double futad_polygamma_f64(double x, int32_t n) {
  if (x != x || x == -FUTAD_INF || n < 1 || n > 170 || (x < 0 && x == FUTAD_MATH(floor)(x))) return FUTAD_NAN;
  double sign = n % 2 ? 1.0 : -1.0;
  if (x == 0) return n % 2 ? FUTAD_INF : -1 / x;
  if (x > 0) return sign * futad_zeta(x, n);
  double f = x - FUTAD_MATH(floor)(x + 0.5);
  return sign * (futad_over_power(f, n) + futad_zeta(1 + f, n) + sign * futad_zeta(1 - f, n)) - futad_zeta(1 - x, n);
}

FUTAD_INLINE float futad_polygamma_f32(float x, int32_t n) { return (float)futad_polygamma_f64((double)x, n); }
FUTAD_INLINE float futad_digamma_f32(float x) { return (float)futad_digamma_f64((double)x); }
FUTAD_INLINE float futad_trigamma_f32(float x) { return (float)futad_trigamma_f64((double)x); }

#define FUTAD_PI(t) ((t)3.14159265358979323846)
/* Made of the records.  min, max: a NaN loses to a number.  mod: the remainder of floored division, with the divisor's
 * sign (also on a zero).  round: ties to even. */
#include "scalar_functions.h"

FUTAD_INLINE double futad_ldexp_f64(double x, int32_t n) { return FUTAD_MATH(ldexp)(x, n); }
FUTAD_INLINE float futad_ldexp_f32(float x, int32_t n) { return FUTAD_MATH(ldexpf)(x, n); }

/* One rounding where the machine has the instruction; the library's emulation costs a hundred times as much. */
FUTAD_INLINE double futad_fma_f64(double x, double y, double z) {
#if defined(__FP_FAST_FMA) || defined(FUTAD_DEVICE)
  return FUTAD_MATH(fma)(x, y, z);
#else
  return x * y + z;
#endif
}
FUTAD_INLINE float futad_fma_f32(float x, float y, float z) {
#if defined(__FP_FAST_FMAF) || defined(FUTAD_DEVICE)
  return FUTAD_MATH(fmaf)(x, y, z);
#else
  return (float)((double)x * y + z);
#endif
}

#ifndef FUTAD_DEVICE
#define FUTAD_BITS(T, t, u)                                                                    \
  FUTAD_INLINE u futad_bits_##T(t x) {                                                         \
    u r;                                                                                       \
    memcpy(&r, &x, sizeof r);                                                                  \
    return r;                                                                                  \
  }                                                                                            \
  FUTAD_INLINE t futad_from_bits_##T(u x) {                                                    \
    t r;                                                                                       \
    memcpy(&r, &x, sizeof r);                                                                  \
    return r;                                                                                  \
  }
FUTAD_BITS(f64, double, uint64_t)
FUTAD_BITS(f32, float, uint32_t)
#endif

/* Of the bits, so that lanes have a mask and no branch. */
#define FUTAD_UNLESS_ZERO(T, t, u) \
  FUTAD_INLINE t futad_unless_zero_##T(t x, t y) { return futad_from_bits_##T(futad_bits_##T(y) & -(u)(x != 0)); }
FUTAD_UNLESS_ZERO(f64, double, uint64_t)
FUTAD_UNLESS_ZERO(f32, float, uint32_t)

/* `rank` numbers floats in their order, -0 just below 0, infinities and NaN outside.  `lost`: the low seven bits of the
 * rank of x where y is less than 33 floats away, else -1; `found`: the float next to y whose rank ends in the bits k. */
#define FUTAD_LOST(T, t, u, i, most)                                                           \
  FUTAD_INLINE i futad_rank_##T(t x) {                                                         \
    const i b = (i)futad_bits_##T(x);                                                          \
    return b ^ ((b >> (8 * sizeof b - 1)) & most);                                             \
  }                                                                                            \
  FUTAD_INLINE int8_t futad_lost_##T(t x, t y) {                                               \
    const u r = (u)futad_rank_##T(x);                                                          \
    return (int8_t)(r - (u)futad_rank_##T(y) + 32 < 65 ? (r & 127) : (u)-1);                   \
  }                                                                                            \
  FUTAD_INLINE t futad_found_##T(int8_t k, t y) {                                              \
    const u r = (u)futad_rank_##T(y);                                                          \
    const i z = (i)(r + ((((u)k - r) & 127) ^ 64) - 64);                                       \
    return futad_from_bits_##T((u)(z ^ ((z >> (8 * sizeof z - 1)) & most)));                   \
  }
FUTAD_LOST(f64, double, uint64_t, int64_t, INT64_MAX)
FUTAD_LOST(f32, float, uint32_t, int32_t, INT32_MAX)

/* Float to integer: truncates and wraps around as integers do; infinities and NaN give 0.  `t` is reduced by a multiple
 * of 2^N, here `two`, without rounding, so that it fits the signed type of N bits.  `two` times the trunc of an infinity
 * is one again, and the difference NaN. */
#define FUTAD_TO_INT(F, f, W, w, I, i, wide, two)                                              \
  FUTAD_INLINE i futad_##F##_to_##I(f x) {                                                     \
    const w t = futad_trunc_##W((w)x);                                                         \
    const w r = t - futad_trunc_##W(t * (w)(1.0 / two)) * (w)two;                              \
    const w q = r >= (w)(two / 2) ? r - (w)two : r < (w)(-two / 2) ? r + (w)two : r;           \
    return q != q ? (i)0 : (i)(wide)q;                                                         \
  }
#define FUTAD_TO_INTS(F, f, W, w)                                          \
  FUTAD_TO_INT(F, f, W, w, i8, int8_t, int32_t, 4294967296.0)              \
  FUTAD_TO_INT(F, f, W, w, i16, int16_t, int32_t, 4294967296.0)            \
  FUTAD_TO_INT(F, f, W, w, i32, int32_t, int32_t, 4294967296.0)            \
  FUTAD_TO_INT(F, f, W, w, i64, int64_t, int64_t, 18446744073709551616.0)  \
  FUTAD_TO_INT(F, f, W, w, u8, uint8_t, int32_t, 4294967296.0)             \
  FUTAD_TO_INT(F, f, W, w, u16, uint16_t, int32_t, 4294967296.0)           \
  FUTAD_TO_INT(F, f, W, w, u32, uint32_t, int32_t, 4294967296.0)           \
  FUTAD_TO_INT(F, f, W, w, u64, uint64_t, int64_t, 18446744073709551616.0)
FUTAD_TO_INTS(f64, double, f64, double)
FUTAD_TO_INTS(f32, float, f32, float)

/* --- f16 ------------------------------------------------------------------------------------------------------ */

/* Most are computed in f32 and rounded, which is what NumPy does. */
#ifdef FUTAD_HAS_F16
#ifndef FUTAD_DEVICE
FUTAD_BITS(f16, futad_f16, uint16_t)
#endif
FUTAD_TO_INTS(f16, futad_f16, f32, float)

#include "scalar_halves.h"

FUTAD_INLINE futad_f16 futad_polygamma_f16(futad_f16 x, int32_t n) { return (futad_f16)futad_polygamma_f32((float)x, n); }
FUTAD_INLINE futad_f16 futad_ldexp_f16(futad_f16 x, int32_t n) { return (futad_f16)FUTAD_MATH(ldexpf)((float)x, n); }
/* Neighbours in magnitude are neighbours in the bit pattern. */
FUTAD_INLINE futad_f16 futad_nextafter_f16(futad_f16 x, futad_f16 y) {
  uint16_t b = futad_bits_f16(x);
  if (x != x || y != y) return (futad_f16)FUTAD_NAN;
  if (x == y) return y;
  if (x == 0) return futad_from_bits_f16((uint16_t)((futad_bits_f16(y) & 0x8000) | 1));
  return futad_from_bits_f16((uint16_t)((x < y) == (x > 0) ? b + 1 : b - 1));
}
#endif

#endif
