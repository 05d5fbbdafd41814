/* Rows that the threads of a warp have made, one each, written so that neighbouring threads write neighbouring elements.
 */
#ifndef FUTAD_ROWS_CUH
#define FUTAD_ROWS_CUH
#include "block.cuh"

/* Some columns of the rows of all lanes go to `to`, where a row begins every `stride` elements: `x` are this lane's
 * COLUMNS elements, and only the first `rows` lanes have some.  All lanes of the warp call it; `tile` is the warp's own
 * shared memory, of 32 * (COLUMNS + 1) elements. */
template <int COLUMNS, class T, class I>
FUTAD_DEV void futad_put_rows(T *tile, T *to, I stride, int rows, const T (&x)[COLUMNS]) {
  const int STEP = COLUMNS + 1 - COLUMNS % 2; /* an odd step keeps rows out of one bank */
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) tile[futad_lane() * STEP + c] = x[c];
  __syncwarp();
#pragma unroll
  for (int k = 0; k < COLUMNS; k++) {
    int at = k * 32 + futad_lane(), row = at / COLUMNS, column = at % COLUMNS;
    if (row < rows) to[(I)row * stride + column] = tile[row * STEP + column];
  }
  __syncwarp();
}

#endif
