/* Contractions of which some places are out of range, which then have no terms (see contract.h).
 *
 *   futad_contract_open_f64(axes, sizes, outs, A, a, B, b, C, c, parallel, ranges, size, start, steps)
 *   futad_contract_open_f32(...)
 *   FUTAD_OPEN_DONE(call)    what a call of `futad_contract_f64` is: 0, or 1 if it was to stop
 *   FUTAD_OPEN_STOPS         returns 1 if it is to stop
 *
 * For each of the `ranges`, start + sum of step[k] * x[k] is to be at least 0 and below size; `steps` are those of all
 * axes, one range after the other.  The iterations are cut into boxes in which all terms are there: along an axis of C
 * wherever other iterations of a second axis are within.  What moves with more axes, or with two that are summed over,
 * is asked term by term.
 */
#ifndef FUTAD_CONTRACT_OPEN_H
#define FUTAD_CONTRACT_OPEN_H

#define FUTAD_OPEN_AXES 16
#define FUTAD_OPEN_RANGES 32
#define FUTAD_OPEN_FAR 2305843009213693952.0 /* 2^61: sums of places up to there do not wrap around */

struct futad_open {
  int axes, outs, ranges;
  const int64_t *a, *b, *c, *size, *steps;
  bool parallel;
};

/* The x below n with 0 <= start + step * x < size: those from *low to before *high.  The step is not 0. */
static inline void futad_open_within(int64_t start, int64_t step, int64_t size, int64_t n, int64_t *low, int64_t *high) {
  const bool back = step < 0;
  const int64_t by = back ? -step : step, first = back ? start + step * (n - 1) : start, left = size - first;
  int64_t l = first >= 0 ? 0 : by == 1 ? -first : (by - 1 - first) / by;
  int64_t h = left <= 0 ? 0 : by == 1 ? left : (left + by - 1) / by;
  if (h > n) h = n;
  if (l > h) l = h;
  *low = back ? n - h : l;
  *high = back ? n - l : h;
}

/* How many x from `from` on have the same y within as this one has. */
static inline int64_t futad_open_alike(int64_t start, int64_t step, int64_t from, int64_t to, int64_t other,
                                       int64_t size, int64_t n, int64_t low, int64_t high) {
  int64_t alike = from, differ = to; /* these bounds are monotone in x */
  for (int64_t by = 1; alike + 1 < differ; by *= 2) {
    const int64_t x = alike + by < differ ? alike + by : alike + (differ - alike) / 2;
    int64_t l, h;
    futad_open_within(start + step * x, other, size, n, &l, &h);
    if (l == low && h == high) {
      alike = x;
    } else {
      differ = x;
      while (alike + 1 < differ) {
        const int64_t middle = alike + (differ - alike) / 2;
        futad_open_within(start + step * middle, other, size, n, &l, &h);
        if (l == low && h == high)
          alike = middle;
        else
          differ = middle;
      }
      break;
    }
  }
  return alike + 1;
}

#define FUTAD_OPEN_CONTRACT(T, t)                                                                                      \
  /* Zeros. */                                                                                                         \
  static int futad_open_none_##T(const struct futad_open *o, const int64_t *sizes, t *C) {                             \
    int64_t at[FUTAD_OPEN_AXES] = {0};                                                                                 \
    for (int k = 0; k < o->outs; k++)                                                                                  \
      if (sizes[k] <= 0) return 0;                                                                                     \
    for (;;) {                                                                                                         \
      int64_t z = 0;                                                                                                   \
      for (int k = 0; k < o->outs; k++) z += at[k] * o->c[k];                                                          \
      C[z] = 0;                                                                                                        \
      int k = o->outs - 1;                                                                                             \
      for (; k >= 0 && ++at[k] == sizes[k]; k--) at[k] = 0;                                                            \
      if (k < 0) return 0;                                                                                             \
    }                                                                                                                  \
  }                                                                                                                    \
                                                                                                                       \
  /* Each place is looked at, by integers that wrap around. */                                                         \
  static int futad_open_terms_##T(const struct futad_open *o, const int64_t *sizes, const t *A, const t *B, t *C,      \
                                  const int64_t *start) {                                                              \
    int64_t at[FUTAD_OPEN_AXES] = {0};                                                                                 \
    bool terms = true;                                                                                                 \
    for (int k = 0; k < o->axes; k++) {                                                                                \
      if (sizes[k] <= 0 && k < o->outs) return 0;                                                                      \
      if (sizes[k] <= 0) terms = false;                                                                                \
    }                                                                                                                  \
    for (;;) {                                                                                                         \
      int64_t z = 0;                                                                                                   \
      t sum = 0;                                                                                                       \
      for (int k = 0; k < o->outs; k++) z += at[k] * o->c[k];                                                          \
      while (terms) {                                                                                                  \
        uint64_t x = 0, y = 0;                                                                                         \
        bool within = true;                                                                                            \
        for (int r = 0; r < o->ranges; r++) {                                                                          \
          uint64_t place = (uint64_t)start[r];                                                                         \
          for (int k = 0; k < o->axes; k++) place += (uint64_t)o->steps[r * o->axes + k] * (uint64_t)at[k];            \
          within = within && place < (uint64_t)o->size[r];                                                             \
        }                                                                                                              \
        for (int k = 0; k < o->axes; k++)                                                                              \
          x += (uint64_t)o->a[k] * (uint64_t)at[k], y += (uint64_t)o->b[k] * (uint64_t)at[k];                          \
        if (within) sum += A[(int64_t)x] * B[(int64_t)y];                                                              \
        FUTAD_OPEN_STOPS;                                                                                              \
        int k = o->axes - 1;                                                                                           \
        for (; k >= o->outs && ++at[k] == sizes[k]; k--) at[k] = 0;                                                    \
        if (k < o->outs) break;                                                                                        \
      }                                                                                                                \
      C[z] = sum;                                                                                                      \
      int k = o->outs - 1;                                                                                             \
      for (; k >= 0 && ++at[k] == sizes[k]; k--) at[k] = 0;                                                            \
      if (k < 0) return 0;                                                                                             \
    }                                                                                                                  \
  }                                                                                                                    \
                                                                                                                       \
  static int futad_open_box_##T(const struct futad_open *o, int r, const int64_t *sizes, const t *A, const t *B, t *C, \
                                const int64_t *start);                                                                 \
                                                                                                                       \
  /* The iterations of one axis from `low` to before `high`; zeros if `r` is negative. */                              \
  static int futad_open_cut_##T(const struct futad_open *o, int r, int axis, int64_t low, int64_t high,                \
                                const int64_t *sizes, const t *A, const t *B, t *C, const int64_t *start) {            \
    int64_t size[FUTAD_OPEN_AXES], first[FUTAD_OPEN_RANGES];                                                           \
    if (axis < o->outs && low >= high) return 0;                                                                       \
    for (int k = 0; k < o->axes; k++) size[k] = k == axis ? high - low : sizes[k];                                     \
    for (int q = 0; q < o->ranges; q++) first[q] = start[q] + low * o->steps[q * o->axes + axis];                      \
    t *to = axis < o->outs ? C + low * o->c[axis] : C;                                                                 \
    if (r < 0 || low >= high) return futad_open_none_##T(o, size, to);                                                 \
    return futad_open_box_##T(o, r, size, A + low * o->a[axis], B + low * o->b[axis], to, first);                      \
  }                                                                                                                    \
                                                                                                                       \
  /* One axis where it is within range `r`; zeros elsewhere. */                                                        \
  static int futad_open_along_##T(const struct futad_open *o, int r, int axis, const int64_t *sizes, const t *A,       \
                                  const t *B, t *C, const int64_t *start) {                                            \
    int64_t low, high;                                                                                                 \
    futad_open_within(start[r], o->steps[r * o->axes + axis], o->size[r], sizes[axis], &low, &high);                   \
    if (axis < o->outs) {                                                                                              \
      futad_open_cut_##T(o, -1, axis, 0, low, sizes, A, B, C, start);                                                  \
      futad_open_cut_##T(o, -1, axis, high, sizes[axis], sizes, A, B, C, start);                                       \
    }                                                                                                                  \
    return futad_open_cut_##T(o, r + 1, axis, low, high, sizes, A, B, C, start);                                       \
  }                                                                                                                    \
                                                                                                                       \
  static int futad_open_box_##T(const struct futad_open *o, int r, const int64_t *sizes, const t *A, const t *B, t *C, \
                                const int64_t *start) {                                                                \
    for (; r < o->ranges; r++) {                                                                                       \
      const int64_t *step = o->steps + r * o->axes, size = o->size[r];                                                 \
      int64_t least = start[r], most = start[r];                                                                       \
      int moving = 0, inner = -1, outer = -1;                                                                          \
      for (int k = 0; k < o->axes; k++)                                                                                \
        if (step[k] && sizes[k] > 1) {                                                                                 \
          *(step[k] < 0 ? &least : &most) += step[k] * (sizes[k] - 1);                                                 \
          moving++, outer = inner, inner = k;                                                                          \
        }                                                                                                              \
      if (least >= 0 && most < size) continue;                                                                         \
      if (most < 0 || least >= size) return futad_open_none_##T(o, sizes, C);                                          \
      if (moving == 1) return futad_open_along_##T(o, r, inner, sizes, A, B, C, start);                                \
      if (moving > 2 || outer >= o->outs) return futad_open_terms_##T(o, sizes, A, B, C, start);                       \
      for (int64_t x = 0, end; x < sizes[outer]; x = end) {                                                            \
        int64_t low, high, n[FUTAD_OPEN_AXES], first[FUTAD_OPEN_RANGES];                                               \
        futad_open_within(start[r] + step[outer] * x, step[inner], size, sizes[inner], &low, &high);                   \
        end = futad_open_alike(start[r], step[outer], x, sizes[outer], step[inner], size, sizes[inner], low, high);    \
        for (int k = 0; k < o->axes; k++) n[k] = k == outer ? end - x : sizes[k];                                      \
        for (int q = 0; q < o->ranges; q++) first[q] = start[q] + x * o->steps[q * o->axes + outer];                   \
        const t *left = A + x * o->a[outer], *right = B + x * o->b[outer];                                             \
        t *to = C + x * o->c[outer];                                                                                   \
        if (inner < o->outs) {                                                                                         \
          futad_open_cut_##T(o, -1, inner, 0, low, n, left, right, to, first);                                         \
          futad_open_cut_##T(o, -1, inner, high, n[inner], n, left, right, to, first);                                 \
        }                                                                                                              \
        if (futad_open_cut_##T(o, r + 1, inner, low, high, n, left, right, to, first)) return 1;                       \
      }                                                                                                                \
      return 0;                                                                                                        \
    }                                                                                                                  \
    return FUTAD_OPEN_DONE(futad_contract_##T(o->axes, sizes, o->outs, A, o->a, B, o->b, C, o->c, o->parallel));       \
  }                                                                                                                    \
                                                                                                                       \
  static __attribute__((noinline, unused)) int futad_contract_open_##T(                                                \
      int axes, const int64_t *sizes, int outs, const t *A, const int64_t *a, const t *B, const int64_t *b, t *C,      \
      const int64_t *c, bool parallel, int ranges, const int64_t *size, const int64_t *start, const int64_t *steps) {  \
    const struct futad_open o = {axes, outs, ranges, a, b, c, size, steps, parallel};                                  \
    for (int k = 0; k < outs; k++)                                                                                     \
      if (sizes[k] <= 0) return 0;                                                                                     \
    for (int r = 0; r < ranges; r++) {                                                                                 \
      double reach = (double)start[r] < 0 ? -(double)start[r] : (double)start[r];                                      \
      for (int k = 0; k < axes; k++) {                                                                                 \
        const double step = (double)steps[r * axes + k];                                                               \
        reach += (step < 0 ? -step : step) * (double)sizes[k];                                                         \
      }                                                                                                                \
      if (reach > FUTAD_OPEN_FAR) return futad_open_terms_##T(&o, sizes, A, B, C, start);                              \
    }                                                                                                                  \
    return futad_open_box_##T(&o, 0, sizes, A, B, C, start);                                                           \
  }
FUTAD_OPEN_CONTRACT(f64, double)
FUTAD_OPEN_CONTRACT(f32, float)
#endif
