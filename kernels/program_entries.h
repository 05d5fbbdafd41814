/* Calling the entries of a program from an executable: what `Signature` and `CLibrary` are for Python.
 *
 * Included after the tables: futad_places, futad_types, futad_entries, futad_type_count and futad_number_of_entries.
 */
#include <time.h>
#include <unistd.h>

static const struct futad_entry *futad_find_entry(const char *name) {
  for (int i = 0; i < futad_number_of_entries; i++)
    if (!strcmp(futad_entries[i].name, name)) return &futad_entries[i];
  return NULL;
}

static int64_t futad_microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The sizes of an entry from its leaves' shapes.  The message of a failure names the argument. */
static bool futad_bind(const struct futad_entry *e, const struct futad_array *leaves, int64_t *sizes) {
  int total = e->sizes + e->leaves;
  int64_t *known = futad_must_alloc(sizeof(int64_t) * (size_t)(total + 1));
  int *by = futad_must_alloc(sizeof(int) * (size_t)(total + 1));
  bool good = true;
  for (int i = 0; i < total; i++) by[i] = -1;
  for (int i = 0; i < e->leaves; i++)
    if (leaves[i].prim == FUTAD_I64 && !leaves[i].rank) {
      memcpy(&known[e->sizes + i], leaves[i].data, 8);
      by[e->sizes + i] = i;
    }
  for (int i = 0; i < e->leaves && good; i++) {
    const struct futad_leaf *leaf = &e->leaf[i];
    for (int axis = 0; axis < leaf->rank && good; axis++) {
      int64_t actual = leaves[i].shape[axis], dim = leaf->dims[axis].value;
      long long n = (long long)actual;
      if (!leaf->dims[axis].argument) {
        if (actual != dim)
          good = futad_error("error: argument '%s' of %s: dimension %d must be %lld, but is %lld", leaf->path, e->name,
                             axis, (long long)dim, n);
      } else if (by[dim] < 0) {
        known[dim] = actual;
        by[dim] = i;
      } else if (known[dim] != actual) {
        const char *path = e->leaf[by[dim]].path;
        long long other = (long long)known[dim];
        if (dim >= e->sizes)
          good = futad_error("error: argument '%s' of %s: dimension %d is %lld, but must equal argument '%s', which is "
                             "%lld", leaf->path, e->name, axis, n, path, other);
        else if (by[dim] == i)
          good = futad_error("error: argument '%s' of %s: dimension %d is %lld, but size %s is %lld by an earlier "
                             "dimension", leaf->path, e->name, axis, n, e->size_names[dim], other);
        else
          good = futad_error("error: argument '%s' of %s: dimension %d is %lld, but size %s is %lld by argument '%s'",
                             leaf->path, e->name, axis, n, e->size_names[dim], other, path);
      }
    }
  }
  for (int i = 0; i < e->sizes && good; i++) {
    if (by[i] < 0) good = futad_error("error: %s: no argument determines the size %s", e->name, e->size_names[i]);
    sizes[i] = known[i];
  }
  free(known);
  free(by);
  return good;
}

/* The message of the failure in a context. */
static bool futad_failure(const struct futad_context *ctx) {
  static const struct futad_place nowhere = {"", "", "", 0, NULL};
  const struct futad_place *p = ctx->error.place >= 0 ? &futad_places[ctx->error.place] : &nowhere;
  long long a = (long long)ctx->values[0], b = (long long)ctx->values[1];
  switch (ctx->error.code) {
    case FUTAD_MEMORY:
      if (a < 0) return futad_error("Error: " FUTAD_NEGATIVE_SIZE, a);
      if (a == INT64_MAX) return futad_error("Error: " FUTAD_EXCEEDS);
      return futad_error("Error: out of memory: %lld bytes are needed for an array", a * b);
#ifdef FUTAD_CHECK
    case FUTAD_CHECK: /* checked execution: the bindings' names are not in the program */
      return futad_error("error: checked execution: %s memory\nhint: this is a defect of futad; FUTAD_CHECK=memory "
                         "futad run -b c, on the same input, names the values",
                         futad_kind_of_finding(a, (uint64_t)ctx->values[2]));
#endif
  }
  /* Any other check: its message with the values in place of the {}s. */
  char *text = futad_must_alloc(strlen(p->message) + 40 * 4 + 1), *out = text;
  int next = 0;
  for (const char *c = p->message; *c; c++) {
    if (c[0] == '{' && c[1] == '}' && next < p->count && next < 4) {
      double x;
      memcpy(&x, &ctx->values[next], 8);
      int prim = p->prims[next];
      if (futad_prim_is_float(prim)) out += sprintf(out, "%.12g", x);
      else if (prim == FUTAD_BOOL) out += sprintf(out, "%s", ctx->values[next] ? "true" : "false");
      else if (prim == FUTAD_U64) out += sprintf(out, "%llu", (unsigned long long)ctx->values[next]);
      else out += sprintf(out, "%lld", (long long)ctx->values[next]);
      next++, c++;
    } else {
      *out++ = *c;
    }
  }
  *out = 0;
  futad_error("%sError: %s%s", p->before, text, p->after);
  free(text);
  return false;
}

/* Whether NumPy has arrays of that shape, which for one without elements counts as if no dimension were 0: results are
 * refused where they are from Python (`empty_result` in futad/runtime/ffi.py). */
static bool futad_has_shape(const struct futad_array *a) {
  int64_t bytes = futad_prim_bytes[a->prim];
  bool fits = true;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] && __builtin_mul_overflow(bytes, a->shape[i], &bytes)) fits = false;
  if (fits) return true;
  char shape[FUTAD_VALUE_RANK * 24], *out = shape;
  for (int i = 0; i < a->rank; i++) out += sprintf(out, "[%lld]", (long long)a->shape[i]);
  return futad_error("Error: a result of shape %s is needed, whose size exceeds the address space", shape);
}

/* Runs an entry on the leaves of its arguments; `results` gets new arrays (sizes that come along left out) and
 * `elapsed` the microseconds it took.  Arguments that are consumed are copied first. */
static bool futad_run(struct futad_context *ctx, const struct futad_entry *e, const struct futad_array *leaves,
                      struct futad_array *results, int64_t *elapsed) {
  int64_t *sizes = futad_must_alloc(sizeof(int64_t) * (size_t)(e->sizes + 1));
  void **args = futad_must_alloc(sizeof(void *) * (size_t)(e->sizes + e->leaves + 1));
  struct futad_result *raw = calloc((size_t)e->results + 1, sizeof *raw);
  bool good = raw != NULL || futad_error("Error: out of memory");
  good = good && futad_bind(e, leaves, sizes);
  int copied = 0;
  for (int i = 0; i < e->sizes; i++) args[i] = &sizes[i];
  for (int i = 0; good && i < e->leaves; i++, copied++) {
    args[e->sizes + i] = leaves[i].data;
    if (!e->leaf_consumed[i]) continue;
    size_t bytes = (size_t)futad_elements(&leaves[i]) * (size_t)futad_prim_bytes[leaves[i].prim];
    args[e->sizes + i] = memcpy(futad_must_alloc(bytes), leaves[i].data, bytes);
  }
  if (good) {
    int64_t start = futad_microseconds();
    int64_t code = e->call(ctx, args, raw);
    *elapsed = futad_microseconds() - start;
    good = !code || futad_failure(ctx);
  }
  for (int i = 0, n = 0; good && i < e->results; i++) {
    if (e->shown[i] < 0) continue;
    struct futad_array *a = &results[n++];
    *a = (struct futad_array){.prim = e->shown[i], .rank = e->ranks[i]};
    for (int d = 0; d < a->rank; d++) a->shape[d] = raw[i].shape[d];
    if (!(good = futad_has_shape(a))) break;
    size_t bytes = (size_t)futad_elements(a) * (size_t)futad_prim_bytes[a->prim];
    a->data = futad_must_alloc(bytes);
    if (bytes) memcpy(a->data, a->rank ? raw[i].data : (void *)&raw[i].data, bytes);
  }
  for (int i = 0; i < copied; i++)
    if (e->leaf_consumed[i]) free(args[e->sizes + i]);
  free(raw);
  free(args);
  free(sizes);
  return good;
}
