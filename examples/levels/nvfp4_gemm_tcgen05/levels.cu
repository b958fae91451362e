// The levels that are kernels of their own; the next two are the library's.
#include "1_one_block.cuh"
#include "2_tensor_copies.cuh"
