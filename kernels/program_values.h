/* Values in Futhark's formats, for executables: text and binary, read from memory and written to a file.
 *
 * The formats are those of futad/runtime/textvalues.py, which describes them; what is read here is read at the type
 * that is wanted.  Included after the emitted entries, so prelude.h has been read: math.h must not be (see there).
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include <fcntl.h>

#include "values_text.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the binary format is written as the machine's bytes, which must be little-endian"
#endif

/* A scalar (rank 0) or an array of scalars in row-major order; owns `data`. */
struct futad_array {
  int prim, rank;
  int64_t shape[FUTAD_VALUE_RANK];
  void *data;
};

/* --- messages ------------------------------------------------------------------------------------------ */

static char *futad_message;

/* Sets the message of a failure; always false, so that `return futad_error(...)` reads well. */
static __attribute__((format(printf, 1, 2))) bool futad_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *made = malloc((size_t)length + 1);
  if (made) {
    va_start(args, format);
    vsnprintf(made, (size_t)length + 1, format, args);
    va_end(args);
  }
  free(futad_message);
  futad_message = made;
  return false;
}

static const char *futad_error_text(void) { return futad_message ? futad_message : "error: out of memory"; }

static void *futad_must_alloc(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) {
    fprintf(stderr, "error: out of memory\n");
    exit(1);
  }
  return p;
}

static char *futad_copy_text(const char *text, size_t length) {
  char *out = futad_must_alloc(length + 1);
  memcpy(out, text, length);
  out[length] = 0;
  return out;
}

/* `[][]f64`, into a buffer of at least FUTAD_TYPE_TEXT bytes. */
#define FUTAD_TYPE_TEXT (2 * FUTAD_VALUE_RANK + 8)
static const char *futad_type_text(char *out, int prim, int rank) {
  for (int i = 0; i < rank; i++) memcpy(out + 2 * i, "[]", 2);
  strcpy(out + 2 * rank, futad_prim_names[prim]);
  return out;
}

/* Elements of an array; -1 if their bytes cannot be counted. */
static int64_t futad_elements(const struct futad_array *a) {
  int64_t count = 1, bytes;
  for (int i = 0; i < a->rank; i++) {
    if (a->shape[i] == 0) return 0;
    if (__builtin_mul_overflow(count, a->shape[i], &count)) return -1;
  }
  return __builtin_mul_overflow(count, (int64_t)futad_prim_bytes[a->prim], &bytes) ? -1 : count;
}

/* --- reading ------------------------------------------------------------------------------------------- */

struct futad_reader {
  const char *name;
  const char *data;
  size_t length, at;
};

/* `NAME:LINE:COLUMN: error: MESSAGE`, the line and a caret under the place. */
static bool futad_error_at(const struct futad_reader *r, size_t at, const char *message) {
  size_t line = 1, start = 0;
  for (size_t i = 0; i < at && i < r->length; i++)
    if (r->data[i] == '\n') line++, start = i + 1;
  size_t column = 1, end = start;
  for (size_t i = start; i < at; i++) column += (r->data[i] & 0xc0) != 0x80;
  bool plain = true; /* bytes that are no text would spoil the reader's terminal */
  while (end < r->length && r->data[end] != '\n' && end - start <= 200)
    plain = plain && ((r->data[end] >= 32 && r->data[end] < 127) || r->data[end] == '\t'), end++;
  if (!plain || end - start > 200 || end == start)
    return futad_error("%s:%zu:%zu: error: %s", r->name, line, column, message);
  char *pad = futad_must_alloc(column);
  size_t n = 0;
  for (size_t i = start; i < at; i++)
    if ((r->data[i] & 0xc0) != 0x80) pad[n++] = r->data[i] == '\t' ? '\t' : ' ';
  pad[n] = 0;
  futad_error("%s:%zu:%zu: error: %s\n%.*s\n%s^", r->name, line, column, message, (int)(end - start), r->data + start,
              pad);
  free(pad);
  return false;
}

static void futad_skip(struct futad_reader *r) {
  while (r->at < r->length) {
    char c = r->data[r->at];
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      r->at++;
    } else if (c == '-' && r->at + 1 < r->length && r->data[r->at + 1] == '-') {
      while (r->at < r->length && r->data[r->at] != '\n') r->at++;
    } else {
      return;
    }
  }
}

static bool futad_at_end(struct futad_reader *r) {
  futad_skip(r);
  return r->at >= r->length;
}

static bool futad_prim_is_float(int prim) { return prim >= FUTAD_F16 && prim <= FUTAD_F64; }

static bool futad_put_integer(void *to, int prim, bool negative, uint64_t magnitude) {
  int bits = 8 * futad_prim_bytes[prim];
  bool is_signed = prim <= FUTAD_I64;
  uint64_t most = is_signed ? (UINT64_C(1) << (bits - 1)) - !negative : UINT64_MAX >> (64 - bits);
  if (magnitude > most || (negative && !is_signed && magnitude)) return false;
  uint64_t value = negative ? -magnitude : magnitude;
  memcpy(to, &value, (size_t)futad_prim_bytes[prim]);
  return true;
}

/* Whether a decimal integer is exactly `x`, which is what printing `x` shows. */
static bool futad_same_integer(const char *digits, double x) {
  char printed[400];
  while (*digits == '0' && digits[1]) digits++;
  snprintf(printed, sizeof printed, "%.0f", x < 0 ? -x : x);
  return strcmp(printed, digits) == 0;
}

/* A word of the input as messages show it: what is no UTF-8 or cannot be printed becomes a question mark. */
static void futad_show_word(char *out, const char *word, size_t length) {
  for (size_t i = 0; i < length;) {
    unsigned char c = (unsigned char)word[i];
    size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 9;
    bool good = c >= 32 && c != 127 && more < length - i;
    for (size_t k = 1; good && k <= more; k++) good = (word[i + k] & 0xc0) == 0x80;
    if (good) {
      for (size_t k = 0; k <= more; k++) *out++ = word[i++];
    } else {
      *out++ = '?', i++;
    }
  }
  *out = 0;
}

#define FUTAD_TOKEN 512

/* A scalar literal at the reader's place, stored at `to`. */
static bool futad_read_scalar(struct futad_reader *r, int prim, void *to) {
  size_t start = r->at, end = start;
  char token[FUTAD_TOKEN], shown[160], plain[FUTAD_TOKEN], message[400];
  const char *want = futad_prim_names[prim];
  while (end < r->length && !strchr(" \t\n\v\f\r,[](){}\"", r->data[end])) end++;
  size_t n = end - start;
  futad_show_word(shown, r->data + start, n < 60 ? n : 60);
  if (n == 0 || n >= FUTAD_TOKEN) {
    if (start >= r->length) return futad_error_at(r, start, "expected a value, found the end of the input");
    futad_show_word(shown, r->data + start, 1);
    snprintf(message, sizeof message, "expected %s, found '%s'", want, shown);
    return futad_error_at(r, start, n ? "expected a value, found a word that is too long" : message);
  }
  memcpy(token, r->data + start, n);
  token[n] = 0;
  snprintf(message, sizeof message, "expected a value, found '%s'", shown);
  if (!strcmp(token, "true") || !strcmp(token, "false")) {
    if (prim != FUTAD_BOOL) {
      snprintf(message, sizeof message, "expected %s, got bool", want);
      return futad_error_at(r, start, message);
    }
    *(bool *)to = token[0] == 't';
    r->at = end;
    return true;
  }
  bool negative = token[0] == '-';
  char *body = token + (token[0] == '-' || token[0] == '+');
  /* The suffix: the longest type name at the end, of a literal that is not hexadecimal unless a point or power shows
   * where its digits end. */
  bool hex = body[0] == '0' && (body[1] == 'x' || body[1] == 'X');
  bool binary = body[0] == '0' && (body[1] == 'b' || body[1] == 'B');
  bool hexfloat = hex && strpbrk(body, "pP");
  bool special = !strncmp(body, "f16.", 4) || !strncmp(body, "f32.", 4) || !strncmp(body, "f64.", 4);
  int suffix = -1;
  size_t length = strlen(body);
  if (!special)
    for (int p = 0; p < FUTAD_BOOL; p++) {
      size_t k = strlen(futad_prim_names[p]);
      if (length > k && !strcmp(body + length - k, futad_prim_names[p]) && !(hex && !hexfloat && p >= FUTAD_F16)) {
        suffix = p;
        body[length - k] = 0;
        break;
      }
    }
  if (special)
    for (int p = FUTAD_F16; p <= FUTAD_F64; p++)
      if (!strncmp(body, futad_prim_names[p], 3)) suffix = p;
  if (special && strcmp(body + 4, "nan") && strcmp(body + 4, "inf")) return futad_error_at(r, start, message);
  if (!special && !isdigit((unsigned char)body[0]) && !(body[0] == '.' && isdigit((unsigned char)body[1])))
    return futad_error_at(r, start, message);
  size_t m = 0;
  for (const char *c = body; *c; c++)
    if (*c != '_') plain[m++] = *c;
  plain[m] = 0;
  bool floating = special || hexfloat || (!hex && strpbrk(plain, ".eE")) || (suffix >= FUTAD_F16);
  /* Is it a literal at all? */
  double real = 0;
  uint64_t magnitude = 0;
  bool overflow = false;
  if (special) {
    real = strcmp(body + 4, "nan") ? FUTAD_INF : FUTAD_NAN;
  } else if (floating) {
    char *rest;
    real = strtod(plain, &rest);
    if (*rest) return futad_error_at(r, start, message);
  } else {
    char *rest;
    const char *digits = plain + (hex || binary ? 2 : 0);
    errno = 0;
    if (!isalnum((unsigned char)digits[0]) || strpbrk(digits, hex ? "xX" : "bBxX")) return futad_error_at(r, start, message);
    magnitude = strtoull(digits, &rest, hex ? 16 : binary ? 2 : 10);
    overflow = errno == ERANGE;
    if (*rest) return futad_error_at(r, start, message);
  }
  /* Does it fit the type that is wanted? */
  if (suffix >= 0 ? suffix != prim : prim == FUTAD_BOOL || (floating && !futad_prim_is_float(prim))) {
    const char *got = suffix >= 0 ? futad_prim_names[suffix] : floating ? "a decimal" : "an integer";
    snprintf(message, sizeof message, "expected %s, got %s", want, got);
    return futad_error_at(r, start, message);
  }
  if (futad_prim_is_float(prim)) {
    if (!floating) {
      real = hex || binary ? (double)magnitude : strtod(plain, NULL);
      futad_put_float(to, prim, real);
      double stored = futad_get_float(to, prim);
      bool exact = hex || binary ? !overflow && stored < 0x1p64 && (uint64_t)stored == magnitude
                                 : futad_same_integer(plain, stored);
      if (!exact) {
        snprintf(message, sizeof message, "an integer here is not exact in %s", want);
        return futad_error_at(r, start, message);
      }
    }
    futad_put_float(to, prim, negative ? -real : real);
  } else if (overflow || !futad_put_integer(to, prim, negative, magnitude)) {
    snprintf(message, sizeof message, "%s does not fit %s", shown, want);
    return futad_error_at(r, start, message);
  }
  r->at = end;
  return true;
}

struct futad_growing {
  char *data;
  size_t count, capacity, size;
};

static void *futad_push(struct futad_growing *g) {
  if (g->count == g->capacity) {
    g->capacity = g->capacity ? 2 * g->capacity : 64;
    char *larger = realloc(g->data, g->capacity * g->size);
    if (!larger) {
      fprintf(stderr, "error: out of memory\n");
      exit(1);
    }
    g->data = larger;
  }
  return g->data + g->size * g->count++;
}

/* The number of the character that an escape names, the reader behind its letter or at its first digit; -1 if it names
 * none by a number. */
static int64_t futad_escaped(struct futad_reader *r, size_t at, char letter) {
  static const char hex[] = "0123456789abcdef";
  int base = letter == 'x' || letter == 'u' ? 16 : letter == 'o' ? 8 : 10;
  bool braced = base != 10 && at < r->length && r->data[at] == '{';
  int64_t number = 0;
  size_t first = at += braced;
  for (const char *d; at < r->length && (d = memchr(hex, r->data[at] | (isalpha((unsigned char)r->data[at]) ? 32 : 0), (size_t)base)); at++)
    number = number > 0x10ffff ? number : number * base + (d - hex);
  if (at == first || (braced && (at == r->length || r->data[at] != '}'))) return -1;
  r->at = at + braced - 1;
  return number;
}

/* The escapes are those of `futad/core/literals.py`. */
static bool futad_read_string(struct futad_reader *r, struct futad_growing *g, int64_t *length) {
  size_t start = r->at++;
  *length = 0;
  for (; r->at < r->length && r->data[r->at] != '"'; r->at++) {
    char bytes[4] = {r->data[r->at]};
    int n = 1;
    if (bytes[0] == '\\' && r->at + 1 < r->length) {
      static const char letters[] = "ntrabfv", meant[] = "\n\t\r\a\b\f\v";
      char c = r->data[++r->at];
      bool digit = isdigit((unsigned char)c);
      int64_t u = digit || strchr("xuo", c) ? futad_escaped(r, r->at + !digit, c) : -1;
      const char *letter = c ? strchr(letters, c) : NULL;
      if (u > 0x10ffff || (u >= 0xd800 && u < 0xe000))
        return futad_error_at(r, start, "an escape names no Unicode character");
      bytes[0] = letter ? meant[letter - letters] : c;
      if (u >= 0) {
        n = u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
        for (int i = n - 1; i > 0; i--, u >>= 6) bytes[i] = (char)(0x80 | (u & 0x3f));
        bytes[0] = (char)(n == 1 ? u : (0xf0 << (4 - n) & 0xff) | u);
      }
    }
    for (int i = 0; i < n; i++) *(char *)futad_push(g) = bytes[i];
    *length += n;
  }
  if (r->at >= r->length) return futad_error_at(r, start, "the string has no end");
  r->at++;
  return true;
}

/* The part of an array at `depth`; `shape` is -1 where it is not known yet. */
static bool futad_read_rows(struct futad_reader *r, struct futad_array *a, int depth, struct futad_growing *g) {
  char message[200], type[FUTAD_TYPE_TEXT];
  futad_skip(r);
  if (depth == a->rank) return futad_read_scalar(r, a->prim, futad_push(g));
  size_t start = r->at;
  int64_t count = 0;
  if (r->at < r->length && r->data[r->at] == '"' && a->prim == FUTAD_U8 && depth == a->rank - 1) {
    if (!futad_read_string(r, g, &count)) return false;
  } else {
    if (r->at >= r->length) return futad_error_at(r, r->at, "expected a value, found the end of the input");
    if (r->data[r->at] != '[') {
      snprintf(message, sizeof message, "expected %s", futad_type_text(type, a->prim, a->rank));
      return futad_error_at(r, r->at, message);
    }
    r->at++;
    futad_skip(r);
    while (r->at < r->length && r->data[r->at] != ']') {
      if (count && r->data[r->at++] != ',') {
        r->at--;
        return futad_error_at(r, r->at, "expected ',' or ']' in an array");
      }
      if (!futad_read_rows(r, a, depth + 1, g)) return false;
      count++;
      futad_skip(r);
    }
    if (r->at >= r->length)
      return futad_error_at(r, r->at, "expected ',' or ']' in an array, found the end of the input");
    r->at++;
    if (!count) return futad_error_at(r, start, "an empty array must be written with its type: empty([0]i32)");
  }
  if (a->shape[depth] >= 0 && a->shape[depth] != count)
    return futad_error_at(r, start, "the rows of an array differ in shape");
  a->shape[depth] = count;
  return true;
}

/* `empty([0][2]f64)`; the reader is behind `empty`. */
static bool futad_read_empty(struct futad_reader *r, size_t start, struct futad_array *a) {
  char message[200], type[FUTAD_TYPE_TEXT];
  bool zero = false;
  int rank = 0;
  futad_skip(r);
  if (r->at >= r->length || r->data[r->at] != '(') return futad_error_at(r, r->at, "expected '(' after 'empty'");
  r->at++;
  for (futad_skip(r); r->at < r->length && r->data[r->at] == '['; futad_skip(r)) {
    char *rest;
    r->at++;
    errno = 0;
    long long n = strtoll(r->data + r->at, &rest, 10);
    if (rest == r->data + r->at || errno) return futad_error_at(r, r->at, "expected a size");
    if (n < 0) return futad_error_at(r, start, "a size is negative");
    if (n >= INT64_C(1) << 62) return futad_error_at(r, start, "a size is too large");
    r->at = (size_t)(rest - r->data);
    futad_skip(r);
    if (r->at >= r->length || r->data[r->at] != ']') return futad_error_at(r, r->at, "expected ']'");
    r->at++;
    if (rank < a->rank) a->shape[rank] = n;
    zero = zero || n == 0;
    rank++;
  }
  size_t n = strlen(futad_prim_names[a->prim]);
  bool fits = rank == a->rank && r->length - r->at > n && !memcmp(r->data + r->at, futad_prim_names[a->prim], n) &&
              !isalnum((unsigned char)r->data[r->at + n]);
  if (!fits) {
    snprintf(message, sizeof message, "expected %s", futad_type_text(type, a->prim, a->rank));
    return futad_error_at(r, start, message);
  }
  r->at += n;
  futad_skip(r);
  if (r->at >= r->length || r->data[r->at] != ')') return futad_error_at(r, r->at, "expected ')'");
  r->at++;
  if (!zero) return futad_error_at(r, start, "an empty array needs a dimension of size 0");
  a->data = futad_must_alloc(0);
  return true;
}

static bool futad_read_binary(struct futad_reader *r, struct futad_array *a) {
  size_t start = r->at, left = r->length - start;
  char message[200], type[FUTAD_TYPE_TEXT], name[5] = "    ";
  const unsigned char *p = (const unsigned char *)r->data + start;
  memcpy(name + 4 - strlen(futad_prim_names[a->prim]), futad_prim_names[a->prim], strlen(futad_prim_names[a->prim]));
  if (left < 7) return futad_error_at(r, start, "a binary value is cut off in its header");
  if (p[1] != 2) {
    snprintf(message, sizeof message, "binary format version %d is not known; it should be 2", p[1]);
    return futad_error_at(r, start, message);
  }
  if (p[2] != a->rank || memcmp(p + 3, name, 4)) {
    int n = snprintf(message, sizeof message, "expected %s, got a binary value of rank %d and type '",
                     futad_type_text(type, a->prim, a->rank), p[2]);
    for (int i = 3; i < 7; i++) message[n++] = isprint(p[i]) ? (char)p[i] : '?';
    strcpy(message + n, "'");
    return futad_error_at(r, start, message);
  }
  size_t head = 7 + 8 * (size_t)a->rank;
  if (left < head) return futad_error_at(r, start, "a binary value is cut off in its header");
  bool large = false;
  for (int i = 0; i < a->rank; i++) {
    memcpy(&a->shape[i], p + 7 + 8 * i, 8);
    large = large || a->shape[i] < 0 || a->shape[i] >= INT64_C(1) << 62;
  }
  int64_t count = large ? -1 : futad_elements(a);
  if (count < 0) return futad_error_at(r, start, "the sizes of a binary value are too large");
  size_t bytes = (size_t)count * (size_t)futad_prim_bytes[a->prim];
  if (left - head < bytes) {
    snprintf(message, sizeof message, "a binary value needs %zu bytes, but only %zu follow", bytes, left - head);
    return futad_error_at(r, start, message);
  }
  a->data = futad_must_alloc(bytes);
  memcpy(a->data, p + head, bytes);
  if (a->prim == FUTAD_BOOL)
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)a->data)[i] = p[head + i] != 0;
  r->at = start + head + bytes;
  return true;
}

/* The next value, at the type in `a` (its prim and rank). */
static bool futad_read_value(struct futad_reader *r, struct futad_array *a) {
  a->data = NULL;
  for (int i = 0; i < a->rank; i++) a->shape[i] = -1;
  if (futad_at_end(r)) return futad_error_at(r, r->at, "expected a value, found the end of the input");
  size_t start = r->at, left = r->length - start;
  if (r->data[start] == 'b' && left > 1 && !isprint((unsigned char)r->data[start + 1])) return futad_read_binary(r, a);
  if (left > 5 && !memcmp(r->data + start, "empty", 5) && !isalnum((unsigned char)r->data[start + 5])) {
    r->at += 5;
    return futad_read_empty(r, start, a);
  }
  struct futad_growing g = {.size = (size_t)futad_prim_bytes[a->prim]};
  if (!futad_read_rows(r, a, 0, &g)) {
    free(g.data);
    return false;
  }
  a->data = g.data ? g.data : futad_must_alloc(0);
  return true;
}

/* --- standard files ------------------------------------------------------------------------------------ */

/* Those that are closed are opened so that to read the one and to write the others fails, as it would: else the next
 * file that is opened would get their numbers. */
static void futad_standard_files(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == 1 ? O_RDONLY : O_WRONLY);
}

/* The status to end with: 0, or 1 with a message if what was printed has not been written. */
static int futad_finish(void) {
  const bool before = ferror(stdout);
  if (!fflush(stdout) && !before) return 0;
  fprintf(stderr, "error: output: %s\n", before && !errno ? "it was not all written" : strerror(errno));
  return 1;
}

/* --- writing ------------------------------------------------------------------------------------------- */

static void futad_write_text(FILE *out, const struct futad_array *a) {
  futad_write_value(out, a->prim, a->rank, a->shape, a->data);
  fputc('\n', out);
}

static void futad_write_binary(FILE *out, const struct futad_array *a) {
  fprintf(out, "b%c%c%4s", 2, a->rank, futad_prim_names[a->prim]);
  fwrite(a->shape, 8, (size_t)a->rank, out);
  fwrite(a->data, (size_t)futad_prim_bytes[a->prim], (size_t)futad_elements(a), out);
}

/* All of a stream; NULL if it cannot be read. */
static char *futad_read_all(FILE *in, size_t *length) {
  size_t capacity = 1 << 16;
  char *data = futad_must_alloc(capacity + 1);
  *length = 0;
  for (;;) {
    size_t got = fread(data + *length, 1, capacity - *length, in);
    *length += got;
    if (*length < capacity) break;
    char *larger = realloc(data, 2 * capacity + 1);
    if (!larger) {
      free(data);
      errno = ENOMEM;
      return NULL;
    }
    data = larger;
    capacity *= 2;
  }
  data[*length] = 0; /* so that strtoll and its like stop there */
  if (ferror(in)) {
    free(data);
    return NULL;
  }
  return data;
}
