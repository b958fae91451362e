// Matrix products as calls on memory that is never touched, for tests that ask what a device is
// told.
#pragma once

#include <optional>
#include <string>

#include "cuda/matmul/matmul.hpp"

namespace microscale::cuda::test {

/// Memory `i` of a call: 2^40 bytes, apart from the others.
inline std::uint8_t* memory(std::uint64_t i) { return reinterpret_cast<std::uint8_t*>(i << 40); }
inline const float* floats(std::uint64_t i) { return reinterpret_cast<const float*>(memory(i)); }

/// A product; what is not set does not take part.
struct Wanted {
  std::optional<Format> a{};  // none: dense, of `type`
  DType type = DType::bf16;
  Format b = Format::nvfp4;
  std::int64_t m = 5, n = 48, k = 192, matrices = 1;
  bool packed = false, experts = false, gated = false, fast = false, constant = false;
  std::optional<Format> d{};
  ScaleRule rule = ScaleRule::nearest;
  std::int64_t b_off = 0;   // bytes that the weights' codes begin behind a multiple of 256
  std::uint64_t shift = 0;  // other memory: all buffers so many further
};

/// The call, and what it refers to.
class ProductCall {
 public:
  explicit ProductCall(const Wanted& w) : a_(input(w)), b_(weights(w)), up_(blocks(w, 5)) {
    if (w.experts) groups_ = {.offsets = memory(12 + w.shift), .experts = w.matrices};
    if (w.d) {
      const BlockShape shape{w.m, w.n, *w.d};
      QuantizedOutput out{.format = *w.d};
      out.numerics.scale_rule = w.rule;
      out.global_scale = w.experts ? GlobalScale::per_expert(floats(13 + w.shift), Memory::device)
                                   : GlobalScale::on_device(floats(11 + w.shift));
      const auto many = static_cast<std::size_t>(w.experts ? 1 : w.matrices);
      out.codes = {memory(9 + w.shift), many * static_cast<std::size_t>(shape.code_bytes())};
      out.scales = {memory(10 + w.shift), many * static_cast<std::size_t>(shape.scale_bytes())};
      d_ = out;
    } else {
      d_ = MutableTensorView{memory(9 + w.shift), DType::bf16, w.m, w.n, w.n};
    }
    call_.on_device = true;
    call_.matrices = w.matrices;
    call_.gated = w.gated;
    if (w.gated && !w.packed) call_.up = &up_;
    if (w.experts) call_.groups = &groups_;
    call_.fast_accumulation = w.fast;
    call_.constant_weights = w.constant;
  }
  ProductCall(const ProductCall&) = delete;
  ProductCall& operator=(const ProductCall&) = delete;

  const MatmulCall& call() const { return call_; }
  Product product() const { return product_of(call_); }

 private:
  static MatmulInput input(const Wanted& w) {
    if (!w.a) return TensorView{memory(1 + w.shift), w.type, w.m, w.k, w.k};
    BlockTensorView view;
    view.shape = {w.m, w.k, *w.a};
    const auto many = static_cast<std::size_t>(w.experts ? 1 : w.matrices);
    view.codes = {memory(1 + w.shift), many * static_cast<std::size_t>(view.shape.code_bytes())};
    view.scales = {memory(2 + w.shift), many * static_cast<std::size_t>(view.shape.scale_bytes())};
    view.global_scale = GlobalScale::on_device(floats(11 + w.shift));
    return view;
  }
  static BlockTensorView blocks(const Wanted& w, std::uint64_t at) {
    BlockTensorView view;
    view.shape = {w.n, w.k, w.b};
    const auto many = static_cast<std::size_t>(w.matrices);
    view.codes = {memory(at + w.shift) + w.b_off,
                  many * static_cast<std::size_t>(view.shape.code_bytes())};
    view.scales = {memory(at + 1 + w.shift),
                   many * static_cast<std::size_t>(view.shape.scale_bytes())};
    view.global_scale = GlobalScale::on_device(floats(11 + w.shift));
    return view;
  }
  static MatmulWeights weights(const Wanted& w) {
    const BlockTensorView view = blocks(w, 3);
    if (!w.packed) return view;
    PackedWeights packed;
    packed.shape = view.shape;
    packed.matrices = w.matrices;
    packed.gated = w.gated;
    packed.memory = Memory::device;
    packed.bytes = {memory(7 + w.shift), static_cast<std::size_t>(cuda::packed_weights_bytes(
                                             view.shape, w.matrices, w.gated))};
    packed.global_scale = packed.up_global_scale = GlobalScale::on_device(floats(11 + w.shift));
    return packed;
  }

  MatmulInput a_;
  MatmulWeights b_;
  BlockTensorView up_;
  MatmulOutput d_;
  ExpertRows groups_;
  MatmulCall call_{.a = a_, .b = b_, .d = d_};
};

}  // namespace microscale::cuda::test
