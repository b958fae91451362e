// Level 6: four codes a store and four a load. A byte takes as long to store as a word, and four
// loaded bytes have to be put together besides.
//
// The code writes and reads bytes still. All that changes is the arrays' alignment: an array of
// bytes may begin anywhere, and then no four of them may be a word; from 4 on the compiler joins
// them by itself. (So the 66 STS.U8 and 104 LDS.U8 of the article are a missing alignas.)
//
// What remains: rows of d bytes begin in the same bank, so the eight rows that a warp's load
// touches take turns. Rows of d + 16 bytes would not.
#pragma once

#include "5_exact_reciprocal.cuh"

namespace levels {

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_6_four_codes_128(AttentionArgs args) {
  half_staging<128, Multiply, 4>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_6_four_codes_64(AttentionArgs args) {
  half_staging<64, Multiply, 4>(args);
}

}  // namespace levels
