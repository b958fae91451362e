// A tiled transpose of FP32 through 32 x 32 words of shared memory, for blocks of 32 x 8 threads.
extern "C" __global__ void __launch_bounds__(256)
    transpose(const float* in, float* out, unsigned rows, unsigned columns) {
  __shared__ float tile[32][33];
  const unsigned column = blockIdx.x * 32 + threadIdx.x, first_row = blockIdx.y * 32;
#pragma unroll 1
  for (unsigned j = threadIdx.y; j < 32; j += 8)
    if (column < columns && first_row + j < rows)
      tile[j][threadIdx.x] = in[(first_row + j) * columns + column];
  __syncthreads();
  const unsigned row = first_row + threadIdx.x, first_column = blockIdx.x * 32;
#pragma unroll 1
  for (unsigned j = threadIdx.y; j < 32; j += 8)
    if (row < rows && first_column + j < columns)
      out[(first_column + j) * rows + row] = tile[threadIdx.x][j];
}
