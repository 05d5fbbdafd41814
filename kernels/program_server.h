/* `main` of a server: Futhark's server protocol, one command a line on stdin, answers on stdout.
 *
 * Every answer ends with a line `%%% OK`; before it stands `%%% FAILURE` and what went wrong if the command failed.
 * A value is owned by one variable: commands copy what they take from another.
 */
#include <getopt.h>
#include <sys/stat.h>

struct futad_event {
  const char *name;
  int64_t start, end;
};

static struct futad_context *futad_server_context;
static struct futad_growing futad_events = {.size = sizeof(struct futad_event)};
static bool futad_profiling, futad_logging;

#define FUTAD_MOST_EVENTS 100000

/* --- commands: each gets its words after the first ---------------------------------------------------------- */

static bool command_types(int n, char **w) {
  for (int i = 0; i < futad_type_count; i++) puts(futad_types[i].name);
  return true;
}

static bool command_entry_points(int n, char **w) {
  for (int i = 0; i < futad_number_of_entries; i++) puts(futad_entries[i].name);
  return true;
}

static const struct futad_entry *futad_named_entry(const char *name) {
  const struct futad_entry *e = futad_find_entry(name);
  if (!e) futad_error("Unknown entry point: %s", name);
  return e;
}

static bool command_inputs(int n, char **w) {
  const struct futad_entry *e = futad_named_entry(w[0]);
  if (!e) return false;
  for (int i = 0; i < e->params; i++)
    printf("%s%s\n", e->consumed[i] ? "*" : "", futad_types[e->param_types[i]].name);
  return true;
}

static bool command_output(int n, char **w) {
  const struct futad_entry *e = futad_named_entry(w[0]);
  if (!e) return false;
  printf("%s%s\n", e->result_unique ? "*" : "", futad_types[e->result_type].name);
  return true;
}

static bool command_attributes(int n, char **w) {
  const struct futad_entry *e = futad_named_entry(w[0]);
  if (!e) return false;
  fputs(e->attributes, stdout);
  return true;
}

/* The outputs are one variable, or one for each component of a tuple. */
static bool command_call(int n, char **w) {
  const struct futad_entry *e = futad_named_entry(w[0]);
  if (!e) return false;
  const struct futad_type *result = &futad_types[e->result_type];
  int outputs = n - 1 - e->params;
  bool parts = result->tuple && outputs == result->fields && outputs != 1;
  if (outputs != 1 && !parts)
    return futad_error("Entry point %s takes %d inputs and has 1 output, but %d variables are given", e->name,
                       e->params, n - 1);
  if (!futad_all_unused(outputs, w + 1)) return false;
  struct futad_array *leaves = futad_new_leaves(e->leaves), *results = futad_new_leaves(result->leaves);
  bool good = true;
  for (int i = 0, at = 0; i < e->params && good; i++) {
    struct futad_variable *v = futad_usable(w[1 + outputs + i]);
    good = v && futad_has_type(v, e->param_types[i]);
    for (int j = 0; good && j < i; j++)
      if ((e->consumed[i] || e->consumed[j]) && !strcmp(w[1 + outputs + i], w[1 + outputs + j]))
        good = futad_error("Variable %s is consumed and used by the same call", v->name);
    for (int j = 0; good && j < futad_types[v->type].leaves; j++) leaves[at++] = v->leaves[j];
  }
  int64_t elapsed = 0, start = futad_microseconds();
  good = good && futad_run(futad_server_context, e, leaves, results, &elapsed);
  free(leaves); /* the arrays are the variables' */
  if (!good) {
    futad_drop_leaves(results, result->leaves);
    return false;
  }
  printf("runtime: %lld\n", (long long)elapsed);
  if (futad_profiling && futad_events.count < FUTAD_MOST_EVENTS)
    *(struct futad_event *)futad_push(&futad_events) = (struct futad_event){e->name, start, start + elapsed};
  if (futad_logging) fprintf(stderr, "%s: %lld microseconds\n", e->name, (long long)elapsed);
  for (int i = 0; i < e->params; i++)
    if (e->consumed[i]) futad_lookup(w[1 + outputs + i])->consumed = true;
  if (!parts) {
    futad_define(w[1], e->result_type, results);
    return true;
  }
  for (int i = 0, at = 0; i < outputs; i++) {
    int type = result->field[i].type, count = futad_types[type].leaves;
    struct futad_array *own = futad_new_leaves(count);
    memcpy(own, results + at, sizeof *own * (size_t)count);
    at += count;
    futad_define(w[1 + i], type, own);
  }
  free(results);
  return true;
}

static bool command_restore(int n, char **w) {
  if (n % 2 == 0) return futad_error("Invalid argument count");
  FILE *f = fopen(w[0], "rb");
  if (!f) return futad_error("Failed to open %s: %s", w[0], strerror(errno));
  struct futad_reader r = {.name = w[0]};
  char *data = futad_read_all(f, &r.length);
  fclose(f);
  if (!data) return futad_error("Failed to read %s: %s", w[0], strerror(errno));
  r.data = data;
  bool good = true;
  for (int i = 1; i < n && good; i += 2) {
    int type = futad_find_type(w[i + 1]);
    good = type >= 0 && futad_unused(w[i]);
    if (!good) break;
    const struct futad_type *t = &futad_types[type];
    struct futad_array *leaves = futad_new_leaves(t->leaves);
    for (int j = 0; j < t->leaves && good; j++) {
      leaves[j].prim = t->leaf[j].prim;
      leaves[j].rank = t->leaf[j].rank;
      good = futad_read_value(&r, &leaves[j]);
    }
    if (good) futad_define(w[i], type, leaves);
    else futad_drop_leaves(leaves, t->leaves);
  }
  if (good && !futad_at_end(&r)) good = futad_error("%s: there are more values than variables", w[0]);
  free(data);
  return good;
}

static bool command_store(int n, char **w) {
  for (int i = 1; i < n; i++)
    if (!futad_usable(w[i])) return false;
  FILE *f = fopen(w[0], "wb");
  if (!f) return futad_error("Failed to open %s: %s", w[0], strerror(errno));
  for (int i = 1; i < n; i++) {
    struct futad_variable *v = futad_lookup(w[i]);
    for (int j = 0; j < futad_types[v->type].leaves; j++) futad_write_binary(f, &v->leaves[j]);
  }
  struct stat about;
  bool bad = ferror(f), regular = !fstat(fileno(f), &about) && S_ISREG(about.st_mode);
  if (!fclose(f) && !bad) return true;
  int why = errno;
  if (regular) unlink(w[0]);  // nobody is to take a part for the whole
  return futad_error("Failed to write %s: %s", w[0], strerror(why));
}

static bool command_free(int n, char **w) {
  for (int i = 0; i < n; i++) {
    struct futad_variable *v = futad_lookup(w[i]);
    if (!v) return false;
    futad_delete(v);
  }
  return true;
}

static bool command_rename(int n, char **w) {
  struct futad_variable *v = futad_lookup(w[0]);
  if (!v || !futad_unused(w[1])) return false;
  free(v->name);
  v->name = futad_copy_text(w[1], strlen(w[1]));
  return true;
}

static bool command_clear(int n, char **w) {
  futad_events.count = 0;
  return true;
}

static bool command_kind(int n, char **w) {
  static const char *const names[] = {"primitive", "array", "record", "sum"};
  int t = futad_find_type(w[0]);
  return t >= 0 && puts(names[futad_types[t].kind]) >= 0;
}

static bool command_type(int n, char **w) {
  struct futad_variable *v = futad_lookup(w[0]);
  return v && puts(futad_types[v->type].name) >= 0;
}

static bool command_pause(int n, char **w) {
  futad_profiling = false;
  return true;
}

static bool command_unpause(int n, char **w) {
  futad_profiling = true;
  return true;
}

static bool command_report(int n, char **w) {
  printf("{\"memory\": {\"default space\": %lld}, \"events\": [", (long long)futad_memory(futad_server_context));
  const struct futad_event *events = (const struct futad_event *)futad_events.data;
  for (size_t i = 0; i < futad_events.count; i++)
    printf("%s{\"name\": \"%s\", \"start\": %lld, \"end\": %lld}", i ? ", " : "", events[i].name,
           (long long)events[i].start, (long long)events[i].end);
  puts("]}");
  return true;
}

static bool command_no_param(int n, char **w) { return futad_error("Unknown tuning parameter: %s", w[0]); }

static bool command_no_params(int n, char **w) { return futad_named_entry(w[0]) != NULL; }

static const struct {
  const char *name;
  int least, most; /* words after the first */
  bool (*run)(int, char **);
} futad_commands[] = {
    {"types", 0, 0, command_types},
    {"entry_points", 0, 0, command_entry_points},
    {"inputs", 1, 1, command_inputs},
    {"output", 1, 1, command_output},
    {"outputs", 1, 1, command_output}, /* its name in older versions of the protocol */
    {"attributes", 1, 1, command_attributes},
    {"call", 1, INT32_MAX, command_call},
    {"restore", 1, INT32_MAX, command_restore},
    {"store", 1, INT32_MAX, command_store},
    {"free", 0, INT32_MAX, command_free},
    {"rename", 2, 2, command_rename},
    {"clear", 0, 0, command_clear},
    {"kind", 1, 1, command_kind},
    {"type", 1, 1, command_type},
    {"pause_profiling", 0, 0, command_pause},
    {"unpause_profiling", 0, 0, command_unpause},
    {"report", 0, 0, command_report},
    {"set_tuning_param", 2, 2, command_no_param},
    {"tuning_params", 1, 1, command_no_params},
    {"tuning_param_class", 1, 1, command_no_param},
    {"rank", 1, 1, command_rank},
    {"elemtype", 1, 1, command_elemtype},
    {"new_array", 2, INT32_MAX, command_new_array},
    {"set", 2, INT32_MAX, command_set},
    {"shape", 1, 1, command_shape},
    {"index", 2, INT32_MAX, command_index},
    {"zip", 2, INT32_MAX, command_zip},
    {"unzip", 1, INT32_MAX, command_unzip},
    {"fields", 1, 1, command_fields},
    {"new", 2, INT32_MAX, command_new_record},
    {"new_record", 2, INT32_MAX, command_new_record},
    {"project", 3, 3, command_project},
    {"variants", 1, 1, command_variants},
    {"construct", 3, INT32_MAX, command_construct},
    {"destruct", 1, INT32_MAX, command_destruct},
    {"variant", 1, 1, command_variant},
};

/* --- lines --------------------------------------------------------------------------------------------------- */

/* Cuts a line into words, in place; a word may stand in double quotes.  -1 if a quote is not closed. */
static int futad_words(char *line, char **words, int most) {
  int n = 0;
  for (char *c = line;;) {
    while (*c && isspace((unsigned char)*c)) c++;
    if (!*c || n == most) return n;
    if (*c == '"') {
      words[n++] = ++c;
      while (*c && *c != '"') c++;
      if (!*c) return -1;
    } else {
      words[n++] = c;
      while (*c && !isspace((unsigned char)*c)) c++;
    }
    if (*c) *c++ = 0;
  }
}

static bool futad_command(char *line) {
  int most = (int)strlen(line) / 2 + 2;
  char **words = futad_must_alloc(sizeof *words * (size_t)most);
  int n = futad_words(line, words, most);
  bool good = n >= 0 || futad_error("Unmatched quote");
  bool found = n == 0;
  for (size_t i = 0; good && n > 0 && i < sizeof futad_commands / sizeof *futad_commands; i++) {
    if (strcmp(futad_commands[i].name, words[0])) continue;
    found = true;
    bool fits = n - 1 >= futad_commands[i].least && n - 1 <= futad_commands[i].most;
    good = fits ? futad_commands[i].run(n - 1, words + 1)
                : futad_error("Invalid argument count, expected %d%s", futad_commands[i].least,
                              futad_commands[i].most > futad_commands[i].least ? " or more" : "");
    break;
  }
  if (good && !found) good = futad_error("Unknown command: %s", words[0]);
  free(words);
  return good;
}

static const char futad_server_help[] =
    "Usage: %s [OPTION]...\n"
    "Answers commands of Futhark's server protocol on stdin, one a line.\n\n"
    "  -L, --log, -D, --debugging   report the time of each call on stderr\n"
    "  -P, --profile                gather profiling data (command 'report')\n"
    "      --cache-file=FILE, --tuning=FILE   accepted, without effect\n"
    "      --print-params           list the tuning parameters: there are none\n"
    "  -h, --help                   this text\n";

static const struct option futad_server_options[] = {
    {"help", no_argument, NULL, 'h'},           {"log", no_argument, NULL, 'L'},
    {"debugging", no_argument, NULL, 'D'},      {"profile", no_argument, NULL, 'P'},
    {"cache-file", required_argument, NULL, 'I'}, {"tuning", required_argument, NULL, 'I'},
    {"param", required_argument, NULL, 'p'},    {"print-params", no_argument, NULL, 'q'},
    {NULL, 0, NULL, 0}};

int main(int argc, char **argv) {
  int c;
  futad_standard_files();
  while ((c = getopt_long(argc, argv, "hLDP", futad_server_options, NULL)) != -1) {
    switch (c) {
      case 'h': printf(futad_server_help, argv[0]); return futad_finish();
      case 'L':
      case 'D': futad_logging = true; break;
      case 'P': futad_profiling = true; break;
      case 'I': break;
      case 'p': fprintf(stderr, "error: --param: the program has no tuning parameters\n"); return 2;
      case 'q': return 0;
      default: fprintf(stderr, "Try '%s --help'.\n", argv[0]); return 2;
    }
  }
  if (optind < argc) {
    fprintf(stderr, "error: '%s': commands are read from stdin; see '%s --help'\n", argv[optind], argv[0]);
    return 2;
  }
  futad_server_context = futad_new();
  if (!futad_server_context) {
    fprintf(stderr, "error: out of memory\n");
    return 1;
  }
  char *line = NULL;
  size_t capacity = 0;
  int status = 0;
  for (;;) {
    puts("%%% OK");
    if ((status = futad_finish())) break;
    if (getline(&line, &capacity, stdin) < 0) break;
    if (!futad_command(line)) printf("%%%%%% FAILURE\n%s\n", futad_error_text());
  }
  while (futad_variables) futad_delete(futad_variables);
  free(line);
  free(futad_events.data);
  free(futad_message);
  futad_free(futad_server_context);
  return status;
}
