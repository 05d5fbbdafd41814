/* Recursive functions: a stack of their own, how deep they are, and memory for the arrays of each activation.
 *
 * An entry, or a thread's piece of a parallel nest, that may call such a function runs on a stack of FUTAD_STACK bytes
 * (1G unless the environment says otherwise), which is reserved and taken only as far as it is touched. Each activation
 * compares its address with the stack's end; one that is too near fails, and each of those that it returns through adds
 * one to the number that the failure reports.
 *
 * The arrays of an activation lie in slots of its frame. Their blocks come from lists by size, of powers of two, and go
 * back there when it returns. What a slot of a caller has may be put there, too: all blocks are the allocator's.
 */

#include <ucontext.h>

#define FUTAD_STACK_ROOM ((size_t)1 << 20) /* for what a function calls that is not recursive */
#define FUTAD_STACK_LEAST ((size_t)1 << 22)
#define FUTAD_BLOCK_LISTS 62

struct futad_stack {
  char *end; /* of what recursive functions may use */
  int64_t mebibytes;
  bool deep; /* it has come to that end */
  void *blocks[FUTAD_BLOCK_LISTS];
  /* of tasks that may run at once (tasks.h): whose deque the thread has, how often the call has forked, since when */
  struct futad_member *member;
  uint64_t forks;
  int64_t forked;
  /* of the switch */
  ucontext_t back, there;
  void (*run)(void *);
  void *given;
};

/* In use while a call runs on a stack; no memory of the slot's own. */
#define FUTAD_ON(ctx) ((struct futad_stack *)(ctx)->slots[FUTAD_STACK_SLOT].data)
#define FUTAD_END(ctx) __atomic_load_n(&FUTAD_ON(ctx)->end, __ATOMIC_RELAXED) /* which an interrupt moves */

/* Whether there is no room for another activation; its place, as a failure that says so. */
static __attribute__((noinline, cold, unused)) int64_t futad_too_deep(struct futad_context *ctx, int64_t place) {
  struct futad_stack *const stack = FUTAD_ON(ctx);
  if (stack->end == FUTAD_NOWHERE) return ctx->error.code = FUTAD_STOPPED;
  stack->deep = true;
  futad_fail(ctx, FUTAD_ASSERT, place, 0, stack->mebibytes, 0, 0);
  return ctx->error.code;
}

#define FUTAD_ROOM(ctx, place) \
  if (FUTAD_UNLIKELY((char *)__builtin_frame_address(0) < FUTAD_END(ctx))) return futad_too_deep(ctx, place)

/* In loops that may take long. */
#define FUTAD_ASKS(label)                                   \
  do {                                                      \
    if (FUTAD_UNLIKELY(FUTAD_END(ctx) == FUTAD_NOWHERE)) {  \
      ctx->error.code = FUTAD_STOPPED;                      \
      goto label;                                           \
    }                                                       \
  } while (0)

static inline int futad_block_list(uint64_t bytes) { return 63 - __builtin_clzll(bytes); }

static inline void futad_give(struct futad_stack *stack, void *data, int64_t bytes) {
#ifdef FUTAD_CHECK_ARENA_H /* who reads it from now on is to be told */
  (void)stack, (void)bytes;
  futad_drop(data);
  return;
#endif
  if (!data) return;
  const int list = futad_block_list((uint64_t)bytes);
  *(void **)data = stack->blocks[list];
  stack->blocks[list] = data;
}

/* An activation ends, with the arrays in so many slots; it may have failed. */
static inline __attribute__((unused)) void futad_leave(struct futad_context *ctx, struct futad_slot *slots, int64_t n) {
  struct futad_stack *const stack = FUTAD_ON(ctx);
  for (int64_t i = 0; i < n; i++) futad_give(stack, slots[i].data, slots[i].bytes);
}

static __attribute__((noinline, unused)) void *futad_frame_grow(struct futad_context *ctx, struct futad_slot *slot,
                                                                int64_t count, int64_t size) {
  struct futad_stack *const stack = FUTAD_ON(ctx);
  int64_t bytes;
  if (count < 0 || __builtin_mul_overflow(count, size, &bytes) || bytes > INT64_MAX / 4) {
    futad_fail(ctx, FUTAD_MEMORY, -1, count < 0 ? count : INT64_MAX, size, 0, 0);
    return NULL;
  }
  const int list = bytes <= 64 ? 6 : futad_block_list((uint64_t)bytes - 1) + 1;
  futad_give(stack, slot->data, slot->bytes);
  *slot = (struct futad_slot){stack->blocks[list], (int64_t)1 << list};
  if (slot->data) {
    stack->blocks[list] = *(void **)slot->data;
    return slot->data;
  }
#ifdef FUTAD_CHECK_ARENA_H
  slot->data = futad_block(&slot->bytes, size);
#else
  slot->data = futad_alloc(&slot->bytes);
#endif
  ctx->allocations++;
  if (!slot->data) {
    slot->bytes = 0;
    futad_fail(ctx, FUTAD_MEMORY, -1, bytes, 1, 0, 0);
  }
  return slot->data;
}

FUTAD_INLINE void *futad_frame_ensure(struct futad_context *ctx, struct futad_slot *slot, int64_t count, int64_t size) {
  if (FUTAD_LIKELY((uint64_t)count <= (uint64_t)slot->bytes / (uint64_t)size && slot->data)) return slot->data;
  return futad_frame_grow(ctx, slot, count, size);
}

/* Bytes of a stack: a number, perhaps with K, M or G behind it. */
static size_t futad_stack_bytes(void) {
  const char *text = getenv("FUTAD_STACK");
  char *unit;
  size_t bytes = text ? (size_t)strtoull(text, &unit, 10) : (size_t)1 << 30;
  if (text && bytes) bytes <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0;
  if (!bytes) bytes = (size_t)1 << 30;
  if (bytes < FUTAD_STACK_LEAST) bytes = FUTAD_STACK_LEAST;
  return (bytes + 4095) / 4096 * 4096;
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static void futad_switched(unsigned high, unsigned low) {
  struct futad_stack *const stack = (struct futad_stack *)((uintptr_t)high << 16 << 16 | (uintptr_t)low);
  futad_stack_runs(&stack->end);
  stack->run(stack->given);
}

/* Run it on a stack of its own. If the system gives none, false. */
static bool futad_elsewhere(struct futad_stack *stack) {
  size_t bytes = futad_stack_bytes();
  char *base = MAP_FAILED;
  for (; bytes >= FUTAD_STACK_LEAST; bytes /= 2) {
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED) break;
  }
  if (base == MAP_FAILED) return false;
#ifdef MADV_HUGEPAGE
  /* Most calls need a few small pages; what goes deeper takes large ones. */
  const size_t top = ((size_t)(base + bytes) & ((size_t)FUTAD_LARGE_PAGE - 1)) + 2 * (size_t)FUTAD_LARGE_PAGE;
  if (top < bytes) {
    madvise(base + bytes - top, top, MADV_NOHUGEPAGE);
    madvise(base, bytes - top, MADV_HUGEPAGE);
  }
#endif
  mprotect(base, 4096, PROT_NONE);
  stack->end = base + FUTAD_STACK_ROOM;
  stack->mebibytes = (int64_t)(bytes >> 20);
  getcontext(&stack->there);
  stack->there.uc_stack.ss_sp = base;
  stack->there.uc_stack.ss_size = bytes;
  stack->there.uc_link = &stack->back;
  makecontext(&stack->there, (void (*)(void))futad_switched, 2, (unsigned)((uintptr_t)stack >> 16 >> 16),
              (unsigned)(uintptr_t)stack);
  swapcontext(&stack->back, &stack->there);
  munmap(base, bytes);
  return true;
}
#else /* sanitizers know the thread's own stack alone */
static bool futad_elsewhere(struct futad_stack *stack) { return stack == NULL; }
#endif

/* Run a function of this context, where recursive functions have room; on the present stack if it has been told apart
 * for them already. */
static __attribute__((unused)) void futad_on_stack(struct futad_context *ctx, void (*run)(void *), void *given) {
  struct futad_slot *const slot = &ctx->slots[FUTAD_STACK_SLOT];
  void *const held = futad_hold(); /* activations have memory */
  if (slot->data) {
    run(given);
    futad_go_on(held);
    return;
  }
  struct futad_stack stack;
  memset(&stack, 0, offsetof(struct futad_stack, back));
  stack.run = run;
  stack.given = given;
  slot->data = &stack;
  if (!futad_elsewhere(&stack)) {
    stack.mebibytes = 2;
    stack.end = (char *)__builtin_frame_address(0) - ((size_t)stack.mebibytes << 20);
    futad_stack_runs(&stack.end);
    run(given);
  }
  futad_stack_runs(NULL);
  slot->data = NULL;
  for (int i = 0; i < FUTAD_BLOCK_LISTS; i++)
    for (void *data = stack.blocks[i], *next; data; data = next) {
      next = *(void **)data;
      free(data);
    }
  futad_go_on(held);
}

/* An entry, and a thread's pieces of a parallel nest, as what `futad_on_stack` runs. */
struct futad_entered {
  int64_t (*entry)(struct futad_context *, void **, struct futad_result *);
  struct futad_context *ctx;
  void **args;
  struct futad_result *results;
  int64_t code;
};

static __attribute__((unused)) void futad_enter(void *given) {
  struct futad_entered *const e = given;
  e->code = e->entry(e->ctx, e->args, e->results);
}

struct futad_piece {
  void (*body)(void *, struct futad_context *, int64_t);
  void *job;
  struct futad_context *ctx;
  int64_t thread;
};

static __attribute__((unused)) void futad_do_piece(void *given) {
  struct futad_piece *const p = given;
#ifdef FUTAD_CHECK_ARENA_H /* a finding stays on this stack */
  jmp_buf outer;
  memcpy(outer, p->ctx->watch.stop, sizeof outer);
  if (!setjmp(p->ctx->watch.stop)) p->body(p->job, p->ctx, p->thread);
  memcpy(p->ctx->watch.stop, outer, sizeof outer);
#else
  p->body(p->job, p->ctx, p->thread);
#endif
}
