/* What orders the memory accesses of threads under the thread sanitizer, beside barriers: fences, and the atomics
 * between them.  CUDA's atomics are relaxed.
 *
 * A fence takes a *snapshot*: all that has happened before it, for the thread.  An atomic that writes a word publishes
 * the writer's last snapshot there (beside those before it, if the atomic read the word too; instead of them, if not).
 * One that reads a word has seen the snapshots that are there; at the reader's next fence they happen before what
 * follows.  So a write is ordered before a read by: write, fence, atomic, atomic that sees it, fence, read.  This is how
 * fences and relaxed atomics are defined in C++ and, for one scope, in PTX.
 */
#ifndef FUTAD_EMULATE_ORDER_H
#define FUTAD_EMULATE_ORDER_H

#ifdef FUTAD_EMU_TSAN

namespace futad_emu {

/* A word that atomics have written. */
struct Place {
  const void *at;
  Snapshots published;
};

/* All by address; open addressing. */
struct Order {
  Place *places;
  size_t count, capacity;
  char *chunk;
  size_t left;
};
static Order order;

/* Memory that is never given back: for the sanitizer a second snapshot at one address would be the first one still. */
FUTAD_EMU_FN static void *new_order(size_t bytes) {
  const size_t size = (size_t)1 << 20;
  bytes = (bytes + 15) / 16 * 16;
  if (bytes > order.left) {
    const size_t wanted = bytes > size ? bytes : size;
    order.chunk = (char *)mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    order.left = wanted;
    if (order.chunk == (char *)MAP_FAILED) {
      fprintf(stderr, "futad: no memory for what orders the threads of the CPU simulator\n");
      abort();
    }
  }
  void *made = order.chunk;
  order.chunk += bytes;
  order.left -= bytes;
  return made;
}

FUTAD_EMU_FN static void append(Snapshots *s, char *snapshot) {
  if (s->length && s->items[s->length - 1] == snapshot) return;
  if (s->length == s->capacity) {
    const unsigned capacity = s->capacity * 2 + 8;
    char **items = (char **)new_order(capacity * sizeof *items);
    for (unsigned i = 0; i < s->length; i++) items[i] = s->items[i];
    s->items = items;
    s->capacity = capacity;
  }
  s->items[s->length++] = snapshot;
}

FUTAD_EMU_FN static Place *place_in(Place *places, size_t capacity, const void *at) {
  size_t k = ((uintptr_t)at * 0x9E3779B97F4A7C15ull >> 20) & (capacity - 1);
  while (places[k].at && places[k].at != at) k = (k + 1) & (capacity - 1);
  return &places[k];
}

FUTAD_EMU_FN static Place *place_of(const void *at) {
  if (2 * order.count >= order.capacity) {
    const size_t capacity = order.capacity ? 2 * order.capacity : 256;
    Place *places = (Place *)new_order(capacity * sizeof *places);
    for (size_t k = 0; k < order.capacity; k++) {
      if (order.places[k].at) *place_in(places, capacity, order.places[k].at) = order.places[k];
    }
    order.places = places;
    order.capacity = capacity;
  }
  Place *p = place_in(order.places, order.capacity, at);
  if (!p->at) {
    p->at = at;
    order.count++;
  }
  return p;
}

/* A launch begins. */
FUTAD_EMU_FN static void forget_order() {
  order.count = order.capacity = 0;
  order.places = nullptr;
}

FUTAD_EMU_FN static void fence() {
  Fiber *f = device.current;
  for (unsigned i = 0; i < f->seen.length; i++) __tsan_acquire(f->seen.items[i]);
  f->seen.length = 0;
  f->fence = (char *)new_order(16);
  __tsan_release(f->fence);
}

/* An atomic has written a word; `also`: and read it. */
FUTAD_EMU_FN static void publish(const void *at, bool also) {
  Place *p = place_of(at);
  if (!also) p->published.length = 0;
  if (device.current->fence) append(&p->published, device.current->fence);
}

/* An atomic has read a word. */
FUTAD_EMU_FN static void observe(const void *at) {
  Place *p = place_of(at);
  for (unsigned i = 0; i < p->published.length; i++) append(&device.current->seen, p->published.items[i]);
}

}  // namespace futad_emu

#define FUTAD_EMU_OBSERVE(p) futad_emu::observe(p)
#define FUTAD_EMU_PUBLISH(p) futad_emu::publish(p, false)
#else
#define FUTAD_EMU_OBSERVE(p) ((void)0)
#define FUTAD_EMU_PUBLISH(p) ((void)0)
#endif

#endif
