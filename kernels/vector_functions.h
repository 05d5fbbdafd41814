/* Vector variants of exp and tanh, and with AVX-512 of sin, cos and log, under the names by which loops call glibc's, so
 * that the linker takes these.  Errors are at most 1.5 units in the last place (tanh: 2.6; glibc: 1.6 to 3.5, see
 * python benchmarks/ulps.py).  Exponentials far below zero, as of masks by a large negative number or -inf, stay in
 * vectors.  For processors with fused multiply-add; without AVX-512 glibc's sin, cos and log are faster.
 *
 * Polynomials are minimax approximations (Remez).  Arguments are reduced by Cody and Waite's scheme: a constant in two or
 * three parts, whose product with an integer below 2^31 loses nothing in a fused step.  `FUTAD_OWN_NAME` compiles a
 * function: only those that a program calls, see futad/core/scalarlib.py.
 */
#define FUTAD_LANES(isa, n, m)                                                                                        \
  typedef double futad_f64_##isa __attribute__((vector_size(8 * n)));                                                 \
  typedef int64_t futad_i64_##isa __attribute__((vector_size(8 * n)));                                                \
  typedef float futad_f32_##isa __attribute__((vector_size(4 * m)));                                                  \
  typedef int32_t futad_i32_##isa __attribute__((vector_size(4 * m)));
FUTAD_LANES(b, 2, 4)
FUTAD_LANES(d, 4, 8)
/* Whether an absolute value is above a limit or NaN (`pd` for doubles, `ps` for floats); and x y + z, rounded once, which
 * the argument reduction relies on and compilers do not guarantee at -O1. */
#ifdef __clang__
#define FUTAD_BEYOND_d(type, x, limit) (__builtin_reduce_and((x) <= (limit)) == 0)
#define FUTAD_BEYOND_e FUTAD_BEYOND_d
#define FUTAD_FUSED_d(type, x, y, z) __builtin_elementwise_fma(x, y, z)
#define FUTAD_FUSED_e FUTAD_FUSED_d
#else
#define FUTAD_BEYOND_d(type, x, limit) (__builtin_ia32_movmskps256((futad_f32_d)((x) <= (limit))) != 255)
#define FUTAD_BEYOND_e(type, x, limit) (__builtin_ia32_cmp##type##512_mask(x, limit, 6, -1, 4) != 0)
#define FUTAD_FUSED_d(type, x, y, z) __builtin_ia32_vfmadd##type##256(x, y, z)
#define FUTAD_FUSED_e(type, x, y, z) __builtin_ia32_vfmadd##type##512_mask(x, y, z, -1, 4)
#endif
#if defined(__AVX512F__) && defined(__AVX512VL__)
#define FUTAD_AVX512 1
FUTAD_LANES(e, 8, 16)
#endif

/* The function NAME of vectors of n by BODY, in terms of x, V (its type) and I (integers of the same size). */
#define FUTAD_VARIANT(T, isa, n, name, body)                                                                          \
  futad_f##T##_##isa futad_##name##_##T##_##isa(futad_f##T##_##isa) __asm__("_ZGV" #isa "N" #n "v_" #name);           \
  __attribute__((weak, visibility("hidden"))) futad_f##T##_##isa futad_##name##_##T##_##isa(futad_f##T##_##isa x) {   \
    typedef futad_f##T##_##isa V;                                                                                     \
    typedef futad_i##T##_##isa I;                                                                                     \
    body(isa, name)                                                                                                   \
  }
/* Lanes of x beyond a limit by the scalar function, the others from y.  The alias has no vector variants: with them the
 * loop could be vectorised into a call of itself. */
#define FUTAD_ONE_BY_ONE(T, isa, n, name, type)                                                                       \
  type futad_scalar_##name(type) __asm__(#name);                                                                      \
  static __attribute__((noinline, cold, unused)) futad_f##T##_##isa futad_beyond_##name##_##isa(                      \
      futad_f##T##_##isa x, futad_f##T##_##isa y, type limit) {                                                       \
    for (int i = 0; i < n; i++)                                                                                       \
      if (!(__builtin_fabs(x[i]) <= limit)) y[i] = futad_scalar_##name(x[i]);                                         \
    return y;                                                                                                         \
  }
#define FUTAD_SELECT(mask, a, b) ((V)(((I)(a) & (mask)) | ((I)(b) & ~(mask))))
#define FUTAD_ABS(x, least) ((V)((I)(x) & ~(least))) /* of the integer whose sign bit alone is set */

/* A number below 2^51 (2^22) added to this has the integer nearest to it in its last digits. */
#define FUTAD_MAGIC 0x1.8p52
#define FUTAD_MAGICf 0x1.8p23f
/* exp(x) = 2^k exp(r), |r| <= log(2) / 2; 2^k has the bits of 1 with k added to its exponent.  Lanes far below zero are
 * computed for 0, and cleared; others whose results are infinite or subnormal one by one. */
#define FUTAD_REDUCED_EXP(isa)                                                                                        \
  const V t = z * 0x1.71547652b82fep0 + FUTAD_MAGIC, k = t - FUTAD_MAGIC;                                             \
  const V above = FUTAD_FUSED_##isa(pd, k, (V){0} - 0x1.62e42fefa39efp-1, z);                                         \
  const V r = FUTAD_FUSED_##isa(pd, k, (V){0} - 0x1.abc9e3b39803fp-56, above), w = r * r;
#define FUTAD_EXP_TERMS /* (exp(r) - 1 - r) / r^2 within 2^-58, w = r^2 */                                            \
  (0x1.000000000000bp-1 + w * (0x1.5555555550030p-5 + w * (0x1.6c16c185a74f1p-10 +                                    \
   w * (0x1.a0199693a6f33p-16 + w * 0x1.28b0493ee36abp-22))) +                                                        \
   r * (0x1.5555555555561p-3 + w * (0x1.111111110d61ap-7 + w * (0x1.a01a01baed115p-13 +                               \
   w * (0x1.71dddfb4ea1afp-19 + w * 0x1.af85a9a38f246p-26)))))
#define FUTAD_EXP(isa, name)                                                                                          \
  V z = x;                                                                                                            \
  I zero = (I){0};                                                                                                    \
  V size = FUTAD_ABS(x, INT64_MIN);                                                                                   \
  const V limit = (V){0} + 708.0;                                                                                     \
  const bool far = FUTAD_UNLIKELY(FUTAD_BEYOND_##isa(pd, size, limit));                                               \
  if (far) zero = x < (V){0} - 746.0, z = (V)((I)x & ~zero), size = FUTAD_ABS(z, INT64_MIN);                          \
  FUTAD_REDUCED_EXP(isa)                                                                                              \
  const V s = (V)(((I)t << 52) + 0x3ff0000000000000);                                                                 \
  const V y = (V)((I)(s + s * (r + w * FUTAD_EXP_TERMS)) & ~zero);                                                    \
  return far && FUTAD_BEYOND_##isa(pd, size, limit) ? futad_beyond_##name##_##isa(z, y, 708.0) : y;

#define FUTAD_REDUCED_EXPf(isa)                                                                                       \
  const V t = z * 0x1.715476p0f + FUTAD_MAGICf, k = t - FUTAD_MAGICf;                                                 \
  const V above = FUTAD_FUSED_##isa(ps, k, (V){0} - 0x1.62e43p-1f, z);                                                \
  const V r = FUTAD_FUSED_##isa(ps, k, (V){0} + 0x1.05c61p-29f, above), w = r * r;
#define FUTAD_EXP_TERMSf                                                                                              \
  (0.5f + r * (0x1.55548ep-3f + r * (0x1.55545cp-5f + r * (0x1.123b56p-7f + r * 0x1.6db4d4p-10f))))
#define FUTAD_EXPf(isa, name)                                                                                         \
  V z = x;                                                                                                            \
  I zero = (I){0};                                                                                                    \
  V size = FUTAD_ABS(x, INT32_MIN);                                                                                   \
  const V limit = (V){0} + 87.0f;                                                                                     \
  const bool far = FUTAD_UNLIKELY(FUTAD_BEYOND_##isa(ps, size, limit));                                               \
  if (far) zero = x < (V){0} - 105.0f, z = (V)((I)x & ~zero), size = FUTAD_ABS(z, INT32_MIN);                         \
  FUTAD_REDUCED_EXPf(isa)                                                                                             \
  const V s = (V)(((I)t << 23) + 0x3f800000);                                                                         \
  const V y = (V)((I)(s + s * (r + w * FUTAD_EXP_TERMSf)) & ~zero);                                                   \
  return far && FUTAD_BEYOND_##isa(ps, size, limit) ? futad_beyond_##name##_##isa(z, y, 87.0f) : y;

/* tanh(x) = e / (e + 2) where e is the exponential of 2 |x|, less one: 2^k (exp(r) - 1) + (2^k - 1), in which nothing
 * cancels for small numbers (k = 0).  Beyond 22 it is 1 in all digits. */
#define FUTAD_TANH(isa, name)                                                                                         \
  const I minus = (I)x & INT64_MIN;                                                                                   \
  const V twice = (V)((I)x ^ minus) * 2, limit = (V){0} + 44.0;                                                       \
  const V z = FUTAD_SELECT(twice > limit, limit, twice);                                                              \
  FUTAD_REDUCED_EXP(isa)                                                                                              \
  const V s = (V)(((I)t << 52) + 0x3ff0000000000000);                                                                 \
  const V e = s * (r + w * FUTAD_EXP_TERMS) + (s - 1);                                                                \
  return (V)((I)(e / (e + 2)) | minus);

/* x = k pi + r, |r| <= pi / 2, and for cosines k is half an odd integer; the sine of r is r + r (w (-1/6) + w^2 p(w)),
 * w = r^2, which rounds least where r is not small.  Beyond 2^22 lanes are computed one by one. */
#define FUTAD_SINE(isa, name, turns, shifted, odd)                                                                    \
  const V size = FUTAD_ABS(x, INT64_MIN), limit = (V){0} + 0x1p22;                                                    \
  const V t = (turns) + FUTAD_MAGIC, k = t - FUTAD_MAGIC shifted;                                                     \
  const V half = FUTAD_FUSED_##isa(pd, k, (V){0} - 0x1.921fb54442d18p1, x);                                           \
  const V most = FUTAD_FUSED_##isa(pd, k, (V){0} - 0x1.1a62633145c06p-53, half);                                      \
  const V r = FUTAD_FUSED_##isa(pd, k, (V){0} - 0x1.c1cd129024e09p-106, most), w = r * r;                             \
  const V v = w * w, p = 0x1.11111111110c1p-7 + v * (0x1.71de3a52875d9p-19 + v * (0x1.6123cb1ca0b36p-33 +             \
      v * 0x1.882949d6c001cp-49)) + w * (-0x1.a01a01a0148adp-13 + v * (-0x1.ae6454cb2685bp-26 +                       \
      v * -0x1.ae431a554ae64p-41));                                                                                   \
  const V cubic = FUTAD_FUSED_##isa(pd, w, (V){0} - 0x1.5555555555555p-3, v * p);                                     \
  const V y = (V)((I)FUTAD_FUSED_##isa(pd, r, cubic, r) ^ ((odd) << 63));                                             \
  return FUTAD_UNLIKELY(FUTAD_BEYOND_##isa(pd, size, limit)) ? futad_beyond_##name##_##isa(x, y, 0x1p22) : y;
#define FUTAD_SIN(isa, name) FUTAD_SINE(isa, name, x * 0x1.45f306dc9c883p-2, , (I)t)
#define FUTAD_COS(isa, name) FUTAD_SINE(isa, name, x * 0x1.45f306dc9c883p-2 - 0.5, +0.5, ~(I)t)

/* x = 2^k m, m between 1/sqrt(2) and sqrt(2); with f = m - 1 and s = f / (2 + f) the logarithm of m is
 * f - (f^2 / 2 - s (f^2 / 2 + R(s^2))), R a minimax polynomial (fdlibm's scheme).  The instructions that take numbers
 * apart know subnormal numbers; zero has the exponent -inf, infinity inf, and negative numbers the mantissa NaN. */
#define FUTAD_MANTISSA_d(x) __builtin_ia32_getmantpd256_mask(x, 8, (V){0}, -1)
#define FUTAD_MANTISSA_e(x) __builtin_ia32_getmantpd512_mask(x, 8, (V){0}, -1, 4)
#define FUTAD_EXPONENT_d(x) __builtin_ia32_getexppd256_mask(x, (V){0}, -1)
#define FUTAD_EXPONENT_e(x) __builtin_ia32_getexppd512_mask(x, (V){0}, -1, 4)
#define FUTAD_LOG(isa, name)                                                                                          \
  V m = FUTAD_MANTISSA_##isa(x), k = FUTAD_EXPONENT_##isa(x);                                                         \
  const I large = m > (V){0} + 0x1.6a09e667f3bcdp0;                                                                   \
  m = FUTAD_SELECT(large, m * 0.5, m), k = FUTAD_SELECT(large, k + 1, k);                                             \
  const V f = m - 1, s = f / (f + 2), z = s * s, w = z * z, h = 0.5 * f * f;                                          \
  const V R = z * (0x1.5555555555592p-1 + w * (0x1.24924941f4d2ep-2 + w * (0x1.74663f9f5e20ap-3 +                     \
      w * 0x1.2f063502597d9p-3))) + w * (0x1.999999997fd7bp-2 + w * (0x1.c71c52061ea12p-3 +                           \
      w * 0x1.39a1a712f1209p-3));                                                                                     \
  return k * 0x1.62e42feep-1 - ((h - (s * (h + R) + k * 0x1.a39ef35793c76p-33)) - f);

/* Vectors of 128 bits are computed as the halves of wider ones. */
#define FUTAD_NARROW(T, name, body, n2, n4)                                                                           \
  FUTAD_VARIANT(T, d, n4, name, body)                                                                                 \
  __asm__(".set _ZGVcN" #n4 "v_" #name ", _ZGVdN" #n4 "v_" #name);                                                    \
  FUTAD_VARIANT(T, b, n2, name, FUTAD_HALF_##T)
#define FUTAD_HALF_64(isa, name)                                                                                      \
  const futad_f64_d y = futad_##name##_64_d((futad_f64_d){x[0], x[1], x[0], x[1]});                                   \
  return (V){y[0], y[1]};
#define FUTAD_HALF_32(isa, name)                                                                                      \
  const futad_f32_d y = futad_##name##_32_d((futad_f32_d){x[0], x[1], x[2], x[3], x[0], x[1], x[2], x[3]});           \
  return (V){y[0], y[1], y[2], y[3]};
#if FUTAD_AVX512
#define FUTAD_ALL(T, name, body, n2, n4, n8) FUTAD_NARROW(T, name, body, n2, n4) FUTAD_VARIANT(T, e, n8, name, body)
#define FUTAD_REST(T, name, type, n4, n8) FUTAD_ONE_BY_ONE(T, d, n4, name, type) FUTAD_ONE_BY_ONE(T, e, n8, name, type)
#else
#define FUTAD_ALL(T, name, body, n2, n4, n8) FUTAD_NARROW(T, name, body, n2, n4)
#define FUTAD_REST(T, name, type, n4, n8) FUTAD_ONE_BY_ONE(T, d, n4, name, type)
#endif
#if FUTAD_OWN_exp
FUTAD_REST(64, exp, double, 4, 8)
FUTAD_REST(32, expf, float, 8, 16)
FUTAD_ALL(64, exp, FUTAD_EXP, 2, 4, 8)
FUTAD_ALL(32, expf, FUTAD_EXPf, 4, 8, 16)
#endif
#if FUTAD_OWN_tanh
FUTAD_ALL(64, tanh, FUTAD_TANH, 2, 4, 8)
#endif
#if FUTAD_AVX512 && FUTAD_OWN_sin
FUTAD_REST(64, sin, double, 4, 8)
FUTAD_ALL(64, sin, FUTAD_SIN, 2, 4, 8)
#endif
#if FUTAD_AVX512 && FUTAD_OWN_cos
FUTAD_REST(64, cos, double, 4, 8)
FUTAD_ALL(64, cos, FUTAD_COS, 2, 4, 8)
#endif
#if FUTAD_AVX512 && FUTAD_OWN_log
FUTAD_ALL(64, log, FUTAD_LOG, 2, 4, 8)
#endif
