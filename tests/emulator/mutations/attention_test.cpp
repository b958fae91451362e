// The faults a fused FP4 attention kernel is known to have had on its way, sown one by one into one
// that is right.
#include "emulator/mutations/mutation.hpp"
#include "emulator/mutations/oracle.hpp"

namespace microscale::emulator::mutations {
namespace {

constexpr std::size_t heads = 4, queries = 32, tokens = 64, head = 64;

/// Rows of MXFP4, a code in bits 5-2 of each byte, and E8M0 scales.
struct Codes {
  std::vector<std::uint8_t> bytes, scales;
  std::vector<double> values;

  Codes(std::size_t rows, Mixed& random)
      : bytes(rows * head), scales(rows * head / 32), values(rows * head) {
    for (auto& each : scales) each = static_cast<std::uint8_t>(125 + random.below(4));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::uint32_t code = random.below(16);
      bytes[i] = static_cast<std::uint8_t>(code << 2);
      values[i] = e2m1(code) * e8m0(scales[i / 32]);
    }
  }
};

std::vector<double> attention_of(const Codes& q, const Codes& k, const std::vector<float>& v) {
  std::vector<double> out(heads * queries * head, 0);
  for (std::size_t row = 0; row < heads * queries; ++row) {
    const std::size_t first = row / queries * tokens;  // of this head
    double scores[tokens], largest = -1e300, sum = 0;
    for (std::size_t token = 0; token < tokens; ++token) {
      scores[token] = 0;
      for (std::size_t i = 0; i < head; ++i)
        scores[token] += q.values[row * head + i] * k.values[(first + token) * head + i];
      scores[token] /= 8;
      largest = std::max(largest, scores[token]);
    }
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (std::size_t token = 0; token < tokens; ++token)
      for (std::size_t i = 0; i < head; ++i)
        out[row * head + i] += scores[token] / sum * v[(first + token) * head + i];
  }
  return out;
}

Trial run_attention(const std::string& text, const LaunchOptions& options) {
  Memory memory;
  Mixed random(3);
  const Codes q(heads * queries, random), k(heads * tokens, random);
  std::vector<float> v(heads * tokens * head);
  for (float& each : v) each = static_cast<float>(random.below(2001)) / 1000 - 1;
  constexpr float untouched = 12345;
  const std::uint64_t at_q = upload(memory, q.bytes), at_q_scales = upload(memory, q.scales);
  const std::uint64_t at_k = upload(memory, k.bytes), at_k_scales = upload(memory, k.scales);
  const std::uint64_t at_v = upload(memory, v),
                      at_out =
                          upload(memory, std::vector<float>(heads * queries * head, untouched));
  Trial trial =
      run_text(memory, text, request_for("attention", {heads, 1, 1}, {64, 1, 1}), options,
               [&] { return arguments(at_q, at_q_scales, at_k, at_k_scales, at_v, at_out); });
  const auto out = download<float>(memory, at_out, heads * queries * head);
  note(trial, std::find(out.begin(), out.end(), untouched) == out.end(), "every output written");
  note(trial, close(out, attention_of(q, k, v), 1e-5), "FP64 attention");
  return trial;
}

constexpr Kernel attention{"attention.ptx", run_attention};

using enum FindingKind;

constexpr Fault faults[] = {
    {"attention: row of Q by lane / 16", "%r52, 2;  // row of the fragment of Q", "%r52, 4;",
     check("FP64 attention")},
    {"attention: token of K by lane / 16", "%r52, 2;  // token of the fragment of K", "%r52, 4;",
     check("FP64 attention")},
    {"attention: K strides by the tile, not the head", "%r91, 64;  // stride of K", "%r91, 32;",
     check("FP64 attention")},
    {"attention: K scales stride by the tile, not the head",
     "%r93, 2;  // stride of the scales of K", "%r93, 1;", check("FP64 attention")},
    {"attention: output row by lane % 16", "shr.u32 %r51, %r52, 2;  // row of the output",
     "and.b32 %r51, %r52, 15;", check("every output written")},
    {"attention: output row by lane % 16, two lanes to a place",
     "shr.u32 %r51, %r52, 2;  // row of the output", "and.b32 %r51, %r52, 15;",
     finding(race, "st.global.f32")},
    {"attention: butterfly across different columns", "mov.b32 %f85, %f85;",
     "{ .reg .b32 other; shfl.sync.bfly.b32 other, %f85, 1, 31, -1; add.f32 %f85, %f85, other; }",
     check("FP64 attention")},
    {"attention: V without its tile offset", "%r117, %r150;  // the token in V", "%r117, 0;",
     check("FP64 attention")},
    {"attention: two scalar accumulators for a whole head", "mov.u32 %r53, 8;", "mov.u32 %r53, 1;",
     check("every output written")},
    {"attention: four blocks on one output", "mul.lo.u32 %r45, %r3, 2048;",
     "mul.lo.u32 %r45, %r3, 0;", finding(race, "st.global.f32"), "block"},
    {"attention: A fragment of two registers", "{%r95, %r96, %r97, %r98},", "{%r95, %r96},",
     refusal("has 2 registers where 4 are needed")},
    {"attention: not divided by the root of the head", "mul.rn.f32 \t%f40, %f101, 0f3E38AA3B;",
     "mul.rn.f32 \t%f40, %f101, 0f3FB8AA3B;", check("FP64 attention")},
    {"attention: the old sum is not shrunk", "mul.rn.f32 \t%f51, %f46, %f97;",
     "mov.b32 \t%f51, %f97;", check("FP64 attention")},
    {"attention: __syncthreads after the tile is loaded dropped",
     "bar.sync 0;  // the tile is here", "", finding(race, "ld.shared.u32")},
    {"attention: __syncthreads before the next tile dropped", "bar.sync 0;  // the tile is read",
     "", finding(race, "st.shared.u32")},
};

TEST(Mutations, attention_is_clean) { expect_clean(attention); }
TEST(Mutations, attention_faults_are_named) { expect_caught(attention, faults); }

}  // namespace
}  // namespace microscale::emulator::mutations
