/* Transposition: to[i * to_stride + j] = from[i + j * from_stride] for i < rows, j < columns.
 *
 * A tile is read in lines of the cache and turned round in a buffer, so that each line is read and written once, however
 * unfavourable the strides.  Of the source so few lines are read at a time that the addresses of their pages stay known
 * until the next tiles, which are in the same pages. */
enum { FUTAD_TURN_FAR = 512 };

#define FUTAD_TRANSPOSE(bits, tile)                                                                               \
  static __attribute__((noinline, unused)) void futad_transpose_##bits(                                           \
      void *restrict to_data, int64_t to_stride, const void *restrict from_data, int64_t from_stride,             \
      int64_t rows, int64_t columns) {                                                                            \
    uint##bits##_t *restrict to = to_data;                                                                        \
    const uint##bits##_t *restrict from = from_data;                                                              \
    for (int64_t far = 0; far < columns; far += FUTAD_TURN_FAR) {                                                 \
      const int64_t end = columns - far < FUTAD_TURN_FAR ? columns : far + FUTAD_TURN_FAR;                        \
      for (int64_t r = 0; r < rows; r += tile)                                                                    \
        for (int64_t c = far; c < end; c += tile)                                                                 \
          if (r + tile <= rows && c + tile <= end) {                                                              \
            uint##bits##_t lines[tile][tile];                                                                     \
            for (int j = 0; j < tile; j++) memcpy(lines[j], from + r + (c + j) * from_stride, sizeof lines[j]);   \
            for (int i = 0; i < tile; i++) {                                                                      \
              uint##bits##_t line[tile];                                                                          \
              for (int j = 0; j < tile; j++) line[j] = lines[j][i];                                               \
              memcpy(to + (r + i) * to_stride + c, line, sizeof line);                                            \
            }                                                                                                     \
          } else {                                                                                                \
            const int64_t rows_end = rows - r < tile ? rows : r + tile;                                           \
            const int64_t columns_end = end - c < tile ? end : c + tile;                                          \
            for (int64_t i = r; i < rows_end; i++)                                                                \
              for (int64_t j = c; j < columns_end; j++) to[i * to_stride + j] = from[i + j * from_stride];        \
          }                                                                                                       \
    }                                                                                                             \
  }
FUTAD_TRANSPOSE(8, 16)
FUTAD_TRANSPOSE(16, 16)
FUTAD_TRANSPOSE(32, 16)
FUTAD_TRANSPOSE(64, 8)
