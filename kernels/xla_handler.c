/* The handler through which XLA on CPUs calls entries of programs: one for all of them.
 *
 * A call names its entry by a digest, an attribute, so that what XLA compiled and kept on disk is right in every
 * process.  Entries are added to a table, by Python, before they are called (`futad/jax/calls/handler.py`).
 *
 * XLA calls from any of its threads, several at once.  A call takes a context that no other one has, or makes one; it
 * waits for nobody. */

#include <fenv.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

enum { DIGEST = 64, BUCKETS = 1024, TEXT = 8192 };

struct context {
  void *own;
  struct context *next;
};

/* As Python tells of it: see `handler.py`, `_plan`. */
struct param {
  int64_t dtype, bytes, rank, consumed; /* consumed: the entry may overwrite it */
  const int64_t *dims;                  /* each a number, or -1-k for size k */
};

struct result {
  int64_t place, dtype, bytes, rank; /* place: among the results of the code, of which some are sizes */
};

struct entry {
  char digest[DIGEST];
  struct entry *next;
  int64_t (*call)(void *, void **, int64_t *);
  void *(*new_context)(void);
  int64_t number, sizes, params, results, made, stride, most;
  struct param *param;
  struct result *result;
  pthread_mutex_t mutex;
  struct context *idle;
};

/* What Python is asked: the text of a failure, of `what` below; and to add an entry that is not there. */
typedef void explain_function(int64_t number, int64_t what, const int64_t *words, void *context, char *out, int64_t room);
typedef int64_t wanted_function(const char *digest, const char *recipe, int64_t length);
enum { FAILED = 0, SHAPE = 1 };

static struct entry *table[BUCKETS];
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
static explain_function *explain;
static wanted_function *wanted;

void futad_xla_start(void *explains, void *adds) {
  explain = (explain_function *)explains;
  wanted = (wanted_function *)adds;
}

static struct entry **bucket(const char *digest) {
  uint32_t hash = 0;
  for (int i = 0; i < 16; i++) hash = hash * 31 + (unsigned char)digest[i];
  return &table[hash % BUCKETS];
}

static struct entry *find(const char *digest) {
  struct entry *e = __atomic_load_n(bucket(digest), __ATOMIC_ACQUIRE);
  while (e && memcmp(e->digest, digest, DIGEST)) e = e->next;
  return e;
}

/* Adds an entry, which stays as long as the process.  The numbers are copied.  0: there is no memory. */
int64_t futad_xla_add(const char *digest, void *call, void *new_context, const int64_t *numbers, int64_t count) {
  int64_t *const plan = malloc((size_t)count * sizeof *plan);
  struct entry *const e = calloc(1, sizeof *e);
  if (!plan || !e) return 0;
  memcpy(plan, numbers, (size_t)count * sizeof *plan);
  memcpy(e->digest, digest, DIGEST);
  e->call = (int64_t(*)(void *, void **, int64_t *))call;
  e->new_context = (void *(*)(void))new_context;
  const int64_t *at = plan;
  e->number = *at++, e->sizes = *at++, e->params = *at++, e->results = *at++, e->made = *at++, e->stride = *at++;
  e->most = *at++;
  e->param = calloc((size_t)e->params + 1, sizeof *e->param);
  e->result = calloc((size_t)e->results + 1, sizeof *e->result);
  if (!e->param || !e->result) return 0;
  for (int64_t i = 0; i < e->params; i++) {
    e->param[i] = (struct param){at[0], at[1], at[2], at[3], at + 4};
    at += 4 + at[2];
  }
  for (int64_t i = 0; i < e->results; i++, at += 4) e->result[i] = (struct result){at[0], at[1], at[2], at[3]};
  pthread_mutex_init(&e->mutex, NULL);
  pthread_mutex_lock(&adding);
  if (!find(digest)) {
    struct entry **const list = bucket(digest);
    e->next = *list;
    __atomic_store_n(list, e, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&adding);
  return 1;
}

static struct context *taken(struct entry *e) {
  pthread_mutex_lock(&e->mutex);
  struct context *c = e->idle;
  if (c) e->idle = c->next;
  pthread_mutex_unlock(&e->mutex);
  if (c) return c;
  c = malloc(sizeof *c);
  if (!c) return NULL;
  c->own = e->new_context();
  if (c->own) return c;
  free(c);
  return NULL;
}

static void give_back(struct entry *e, struct context *c) {
  pthread_mutex_lock(&e->mutex);
  c->next = e->idle;
  e->idle = c;
  pthread_mutex_unlock(&e->mutex);
}

static XLA_FFI_Error *error(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *text) {
  XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = text, .errc = code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

/* XLA's threads flush subnormal numbers to zero; entries do not.  The environment before is returned. */
#ifdef __SSE2__
typedef unsigned environment;
static environment usual(void) {
  const unsigned before = __builtin_ia32_stmxcsr();
  if (before != 0x1f80) __builtin_ia32_ldmxcsr(0x1f80);
  return before;
}
static void restore(environment before) {
  if (before != 0x1f80) __builtin_ia32_ldmxcsr(before);
}
#else
typedef fenv_t environment;
static environment usual(void) {
  fenv_t before;
  fegetenv(&before);
  fesetenv(FE_DFL_ENV);
  return before;
}
static void restore(environment before) { fesetenv(&before); }
#endif

/* Whether the argument holds 32-bit integers where 64 are wanted: JAX has no others unless told to. */
static bool is_half(int64_t given, int64_t want) {
  return (given == XLA_FFI_DataType_S32 && want == XLA_FFI_DataType_S64) ||
         (given == XLA_FFI_DataType_U32 && want == XLA_FFI_DataType_U64);
}

static void widened(int64_t *to, const void *from, int64_t count, bool has_sign) {
  for (int64_t i = 0; i < count; i++) to[i] = has_sign ? ((const int32_t *)from)[i] : (int64_t)((const uint32_t *)from)[i];
}

static int64_t count_of(const XLA_FFI_Buffer *b) {
  int64_t n = 1;
  for (int64_t d = 0; d < b->rank; d++) n *= b->dims[d];
  return n;
}

static _Alignas(64) char nothing[64]; /* what arrays without elements point to */

/* The arguments of the code: sizes, then pointers.  `own` are those that were made here. */
static XLA_FFI_Error *arguments(const XLA_FFI_CallFrame *frame, struct entry *e, int64_t *sizes, int64_t *numbers,
                                void **pointers, void **own) {
  const XLA_FFI_Args *const args = &frame->args;
  const int64_t none = INT64_MIN;
  if (args->size != e->params || frame->rets.size != e->results)
    return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "futad: the call is of another version of the entry");
  for (int64_t k = 0; k < e->sizes + e->params; k++) sizes[k] = none;
  for (int64_t i = 0; i < e->params; i++) {
    const XLA_FFI_Buffer *const b = args->args[i];
    const struct param *const p = &e->param[i];
    if (args->types[i] != XLA_FFI_ArgType_BUFFER || b->rank != p->rank ||
        (b->dtype != p->dtype && !is_half(b->dtype, p->dtype)))
      return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "futad: the call is of another version of the entry");
    const int64_t count = count_of(b);
    void *data = count ? b->data : nothing;
    if (b->dtype != p->dtype && count) {
      int64_t *const wide = p->rank ? (own[i] = malloc((size_t)count * 8)) : &numbers[i];
      if (!wide) return error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "error: out of memory");
      widened(wide, b->data, count, p->dtype == XLA_FFI_DataType_S64);
      data = wide;
    } else if (p->consumed && p->rank && count) {
      own[i] = malloc((size_t)(count * p->bytes));
      if (!own[i]) return error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "error: out of memory");
      data = memcpy(own[i], b->data, (size_t)(count * p->bytes));
    }
    pointers[e->sizes + i] = data;
    if (!p->rank && p->dtype == XLA_FFI_DataType_S64) sizes[e->sizes + i] = *(const int64_t *)data;
  }
  for (int64_t i = 0; i < e->params; i++) {
    const XLA_FFI_Buffer *const b = args->args[i];
    for (int64_t d = 0; d < b->rank; d++) {
      const int64_t dim = e->param[i].dims[d];
      if (dim < 0 && sizes[-1 - dim] == none) sizes[-1 - dim] = b->dims[d];
      const int64_t size = dim < 0 ? sizes[-1 - dim] : dim;
      if (size != b->dims[d] || size > e->most) {
        char text[TEXT] = "error: an argument's shape does not fit";
        const int64_t words[4] = {i, d, b->dims[d], size};
        if (explain) explain(e->number, SHAPE, words, NULL, text, TEXT);
        return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
      }
    }
  }
  for (int64_t k = 0; k < e->sizes; k++) {
    if (sizes[k] == none) sizes[k] = 0;
    pointers[k] = &sizes[k];
  }
  return NULL;
}

/* Results to XLA's memory: each is a number's bits, or an array's address, slot and shape. */
static XLA_FFI_Error *results(const XLA_FFI_CallFrame *frame, const struct entry *e, const int64_t *made) {
  for (int64_t i = 0; i < e->results; i++) {
    const XLA_FFI_Buffer *const b = frame->rets.rets[i];
    const struct result *const r = &e->result[i];
    const int64_t *const words = made + r->place * e->stride;
    if (b->rank != r->rank || b->dtype != r->dtype)
      return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "futad: the call is of another version of the entry");
    for (int64_t d = 0; d < b->rank; d++)
      if (b->dims[d] != words[2 + d])
        return error(frame, XLA_FFI_Error_Code_INTERNAL, "error: a result is of another shape than was foretold");
    const int64_t bytes = count_of(b) * r->bytes;
    if (bytes) memcpy(b->data, b->rank ? (const void *)(uintptr_t)words[0] : words, (size_t)bytes);
  }
  return NULL;
}

static XLA_FFI_Error *run(const XLA_FFI_CallFrame *frame, struct entry *e) {
  int64_t sizes[e->sizes + e->params + 1], numbers[e->params + 1], made[e->made * e->stride + 1];
  void *pointers[e->sizes + e->params + 1], *own[e->params + 1];
  memset(own, 0, sizeof own);
  XLA_FFI_Error *wrong = arguments(frame, e, sizes, numbers, pointers, own);
  struct context *const c = wrong ? NULL : taken(e);
  if (!wrong && !c) wrong = error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "error: out of memory");
  if (c) {
    const environment before = usual();
    const int64_t code = e->call(c->own, pointers, made);
    restore(before);
    if (code) {
      char text[TEXT] = "error: the program failed";
      if (explain) explain(e->number, FAILED, NULL, c->own, text, TEXT);
      wrong = error(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, text);
    } else {
      wrong = results(frame, e, made);
    }
    give_back(e, c);
  }
  for (int64_t i = 0; i < e->params; i++) free(own[i]);
  return wrong;
}

static const XLA_FFI_ByteSpan *attribute(const XLA_FFI_CallFrame *frame, const char *name) {
  const XLA_FFI_Attrs *const attrs = &frame->attrs;
  for (int64_t i = 0; i < attrs->size; i++) {
    const XLA_FFI_ByteSpan *const found = attrs->names[i];
    if (attrs->types[i] == XLA_FFI_AttrType_STRING && found->len == strlen(name) && !memcmp(found->ptr, name, found->len))
      return attrs->attrs[i];
  }
  return NULL;
}

XLA_FFI_Error *futad_xla_call(XLA_FFI_CallFrame *frame) {
  // The type of `extension_start` has another name from JAX 0.11 on.
  XLA_FFI_Metadata_Extension *const extension = (XLA_FFI_Metadata_Extension *)frame->extension_start;
  if (extension && extension->extension_base.type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata *const told = extension->metadata;
    told->api_version.major_version = XLA_FFI_API_MAJOR;
    told->api_version.minor_version = XLA_FFI_API_MINOR;
    told->traits = 0;
#ifdef XLA_FFI_UNKNOWN_TYPE_ID
    told->state_type_id.type_id = 0;
#endif
    return NULL;
  }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
  const XLA_FFI_ByteSpan *const digest = attribute(frame, "entry");
  if (!digest || digest->len != DIGEST)
    return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "futad: the call names no entry");
  struct entry *e = find(digest->ptr);
  if (!e && wanted) {
    const XLA_FFI_ByteSpan *const recipe = attribute(frame, "recipe");
    char text[DIGEST + 1] = {0};
    memcpy(text, digest->ptr, DIGEST);
    if (wanted(text, recipe ? recipe->ptr : NULL, recipe ? (int64_t)recipe->len : 0)) e = find(text);
  }
  if (!e) {
    const XLA_FFI_ByteSpan *const name = attribute(frame, "name");
    char text[TEXT];
    snprintf(text, sizeof text,
             "error: this process does not know the entry '%.*s' that compiled code calls\n"
             "hint: load its program, the same text with the same options, and pass an entry to futad.jax.function",
             name ? (int)name->len : 0, name ? name->ptr : "");
    return error(frame, XLA_FFI_Error_Code_NOT_FOUND, text);
  }
  return run(frame, e);
}
