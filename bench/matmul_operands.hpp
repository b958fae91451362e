// The operands of a case on the host, random over the whole range of their codes, and the call that
// multiplies them, there or on a GPU; and whether the result is right.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "host_memory.hpp"
#include "matmul_cases.hpp"
#include "microscale/matmul.hpp"

namespace microscale::bench {

/// Weights are one stretch of memory: the codes of all matrices, their scales behind; gated, the up
/// matrix's behind the gate's. Activations likewise; dense ones have no scales. A view can be made
/// of any copy of such memory, so a GPU takes the same bytes.
class MatmulOperands {
 public:
  /// Throws Error{out_of_memory}.
  explicit MatmulOperands(const MatmulCase& c);

  const HostMemory& weights() const { return weights_; }
  const HostMemory& input() const { return input_; }
  const std::vector<std::int32_t>& offsets() const { return offsets_; }  // grouped: experts + 1

  BlockTensorView weights_in(const std::uint8_t* memory, std::int64_t side) const;
  MatmulInput input_in(const std::uint8_t* memory) const;

 private:
  const MatmulCase& case_;
  BlockShape weight_shape_, input_shape_;
  std::size_t weight_codes_ = 0, weight_side_ = 0,
              input_codes_ = 0;  // bytes, with what aligns them
  HostMemory weights_, input_;
  std::vector<std::int32_t> offsets_;
};

/// What one call of a case takes, on whichever side its context's backend wants it.
struct MatmulOperandsView {
  MatmulInput a;
  MatmulWeights b;
  BlockTensorView up{};  // gated, not packed
  MatmulOutput d;
  const std::int32_t* offsets = nullptr;
};
/// Calls `take` with the options of the public function that computes the case. The caller does not
/// write the weights between products.
template <class Take>
auto with_options(const MatmulCase& c, const MatmulOperandsView& o, Take&& take) {
  if (c.kind == ProductKind::gated)
    return take(GatedMatmulOptions{
        .a = o.a, .gate = o.b, .up = o.up, .d = o.d, .batch = c.batch, .constant_weights = true});
  if (c.kind == ProductKind::plain)
    return take(MatmulOptions{.a = o.a,
                              .b = o.b,
                              .d = o.d,
                              .batch = c.batch,
                              .fast_accumulation = c.fast_accumulation,
                              .constant_weights = true});
  GroupedMatmulOptions options{.a = o.a, .b = o.b, .d = o.d};
  options.groups = {o.offsets, OffsetType::i32, c.matrices()};
  options.constant_weights = true;
  return take(options);
}
void multiply(const MatmulCase& c, const MatmulOperandsView& operands, const Context& context);

/// The worst of 64 sampled elements against its FP64 sum, in units of the bound: the rounding to
/// d's type, and sums whose relative error, against the sum of magnitudes, is `accumulation`.
/// `element` gives the 16 bits at an index of d's rows x n. Over 1: something is wrong.
double worst_sampled_error(const MatmulCase& c, const MatmulOperands& operands, double accumulation,
                           const std::function<std::uint16_t(std::int64_t)>& element);

}  // namespace microscale::bench
