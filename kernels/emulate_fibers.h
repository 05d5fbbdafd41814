/* The CPU simulator's fibers, the state of a launch, and shared memory; see `emulate.h`. */
#ifndef FUTAD_EMULATE_FIBERS_H
#define FUTAD_EMULATE_FIBERS_H

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

#if defined(FUTAD_EMU_LOOKED_UP) /* its calls are there, but not the library (`check_device.h`) */
#elif defined(__SANITIZE_THREAD__)
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
#define FUTAD_EMU_KEPT_STACKS 8

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
enum Kind { SYNC, SHUFFLE, BALLOT, MATCH, PRODUCT };

struct Block;

struct Snapshots {
  char **items;
  unsigned length, capacity;
};

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
  char *fence; /* see `emulate_order.h` */
  struct Snapshots seen;
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
  unsigned *queue, head, length, round;
  Slot slots[MAX_SLOTS];
  int used;
  void *dynamic;
};

struct Launch {
  unsigned grid[3], block[3];
  unsigned long long dynamic_bytes;
  unsigned long long seed; /* 0: blocks in order */
  unsigned long long lockstep;
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

/* A round of all threads that can run begins, the other way round. */
FUTAD_EMU_FN static void reverse(Block *b) {
  b->round = b->length;
  for (unsigned i = 0, j = b->length; i + 1 < j; i++) {
    j--;
    std::swap(b->queue[(b->head + i) % b->size], b->queue[(b->head + j) % b->size]);
  }
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

/* Where another thread may come between, in random interleaving; in lockstep all others do. */
FUTAD_EMU_FN static void preempt() {
  if (!device.current) return;
  if (device.launch.lockstep || (device.launch.seed && random_below(4) == 0)) yield();
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
    fprintf(stderr, "futad: no memory for the stacks of the CPU simulator\n");
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

/* After a launch: a process may have as many mappings as it has (65,530 on Linux), and a thousand programs. */
FUTAD_EMU_FN static void keep_few_stacks() {
#ifndef FUTAD_EMU_TSAN
  const long page = 4096;
  while (device.free_stacks > FUTAD_EMU_KEPT_STACKS) {
    munmap((char *)device.stacks[--device.free_stacks] - page, FUTAD_EMU_STACK + page);
    device.made_stacks--;
  }
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

}  // namespace futad_emu

#endif
