// Sampled elements of a product against FP64 sums of the exact values.
#include <algorithm>
#include <cmath>

#include "formats/half.hpp"
#include "formats/random.hpp"
#include "matmul_operands.hpp"
#include "ops/matmul_products.hpp"
#include "reference/matmul.hpp"

namespace microscale::bench {
namespace {

struct Sum {
  double value = 0, error = 0;  // exact, and how far an FP32 sum may be from it
};

Sum exact_sum(const MatmulProduct& p, const WeightRows& b, std::int64_t row, std::int64_t col,
              double accumulation) {
  std::vector<std::uint8_t> scratch(static_cast<std::size_t>(b.scratch_bytes(1)));
  const MatmulRows weights = b.tile(col, 1, scratch.data());
  double sum = 0, magnitude = 0;
  for (std::int64_t i = 0; i < p.k; ++i) {
    const double product = matmul_element(p.a, row, i) * matmul_element(weights, 0, i);
    sum += product, magnitude += std::fabs(product);
  }
  return {sum * p.factor, accumulation * magnitude * std::fabs(p.factor)};
}

// silu(gate) * up. SiLU's slope is below 1.1, its magnitude below its argument's.
Sum gated(const Sum& gate, const Sum& up) {
  const double silu = gate.value / (1 + std::exp(-gate.value));
  return {silu * up.value,
          1.1 * gate.error * (std::fabs(up.value) + up.error) + std::fabs(silu) * up.error};
}

}  // namespace

double worst_sampled_error(const MatmulCase& c, const MatmulOperands& operands, double accumulation,
                           const std::function<std::uint16_t(std::int64_t)>& element) {
  const MatmulInput a = operands.input_in(operands.input().data());
  const BlockTensorView weights = operands.weights_in(operands.weights().data(), 0);
  const MatmulWeights b = weights;
  const BlockTensorView up =
      c.sides() == 2 ? operands.weights_in(operands.weights().data(), 1) : BlockTensorView{};
  const MatmulOutput d = MutableTensorView{};
  const ExpertRows groups{operands.offsets().data(), OffsetType::i32, c.matrices()};
  const bool is_gated = c.kind == ProductKind::gated;
  MatmulCall call{.a = a, .b = b, .up = is_gated ? &up : nullptr, .d = d};
  call.matrices = c.matrices();
  call.groups = c.kind == ProductKind::grouped ? &groups : nullptr;
  call.gated = is_gated;
  const MatmulProducts products = resolve_products(call);
  if (products.runs.empty()) return 0;
  double worst = 0;
  for (std::uint32_t s = 0; s < 64; ++s) {
    const ProductRun& run = products.runs[mix32(s + 2000) % products.runs.size()];
    const std::int64_t row = mix32(s) % run.product.m, col = mix32(s + 1000) % c.n;
    Sum wanted = exact_sum(run.product, run.b, row, col, accumulation);
    if (is_gated) wanted = gated(wanted, exact_sum(run.up, run.up_b, row, col, accumulation));
    const std::uint16_t bits = element((run.first_row + row) * c.n + col);
    const bool half = c.output == DType::f16;
    const double got = half ? f16_to_float(bits) : bf16_to_float(bits);
    const double rounding = std::fabs(wanted.value) * (half ? 0x1p-11 : 0x1p-8) +
                            (half ? 0x1p-25 : 1e-38) + std::fabs(wanted.value) * 0x1p-22;
    const double error = std::fabs(got - wanted.value) / (wanted.error + rounding);
    worst = error >= 0 ? std::max(worst, error) : 1e9;  // NaN is wrong, too
  }
  return worst;
}

}  // namespace microscale::bench
