// One head a block: softmax(Q K^T / 8) V for 32 queries, 64 tokens and a head of 64, in tiles of 32
// tokens. Q and K are MXFP4, a code in bits 5-2 of each byte, an E8M0 scale for every 32; V and the
// result FP32. Two warps of 16 queries each; every 8 tokens are one online softmax step. m, l and o
// as in the literature.
namespace {

constexpr unsigned head = 64, tokens = 64, tile = 32, queries = 32;

__device__ unsigned word(const void* at) { return *static_cast<const unsigned*>(at); }

extern "C" __device__ __noinline__ float largest_of_row(float value) {
#pragma unroll 1
  for (unsigned distance = 1; distance < 4; distance *= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

extern "C" __device__ __noinline__ float sum_of_row(float value) {
#pragma unroll 1
  for (unsigned distance = 1; distance < 4; distance *= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

extern "C" __device__ __noinline__ float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(64)
    attention(const unsigned char* q, const unsigned char* q_scales, const unsigned char* k,
              const unsigned char* k_scales, const float* v, float* out) {
  __shared__ __align__(16) unsigned char k_tile[tile * head], k_tile_scales[tile * head / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  q += blockIdx.x * queries * head, q_scales += blockIdx.x * queries * head / 32;
  k += blockIdx.x * tokens * head, k_scales += blockIdx.x * tokens * head / 32;
  v += blockIdx.x * tokens * head;
  unsigned out_head, row, token, output_row, column_tiles;
  asm("mul.lo.u32 %0, %1, 2048;  // the head's output" : "=r"(out_head) : "r"(blockIdx.x));
  asm("shr.u32 %0, %1, 2;  // row of the fragment of Q" : "=r"(row) : "r"(lane));
  asm("shr.u32 %0, %1, 2;  // token of the fragment of K" : "=r"(token) : "r"(lane));
  asm("shr.u32 %0, %1, 2;  // row of the output" : "=r"(output_row) : "r"(lane));
  asm("mov.u32 %0, 8;  // columns of the head, 8 at a time" : "=r"(column_tiles));
  const unsigned part = lane % 4;
  float m[2] = {-1e30f, -1e30f}, l[2] = {0, 0};
  float o[2][head / 4];  // of rows g and g + 8, columns 8 j + 2 t and the next
#pragma unroll 1
  for (unsigned j = 0; j < 2 * head / 4; ++j) o[j / 16][j % 16] = 0;

#pragma unroll 1
  for (unsigned first = 0; first < tokens; first += tile) {
#pragma unroll 1
    for (unsigned i = 4 * threadIdx.x; i < tile * head; i += 4 * 64)
      *reinterpret_cast<unsigned*>(k_tile + i) = word(k + first * head + i);
    k_tile_scales[threadIdx.x] = k_scales[first * head / 32 + threadIdx.x];
    asm volatile("bar.sync 0;  // the tile is here" ::: "memory");
#pragma unroll 1
    for (unsigned n = 0; n < tile; n += 8) {
      float s[4] = {0, 0, 0, 0};
#pragma unroll 1
      for (unsigned chunk = 0; chunk < head / 32; ++chunk) {
        const unsigned char* from_q = q + (16 * warp + row) * head + 32 * chunk + 4 * part;
        unsigned k_row, k_scale;
        asm("mul.lo.u32 %0, %1, 64;  // stride of K" : "=r"(k_row) : "r"(n + token));
        asm("mul.lo.u32 %0, %1, 2;  // stride of the scales of K"
            : "=r"(k_scale)
            : "r"(n + lane / 4));
        const unsigned char* from_k = k_tile + k_row + 32 * chunk + 4 * part;
        const unsigned a0 = word(from_q), a1 = word(from_q + 8 * head), a2 = word(from_q + 16);
        const unsigned a3 = word(from_q + 8 * head + 16), b0 = word(from_k), b1 = word(from_k + 16);
        const unsigned scale_a =
            q_scales[(16 * warp + lane / 4 + 8 * (part & 1)) * (head / 32) + chunk];
        const unsigned scale_b = k_tile_scales[k_scale + chunk];
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale"
            ".scale_vec::1X.f32.e2m1.e2m1.f32.ue8m0\n"
            "{%0, %1, %2, %3},\n{%4, %5, %6, %7},\n{%8, %9},\n{%0, %1, %2, %3},\n%10, {0, "
            "0},\n%11, {0, 0};"
            : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b));
      }
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        constexpr float to_base_2 = 0.125f * 1.44269504f;
        float p0 = s[2 * half] * to_base_2, p1 = s[2 * half + 1] * to_base_2;
        const float largest = fmaxf(m[half], largest_of_row(fmaxf(p0, p1)));
        const float shrink = power_of_2(m[half] - largest);
        p0 = power_of_2(p0 - largest), p1 = power_of_2(p1 - largest);
        m[half] = largest;
        l[half] = l[half] * shrink + sum_of_row(p0 + p1);
        s[2 * half] = p0, s[2 * half + 1] = p1;
#pragma unroll 1
        for (unsigned j = 0; j < 2 * column_tiles; ++j) o[half][j] *= shrink;
      }
#pragma unroll 1
      for (unsigned c = 0; c < 8; ++c) {  // a token: its weights are in lane c / 2 of four
        const unsigned source = (lane & 28) | c / 2;
        const float upper = __shfl_sync(0xffffffffu, c & 1 ? s[1] : s[0], source);
        const float lower = __shfl_sync(0xffffffffu, c & 1 ? s[3] : s[2], source);
        unsigned v_row;
        asm("add.u32 %0, %1, %2;  // the token in V" : "=r"(v_row) : "r"(n + c), "r"(first));
#pragma unroll 1
        for (unsigned j = 0; j < 2 * column_tiles; ++j) {
          const float of_v = v[v_row * head + j / 2 * 8 + 2 * part + j % 2];
          o[0][j] += upper * of_v, o[1][j] += lower * of_v;
        }
      }
    }
    asm volatile("bar.sync 0;  // the tile is read" ::: "memory");
  }

#pragma unroll 1
  for (unsigned j = 0; j < 2 * column_tiles; ++j) {
    float upper = o[0][j], lower = o[1][j];
    asm volatile("mov.b32 %0, %0;  // a lane's columns are its own: nothing to add" : "+f"(upper));
    float* to = out + out_head + (16 * warp + output_row) * head + j / 2 * 8 + 2 * part + j % 2;
    to[0] = upper / l[0];
    to[8 * head] = lower / l[1];
  }
}
