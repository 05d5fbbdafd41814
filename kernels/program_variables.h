/* The variables of a server: a name, a type and the arrays it owns.
 *
 * Included by a program before program_server.h, after program_entries.h.
 */
struct futad_variable {
  char *name;
  int type;
  bool consumed;
  struct futad_array *leaves;
  struct futad_variable *next;
};

static struct futad_variable *futad_variables;

static struct futad_variable *futad_lookup(const char *name) {
  for (struct futad_variable *v = futad_variables; v; v = v->next)
    if (!strcmp(v->name, name)) return v;
  futad_error("Unknown variable: %s", name);
  return NULL;
}

/* A variable whose value may be used. */
static struct futad_variable *futad_usable(const char *name) {
  struct futad_variable *v = futad_lookup(name);
  if (v && v->consumed) {
    futad_error("Variable %s has been consumed", name);
    return NULL;
  }
  return v;
}

static bool futad_unused(const char *name) {
  for (struct futad_variable *v = futad_variables; v; v = v->next)
    if (!strcmp(v->name, name)) return futad_error("Variable already exists: %s", name);
  return true;
}

/* Whether names are new, and different from each other. */
static bool futad_all_unused(int n, char **names) {
  for (int i = 0; i < n; i++) {
    if (!futad_unused(names[i])) return false;
    for (int j = 0; j < i; j++)
      if (!strcmp(names[i], names[j])) return futad_error("Variable already exists: %s", names[i]);
  }
  return true;
}

static int futad_find_type(const char *name) {
  for (int i = 0; i < futad_type_count; i++)
    if (!strcmp(futad_types[i].name, name)) return i;
  for (int i = 0; i < futad_alias_count; i++)
    if (!strcmp(futad_aliases[i].name, name)) return futad_aliases[i].type;
  futad_error("Unknown type: %s", name);
  return -1;
}

static struct futad_array futad_copy_array(const struct futad_array *a) {
  struct futad_array out = *a;
  size_t bytes = (size_t)futad_elements(a) * (size_t)futad_prim_bytes[a->prim];
  out.data = futad_must_alloc(bytes);
  if (bytes) memcpy(out.data, a->data, bytes);
  return out;
}

/* A new variable that owns the arrays of `leaves` and the memory of `leaves` itself. */
static void futad_define(const char *name, int type, struct futad_array *leaves) {
  struct futad_variable *v = futad_must_alloc(sizeof *v);
  *v = (struct futad_variable){futad_copy_text(name, strlen(name)), type, false, leaves, futad_variables};
  futad_variables = v;
}

static struct futad_array *futad_new_leaves(int count) {
  struct futad_array *out = futad_must_alloc(sizeof *out * (size_t)(count + 1));
  memset(out, 0, sizeof *out * (size_t)(count + 1));
  return out;
}

static void futad_drop_leaves(struct futad_array *leaves, int count) {
  for (int i = 0; i < count; i++) free(leaves[i].data);
  free(leaves);
}

static void futad_delete(struct futad_variable *v) {
  for (struct futad_variable **at = &futad_variables; *at; at = &(*at)->next)
    if (*at == v) {
      *at = v->next;
      break;
    }
  futad_drop_leaves(v->leaves, futad_types[v->type].leaves);
  free(v->name);
  free(v);
}

/* The first leaf of a record's field. */
static int futad_first_leaf(const struct futad_type *t, int field) {
  int at = 0;
  for (int i = 0; i < field; i++) at += futad_types[t->field[i].type].leaves;
  return at;
}

static bool futad_has_type(const struct futad_variable *v, int type) {
  if (v->type == type) return true;
  return futad_error("Variable %s has type %s, expected %s", v->name, futad_types[v->type].name,
                     futad_types[type].name);
}

static int futad_array_type(const char *name) {
  int t = futad_find_type(name);
  if (t >= 0 && futad_types[t].kind != FUTAD_ARRAY) {
    futad_error("Not an array type: %s", name);
    return -1;
  }
  return t;
}

static int futad_record_type(const char *name) {
  int t = futad_find_type(name);
  if (t >= 0 && futad_types[t].kind != FUTAD_RECORD && futad_types[t].kind != FUTAD_SUM) {
    futad_error("Not a record type: %s", name);
    return -1;
  }
  return t;
}

static int futad_sum_type(const char *name) {
  int t = futad_find_type(name);
  if (t >= 0 && futad_types[t].kind != FUTAD_SUM) {
    futad_error("Not a sum type: %s", name);
    return -1;
  }
  return t;
}

static bool futad_number(const char *word, int64_t *out) {
  char *rest;
  errno = 0;
  *out = strtoll(word, &rest, 10);
  return (*word && !*rest && !errno) || futad_error("Not an integer: %s", word);
}
