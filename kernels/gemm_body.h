/* The body of gemm.h, included once an element type (FUTAD_GEMM_T, suffix FUTAD_GEMM_S). */

#define T FUTAD_GEMM_T
#define F(name) FUTAD_GEMM_NAME(futad_gemm_##name##_, FUTAD_GEMM_S)
#define VL ((int64_t)(FUTAD_GEMM_BYTES / sizeof(T)))
#define NR (FUTAD_GEMM_NV * VL)
#define MR FUTAD_GEMM_MR

typedef T F(vec) __attribute__((vector_size(FUTAD_GEMM_BYTES)));

/* tile[MR][NR] (contiguous) = a sliver times b sliver over kc steps. */
static inline __attribute__((always_inline)) void F(tile)(int64_t kc, const T *restrict a, const T *restrict b,
                                                          F(vec) acc[MR][FUTAD_GEMM_NV]) {
  F(vec) c[MR][FUTAD_GEMM_NV];
  for (int i = 0; i < MR; i++)
    for (int v = 0; v < FUTAD_GEMM_NV; v++) c[i][v] = (F(vec)){0};
  for (int64_t p = 0; p < kc; p++) {
    const F(vec) *bv = (const F(vec) *)(b + p * NR);
    const F(vec) b0 = bv[0], b1 = bv[1], b2 = bv[2];
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      const T s = a[p * MR + i];
      c[i][0] += s * b0;
      c[i][1] += s * b1;
      c[i][2] += s * b2;
    }
  }
  for (int i = 0; i < MR; i++)
    for (int v = 0; v < FUTAD_GEMM_NV; v++) acc[i][v] = c[i][v];
}

/* Slivers of MR rows of an mc x kc block, k-major, zero-padded to a whole sliver. */
static void F(pack_a)(int64_t mc, int64_t kc, const T *A, int64_t rs, int64_t cs, T *restrict out) {
  for (int64_t i = 0; i < mc; i += MR) {
    const int64_t rows = mc - i < MR ? mc - i : MR;
    if (rows == MR && cs == 1) {
      for (int64_t p = 0; p < kc; p++)
        for (int r = 0; r < MR; r++) out[p * MR + r] = A[(i + r) * rs + p];
    } else if (rows == MR && rs == 1) {
      for (int64_t p = 0; p < kc; p++) memcpy(out + p * MR, A + i + p * cs, MR * sizeof(T));
    } else {
      for (int64_t p = 0; p < kc; p++)
        for (int r = 0; r < MR; r++) out[p * MR + r] = r < rows ? A[(i + r) * rs + p * cs] : (T)0;
    }
    out += kc * MR;
  }
}

/* Slivers of NR columns of a kc x nc panel. */
static void F(pack_b)(int64_t kc, int64_t nc, const T *B, int64_t rs, int64_t cs, T *restrict out) {
  for (int64_t j = 0; j < nc; j += NR) {
    const int64_t cols = nc - j < NR ? nc - j : NR;
    if (cols == NR && cs == 1) {
      for (int64_t p = 0; p < kc; p++) memcpy(out + p * NR, B + p * rs + j, NR * sizeof(T));
    } else if (rs == 1) {
      /* Columns are contiguous: read along them. */
      for (int64_t c = 0; c < NR; c++)
        for (int64_t p = 0; p < kc; p++) out[p * NR + c] = c < cols ? B[p + (j + c) * cs] : (T)0;
    } else {
      for (int64_t p = 0; p < kc; p++)
        for (int64_t c = 0; c < NR; c++) out[p * NR + c] = c < cols ? B[p * rs + (j + c) * cs] : (T)0;
    }
    out += kc * NR;
  }
}

static __attribute__((noinline, unused)) int FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(
    int64_t m, int64_t n, int64_t k, const T *A, int64_t rsA, int64_t csA, const T *B, int64_t rsB, int64_t csB, T *C,
    int64_t rsC, int64_t csC, int accumulate) {
  const int64_t kc_max = k < FUTAD_GEMM_KC ? k : FUTAD_GEMM_KC;
  const int64_t mc_max = ((m < FUTAD_GEMM_MC ? m : FUTAD_GEMM_MC) + MR - 1) / MR * MR;
  const int64_t nc_max = ((n < FUTAD_GEMM_NC ? n : FUTAD_GEMM_NC) + NR - 1) / NR * NR;
  if (m <= 0 || n <= 0) return 0;
  /* + 8 vectors, so that both buffers can start on a cache line. */
  T *space = futad_gemm_reserve((size_t)((mc_max + nc_max) * kc_max + 8 * VL) * sizeof(T));
  if (!space) return 1;
  T *pb = space, *pa = space + (nc_max * kc_max + VL - 1) / VL * VL;
  if (k <= 0 && !accumulate)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) C[i * rsC + j * csC] = 0;
  for (int64_t jc = 0; jc < n; jc += FUTAD_GEMM_NC) {
    const int64_t nc = n - jc < FUTAD_GEMM_NC ? n - jc : FUTAD_GEMM_NC;
    for (int64_t pc = 0; pc < k; pc += FUTAD_GEMM_KC) {
      const int64_t kc = k - pc < FUTAD_GEMM_KC ? k - pc : FUTAD_GEMM_KC;
      const int add = accumulate || pc > 0;
      F(pack_b)(kc, nc, B + pc * rsB + jc * csB, rsB, csB, pb);
      for (int64_t ic = 0; ic < m; ic += FUTAD_GEMM_MC) {
        const int64_t mc = m - ic < FUTAD_GEMM_MC ? m - ic : FUTAD_GEMM_MC;
        F(pack_a)(mc, kc, A + ic * rsA + pc * csA, rsA, csA, pa);
        for (int64_t j = 0; j < nc; j += NR) {
          const int64_t cols = nc - j < NR ? nc - j : NR;
          for (int64_t i = 0; i < mc; i += MR) {
            const int64_t rows = mc - i < MR ? mc - i : MR;
            F(vec) acc[MR][FUTAD_GEMM_NV];
            F(tile)(kc, pa + i * kc, pb + j * kc, acc);
            T *c = C + (ic + i) * rsC + (jc + j) * csC;
            if (rows == MR && cols == NR && csC == 1) {
              for (int r = 0; r < MR; r++)
                for (int v = 0; v < FUTAD_GEMM_NV; v++) {
                  F(vec) x = acc[r][v], old;
                  T *at = c + r * rsC + v * VL;
                  if (add) {
                    memcpy(&old, at, sizeof old);
                    x += old;
                  }
                  memcpy(at, &x, sizeof x);
                }
            } else {
              const T *t = (const T *)acc;
              for (int64_t r = 0; r < rows; r++)
                for (int64_t q = 0; q < cols; q++) {
                  T *at = c + r * rsC + q * csC;
                  *at = add ? *at + t[r * NR + q] : t[r * NR + q];
                }
            }
          }
        }
      }
    }
  }
  return 0;
}

/* The same on several threads: each takes a stripe of rows, or of columns where there are more of those. */
static __attribute__((unused)) int FUTAD_GEMM_NAME(futad_gemm_parallel_, FUTAD_GEMM_S)(
    int64_t m, int64_t n, int64_t k, const T *A, int64_t rsA, int64_t csA, const T *B, int64_t rsB, int64_t csB, T *C,
    int64_t rsC, int64_t csC, int accumulate) {
  int failed = 0;
#ifdef _OPENMP
  const int by_rows = m >= n;
  const int64_t side = by_rows ? m : n, unit = by_rows ? MR : NR;
#pragma omp parallel if (m * n * k > 100000) reduction(| : failed)
  {
    const int64_t threads = omp_get_num_threads(), id = omp_get_thread_num();
    const int64_t per = (side + unit * threads - 1) / (unit * threads) * unit;
    const int64_t from = id * per < side ? id * per : side, to = from + per < side ? from + per : side;
    if (by_rows)
      failed |= FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(to - from, n, k, A + from * rsA, rsA, csA, B, rsB, csB,
                                                          C + from * rsC, rsC, csC, accumulate);
    else
      failed |= FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(m, to - from, k, A, rsA, csA, B + from * csB, rsB, csB,
                                                          C + from * csC, rsC, csC, accumulate);
  }
#else
  failed = FUTAD_GEMM_NAME(futad_gemm_, FUTAD_GEMM_S)(m, n, k, A, rsA, csA, B, rsB, csB, C, rsC, csC, accumulate);
#endif
  return failed;
}

#undef T
#undef F
#undef VL
#undef NR
#undef MR
