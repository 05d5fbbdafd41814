/* Exponentials in vector lanes of numbers far below zero, as where a mask is a large negative number or -inf.
 *
 * glibc's vector functions compute the lanes with arguments out of their range one by one, by the scalar function, which
 * takes several times as long as the whole vector.  Below -746, for floats below -104, the result is zero: exp(-745.14)
 * is half of the least subnormal double, exp(-103.98) that of floats.  These lanes are computed for 0, and cleared.
 *
 * GCC would make one branch of a choice before a call and of one after it, which has no vectors.  So loops call a
 * function `futad_exp`, whose vector variants are here; by itself it is `exp`.
 */
__asm__(".set futad_exp, exp\n.set futad_expf, expf");

/* A function of vectors V, with integers I of the same size; `own` and `lib` are names that the linker knows, `any` is
 * whether one of the integers `far` is not 0, or whether an x is below `limit`. */
#define FUTAD_FAR_EXP(V, I, below, own, lib, any)                           \
  V own##_f(V) __asm__(#own);                                               \
  __attribute__((noplt)) V lib##_f(V) __asm__(#lib);                        \
  __attribute__((weak, visibility("hidden"))) V own##_f(V x) {              \
    const V limit = -(below) - (V){0};                                      \
    const I far = x < limit;                                                \
    if (FUTAD_LIKELY(!(any))) return lib##_f(x);                            \
    return (V)((I)lib##_f((V)((I)x & ~far)) & ~far);                        \
  }

/* Those for n doubles and m floats; `isa` is the letter of their instructions in the names of vector functions. */
#define FUTAD_FAR_EXPS(isa, n, m, any64, any32)                                                                 \
  typedef double futad_f64_##isa __attribute__((vector_size(8 * n)));                                           \
  typedef int64_t futad_i64_##isa __attribute__((vector_size(8 * n)));                                          \
  typedef float futad_f32_##isa __attribute__((vector_size(4 * m)));                                            \
  typedef int32_t futad_i32_##isa __attribute__((vector_size(4 * m)));                                          \
  FUTAD_FAR_EXP(futad_f64_##isa, futad_i64_##isa, 746.0, _ZGV##isa##N##n##v_futad_exp, _ZGV##isa##N##n##v_exp, any64) \
  FUTAD_FAR_EXP(futad_f32_##isa, futad_i32_##isa, 104.0f, _ZGV##isa##N##m##v_futad_expf, _ZGV##isa##N##m##v_expf, any32)
#define FUTAD_NO_FAR_EXPS(isa, n, m)                                                  \
  __asm__(".set _ZGV" #isa "N" #n "v_futad_exp, _ZGV" #isa "N" #n "v_exp\n"          \
          ".set _ZGV" #isa "N" #m "v_futad_expf, _ZGV" #isa "N" #m "v_expf");

#define FUTAD_ANY __builtin_ia32_movmskps((futad_f32_b)far)
FUTAD_FAR_EXPS(b, 2, 4, FUTAD_ANY, FUTAD_ANY)
#undef FUTAD_ANY
FUTAD_NO_FAR_EXPS(c, 4, 8)
#ifdef __AVX2__
#define FUTAD_ANY __builtin_ia32_movmskps256((futad_f32_d)far)
FUTAD_FAR_EXPS(d, 4, 8, FUTAD_ANY, FUTAD_ANY)
#undef FUTAD_ANY
#else
FUTAD_NO_FAR_EXPS(d, 4, 8)
#endif
#ifdef __AVX512F__
#define FUTAD_BELOW(type) __builtin_ia32_cmp##type##512_mask(x, limit, 1, -1, 4) /* less, in this rounding */
FUTAD_FAR_EXPS(e, 8, 16, FUTAD_BELOW(pd), FUTAD_BELOW(ps))
#else
FUTAD_NO_FAR_EXPS(e, 8, 16)
#endif

FUTAD_VEC double futad_exp(double);
FUTAD_VEC float futad_expf(float);
#define exp futad_exp
#define expf futad_expf
