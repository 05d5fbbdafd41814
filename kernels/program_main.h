/* `main` of an executable: reads the values of an entry on stdin, runs it, writes its results.
 *
 * Its options are those of executables that Futhark makes.  It ends with status 0, 1 if the input is wrong or the
 * program fails, 2 if it is used wrongly.
 */
#include <getopt.h>

static const char futad_help[] =
    "Usage: %s [OPTION]...\n"
    "Reads the arguments of an entry on stdin, in Futhark's text or binary format, and writes its results.\n\n"
    "  -e, --entry-point=NAME       the entry to run (default: main)\n"
    "  -b, --binary-output          write the results in binary format\n"
    "  -n, --no-print-result        do not write the results\n"
    "  -r, --runs=NUM               run NUM times, after one run that does not count; the last one's results are written\n"
    "  -t, --write-runtime-to=FILE  write the microseconds of each run to FILE, a line each\n"
    "  -L, --log                    report times and memory on stderr\n"
    "  -D, --debugging              the same\n"
    "  -P, --profile, --cache-file=FILE, --tuning=FILE   accepted, without effect\n"
    "      --print-params           list the tuning parameters: there are none\n"
    "  -h, --help                   this text\n";

static const struct option futad_options[] = {
    {"help", no_argument, NULL, 'h'},           {"binary-output", no_argument, NULL, 'b'},
    {"entry-point", required_argument, NULL, 'e'}, {"no-print-result", no_argument, NULL, 'n'},
    {"runs", required_argument, NULL, 'r'},     {"write-runtime-to", required_argument, NULL, 't'},
    {"log", no_argument, NULL, 'L'},            {"debugging", no_argument, NULL, 'D'},
    {"profile", no_argument, NULL, 'P'},        {"cache-file", required_argument, NULL, 'I'},
    {"tuning", required_argument, NULL, 'I'},   {"param", required_argument, NULL, 'p'},
    {"print-params", no_argument, NULL, 'q'},   {NULL, 0, NULL, 0}};

static void futad_fail_with(const char *message, int status) {
  fprintf(stderr, "%s\n", message);
  exit(status);
}

/* The arguments of an entry from stdin. */
static struct futad_array *futad_read_arguments(const struct futad_entry *e) {
  struct futad_reader r = {.name = "<stdin>"};
  struct futad_array *leaves = calloc((size_t)e->leaves + 1, sizeof *leaves);
  char *data = e->leaves ? futad_read_all(stdin, &r.length) : "";
  if (!leaves || !data) {
    futad_error("error: <stdin>: %s", strerror(errno));
    futad_fail_with(futad_error_text(), 1);
  }
  r.data = data;
  for (int i = 0; i < e->leaves; i++) {
    const struct futad_leaf *leaf = &e->leaf[i];
    leaves[i].prim = leaf->prim;
    leaves[i].rank = leaf->rank;
    char message[600];
    if (futad_at_end(&r)) {
      snprintf(message, sizeof message, "%.100s takes %d value%s, found %d; the next is '%.200s' of type %.200s",
               e->name, e->leaves, e->leaves == 1 ? "" : "s", i, leaf->path, leaf->type);
      futad_error_at(&r, r.at, message);
      futad_fail_with(futad_error_text(), 1);
    }
    if (!futad_read_value(&r, &leaves[i])) {
      /* The argument's name goes between the place and the message. */
      const char *text = futad_error_text(), *mark = strstr(text, ": error: ");
      if (!mark) futad_fail_with(text, 1);
      fprintf(stderr, "%.*s: error: argument '%s': %s\n", (int)(mark - text), text, leaf->path, mark + 9);
      exit(1);
    }
  }
  if (!futad_at_end(&r)) {
    char message[300];
    snprintf(message, sizeof message, "%.100s takes %d value%s, but there are more", e->name, e->leaves,
             e->leaves == 1 ? "" : "s");
    futad_error_at(&r, r.at, message);
    futad_fail_with(futad_error_text(), 1);
  }
  if (e->leaves) free(data);
  return leaves;
}

static void futad_free_arrays(struct futad_array *arrays, int count) {
  for (int i = 0; i < count; i++) {
    free(arrays[i].data);
    arrays[i].data = NULL;
  }
}

int main(int argc, char **argv) {
  const char *name = "main", *runtime_file = NULL;
  bool binary = false, quiet = false, logging = false;
  int64_t runs = 0;
  int c;
  futad_standard_files();
  while ((c = getopt_long(argc, argv, "hbe:nr:t:LDP", futad_options, NULL)) != -1) {
    char *rest;
    switch (c) {
      case 'h': printf(futad_help, argv[0]); return futad_finish();
      case 'b': binary = true; break;
      case 'e': name = optarg; break;
      case 'n': quiet = true; break;
      case 'r':
        runs = strtoll(optarg, &rest, 10);
        if (*rest || runs < 1) futad_fail_with("error: --runs takes a number that is at least 1", 2);
        break;
      case 't': runtime_file = optarg; break;
      case 'L':
      case 'D': logging = true; break;
      case 'P':
      case 'I': break;
      case 'p': futad_fail_with("error: --param: the program has no tuning parameters", 2); break;
      case 'q': return 0;
      default: fprintf(stderr, "Try '%s --help'.\n", argv[0]); return 2;
    }
  }
  if (optind < argc) {
    fprintf(stderr, "error: '%s': values are read from stdin; see '%s --help'\n", argv[optind], argv[0]);
    return 2;
  }
  const struct futad_entry *e = futad_find_entry(name);
  if (!e) {
    fprintf(stderr, "error: the program has no entry '%s'; choose one with -e:", name);
    for (int i = 0; i < futad_number_of_entries; i++) fprintf(stderr, "%s %s", i ? "," : "", futad_entries[i].name);
    fputc('\n', stderr);
    return 2;
  }
  FILE *times = NULL;
  if (runtime_file && !(times = fopen(runtime_file, "w"))) {
    fprintf(stderr, "error: cannot write %s: %s\n", runtime_file, strerror(errno));
    return 1;
  }
  struct futad_array *leaves = futad_read_arguments(e);
  struct futad_array *results = calloc((size_t)e->results + 1, sizeof *results);
  struct futad_context *ctx = futad_new();
  if (!results || !ctx) futad_fail_with("error: out of memory", 1);
  for (int64_t i = runs ? -1 : 0; i < (runs ? runs : 1); i++) {
    int64_t elapsed = 0;
    futad_free_arrays(results, e->results);
    if (!futad_run(ctx, e, leaves, results, &elapsed)) futad_fail_with(futad_error_text(), 1);
    if (i < 0) continue;
    if (times) fprintf(times, "%lld\n", (long long)elapsed);
    if (logging)
      fprintf(stderr, "%s: %lld microseconds, %lld bytes of temporary memory\n", e->name, (long long)elapsed,
              (long long)futad_memory(ctx));
  }
  const bool bad_times = times && ferror(times);
  if (times && (fclose(times) || bad_times)) {
    fprintf(stderr, "error: cannot write %s: %s\n", runtime_file, strerror(errno));
    return 1;
  }
  for (int i = 0, n = 0; !quiet && i < e->results; i++)
    if (e->shown[i] >= 0) (binary ? futad_write_binary : futad_write_text)(stdout, &results[n++]);
  const int status = futad_finish();
  futad_free_arrays(leaves, e->leaves);
  futad_free_arrays(results, e->results);
  free(leaves);
  free(results);
  free(futad_message);
  futad_free(ctx);
  return status;
}
