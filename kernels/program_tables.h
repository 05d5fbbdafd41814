/* The tables that describe a program's entries to an executable; futad/backend/c_program.py emits them. */
/* Where a size comes from: a constant, or the core argument of that number. */
struct futad_dim {
  bool argument;
  int64_t value;
};

struct futad_leaf {
  const char *path, *type;
  int prim, rank;
  struct futad_dim dims[FUTAD_VALUE_RANK];
};

/* A type of the interface; its components are `leaves` scalars and arrays, in order. */
enum futad_kind { FUTAD_PRIMITIVE, FUTAD_ARRAY, FUTAD_RECORD, FUTAD_SUM };
struct futad_field {
  const char *name;
  int type;
};
/* A constructor of a sum type, which is a record of a tag and the payloads: `payloads` fields from `first` on. */
struct futad_variant {
  const char *name;
  int first, payloads;
};
struct futad_type {
  const char *name;
  enum futad_kind kind;
  bool tuple;     /* of a record: its fields are 0, 1, ... */
  int rank, elem; /* of an array: its dimensions, the type of its elements */
  int fields;     /* of an array of records: their fields, each an array */
  const struct futad_field *field;
  int leaves;
  const struct futad_leaf *leaf; /* only prim and rank */
  int variants;
  const struct futad_variant *variant;
};

/* Another name of a type. */
struct futad_alias {
  const char *name;
  int type;
};

struct futad_entry {
  const char *name, *signature, *attributes;
  int64_t (*call)(struct futad_context *, void **, struct futad_result *);
  int sizes;
  const char *const *size_names;
  int params;
  const int *param_types;
  const bool *consumed; /* by parameter */
  int leaves;
  const struct futad_leaf *leaf;
  const bool *leaf_consumed;
  int result_type;
  bool result_unique;
  int results; /* of the core function */
  const int *shown; /* for each core result its prim, or -1 for a size that comes along */
  const int *ranks;
};

/* What a failing check reports; `before` is `FILE:LINE:COL: ` and `after` the source line with a caret. */
struct futad_place {
  const char *before, *message, *after;
  int count;
  const int *prims;
};
