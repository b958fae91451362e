// Level 8: two codes a byte, and the instruction that takes them so: m16n8k64 of kind mxf4, which
// has two scales of 32 elements along K (scale_vec::2X). A row's 32 bytes are 64 elements in place
// of 32, each lane's bytes are the same ones as before, and a lane's scale register holds two
// bytes. Half the instructions, half the bytes of codes.
//
// The article gave this up: "m16n8k64 does not assemble, 2X does not compile on SM120". That is so
// for kind mxf8f6f4 and for no other: mxf4 has 2X (ue8m0), mxf4nvf4 2X (ue8m0) and 4X (ue4m3, 16
// elements a scale), all for sm_120a and sm_120f.
//
// Shared: 25,088 bytes for d = 128.
#pragma once

#include "7_containers.cuh"

namespace levels {

template <int D>
__device__ inline void packed_score(float (&s)[4], const Lane& lane, CodeTile q, CodeTile k,
                                    int key) {
  constexpr int row_bytes = D / 2, blocks = D / scale_block;
#pragma unroll
  for (int step = 0; step < D / 64; ++step) {
    const std::uint8_t* a_row = q.codes + lane.query * row_bytes + step * 32 + 4 * lane.t;
    const std::uint8_t* b_row = k.codes + (key + lane.g) * row_bytes + step * 32 + 4 * lane.t;
    const std::uint32_t a[4] = {four_codes(a_row), four_codes(a_row + 8 * row_bytes),
                                four_codes(a_row + 16), four_codes(a_row + 8 * row_bytes + 16)};
    const auto scales = [&](const CodeTile& tile, int row) {
      return *reinterpret_cast<const std::uint16_t*>(tile.scales + row * blocks + 2 * step);
    };
    microscale::ptx::mma_m16n8k64_mxf4_2x_ue8m0<0, 0>(
        s, a, four_codes(b_row), four_codes(b_row + 16), scales(q, lane.query + 8 * (lane.t % 2)),
        scales(k, key + lane.g));
  }
}

template <int D>
__device__ inline void packed(const AttentionArgs& args) {
  quantized_before<D, D / 2>(args, [](float(&s)[4], const Lane& lane, CodeTile q, CodeTile k,
                                      int key) { packed_score<D>(s, lane, q, k, key); });
}

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_8_packed_128(AttentionArgs args) {
  packed<128>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_8_packed_64(AttentionArgs args) {
  packed<64>(args);
}

}  // namespace levels
