/* Transposition of matrices by tiles in shared memory, so that reads and writes are both of neighbours. */
#ifndef FUTAD_TRANSPOSE_CUH
#define FUTAD_TRANSPOSE_CUH
#include "device.cuh"

/* out[b, j, i] = in[b, i, j] for i < rows, j < cols; blocks of 256 threads, any grid. */
template <class T>
FUTAD_DEV void futad_transpose(const T *in, T *out, int64_t batches, int64_t rows, int64_t cols) {
  const int SIDE = 32, STRIDE = 33; /* the odd stride keeps columns out of one bank */
  FUTAD_SHARED(T, tile, SIDE * STRIDE);
  int x = (int)threadIdx.x % SIDE, y = (int)threadIdx.x / SIDE;
  int64_t down = (rows + SIDE - 1) / SIDE, across = (cols + SIDE - 1) / SIDE;
  for (int64_t t = blockIdx.x; t < batches * down * across; t += gridDim.x) {
    int64_t batch = t / (down * across), row = t / across % down * SIDE, col = t % across * SIDE;
    const T *from = in + batch * rows * cols;
    T *to = out + batch * rows * cols;
#pragma unroll
    for (int k = 0; k < SIDE; k += 8) {
      if (row + y + k < rows && col + x < cols) tile[(y + k) * STRIDE + x] = from[(row + y + k) * cols + col + x];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SIDE; k += 8) {
      if (col + y + k < cols && row + x < rows) to[(col + y + k) * rows + row + x] = tile[x * STRIDE + y + k];
    }
    __syncthreads();
  }
}

#endif
