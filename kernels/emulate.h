/* The CPU simulator: CUDA C compiled by the host's C++ compiler and run on one thread of the CPU.
 *
 * Every CUDA thread is a fiber with a stack of its own; barriers, warp intrinsics and spins switch to another.
 * Blocks run one after the other, or, with a seed, several at a time in random interleaving: then threads also
 * lose the processor at atomics.  A block all of whose threads wait is a deadlock and ends the launch with a
 * message that names block, thread and line.  Under -fsanitize=address buffers and shared memory are heap
 * blocks, so every access is checked; under -fsanitize=thread each fiber is a thread of the sanitizer, and what orders
 * them are barriers, and fences with the atomics between them (`emulate_order.h`).  In lockstep all threads of a block
 * advance by one atomic at a time, in alternating directions: who came first goes on last.  Nothing here models speed.
 *
 * Include before the kernel text.  `futad_emu::launch` runs a kernel.
 */
#ifndef FUTAD_EMULATE_H
#define FUTAD_EMULATE_H

#include "emulate_fibers.h"
#include "emulate_order.h"

namespace futad_emu {

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

FUTAD_EMU_FN static void multiply_all(Fiber *lanes);

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
    if (kind == PRODUCT) multiply_all(lanes);
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

/* What `multiply` needs of a lane. */
struct Product {
  double *c;
  const double *a, *b;
};

/* c += a b of a warp's 16x4 and 4x8 matrices; see `gemm.cuh` for who has which elements. */
FUTAD_EMU_FN static void multiply(double *c, const double *a, const double *b) {
  Product mine = {c, a, b};
  collective(PRODUCT, 0xffffffffu, (unsigned long long)(uintptr_t)&mine, 0, __LINE__);
}

FUTAD_EMU_FN static void multiply_all(Fiber *lanes) {
  for (unsigned l = 0; l < 32; l++) {
    double *c = ((Product *)(uintptr_t)lanes[l].value)->c;
    for (unsigned e = 0; e < 4; e++) {
      const unsigned row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
      for (unsigned k = 0; k < 4; k++) {
        const Product *left = (Product *)(uintptr_t)lanes[row % 8 * 4 + k].value;
        const Product *right = (Product *)(uintptr_t)lanes[column * 4 + k].value;
        c[e] = fma(left->a[row / 8], right->b[0], c[e]);
      }
    }
  }
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
  b->started = b->done = b->arrived = b->phase = b->round = 0;
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
  if (device.launch.lockstep) {
    if (fresh) return start(b);
    if (!b->round) reverse(b);
    b->round -= b->round != 0;
    return b->length ? pop(b) : nullptr;
  }
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
  /* Blocks stay where they are: their fibers know them, and what orders these, by address. */
  Block **running = (Block **)malloc(residents * sizeof *running);
  unsigned live = 0;
  for (; live < residents; live++, opened++) {
    running[live] = &blocks[live];
    open_block(running[live], order ? order[opened] : opened);
  }
  while (live && !device.failed) {
    unsigned at = live > 1 ? random_below(live) : 0;
    Block *b = running[at];
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
      running[at] = running[--live];
    }
  }
  free(order);
  free(running);
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
  forget_order();
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
  keep_few_stacks();
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

/* Forgets a launch that a thread was doing which is no more: in a new process, before any other launch. */
extern "C" __attribute__((unused)) void futad_emu_reset() { device = Device(); }

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

}  // namespace futad_emu

#include "emulate_words.h"

#endif
