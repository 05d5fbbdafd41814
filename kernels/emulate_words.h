/* CUDA's atomics and intrinsic functions on the CPU simulator; see `emulate.h`. */
#ifndef FUTAD_EMULATE_WORDS_H
#define FUTAD_EMULATE_WORDS_H

namespace futad_emu {

/* --- atomics --------------------------------------------------------------------------------------------------------- */

template <size_t N>
struct Word;
template <>
struct Word<1> {
  typedef uint8_t type;
};
template <>
struct Word<2> {
  typedef uint16_t type;
};
template <>
struct Word<4> {
  typedef uint32_t type;
};
template <>
struct Word<8> {
  typedef uint64_t type;
};

/* One step; `writes(old)` says whether it writes `f(old)`. */
template <class T, class F, class Writes>
static inline T update(T *p, F f, Writes writes) {
  preempt();
  progress();
#ifdef FUTAD_EMU_TSAN
  typedef typename Word<sizeof(T)>::type W;
  W seen = __atomic_load_n((W *)p, __ATOMIC_RELAXED), word;
  T old, made;
  memcpy(&old, &seen, sizeof(T));
  observe(p);
  if (!writes(old)) return old;
  made = f(old);
  memcpy(&word, &made, sizeof(T));
  __atomic_compare_exchange_n((W *)p, &seen, word, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); /* one fiber runs */
  publish(p, true);
  return old;
#else
  T old = *p;
  if (writes(old)) *p = f(old);
  return old;
#endif
}
template <class T, class F>
static inline T update(T *p, F f) {
  return update(p, f, [](T) { return true; });
}
template <class T>
static inline T compare_and_swap(T *p, T expected, T desired) {
  return update(p, [=](T) { return desired; }, [=](T old) { return old == expected; });
}

/* Loads and stores of words that other threads change: relaxed, as CUDA's atomics. */
template <class T>
static inline T load(const T *p) {
  preempt();
  T value = __atomic_load_n(p, __ATOMIC_RELAXED);
  FUTAD_EMU_OBSERVE(p);
  return value;
}
template <class T>
static inline void store(T *p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
  FUTAD_EMU_PUBLISH(p);
  progress();
  preempt();
}

}  // namespace futad_emu

#define FUTAD_EMU_ATOMIC(name, T, expr) \
  static inline T name(T *p, T v) {     \
    return futad_emu::update(p, [=](T old) -> T { return expr; }); \
  }
#define FUTAD_EMU_ATOMIC_INTS(name, expr) \
  FUTAD_EMU_ATOMIC(name, int, expr)       \
  FUTAD_EMU_ATOMIC(name, unsigned, expr)  \
  FUTAD_EMU_ATOMIC(name, unsigned long long, expr)
FUTAD_EMU_ATOMIC_INTS(atomicAdd, old + v)
FUTAD_EMU_ATOMIC(atomicAdd, float, old + v)
FUTAD_EMU_ATOMIC(atomicAdd, double, old + v)
FUTAD_EMU_ATOMIC(atomicSub, int, old - v)
FUTAD_EMU_ATOMIC(atomicSub, unsigned, old - v)
FUTAD_EMU_ATOMIC_INTS(atomicExch, v)
FUTAD_EMU_ATOMIC(atomicExch, float, v)
FUTAD_EMU_ATOMIC_INTS(atomicMin, v < old ? v : old)
FUTAD_EMU_ATOMIC(atomicMin, long long, v < old ? v : old)
FUTAD_EMU_ATOMIC_INTS(atomicMax, v > old ? v : old)
FUTAD_EMU_ATOMIC(atomicMax, long long, v > old ? v : old)
FUTAD_EMU_ATOMIC_INTS(atomicAnd, old & v)
FUTAD_EMU_ATOMIC_INTS(atomicOr, old | v)
FUTAD_EMU_ATOMIC_INTS(atomicXor, old ^ v)
FUTAD_EMU_ATOMIC(atomicInc, unsigned, old >= v ? 0 : old + 1)
FUTAD_EMU_ATOMIC(atomicDec, unsigned, old == 0 || old > v ? v : old - 1)
#define FUTAD_EMU_CAS(T)                                   \
  static inline T atomicCAS(T *p, T expected, T desired) { \
    return futad_emu::compare_and_swap(p, expected, desired); \
  }
FUTAD_EMU_CAS(int)
FUTAD_EMU_CAS(unsigned)
FUTAD_EMU_CAS(unsigned long long)
FUTAD_EMU_CAS(unsigned short)

/* --- CUDA's functions ------------------------------------------------------------------------------------------------- */

#define __syncthreads() ((void)futad_emu::barrier(0, __LINE__))
#define __syncthreads_count(p) ((int)futad_emu::barrier((p) != 0, __LINE__))
#define __syncthreads_or(p) (futad_emu::barrier((p) != 0, __LINE__) != 0)
#define __syncthreads_and(p) (futad_emu::barrier((p) == 0, __LINE__) == 0)
#define __syncwarp(...) futad_emu::sync_warp(__LINE__, ##__VA_ARGS__)
#define __shfl_sync(...) futad_emu::shuffle_idx(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) futad_emu::shuffle_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) futad_emu::shuffle_down(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) futad_emu::shuffle_xor(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, p) futad_emu::ballot(__LINE__, mask, p)
#define __any_sync(mask, p) (futad_emu::ballot(__LINE__, mask, p) != 0)
#define __all_sync(mask, p) (futad_emu::ballot(__LINE__, mask, !(p)) == 0)
#define __match_any_sync(mask, v) futad_emu::match(__LINE__, mask, v)
#ifdef FUTAD_EMU_TSAN
#define __threadfence() futad_emu::fence()
#else
#define __threadfence() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif
#define __nanosleep(ns) FUTAD_SPIN()
#define __trap() futad_emu::fail("__trap at line %d", __LINE__)
#define __ldg(p) (*(p))
#define __popc(x) __builtin_popcount(x)
#define __popcll(x) __builtin_popcountll(x)

static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline long long __mul64hi(long long x, long long y) { return (long long)(((__int128)x * y) >> 64); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}
template <class To, class From>
static inline To futad_emu_bits(From x) {
  To r;
  static_assert(sizeof r == sizeof x, "same size");
  memcpy(&r, &x, sizeof r);
  return r;
}
static inline long long __double_as_longlong(double x) { return futad_emu_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return futad_emu_bits<double>(x); }
static inline unsigned __float_as_uint(float x) { return futad_emu_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return futad_emu_bits<float>(x); }

#endif
