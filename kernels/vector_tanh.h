/* The hyperbolic tangent of doubles in vector lanes: e / (e + 2) where e is the exponential of 2 |x|, less one.
 *
 * glibc's vector functions look their polynomials up in tables, and take up to twice as long.  Beyond 22 the result is 1
 * in all digits.  With 2 |x| = k log 2 + r, |r| <= log(2) / 2, e is 2^k (exp(r) - 1) + (2^k - 1), and exp(r) - 1 its power
 * series, which cancels nothing for small numbers (k = 0).  For processors with fused multiplication and addition.
 *
 * Loops call a function `futad_tanh`, whose vector variants are here; by itself it is `tanh`.
 */
__asm__(".set futad_tanh, tanh");

/* The terms of (exp(r) - 1 - r) / r^2 of even and of odd powers of r, by w = r^2. */
#define FUTAD_EXP_EVEN                                                                                      \
  (0.5 + w * (1 / 24.0 + w * (1 / 720.0 + w * (1 / 40320.0 + w * (1 / 3628800.0 + w * (1 / 479001600.0))))))
#define FUTAD_EXP_ODD                                                                                            \
  (1 / 6.0 + w * (1 / 120.0 + w * (1 / 5040.0 + w * (1 / 362880.0 + w * (1 / 39916800.0 + w * (1 / 6227020800.0))))))

/* The function of vectors of n; `isa` is the letter of their instructions in the names of vector functions.  A number
 * below 2^51 added to `magic` has its integer k in the last digits; a shift takes these to the exponent, where the bits of
 * 1 are added. */
#define FUTAD_TANH(isa, n)                                                                                   \
  typedef double futad_tanh_v_##isa __attribute__((vector_size(8 * n)));                                     \
  typedef int64_t futad_tanh_i_##isa __attribute__((vector_size(8 * n)));                                    \
  futad_tanh_v_##isa futad_tanh_f_##isa(futad_tanh_v_##isa) __asm__("_ZGV" #isa "N" #n "v_futad_tanh");      \
  __attribute__((weak, visibility("hidden"))) futad_tanh_v_##isa futad_tanh_f_##isa(futad_tanh_v_##isa x) {  \
    typedef futad_tanh_v_##isa V;                                                                            \
    typedef futad_tanh_i_##isa I;                                                                            \
    const I minus = (I)x & INT64_MIN;                                                                        \
    const V twice = (V)((I)x ^ minus) * 2, limit = (V){0} + 44.0;                                            \
    const I far = twice > limit;                                                                             \
    const V z = (V)(((I)limit & far) | ((I)twice & ~far));                                                   \
    const double magic = 0x1.8p52;                                                                           \
    const V t = z * 1.4426950408889634 + magic, k = t - magic;                                               \
    const V r = (z - k * 0x1.62e42fefap-1) - k * 0x1.cf79abc9e3b3ap-40, w = r * r;                           \
    const V p = r + w * (FUTAD_EXP_EVEN + r * FUTAD_EXP_ODD);                                                \
    const V s = (V)(((I)t << 52) + 0x3ff0000000000000), e = s * p + (s - 1);                                 \
    return (V)((I)(e / (e + 2)) | minus);                                                                    \
  }

FUTAD_TANH(b, 2)
FUTAD_TANH(d, 4)
__asm__(".set _ZGVcN4v_futad_tanh, _ZGVdN4v_futad_tanh");
#ifdef __AVX512F__
FUTAD_TANH(e, 8)
#endif

FUTAD_VEC double futad_tanh(double);
#define tanh futad_tanh
