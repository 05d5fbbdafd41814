/* Commands of a server on arrays, records and sums; each gets its words after the first.
 *
 * Included by a program before program_server.h, after program_variables.h.
 */
static bool command_rank(int n, char **w) {
  int t = futad_array_type(w[0]);
  return t >= 0 && printf("%d\n", futad_types[t].rank) > 0;
}

static bool command_elemtype(int n, char **w) {
  int t = futad_array_type(w[0]);
  return t >= 0 && puts(futad_types[futad_types[t].elem].name) >= 0;
}

static struct futad_variable *futad_array_variable(const char *name) {
  struct futad_variable *v = futad_usable(name);
  if (v && futad_types[v->type].kind != FUTAD_ARRAY) {
    futad_error("Variable %s is not an array", name);
    return NULL;
  }
  return v;
}

static bool command_shape(int n, char **w) {
  struct futad_variable *v = futad_array_variable(w[0]);
  if (!v) return false;
  for (int i = 0; i < futad_types[v->type].rank; i++) printf("%lld\n", (long long)v->leaves[0].shape[i]);
  return true;
}

/* Bytes of one element of an array of type `t` in a leaf. */
static size_t futad_stride(const struct futad_type *t, const struct futad_array *leaf) {
  size_t bytes = (size_t)futad_prim_bytes[leaf->prim];
  for (int i = t->rank; i < leaf->rank; i++) bytes *= (size_t)leaf->shape[i];
  return bytes;
}

/* The number, in row-major order, of the element the words name. */
static bool futad_position(const struct futad_variable *v, int n, char **w, int64_t *out) {
  int rank = futad_types[v->type].rank;
  if (n != rank) return futad_error("%d indices for an array of rank %d", n, rank);
  *out = 0;
  for (int i = 0; i < n; i++) {
    int64_t at, size = v->leaves[0].shape[i];
    if (!futad_number(w[i], &at)) return false;
    if (at < 0 || at >= size)
      return futad_error("Index %lld is out of bounds for a dimension of size %lld", (long long)at, (long long)size);
    *out = *out * size + at;
  }
  return true;
}

static bool command_index(int n, char **w) {
  struct futad_variable *v = futad_array_variable(w[1]);
  int64_t at;
  if (!v || !futad_unused(w[0]) || !futad_position(v, n - 2, w + 2, &at)) return false;
  const struct futad_type *t = &futad_types[v->type];
  struct futad_array *leaves = futad_new_leaves(t->leaves);
  for (int i = 0; i < t->leaves; i++) {
    const struct futad_array *from = &v->leaves[i];
    struct futad_array part = {.prim = from->prim, .rank = from->rank - t->rank};
    for (int d = 0; d < part.rank; d++) part.shape[d] = from->shape[t->rank + d];
    part.data = (char *)from->data + futad_stride(t, from) * (size_t)at;
    leaves[i] = futad_copy_array(&part);
  }
  futad_define(w[0], t->elem, leaves);
  return true;
}

static bool command_set(int n, char **w) {
  struct futad_variable *to = futad_array_variable(w[0]), *v = to ? futad_usable(w[1]) : NULL;
  int64_t at;
  if (!v || !futad_position(to, n - 2, w + 2, &at)) return false;
  const struct futad_type *t = &futad_types[to->type];
  if (!futad_has_type(v, t->elem)) return false;
  for (int i = 0; i < t->leaves; i++)
    for (int d = 0; d < v->leaves[i].rank; d++)
      if (v->leaves[i].shape[d] != to->leaves[i].shape[t->rank + d]) return futad_error("The shapes do not match");
  for (int i = 0; i < t->leaves; i++) {
    size_t bytes = futad_stride(t, &to->leaves[i]);
    memcpy((char *)to->leaves[i].data + bytes * (size_t)at, v->leaves[i].data, bytes);
  }
  return true;
}

static bool command_new_array(int n, char **w) {
  int type = futad_array_type(w[1]);
  if (type < 0 || !futad_unused(w[0])) return false;
  const struct futad_type *t = &futad_types[type];
  int64_t count = 1, shape[FUTAD_VALUE_RANK];
  if (n < 2 + t->rank) return futad_error("Invalid argument count");
  for (int i = 0; i < t->rank; i++) {
    if (!futad_number(w[2 + i], &shape[i])) return false;
    if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count)) return futad_error("Bad size: %s", w[2 + i]);
  }
  if (n - 2 - t->rank != count)
    return futad_error("An array of %lld elements needs as many values, but there are %d", (long long)count,
                       n - 2 - t->rank);
  char **values = w + 2 + t->rank;
  for (int64_t i = 0; i < count; i++) {
    struct futad_variable *v = futad_usable(values[i]);
    if (!v || !futad_has_type(v, t->elem)) return false;
    const struct futad_array *first = futad_lookup(values[0])->leaves;
    for (int j = 0; j < t->leaves; j++)
      if (memcmp(v->leaves[j].shape, first[j].shape, sizeof(int64_t) * (size_t)first[j].rank))
        return futad_error("The values differ in shape");
  }
  struct futad_array *leaves = futad_new_leaves(t->leaves);
  for (int j = 0; j < t->leaves; j++) {
    struct futad_array *a = &leaves[j];
    a->prim = t->leaf[j].prim;
    a->rank = t->leaf[j].rank;
    memcpy(a->shape, shape, sizeof(int64_t) * (size_t)t->rank);
    for (int d = t->rank; d < a->rank; d++) a->shape[d] = count ? futad_lookup(values[0])->leaves[j].shape[d - t->rank] : 0;
    size_t bytes = futad_stride(t, a);
    a->data = futad_must_alloc(bytes * (size_t)count);
    for (int64_t i = 0; i < count; i++)
      memcpy((char *)a->data + bytes * (size_t)i, futad_lookup(values[i])->leaves[j].data, bytes);
  }
  futad_define(w[0], type, leaves);
  return true;
}

/* Arrays of the fields of an array of records: for `zip` and `unzip`, the array type of each field. */
static const struct futad_type *futad_zipped(int type) {
  const struct futad_type *t = &futad_types[type];
  if (t->kind == FUTAD_ARRAY && t->fields) return t;
  futad_error("Not an array of records: %s", t->name);
  return NULL;
}

/* A new value of type `type`, whose fields (of an array of records: arrays of them) are copies of variables. */
static bool futad_assemble(const char *name, int type, int n, char **w) {
  const struct futad_type *t = &futad_types[type];
  if (n != t->fields) return futad_error("Type %s has %d fields, but %d values are given", t->name, t->fields, n);
  if (!futad_unused(name)) return false;
  for (int i = 0; i < n; i++) {
    struct futad_variable *v = futad_usable(w[i]);
    if (!v || !futad_has_type(v, t->field[i].type)) return false;
    const struct futad_variable *first = futad_lookup(w[0]);
    for (int d = 0; t->kind == FUTAD_ARRAY && d < t->rank; d++)
      if (v->leaves[0].shape[d] != first->leaves[0].shape[d]) return futad_error("The arrays differ in shape");
  }
  struct futad_array *leaves = futad_new_leaves(t->leaves);
  for (int i = 0, at = 0; i < n; i++) {
    struct futad_variable *v = futad_lookup(w[i]);
    for (int j = 0; j < futad_types[v->type].leaves; j++) leaves[at++] = futad_copy_array(&v->leaves[j]);
  }
  futad_define(name, type, leaves);
  return true;
}

static void futad_extract(const char *name, const struct futad_variable *v, int field) {
  const struct futad_type *t = &futad_types[v->type];
  int type = t->field[field].type, count = futad_types[type].leaves, first = futad_first_leaf(t, field);
  struct futad_array *leaves = futad_new_leaves(count);
  for (int i = 0; i < count; i++) leaves[i] = futad_copy_array(&v->leaves[first + i]);
  futad_define(name, type, leaves);
}

static bool command_zip(int n, char **w) {
  int type = futad_array_type(w[1]);
  return type >= 0 && futad_zipped(type) && futad_assemble(w[0], type, n - 2, w + 2);
}

static bool command_unzip(int n, char **w) {
  struct futad_variable *v = futad_array_variable(w[0]);
  const struct futad_type *t = v ? futad_zipped(v->type) : NULL;
  if (!t) return false;
  if (n - 1 != t->fields) return futad_error("Type %s has %d fields, but %d names are given", t->name, t->fields, n - 1);
  if (!futad_all_unused(n - 1, w + 1)) return false;
  for (int i = 1; i < n; i++) futad_extract(w[i], v, i - 1);
  return true;
}

static bool command_fields(int n, char **w) {
  int t = futad_record_type(w[0]);
  if (t < 0) return false;
  for (int i = 0; i < futad_types[t].fields; i++)
    printf("%s %s\n", futad_types[t].field[i].name, futad_types[futad_types[t].field[i].type].name);
  return true;
}

static bool command_new_record(int n, char **w) {
  int type = futad_record_type(w[1]);
  return type >= 0 && futad_assemble(w[0], type, n - 2, w + 2);
}

static bool command_project(int n, char **w) {
  struct futad_variable *v = futad_usable(w[1]);
  if (!v || !futad_unused(w[0])) return false;
  const struct futad_type *t = &futad_types[v->type];
  if (t->kind != FUTAD_RECORD && t->kind != FUTAD_SUM) return futad_error("Variable %s is not a record", w[1]);
  for (int i = 0; i < t->fields; i++)
    if (!strcmp(t->field[i].name, w[2])) {
      futad_extract(w[0], v, i);
      return true;
    }
  return futad_error("Type %s has no field %s", t->name, w[2]);
}

static bool command_variants(int n, char **w) {
  int type = futad_sum_type(w[0]);
  if (type < 0) return false;
  const struct futad_type *t = &futad_types[type];
  for (int i = 0; i < t->variants; i++) {
    puts(t->variant[i].name);
    for (int j = 0; j < t->variant[i].payloads; j++)
      printf("- %s\n", futad_types[t->field[t->variant[i].first + j].type].name);
  }
  return true;
}

/* The number of the constructor in a value of sum type; -1 if the value has none. */
static int futad_variant_of(const struct futad_variable *v) {
  const struct futad_type *t = &futad_types[v->type];
  if (t->kind != FUTAD_SUM) {
    futad_error("Variable %s is not of a sum type", v->name);
    return -1;
  }
  int tag = *(const int8_t *)v->leaves[0].data;
  if (tag >= 0 && tag < t->variants) return tag;
  futad_error("Variable %s has no valid constructor", v->name);
  return -1;
}

static bool command_variant(int n, char **w) {
  struct futad_variable *v = futad_usable(w[0]);
  int i = v ? futad_variant_of(v) : -1;
  return i >= 0 && puts(futad_types[v->type].variant[i].name) >= 0;
}

/* What the other constructors would hold is zeros, and arrays of size 0. */
static bool command_construct(int n, char **w) {
  int type = futad_sum_type(w[1]);
  if (type < 0 || !futad_unused(w[0])) return false;
  const struct futad_type *t = &futad_types[type];
  const char *wanted = w[2] + (w[2][0] == '#');
  int tag = 0;
  while (tag < t->variants && strcmp(t->variant[tag].name, wanted)) tag++;
  if (tag == t->variants) return futad_error("Type %s has no constructor %s", t->name, wanted);
  const struct futad_variant *variant = &t->variant[tag];
  if (n - 3 != variant->payloads)
    return futad_error("Constructor %s has %d values, but %d are given", wanted, variant->payloads, n - 3);
  for (int i = 0; i < variant->payloads; i++) {
    struct futad_variable *v = futad_usable(w[3 + i]);
    if (!v || !futad_has_type(v, t->field[variant->first + i].type)) return false;
  }
  struct futad_array *leaves = futad_new_leaves(t->leaves);
  for (int f = 0, at = 0; f < t->fields; f++) {
    int part = f - variant->first;
    const struct futad_variable *v = part >= 0 && part < variant->payloads ? futad_lookup(w[3 + part]) : NULL;
    for (int i = 0; i < futad_types[t->field[f].type].leaves; i++, at++) {
      struct futad_array *a = &leaves[at];
      if (v) {
        *a = futad_copy_array(&v->leaves[i]);
      } else {
        *a = (struct futad_array){.prim = t->leaf[at].prim, .rank = t->leaf[at].rank};
        a->data = memset(futad_must_alloc(8), 0, 8);
      }
    }
  }
  *(int8_t *)leaves[0].data = (int8_t)tag;
  futad_define(w[0], type, leaves);
  return true;
}

static bool command_destruct(int n, char **w) {
  struct futad_variable *v = futad_usable(w[0]);
  int tag = v ? futad_variant_of(v) : -1;
  if (tag < 0) return false;
  const struct futad_variant *variant = &futad_types[v->type].variant[tag];
  if (n - 1 != variant->payloads)
    return futad_error("Constructor %s has %d values, but %d names are given", variant->name, variant->payloads, n - 1);
  if (!futad_all_unused(n - 1, w + 1)) return false;
  for (int i = 0; i < variant->payloads; i++) futad_extract(w[1 + i], v, variant->first + i);
  return true;
}
