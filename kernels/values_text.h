/* Writing values in Futhark's text format, which futad/runtime/textvalues.py describes.
 *
 * Included after prelude.h (math.h must not be, see there): by programs that trace values, and by executables.
 */
#ifndef FUTAD_VALUES_TEXT_H
#define FUTAD_VALUES_TEXT_H
#include <stdio.h>
#include <stdlib.h>

enum futad_prim { FUTAD_I8, FUTAD_I16, FUTAD_I32, FUTAD_I64, FUTAD_U8, FUTAD_U16, FUTAD_U32, FUTAD_U64,
                  FUTAD_F16, FUTAD_F32, FUTAD_F64, FUTAD_BOOL, FUTAD_PRIMS };

static const char *const futad_prim_names[FUTAD_PRIMS] = {"i8",  "i16", "i32", "i64", "u8",  "u16",
                                                         "u32", "u64", "f16", "f32", "f64", "bool"};
static const int futad_prim_bytes[FUTAD_PRIMS] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 1};

static void futad_put_float(void *to, int prim, double x) {
  if (prim == FUTAD_F64) *(double *)to = x;
  if (prim == FUTAD_F32) *(float *)to = (float)x;
#ifdef FUTAD_HAS_F16
  if (prim == FUTAD_F16) *(futad_f16 *)to = (futad_f16)x;
#endif
}

static double futad_get_float(const void *from, int prim) {
  if (prim == FUTAD_F64) return *(const double *)from;
  if (prim == FUTAD_F32) return *(const float *)from;
#ifdef FUTAD_HAS_F16
  if (prim == FUTAD_F16) return (double)*(const futad_f16 *)from;
#endif
  return 0;
}

static bool futad_reads_back(const char *text, int prim, double x) {
  if (prim == FUTAD_F64) return strtod(text, NULL) == x;
  if (prim == FUTAD_F32) return strtof(text, NULL) == (float)x;
  char stored[8];
  futad_put_float(stored, prim, strtod(text, NULL));
  return futad_get_float(stored, prim) == x;
}

/* The shortest decimal that reads back as the same number, laid out as Python does. */
static void futad_write_float(FILE *out, int prim, double x) {
  /* So many digits always read back the same as a decimal of that length, except below the normal numbers. */
  static const int least[] = {[FUTAD_F16] = 3, [FUTAD_F32] = 6, [FUTAD_F64] = 15};
  static const double normal[] = {[FUTAD_F16] = 0x1p-14, [FUTAD_F32] = 0x1p-126, [FUTAD_F64] = 0x1p-1022};
  static const int most[] = {[FUTAD_F16] = 5, [FUTAD_F32] = 9, [FUTAD_F64] = 17};
  const char *name = futad_prim_names[prim];
  if (x != x || x - x != 0) {
    fprintf(out, "%s%s.%s", x < 0 ? "-" : "", name, x != x ? "nan" : "inf");
    return;
  }
  char text[40], digits[20];
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const bool power = bits << 12 == 0;
  for (int p = (x < 0 ? -x : x) < normal[prim] ? 1 : least[prim]; p <= most[prim]; p++) {
    snprintf(text, sizeof text, "%.*e", p - 1, x);
    if (futad_reads_back(text, prim, x)) break;
    /* Above a power of two numbers are twice as far apart: there it may be the next decimal away from zero. */
    if (!power || p == most[prim]) continue;
    char *const first = text + (text[0] == '-'), *d = first + (p > 1 ? p : 0);
    for (; d > first && *d == '9'; d -= d[-1] == '.' ? 2 : 1) *d = '0';
    if (*d == '9') continue; /* 9 to 10 adds a digit, and none of these powers is so near one of ten */
    ++*d;
    if (futad_reads_back(text, prim, x)) break;
  }
  int n = 0;
  char *c = text + (text[0] == '-');
  for (; *c != 'e'; c++)
    if (*c != '.') digits[n++] = *c;
  while (n > 1 && digits[n - 1] == '0') n--;
  int point = atoi(c + 1) + 1; /* digits before the decimal point */
  if (text[0] == '-') fputc('-', out);
  if (point <= -4 || point > 16) {
    fprintf(out, "%c%s%.*se%+03d%s", digits[0], n > 1 ? "." : "", n - 1, digits + 1, point - 1, name);
  } else if (point <= 0) {
    fprintf(out, "0.%.*s%.*s%s", -point, "0000", n, digits, name);
  } else if (point >= n) {
    fprintf(out, "%.*s%.*s.0%s", n, digits, point - n, "0000000000000000", name);
  } else {
    fprintf(out, "%.*s.%.*s%s", point, digits, n - point, digits + point, name);
  }
}

static void futad_write_scalar(FILE *out, int prim, const void *at) {
  int64_t v = 0;
  switch (prim) {
    case FUTAD_I8: v = *(const int8_t *)at; break;
    case FUTAD_I16: v = *(const int16_t *)at; break;
    case FUTAD_I32: v = *(const int32_t *)at; break;
    case FUTAD_I64: v = *(const int64_t *)at; break;
    case FUTAD_U8: v = *(const uint8_t *)at; break;
    case FUTAD_U16: v = *(const uint16_t *)at; break;
    case FUTAD_U32: v = *(const uint32_t *)at; break;
    case FUTAD_U64: fprintf(out, "%lluu64", (unsigned long long)*(const uint64_t *)at); return;
    case FUTAD_BOOL: fputs(*(const uint8_t *)at ? "true" : "false", out); return;
    default: futad_write_float(out, prim, futad_get_float(at, prim)); return;
  }
  fprintf(out, "%lld%s", (long long)v, futad_prim_names[prim]);
}

static const char *futad_write_rows(FILE *out, int prim, int rank, const int64_t *shape, const char *at) {
  if (rank == 0) {
    futad_write_scalar(out, prim, at);
    return at + futad_prim_bytes[prim];
  }
  fputc('[', out);
  for (int64_t i = 0; i < shape[0]; i++) {
    if (i) fputs(", ", out);
    at = futad_write_rows(out, prim, rank - 1, shape + 1, at);
  }
  fputc(']', out);
  return at;
}

/* A scalar (rank 0) or a dense array. */
static void futad_write_value(FILE *out, int prim, int rank, const int64_t *shape, const void *data) {
  bool empty = false;
  for (int i = 0; i < rank; i++) empty = empty || shape[i] == 0;
  if (!empty) {
    futad_write_rows(out, prim, rank, shape, data);
  } else {
    fputs("empty(", out);
    for (int i = 0; i < rank; i++) fprintf(out, "[%lld]", (long long)shape[i]);
    fprintf(out, "%s)", futad_prim_names[prim]);
  }
}

/* A line `tag: value` on stderr, whole whatever other threads print. */
static __attribute__((noinline, cold, unused)) void futad_trace(const char *tag, int prim, int rank,
                                                                const int64_t *shape, const void *data) {
  void *const held = futad_hold();
  flockfile(stderr);
  fprintf(stderr, "%s: ", tag);
  futad_write_value(stderr, prim, rank, shape, data);
  fputc('\n', stderr);
  funlockfile(stderr);
  futad_go_on(held);
}
#endif
