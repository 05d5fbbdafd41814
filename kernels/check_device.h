/* Checked execution on the CPU simulator (docs/checking.md): the C++ compiler puts a call before every access to
 * memory, as for its thread sanitizer; here are the functions that are called, which look each access up.
 *
 * The device's memory is one stretch, with a word for every byte: 0 where no array is, 1 for memory that was had and not
 * written, 2 for what was given back, 3 for what memory of the first
 * kind was copied to, else the time of the last write (`runtime/checked.py`).  What lies elsewhere (shared memory, a thread's own) is not looked at.
 */
#ifndef FUTAD_CHECK_DEVICE_H
#define FUTAD_CHECK_DEVICE_H

namespace futad_check {
static uintptr_t memory, bytes;
static uint32_t *words, now;
struct Finding {
  int64_t what, address, word; /* 0: none, 1: a read, 2: a write */
};
static Finding finding;

#define FUTAD_UNSEEN __attribute__((no_sanitize("thread")))

static __attribute__((noinline, cold)) FUTAD_UNSEEN void found(int64_t what, uintptr_t at, uint32_t word) {
  if (!finding.what) finding = Finding{what, (int64_t)at, (int64_t)word};
}

static inline FUTAD_UNSEEN void read(const volatile void *p, uintptr_t size) {
  const uintptr_t at = (uintptr_t)p - memory;
  if (at >= bytes) return;
  for (uintptr_t i = 0; i < size; i++)
    if (words[at + i] < 4) found(1, (uintptr_t)p + i, words[at + i]);
}

static inline FUTAD_UNSEEN void write(volatile void *p, uintptr_t size) {
  const uintptr_t at = (uintptr_t)p - memory;
  if (at >= bytes) return;
  for (uintptr_t i = 0; i < size; i += size - 1 ? size - 1 : 1)
    if (!words[at + i] || words[at + i] == 2) found(2, (uintptr_t)p, words[at + i]);
  for (uintptr_t i = 0; i < size; i++) words[at + i] = now;
}

/* A copy, which may be of memory that was not written: then that is not in the other place either. */
static __attribute__((noinline)) FUTAD_UNSEEN void copy(void *to, const void *from, uintptr_t size) {
  const uintptr_t t = (uintptr_t)to - memory, f = (uintptr_t)from - memory;
  for (uintptr_t i = 0; t != f && i < size; i++) {
    const uint32_t word = f < bytes ? words[f + i] : now;
    if (!word || word == 2) found(1, (uintptr_t)from + i, word);
    if (t >= bytes) continue;
    if (!words[t + i] || words[t + i] == 2) found(2, (uintptr_t)to + i, words[t + i]);
    words[t + i] = word < 4 ? 3 : now;
  }
  memmove(to, from, size);
}
}  // namespace futad_check
#define FUTAD_LOOKED_UP_COPY(to, from, size) \
  futad_check::copy(to, from, size);         \
  return

extern "C" {
FUTAD_UNSEEN void futad_check_memory(void *memory, uintptr_t bytes, uint32_t *words) {
  futad_check::memory = (uintptr_t)memory;
  futad_check::bytes = bytes;
  futad_check::words = words;
}
FUTAD_UNSEEN void futad_check_begin(uint32_t now) {
  futad_check::now = now;
  futad_check::finding.what = 0;
}
FUTAD_UNSEEN void futad_check_found(int64_t *out) {
  out[0] = futad_check::finding.what;
  out[1] = futad_check::finding.address;
  out[2] = futad_check::finding.word;
}

/* Hooks by the names that the compiler calls; their types are not those that it has built in. */
#define FUTAD_HOOK(T, name, params)                                   \
  FUTAD_UNSEEN T futad_hook_##name params __asm__("__tsan_" #name); \
  FUTAD_UNSEEN T futad_hook_##name params

FUTAD_HOOK(void, init, ()) {}
FUTAD_HOOK(void, func_entry, (void *)) {}
FUTAD_HOOK(void, func_exit, ()) {}
FUTAD_HOOK(void, vptr_read, (void **)) {}
FUTAD_HOOK(void, vptr_update, (void **, void *)) {}
FUTAD_HOOK(void, read_range, (void *p, uintptr_t size)) { futad_check::read(p, size); }
FUTAD_HOOK(void, write_range, (void *p, uintptr_t size)) {
  if (size) futad_check::write(p, size);
}
#define FUTAD_ACCESSES(n)                                                                \
  FUTAD_HOOK(void, read##n, (void *p)) { futad_check::read(p, n); }                      \
  FUTAD_HOOK(void, write##n, (void *p)) { futad_check::write(p, n); }                    \
  FUTAD_HOOK(void, unaligned_read##n, (void *p)) { futad_check::read(p, n); }            \
  FUTAD_HOOK(void, unaligned_write##n, (void *p)) { futad_check::write(p, n); }          \
  FUTAD_HOOK(void, volatile_read##n, (void *p)) { futad_check::read(p, n); }             \
  FUTAD_HOOK(void, volatile_write##n, (void *p)) { futad_check::write(p, n); }
FUTAD_ACCESSES(1)
FUTAD_ACCESSES(2)
FUTAD_ACCESSES(4)
FUTAD_ACCESSES(8)
FUTAD_ACCESSES(16)

#define FUTAD_CHANGED(p)               \
  futad_check::read(p, sizeof(*(p)));  \
  futad_check::write(p, sizeof(*(p)))
#define FUTAD_FETCH(bits, T, op)                                        \
  FUTAD_HOOK(T, atomic##bits##_fetch_##op, (T * p, T v, int)) {         \
    FUTAD_CHANGED(p);                                                   \
    return __atomic_fetch_##op(p, v, __ATOMIC_SEQ_CST);                 \
  }
#define FUTAD_SWAP(bits, T, kind)                                                           \
  FUTAD_HOOK(int, atomic##bits##_compare_exchange_##kind, (T * p, T * e, T v, int, int)) {  \
    FUTAD_CHANGED(p);                                                                       \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define FUTAD_ATOMICS(bits, T)                                          \
  FUTAD_HOOK(T, atomic##bits##_load, (const T *p, int)) {               \
    futad_check::read(p, sizeof(T));                                    \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                        \
  }                                                                     \
  FUTAD_HOOK(void, atomic##bits##_store, (T * p, T v, int)) {           \
    futad_check::write(p, sizeof(T));                                   \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                           \
  }                                                                     \
  FUTAD_HOOK(T, atomic##bits##_exchange, (T * p, T v, int)) {           \
    FUTAD_CHANGED(p);                                                   \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                 \
  }                                                                     \
  FUTAD_SWAP(bits, T, strong)                                           \
  FUTAD_SWAP(bits, T, weak)                                             \
  FUTAD_FETCH(bits, T, add)                                             \
  FUTAD_FETCH(bits, T, sub)                                             \
  FUTAD_FETCH(bits, T, and)                                             \
  FUTAD_FETCH(bits, T, or)                                              \
  FUTAD_FETCH(bits, T, xor)
FUTAD_ATOMICS(8, uint8_t)
FUTAD_ATOMICS(16, uint16_t)
FUTAD_ATOMICS(32, uint32_t)
FUTAD_ATOMICS(64, uint64_t)
FUTAD_HOOK(void, atomic_thread_fence, (int)) {}
FUTAD_HOOK(void, atomic_signal_fence, (int)) {}
}

#endif
