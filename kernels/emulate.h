/* The emulated device: CUDA C compiled by the host's C++ compiler and run on one thread of the CPU.
 *
 * Every CUDA thread is a fiber with a stack of its own; barriers, warp intrinsics and spins switch to another.
 * Blocks run one after the other, or, with a seed, several at a time in random interleaving: then threads also
 * lose the processor at atomics.  A block all of whose threads wait is a deadlock and ends the launch with a
 * message that names block, thread and line.  Under -fsanitize=address buffers and shared memory are heap
 * blocks, so every access is checked; under -fsanitize=thread each fiber is a thread of the sanitizer and
 * barriers are what orders them.  Nothing here models memory ordering or speed.
 *
 * Include before the kernel text.  `futad_emu::launch` runs a kernel.
 */
#ifndef FUTAD_EMULATE_H
#define FUTAD_EMULATE_H

#define FUTAD_EMULATED 1

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <utility>

#if defined(__x86_64__) && defined(__linux__) && !defined(FUTAD_EMU_PORTABLE)
#define FUTAD_EMU_ASM 1
#else
#include <ucontext.h>
#endif

#if defined(__SANITIZE_THREAD__)
#define FUTAD_EMU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FUTAD_EMU_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FUTAD_EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUTAD_EMU_ASAN 1
#endif
#endif

#ifdef FUTAD_EMU_TSAN
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
}
#define FUTAD_EMU_RELEASE(p) __tsan_release(p)
#define FUTAD_EMU_ACQUIRE(p) __tsan_acquire(p)
/* The scheduler's own data are not the program's: no race can be there. */
#define FUTAD_EMU_FN __attribute__((no_sanitize("thread"), noinline, unused))
#else
#define FUTAD_EMU_RELEASE(p) ((void)0)
#define FUTAD_EMU_ACQUIRE(p) ((void)0)
#define FUTAD_EMU_FN __attribute__((unused))
#endif
#ifdef FUTAD_EMU_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
}
#endif

#ifndef FUTAD_EMU_STACK
#define FUTAD_EMU_STACK (256 * 1024)
#endif

/* --- CUDA's words ----------------------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define warpSize 32

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};

/* Shared memory, static and dynamic: an array of `count` elements; `name` is a pointer here, an array in CUDA. */
#define FUTAD_SHARED(T, name, count) \
  static char futad_tag_##name;      \
  T *const name = (T *)futad_emu::shared(&futad_tag_##name, sizeof(T) * (count))
#define FUTAD_DYNAMIC_SHARED(T, name) T *const name = (T *)futad_emu::dynamic_shared()

/* What a loop that waits for another thread does in every round. */
#define FUTAD_SPIN() futad_emu::spin(__LINE__)

namespace futad_emu {

enum State { READY, AT_BARRIER, IN_WARP, DONE };
enum Kind { SYNC, SHUFFLE, BALLOT, MATCH };

struct Block;

struct Fiber {
#ifdef FUTAD_EMU_ASM
  void *sp;
#else
  ucontext_t context;
#endif
  char *stack;
  Block *block;
  uint3 tid;
  unsigned index;
  State state;
  int line;
  /* The warp operation this thread waits in. */
  Kind kind;
  unsigned mask, order;
  int source;
  unsigned long long value, result;
  void *tsan, *fake_stack;
  char sync[2];
  unsigned parity;
};

const int MAX_SLOTS = 64;

struct Slot {
  const void *tag;
  void *memory;
  size_t bytes;
  char sync;
};

struct Block {
  uint3 idx;
  Fiber *fibers;
  unsigned size, started, done;
  unsigned arrived, count, phase;
  int line;
  unsigned counts[2];
  char sync[2];
  unsigned waiting[32]; /* lanes of each warp that wait in a warp operation */
  unsigned *queue, head, length;
  Slot slots[MAX_SLOTS];
  int used;
  void *dynamic;
};

struct Launch {
  unsigned grid[3], block[3];
  unsigned long long dynamic_bytes;
  unsigned long long seed; /* 0: blocks in order */
};

struct List {
  void **items;
  size_t length, capacity;
};

/* State of the one launch in progress. */
struct Device {
  Launch launch;
  void (*body)(void *);
  void *args;
  Fiber *current;
  bool failed;
  char message[512];
  unsigned long long random, spins;
  char begin, end; /* sanitizer's slots: start and end of the launch */
  void **stacks;
  unsigned free_stacks, made_stacks;
  List garbage, fibers; /* memory and the sanitizer's fibers, to be freed when the launch has ended */
#ifdef FUTAD_EMU_ASM
  void *sp;
#else
  ucontext_t context;
#endif
  void *tsan, *fake_stack;
  const void *main_bottom;
  size_t main_size;
};

static Device device;
static uint3 thread_idx_, block_idx_;
static dim3 block_dim_, grid_dim_;

#ifdef FUTAD_EMU_TSAN
FUTAD_EMU_FN static uint3 thread_idx() { return thread_idx_; }
FUTAD_EMU_FN static uint3 block_idx() { return block_idx_; }
FUTAD_EMU_FN static dim3 block_dim() { return block_dim_; }
FUTAD_EMU_FN static dim3 grid_dim() { return grid_dim_; }
#define threadIdx (futad_emu::thread_idx())
#define blockIdx (futad_emu::block_idx())
#define blockDim (futad_emu::block_dim())
#define gridDim (futad_emu::grid_dim())
#else
#define threadIdx (futad_emu::thread_idx_)
#define blockIdx (futad_emu::block_idx_)
#define blockDim (futad_emu::block_dim_)
#define gridDim (futad_emu::grid_dim_)
#endif

/* --- switching ---------------------------------------------------------------------------------------------- */

#ifdef FUTAD_EMU_ASM
extern "C" void futad_emu_switch(void **save, void *to) __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".type futad_emu_switch,@function\n"
    "futad_emu_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size futad_emu_switch,.-futad_emu_switch\n");
#endif

/* From the running fiber back to the scheduler; returns when the scheduler resumes it. */
FUTAD_EMU_FN static void leave(bool forever) {
  Fiber *f = device.current;
#ifdef FUTAD_EMU_ASAN
  __sanitizer_start_switch_fiber(forever ? nullptr : &f->fake_stack, device.main_bottom, device.main_size);
#endif
#ifdef FUTAD_EMU_TSAN
  __tsan_switch_to_fiber(device.tsan, 1);
#endif
#ifdef FUTAD_EMU_ASM
  futad_emu_switch(&f->sp, device.sp);
#else
  swapcontext(&f->context, &device.context);
#endif
#ifdef FUTAD_EMU_ASAN
  __sanitizer_finish_switch_fiber(f->fake_stack, nullptr, nullptr);
#endif
}

FUTAD_EMU_FN static void resume(Fiber *f) {
  device.current = f;
  thread_idx_ = f->tid;
  block_idx_ = f->block->idx;
#ifdef FUTAD_EMU_ASAN
  __sanitizer_start_switch_fiber(&device.fake_stack, f->stack, FUTAD_EMU_STACK);
#endif
#ifdef FUTAD_EMU_TSAN
  __tsan_switch_to_fiber(f->tsan, 1);
#endif
#ifdef FUTAD_EMU_ASM
  futad_emu_switch(&device.sp, f->sp);
#else
  swapcontext(&device.context, &f->context);
#endif
#ifdef FUTAD_EMU_ASAN
  __sanitizer_finish_switch_fiber(device.fake_stack, nullptr, nullptr);
#endif
}

/* Ends the launch with a message. */
FUTAD_EMU_FN static void fail(const char *format, ...) {
  if (!device.failed) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(device.message, sizeof device.message, format, ap);
    va_end(ap);
  }
  device.failed = true;
  if (device.current) leave(true);
}

FUTAD_EMU_FN static unsigned random_below(unsigned n) {
  device.random ^= device.random << 13;
  device.random ^= device.random >> 7;
  device.random ^= device.random << 17;
  return (unsigned)((device.random >> 32) * n >> 32);
}

FUTAD_EMU_FN static void push(Block *b, Fiber *f) {
  f->state = READY;
  unsigned at = b->head + b->length++;
  b->queue[at < b->size ? at : at - b->size] = f->index;
}

FUTAD_EMU_FN static Fiber *pop(Block *b) {
  if (device.launch.seed) {
    unsigned other = b->head + random_below(b->length);
    other = other < b->size ? other : other - b->size;
    std::swap(b->queue[b->head], b->queue[other]);
  }
  Fiber *f = &b->fibers[b->queue[b->head]];
  b->head = b->head + 1 == b->size ? 0 : b->head + 1;
  b->length--;
  return f;
}

/* Lets other threads run. */
FUTAD_EMU_FN static void yield() {
  push(device.current->block, device.current);
  leave(false);
}

FUTAD_EMU_FN static void spin(int line) {
  Fiber *f = device.current;
  f->line = line;
  if (++device.spins > 2000000) {
    fail("deadlock: block (%u, %u, %u), thread (%u, %u, %u) spins without end at line %d", f->block->idx.x,
         f->block->idx.y, f->block->idx.z, f->tid.x, f->tid.y, f->tid.z, line);
  }
  yield();
}

/* Where another thread may come between, in random interleaving. */
FUTAD_EMU_FN static void preempt() {
  if (device.launch.seed && device.current && random_below(4) == 0) yield();
}

FUTAD_EMU_FN static void progress() { device.spins = 0; }

/* --- memory --------------------------------------------------------------------------------------------------- */

FUTAD_EMU_FN static void keep_in(List *list, void *p) {
  if (list->length == list->capacity) {
    list->capacity = list->capacity * 2 + 64;
    list->items = (void **)realloc(list->items, list->capacity * sizeof(void *));
  }
  list->items[list->length++] = p;
}

FUTAD_EMU_FN static char *new_stack() {
#ifdef FUTAD_EMU_TSAN
  /* A fresh one for each thread: the sanitizer would take reuse for a race. */
  char *made = (char *)malloc(FUTAD_EMU_STACK);
  keep_in(&device.garbage, made);
  return made;
#else
  if (device.free_stacks) return (char *)device.stacks[--device.free_stacks];
  long page = 4096;
  char *p = (char *)mmap(nullptr, FUTAD_EMU_STACK + page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == (char *)MAP_FAILED) {
    fprintf(stderr, "futad: no memory for the stacks of the emulated device\n");
    abort();
  }
  mprotect(p, page, PROT_NONE); /* running over the end is a fault, not silence */
  device.made_stacks++;
  device.stacks = (void **)realloc(device.stacks, device.made_stacks * sizeof(void *));
  return p + page;
#endif
}

FUTAD_EMU_FN static void give_stack(char *stack) {
#ifndef FUTAD_EMU_TSAN
  device.stacks[device.free_stacks++] = stack;
#endif
}

FUTAD_EMU_FN static void *new_shared(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
#ifdef FUTAD_EMU_TSAN
  keep_in(&device.garbage, p);
#endif
  return p;
}

/* The block's memory of one declaration; full of rubbish when the block starts. */
FUTAD_EMU_FN static void *shared(const void *tag, size_t bytes) {
  Block *b = device.current->block;
  int at = 0;
  while (at < b->used && b->slots[at].tag != tag) at++;
  Slot *s = &b->slots[at];
  if (at == MAX_SLOTS) fail("more than %d shared arrays", MAX_SLOTS);
  if (at == b->used) {
    /* To the thread sanitizer it is the scheduler that allocates, not the thread that happens to come first. */
#ifdef FUTAD_EMU_TSAN
    __tsan_switch_to_fiber(device.tsan, 1);
#endif
    s->tag = tag;
    s->bytes = bytes;
    s->memory = new_shared(bytes);
    memset(s->memory, 0xA5, bytes);
    b->used++;
#ifdef FUTAD_EMU_TSAN
    __tsan_release(&s->sync);
    __tsan_switch_to_fiber(device.current->tsan, 1);
#endif
  }
  FUTAD_EMU_ACQUIRE(&s->sync);
  return s->memory;
}

FUTAD_EMU_FN static void *dynamic_shared() { return device.current->block->dynamic; }

/* --- barriers and warps ------------------------------------------------------------------------------------------- */

/* Returns how many threads came with a predicate that is not zero. */
FUTAD_EMU_FN static unsigned barrier(int predicate, int line) {
  Fiber *f = device.current;
  Block *b = f->block;
  unsigned phase = b->phase;
  f->line = line;
  if (b->arrived == 0) {
    b->line = line;
    b->count = 0;
  } else if (b->line != line) {
    fail("deadlock: block (%u, %u, %u): thread (%u, %u, %u) is at the barrier of line %d while others are at the one "
         "of line %d",
         b->idx.x, b->idx.y, b->idx.z, f->tid.x, f->tid.y, f->tid.z, line, b->line);
  }
  FUTAD_EMU_RELEASE(&b->sync[phase]);
  b->count += predicate != 0;
  if (++b->arrived == b->size) {
    b->arrived = 0;
    b->counts[phase] = b->count;
    b->phase ^= 1;
    progress();
    for (unsigned i = 0; i < b->size; i++) {
      if (&b->fibers[i] != f) push(b, &b->fibers[i]);
    }
    if (device.launch.seed) yield();
  } else {
    f->state = AT_BARRIER;
    leave(false);
  }
  FUTAD_EMU_ACQUIRE(&b->sync[phase]);
  return b->counts[phase];
}

FUTAD_EMU_FN static unsigned lanes_of(Block *b, unsigned warp) {
  unsigned left = b->size - warp * 32;
  return left >= 32 ? 0xffffffffu : (1u << left) - 1;
}

/* One warp operation of the lanes in `mask`; returns this lane's result. */
FUTAD_EMU_FN static unsigned long long collective(Kind kind, unsigned mask, unsigned long long value, int source,
                                                  int line) {
  Fiber *f = device.current;
  Block *b = f->block;
  unsigned warp = f->index / 32, lane = f->index % 32;
  mask &= lanes_of(b, warp);
  f->line = line;
  if (!(mask >> lane & 1)) {
    fail("block (%u, %u, %u), thread (%u, %u, %u): a warp operation whose mask %08x lacks lane %u, at line %d",
         b->idx.x, b->idx.y, b->idx.z, f->tid.x, f->tid.y, f->tid.z, mask, lane, line);
  }
  f->kind = kind;
  f->mask = mask;
  f->value = value;
  f->source = source;
#ifdef FUTAD_EMU_TSAN
  if (kind == SYNC) {
    f->parity ^= 1;
    __tsan_release(&f->sync[f->parity]);
  }
#endif
  b->waiting[warp] |= 1u << lane;
  Fiber *lanes = &b->fibers[warp * 32];
  bool all = (b->waiting[warp] & mask) == mask;
  for (unsigned l = 0; all && l < 32; l++) {
    if (mask >> l & 1) all = lanes[l].mask == mask && lanes[l].kind == kind;
  }
  if (all) {
    b->waiting[warp] &= ~mask;
    progress();
    unsigned bits = 0, order = 0;
    for (unsigned l = 0; l < 32; l++) {
      if (!(mask >> l & 1)) continue;
      if (lanes[l].value) bits |= 1u << l;
      order |= (lanes[l].parity & 1) << l;
    }
    for (unsigned l = 0; l < 32; l++) {
      if (!(mask >> l & 1)) continue;
      Fiber *g = &lanes[l];
      g->order = order;
      if (kind == BALLOT) {
        g->result = bits;
      } else if (kind == SHUFFLE) {
        /* From a lane outside the mask comes rubbish. */
        g->result = mask >> g->source & 1 ? lanes[g->source].value : 0xA5A5A5A5A5A5A5A5ull;
      } else if (kind == MATCH) {
        g->result = 0;
        for (unsigned k = 0; k < 32; k++) {
          if (mask >> k & 1 && lanes[k].value == g->value) g->result |= 1u << k;
        }
      }
      if (g != f) push(b, g);
    }
    if (device.launch.seed) yield();
  } else {
    f->state = IN_WARP;
    leave(false);
  }
#ifdef FUTAD_EMU_TSAN
  for (unsigned l = 0; kind == SYNC && l < 32; l++) {
    if (mask >> l & 1) __tsan_acquire(&lanes[l].sync[f->order >> l & 1]);
  }
#endif
  return f->result;
}

FUTAD_EMU_FN static unsigned lane_id() { return device.current->index % 32; }
FUTAD_EMU_FN static unsigned warp_lanes() { return lanes_of(device.current->block, device.current->index / 32); }

template <class T>
static inline T shuffle(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  unsigned long long word = 0;
  memcpy(&word, &value, sizeof(T));
  word = collective(SHUFFLE, mask, word, source, line);
  memcpy(&value, &word, sizeof(T));
  return value;
}

template <class T>
static inline T shuffle_idx(int line, unsigned mask, T value, int source, int width = 32) {
  int lane = (int)lane_id();
  return shuffle(mask, value, (lane & -width) | (source & (width - 1)), line);
}
template <class T>
static inline T shuffle_up(int line, unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = (int)lane_id(), from = lane - (int)delta;
  return shuffle(mask, value, from < (lane & -width) ? lane : from, line);
}
template <class T>
static inline T shuffle_down(int line, unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = (int)lane_id(), from = lane + (int)delta;
  return shuffle(mask, value, from >= (lane & -width) + width ? lane : from, line);
}
template <class T>
static inline T shuffle_xor(int line, unsigned mask, T value, int bits, int width = 32) {
  int lane = (int)lane_id(), from = lane ^ bits;
  return shuffle(mask, value, from >= (lane & -width) + width ? lane : from, line);
}
template <class T>
static inline unsigned match(int line, unsigned mask, T value) {
  unsigned long long word = 0;
  memcpy(&word, &value, sizeof(T));
  return (unsigned)collective(MATCH, mask, word, 0, line);
}
static inline void sync_warp(int line, unsigned mask = 0xffffffffu) { collective(SYNC, mask, 0, 0, line); }
static inline unsigned ballot(int line, unsigned mask, int predicate) {
  return (unsigned)collective(BALLOT, mask, predicate != 0, 0, line);
}

/* --- scheduler ----------------------------------------------------------------------------------------------------- */

FUTAD_EMU_FN static void entry() {
#ifdef FUTAD_EMU_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &device.main_bottom, &device.main_size);
#endif
  FUTAD_EMU_ACQUIRE(&device.begin);
  device.body(device.args);
  FUTAD_EMU_RELEASE(&device.end);
  device.current->state = DONE;
  leave(true);
}

FUTAD_EMU_FN static Fiber *start(Block *b) {
  Fiber *f = &b->fibers[b->started];
  char *stack = new_stack();
  memset(f, 0, sizeof *f);
  f->stack = stack;
  f->block = b;
  f->index = b->started++;
  f->tid.x = f->index % block_dim_.x;
  f->tid.y = f->index / block_dim_.x % block_dim_.y;
  f->tid.z = f->index / block_dim_.x / block_dim_.y;
#ifdef FUTAD_EMU_TSAN
  f->tsan = __tsan_create_fiber(0);
#endif
#ifdef FUTAD_EMU_ASM
  /* Six registers and the address `futad_emu_switch` returns to; the stack is as after a call. */
  void **top = (void **)(stack + FUTAD_EMU_STACK - 72);
  top[0] = nullptr;
  *--top = (void *)entry;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  f->sp = top;
#else
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = stack;
  f->context.uc_stack.ss_size = FUTAD_EMU_STACK;
  f->context.uc_link = nullptr;
  makecontext(&f->context, entry, 0);
#endif
  progress();
  return f;
}

FUTAD_EMU_FN static void open_block(Block *b, unsigned long long number) {
  b->idx.x = (unsigned)(number % grid_dim_.x);
  b->idx.y = (unsigned)(number / grid_dim_.x % grid_dim_.y);
  b->idx.z = (unsigned)(number / grid_dim_.x / grid_dim_.y);
  b->started = b->done = b->arrived = b->phase = 0;
  b->head = b->length = 0;
  memset(b->waiting, 0, sizeof b->waiting);
#ifdef FUTAD_EMU_TSAN
  b->used = 0;
  b->dynamic = new_shared(device.launch.dynamic_bytes);
#endif
  for (int i = 0; i < b->used; i++) memset(b->slots[i].memory, 0xA5, b->slots[i].bytes);
  memset(b->dynamic, 0xA5, device.launch.dynamic_bytes);
  FUTAD_EMU_RELEASE(&device.begin);
}

FUTAD_EMU_FN static void close_fiber(Fiber *f) {
#ifdef FUTAD_EMU_TSAN
  /* Not before the launch ends: the sanitizer gives a new fiber the number of a dead one, and one number does not race
   * with itself.  It has some 8000 of them, which bounds the threads of a launch. */
  keep_in(&device.fibers, f->tsan);
#endif
  give_stack(f->stack);
}

FUTAD_EMU_FN static void report_deadlock(Block *b) {
  const Fiber *stuck = nullptr;
  for (unsigned i = 0; i < b->size && !stuck; i++) {
    if (b->fibers[i].state != DONE) stuck = &b->fibers[i];
  }
  char other[160] = "";
  for (unsigned i = 0; i < b->size; i++) {
    const Fiber *f = &b->fibers[i];
    if (f->state == stuck->state && f->line == stuck->line) continue;
    if (f->state == DONE) {
      snprintf(other, sizeof other, "; thread (%u, %u, %u) has left the kernel", f->tid.x, f->tid.y, f->tid.z);
    } else {
      snprintf(other, sizeof other, "; thread (%u, %u, %u) waits at the %s of line %d", f->tid.x, f->tid.y, f->tid.z,
               f->state == AT_BARRIER ? "barrier" : "warp operation", f->line);
    }
    break;
  }
  fail("deadlock: block (%u, %u, %u): thread (%u, %u, %u) waits at the %s of line %d%s", b->idx.x, b->idx.y, b->idx.z,
       stuck->tid.x, stuck->tid.y, stuck->tid.z, stuck->state == AT_BARRIER ? "barrier" : "warp operation", stuck->line,
       other);
}

/* The next fiber of the block to run, or null if none can. */
FUTAD_EMU_FN static Fiber *next(Block *b) {
  bool fresh = b->started < b->size;
  if (fresh && (!b->length || !device.launch.seed || random_below(2))) return start(b);
  return b->length ? pop(b) : nullptr;
}

FUTAD_EMU_FN static void run_blocks(Block *blocks, unsigned residents, unsigned long long total) {
  unsigned long long opened = 0, *order = nullptr;
  if (device.launch.seed) {
    order = (unsigned long long *)malloc(total * sizeof *order);
    for (unsigned long long i = 0; i < total; i++) {
      unsigned j = random_below((unsigned)i + 1);
      order[i] = order[j];
      order[j] = i;
    }
  }
  unsigned live = 0;
  for (; live < residents; live++, opened++) open_block(&blocks[live], order ? order[opened] : opened);
  while (live && !device.failed) {
    unsigned at = live > 1 ? random_below(live) : 0;
    Block *b = &blocks[at];
    Fiber *f = next(b);
    device.current = nullptr;
    if (!f) {
      report_deadlock(b);
      break;
    }
    resume(f);
    device.current = nullptr;
    if (f->state != DONE || device.failed) continue;
    close_fiber(f);
    progress();
    if (++b->done < b->size) continue;
    if (opened < total) {
      open_block(b, order ? order[opened] : opened);
      opened++;
    } else {
      std::swap(blocks[at], blocks[--live]);
      /* Fibers know their block by its address. */
      for (unsigned i = 0; at != live && i < blocks[at].started; i++) blocks[at].fibers[i].block = &blocks[at];
    }
  }
  free(order);
}

/* Runs a kernel; 0, or 1 with the reason in `message` (of `size` bytes). */
FUTAD_EMU_FN static int run(const Launch *launch, void (*body)(void *), void *args, char *message, size_t size) {
  unsigned long long total = 1ull * launch->grid[0] * launch->grid[1] * launch->grid[2];
  unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
  device.launch = *launch;
  device.body = body;
  device.args = args;
  device.failed = false;
  device.current = nullptr;
  device.spins = 0;
  device.random = launch->seed * 0x9E3779B97F4A7C15ull | 1;
  device.message[0] = 0;
  grid_dim_.x = launch->grid[0], grid_dim_.y = launch->grid[1], grid_dim_.z = launch->grid[2];
  block_dim_.x = launch->block[0], block_dim_.y = launch->block[1], block_dim_.z = launch->block[2];
  if (threads == 0 || threads > 1024 || total == 0 || launch->grid[1] > 65535 || launch->grid[2] > 65535) {
    snprintf(message, size, "no such launch: %llu blocks of %u threads", total, threads);
    return 1;
  }
#ifdef FUTAD_EMU_TSAN
  device.tsan = __tsan_get_current_fiber();
#endif
  unsigned residents = 1;
  if (launch->seed) {
    for (int i = 0; i < 8; i++) random_below(2);
    residents = 2 + random_below(6);
    if (residents > total) residents = (unsigned)total;
  }
  Block *blocks = (Block *)calloc(residents, sizeof(Block));
  for (unsigned i = 0; i < residents; i++) {
    blocks[i].size = threads;
    blocks[i].fibers = (Fiber *)calloc(threads, sizeof(Fiber));
    blocks[i].queue = (unsigned *)calloc(threads, sizeof(unsigned));
#ifndef FUTAD_EMU_TSAN
    blocks[i].dynamic = new_shared(launch->dynamic_bytes);
#endif
  }
  run_blocks(blocks, residents, total);
  FUTAD_EMU_ACQUIRE(&device.end);
  for (unsigned i = 0; i < residents; i++) {
    Block *b = &blocks[i];
    for (unsigned k = 0; device.failed && k < b->started; k++) {
      if (b->fibers[k].state != DONE) close_fiber(&b->fibers[k]);
    }
#ifndef FUTAD_EMU_TSAN
    for (int k = 0; k < b->used; k++) free(b->slots[k].memory);
    free(b->dynamic);
#endif
    free(b->fibers);
    free(b->queue);
  }
  free(blocks);
  for (size_t i = 0; i < device.garbage.length; i++) free(device.garbage.items[i]);
  device.garbage.length = 0;
#ifdef FUTAD_EMU_TSAN
  for (size_t i = 0; i < device.fibers.length; i++) __tsan_destroy_fiber(device.fibers.items[i]);
  device.fibers.length = 0;
#endif
  device.current = nullptr;
  snprintf(message, size, "%s", device.message);
  return device.failed;
}

template <class... A>
struct Call {
  void (*kernel)(A...);
  void **args;
  template <size_t... I>
  void apply(std::index_sequence<I...>) {
    kernel(*(A *)args[I]...);
  }
  static void body(void *self) { ((Call *)self)->apply(std::make_index_sequence<sizeof...(A)>()); }
};

/* Runs `kernel` with the arguments that `args` points to. */
template <class... A>
static int launch(void (*kernel)(A...), const Launch *l, void **args, char *message, size_t size) {
  Call<A...> call = {kernel, args};
  return run(l, Call<A...>::body, &call, message, size);
}

template <class T>
struct IsPointer {
  enum { value = 0 };
};
template <class T>
struct IsPointer<T *> {
  enum { value = 1 };
};

/* The number of parameters, and of each twice its size plus 1 for a pointer. */
template <class... A>
static const long long *signature(void (*)(A...)) {
  static const long long table[] = {(long long)sizeof...(A), (long long)(2 * sizeof(A) + IsPointer<A>::value)..., 0};
  return table;
}

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

template <class T, class F>
static inline T update(T *p, F f) {
  preempt();
  progress();
#ifdef FUTAD_EMU_TSAN
  typedef typename Word<sizeof(T)>::type W;
  W seen = __atomic_load_n((W *)p, __ATOMIC_ACQUIRE);
  for (;;) {
    T old, made;
    W word;
    memcpy(&old, &seen, sizeof(T));
    made = f(old);
    memcpy(&word, &made, sizeof(T));
    if (__atomic_compare_exchange_n((W *)p, &seen, word, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return old;
  }
#else
  T old = *p;
  *p = f(old);
  return old;
#endif
}

/* Loads and stores that other threads wait for: acquire and release. */
template <class T>
static inline T load_acquire(const T *p) {
  preempt();
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <class T>
static inline void store_release(T *p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
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
    return futad_emu::update(p, [=](T old) -> T { return old == expected ? desired : old; }); \
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
#define __threadfence() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#define __threadfence_block() __atomic_signal_fence(__ATOMIC_SEQ_CST)
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
