/* What CUDA C needs before everything else, without a single header of CUDA's: types, words, half precision.
 *
 * The same text serves NVRTC, nvcc and, after `emulate.h`, the host's C++ compiler.
 */
#ifndef FUTAD_DEVICE_CUH
#define FUTAD_DEVICE_CUH

#define FUTAD_DEVICE 1

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32767 - 1)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#else
#include <stdint.h>
#endif

/* Functions of the device. */
#define FUTAD_INLINE static __device__ __forceinline__ __attribute__((unused))
#define FUTAD_DEV __device__ __forceinline__
#define FUTAD_KERNEL extern "C" __global__ void

#ifndef FUTAD_EMULATED
#define FUTAD_SHARED(T, name, count) __shared__ __align__(16) T name[count]
#define FUTAD_DYNAMIC_SHARED(T, name)                                        \
  extern __shared__ __align__(16) unsigned char futad_dynamic_shared_bytes[]; \
  T *const name = (T *)futad_dynamic_shared_bytes
#define FUTAD_SPIN() __nanosleep(20)
#endif

#define FUTAD_ALL 0xffffffffu /* the mask of a whole warp */

#define FUTAD_LIKELY(c) (c)
#define FUTAD_UNLIKELY(c) (c)
#define FUTAD_INF (__longlong_as_double(0x7ff0000000000000LL))
#define FUTAD_NAN (__longlong_as_double(0x7ff8000000000000LL))
#define FUTAD_MATH(f) f
#define FUTAD_SIGNBIT(x) (copysign(1.0, (double)(x)) < 0)
#define FUTAD_LGAMMA(x) lgamma(x)
#define FUTAD_HYPOT(x, y) futad_hypot(x, y)
#define FUTAD_HYPOTf(x, y) hypotf(x, y)
#ifdef FUTAD_EMULATED /* compiled without contraction */
#define FUTAD_ROUNDED_MUL(x, y) ((x) * (y))
#define FUTAD_ROUNDED_MULf(x, y) ((x) * (y))
#else
#define FUTAD_ROUNDED_MUL(x, y) __dmul_rn(x, y)
#define FUTAD_ROUNDED_MULf(x, y) __fmul_rn(x, y)
#endif
#define FUTAD_POPC(x) __popcll(x)
#define FUTAD_CLZ(x) __clzll((long long)(x))
#define FUTAD_CTZ(x) (__ffsll((long long)(x)) - 1)

FUTAD_INLINE uint64_t futad_bits_f64(double x) { return (uint64_t)__double_as_longlong(x); }
FUTAD_INLINE double futad_from_bits_f64(uint64_t x) { return __longlong_as_double((long long)x); }
FUTAD_INLINE uint32_t futad_bits_f32(float x) { return __float_as_uint(x); }
FUTAD_INLINE float futad_from_bits_f32(uint32_t x) { return __uint_as_float(x); }

/* CUDA's hypot is infinite where the larger number is the largest there is, and the other one too small to count. */
FUTAD_INLINE double futad_hypot(double x, double y) {
  const double large = fmax(fabs(x), fabs(y));
  return fmin(fabs(x), fabs(y)) < large * 0x1p-27 ? large : hypot(x, y);
}

/* --- indices ------------------------------------------------------------------------------------------------------ */

/* Division of indices, which are not negative.  In 32 bits where that is enough: a division in 64 bits takes several
 * times as long, and is a call for which registers are spilled.  The other way is for arrays of more than 2^32 elements:
 * digit by digit. */
FUTAD_INLINE int64_t futad_quotient(int64_t a, int64_t b) {
  if (((uint64_t)(a | b) >> 32) == 0) return (int64_t)((uint32_t)a / (uint32_t)b);
  uint64_t rest = 0, quotient = 0;
#pragma unroll 1
  for (int digit = 63; digit >= 0; digit--) {
    rest = rest << 1 | ((uint64_t)a >> digit & 1);
    quotient <<= 1;
    if (rest >= (uint64_t)b) {
      rest -= (uint64_t)b;
      quotient |= 1;
    }
  }
  return (int64_t)quotient;
}
FUTAD_INLINE int64_t futad_remainder(int64_t a, int64_t b) { return a - futad_quotient(a, b) * b; }

/* Indices of emitted kernels: of 64 bits where 32 are not enough for arrays and numbers of points.  They take twice the
 * registers, so that of the blocks of products a multiprocessor should hold one in place of two. */
#ifdef FUTAD_WIDE
#define FUTAD_TILE_BLOCKS 1
typedef int64_t futad_ix;
FUTAD_INLINE futad_ix futad_quotient_ix(futad_ix a, futad_ix b) { return futad_quotient(a, b); }
#else
#define FUTAD_TILE_BLOCKS 2
typedef int32_t futad_ix;
FUTAD_INLINE futad_ix futad_quotient_ix(futad_ix a, futad_ix b) { return (futad_ix)((uint32_t)a / (uint32_t)b); }
#endif
FUTAD_INLINE futad_ix futad_remainder_ix(futad_ix a, futad_ix b) { return a - futad_quotient_ix(a, b) * b; }

/* --- f16 ---------------------------------------------------------------------------------------------------------- */

#define FUTAD_HAS_F16 1

#ifdef FUTAD_EMULATED
FUTAD_INLINE float futad_half_to_float(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  float size = exponent == 31 ? (fraction ? (float)FUTAD_NAN : (float)FUTAD_INF)
               : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                              : ldexpf((float)fraction, -24);
  return h >> 15 ? -size : size;
}
/* Rounds to nearest, ties to even, in one step from double. */
FUTAD_INLINE uint16_t futad_half_from(double x) {
  uint16_t sign = FUTAD_SIGNBIT(x) ? 0x8000 : 0;
  double size = fabs(x);
  if (size != size) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size < 0x1p-14) return sign | (uint16_t)rint(size * 0x1p24);
  int exponent;
  double fraction = frexp(size, &exponent);
  return sign | (uint16_t)(((exponent + 14) << 10) + ((int)rint(fraction * 2048) - 1024));
}
#else
FUTAD_INLINE float futad_half_to_float(uint16_t h) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
  return r;
}
FUTAD_INLINE uint16_t futad_half_from(float x) {
  uint16_t r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
FUTAD_INLINE uint16_t futad_half_from(double x) {
  uint16_t r;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r) : "d"(x));
  return r;
}
#endif

/* Half precision: arithmetic in f32, rounded after each operation. */
struct futad_f16 {
  uint16_t bits;
  futad_f16() = default;
  FUTAD_DEV explicit futad_f16(float x) : bits(futad_half_from(x)) {}
  template <class N>
  FUTAD_DEV explicit futad_f16(N x) : bits(futad_half_from((double)x)) {}
  FUTAD_DEV operator float() const { return futad_half_to_float(bits); }
};
FUTAD_INLINE futad_f16 operator+(futad_f16 x, futad_f16 y) { return futad_f16((float)x + (float)y); }
FUTAD_INLINE futad_f16 operator-(futad_f16 x, futad_f16 y) { return futad_f16((float)x - (float)y); }
FUTAD_INLINE futad_f16 operator*(futad_f16 x, futad_f16 y) { return futad_f16((float)x * (float)y); }
FUTAD_INLINE futad_f16 operator/(futad_f16 x, futad_f16 y) { return futad_f16((float)x / (float)y); }
FUTAD_INLINE futad_f16 &operator+=(futad_f16 &x, futad_f16 y) { return x = x + y; }
FUTAD_INLINE uint16_t futad_bits_f16(futad_f16 x) { return x.bits; }
FUTAD_INLINE futad_f16 futad_from_bits_f16(uint16_t bits) {
  futad_f16 r;
  r.bits = bits;
  return r;
}
FUTAD_INLINE futad_f16 operator-(futad_f16 x) { return futad_from_bits_f16(x.bits ^ 0x8000); }

/* --- memory that other blocks read and write while a kernel runs -------------------------------------------------- */

/* A word that others change while this thread runs, as it is or was; and to change it so. */
#ifdef FUTAD_EMULATED
template <class W>
FUTAD_DEV W futad_peek(const W *p) {
  return futad_emu::load(p);
}
template <class W>
FUTAD_DEV void futad_poke(W *p, W value) {
  futad_emu::store(p, value);
}
#else
template <class W>
FUTAD_DEV W futad_peek(const W *p) {
  return *(const volatile W *)p;
}
FUTAD_DEV uint32_t futad_peek(const uint32_t *p) {
  uint32_t value;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
FUTAD_DEV void futad_poke(uint32_t *p, uint32_t value) {
  asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
#endif
/* What was written before the flag was set is seen after the flag is read. */
#ifdef FUTAD_EMULATED
FUTAD_DEV uint32_t futad_load_acquire(const uint32_t *p) {
  uint32_t value = futad_peek(p);
  __threadfence();
  return value;
}
FUTAD_DEV void futad_store_release(uint32_t *p, uint32_t value) {
  __threadfence();
  futad_poke(p, value);
}
#else
/* By instructions of their own, which wait for less than a fence does. */
FUTAD_DEV uint32_t futad_load_acquire(const uint32_t *p) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
FUTAD_DEV void futad_store_release(uint32_t *p, uint32_t value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}
#endif

/* A value as 32-bit words, to shuffle it or to pass it through the level-2 cache. */
template <class T>
union futad_words {
  enum { count = (sizeof(T) + 3) / 4 };
  T value;
  uint32_t words[count];
  FUTAD_DEV futad_words() {}
};

/* A word that another block has written before a flag that was seen; and to write one before it.  Plain on the emulated
 * device, where the sanitizer then looks whether the flag's fences are there. */
#ifdef FUTAD_EMULATED
FUTAD_DEV uint32_t futad_word(const uint32_t *p) { return *p; }
FUTAD_DEV void futad_set_word(uint32_t *p, uint32_t value) { *p = value; }
#else
FUTAD_DEV uint32_t futad_word(const uint32_t *p) { return futad_peek(p); }
FUTAD_DEV void futad_set_word(uint32_t *p, uint32_t value) { futad_poke(p, value); }
#endif

/* Values that blocks hand each other, as `futad_words<T>::count` words each; not from the level-1 cache, which the
 * writes of other multiprocessors do not reach. */
template <class T>
FUTAD_DEV T futad_load_words(const uint32_t *p) {
  futad_words<T> w;
#pragma unroll
  for (int i = 0; i < (int)futad_words<T>::count; i++) w.words[i] = futad_word(p + i);
  return w.value;
}
template <class T>
FUTAD_DEV void futad_store_words(uint32_t *p, T value) {
  futad_words<T> w;
  w.value = value;
#pragma unroll
  for (int i = 0; i < (int)futad_words<T>::count; i++) futad_set_word(p + i, w.words[i]);
}

#endif
