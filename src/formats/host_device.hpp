// MICROSCALE_HD marks a function that means the same on the host and in a CUDA kernel.
#pragma once

#if defined(__CUDACC__)
#define MICROSCALE_HD __host__ __device__
#else
#define MICROSCALE_HD
#endif
