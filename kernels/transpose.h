/* Transposition: to[i * to_stride + j] = from[i + j * from_stride] for i < rows, j < columns.
 *
 * A tile is read in lines of the cache and turned round in registers, or in a buffer, so that each line is read and
 * written once, however unfavourable the strides.  Of the source so few lines are read at a time that the addresses of
 * their pages stay known until the next tiles, which are in the same pages; where the result has few lines, that is so
 * of them, and the source is read in order.  The last tiles of a side overlap those before. */
enum { FUTAD_ITERATION_FAR = 512, FUTAD_ITERATION_NEAR = 64 };

#define FUTAD_ITERATION_BUFFERED(bits, tile, to, from)                                                                      \
  do {                                                                                                                 \
    uint##bits##_t lines[tile][tile];                                                                                  \
    for (int b = 0; b < tile; b++) memcpy(lines[b], (from) + b * from_stride, sizeof lines[b]);                        \
    for (int a = 0; a < tile; a++) {                                                                                   \
      uint##bits##_t line[tile];                                                                                       \
      for (int b = 0; b < tile; b++) line[b] = lines[b][a];                                                            \
      memcpy((to) + a * to_stride, line, sizeof line);                                                                 \
    }                                                                                                                  \
  } while (0)

/* Eight lines of eight elements: pairs of elements change places, then pairs of pairs, then halves of lines. */
#define FUTAD_ITERATION_SHUFFLED_BY(bits)                                                                                   \
  typedef uint##bits##_t futad_line_##bits##_t __attribute__((vector_size(bits), aligned(bits / 8), may_alias));       \
  static inline void futad_iteration_##bits(uint##bits##_t *restrict to, int64_t to_stride,                                 \
                                       const uint##bits##_t *restrict from, int64_t from_stride) {                     \
    futad_line_##bits##_t x[8], y[8];                                                                                  \
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) x[i] =                                                         \
        *(const futad_line_##bits##_t *)(from + i * from_stride);                                                      \
    _Pragma("GCC unroll 4") for (int i = 0; i < 8; i += 2) {                                                           \
      y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);                                       \
      y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);                                   \
    }                                                                                                                  \
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) if (!(i & 2)) {                                                \
      x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);                                        \
      x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);                                  \
    }                                                                                                                  \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {                                                              \
      *(futad_line_##bits##_t *)(to + i * to_stride) =                                                                 \
          __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);                                           \
      *(futad_line_##bits##_t *)(to + (i + 4) * to_stride) =                                                           \
          __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);                                         \
    }                                                                                                                  \
  }

#define FUTAD_TRANSPOSE(bits, tile, iteration)                                                                              \
  static __attribute__((noinline, unused)) void futad_transpose_##bits(                                                \
      void *restrict to_data, int64_t to_stride, const void *restrict from_data, int64_t from_stride,                  \
      int64_t rows, int64_t columns) {                                                                                 \
    uint##bits##_t *restrict to = to_data;                                                                             \
    const uint##bits##_t *restrict from = from_data;                                                                   \
    if (rows < tile || columns < tile) {                                                                               \
      for (int64_t i = 0; i < rows; i++)                                                                               \
        for (int64_t j = 0; j < columns; j++) to[i * to_stride + j] = from[i + j * from_stride];                       \
      return;                                                                                                          \
    }                                                                                                                  \
    const int64_t step = rows <= FUTAD_ITERATION_NEAR ? tile : FUTAD_ITERATION_FAR;                                              \
    for (int64_t far = 0; far < columns; far += step) {                                                                \
      const int64_t end = columns - far < step ? columns : far + step;                                                 \
      for (int64_t i = 0; i < rows; i += tile) {                                                                       \
        const int64_t r = i < rows - tile ? i : rows - tile;                                                           \
        for (int64_t j = far; j < end; j += tile) {                                                                    \
          const int64_t c = j < end - tile ? j : end - tile;                                                           \
          iteration(bits, tile, to + r * to_stride + c, from + r + c * from_stride);                                        \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }

#if defined(__clang__) || __GNUC__ >= 12
#define FUTAD_ITERATION_SHUFFLES 1
#else
#define FUTAD_ITERATION_SHUFFLES 0
#endif
#define FUTAD_ITERATION_SHUFFLED(bits, tile, to, from) futad_iteration_##bits(to, to_stride, from, from_stride)
FUTAD_TRANSPOSE(8, 16, FUTAD_ITERATION_BUFFERED)
FUTAD_TRANSPOSE(16, 16, FUTAD_ITERATION_BUFFERED)
#if FUTAD_ITERATION_SHUFFLES && defined(__AVX2__)
FUTAD_ITERATION_SHUFFLED_BY(32)
FUTAD_TRANSPOSE(32, 8, FUTAD_ITERATION_SHUFFLED)
#else
FUTAD_TRANSPOSE(32, 16, FUTAD_ITERATION_BUFFERED)
#endif
#if FUTAD_ITERATION_SHUFFLES && defined(__AVX512F__)
FUTAD_ITERATION_SHUFFLED_BY(64)
FUTAD_TRANSPOSE(64, 8, FUTAD_ITERATION_SHUFFLED)
#else
FUTAD_TRANSPOSE(64, 8, FUTAD_ITERATION_BUFFERED)
#endif
