// Quantizing a weight so that the output of its layer changes least: the Hessian H of the inputs,
// the mean of x x^T over tokens, says what an error costs. For y = W x and values Q the mean
// squared error of the output is tr((Q - W) H (Q - W)^T). docs/formats/accuracy.md defines every
// bit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "microscale/context.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

/// What is made of a Hessian.
enum class HessianMethod : std::uint8_t {
  gptq,           ///< errors of a column are made good by the columns after it; scales are searched
                  ///< in that loop, blocks of columns with large inputs come first
  block_hessian,  ///< scales by the error under the 16 x 16 or 32 x 32 blocks of H on its diagonal,
                  ///< codes to the nearest
};
std::string_view to_string(HessianMethod method);  ///< "gptq", "block-hessian"

struct HessianOptions {
  /// H, cols x cols, row by row, in host memory: finite, symmetric, no number below 0 on the
  /// diagonal. Its unit does not matter. A column whose diagonal number is 0 had no input: it
  /// counts as the mean of the others and as independent of them.
  std::span<const float> hessian;
  std::int64_t cols = 0;          ///< a multiple of the format's block
  Format format = Format::nvfp4;  ///< nvfp4 or mxfp4
  HessianMethod method = HessianMethod::gptq;
  double shrink = 0.1;    ///< in [0, 1]: by this part numbers off the diagonal become smaller
  double damping = 0.01;  ///< >= 0: this part of the diagonal's mean is added to all of it; tenfold
                          ///< as often as it takes where the factorization fails
};

/// What `shrink` had best be where `tokens` made the Hessian: 0.1 from 64 tokens a column on, else
/// 0.3.
double hessian_shrink(std::int64_t tokens, std::int64_t cols);

/// A Hessian made ready; one serves all weights that read the same input. Copies share it; any
/// number of threads may use it.
class PreparedHessian {
 public:
  /// Of the options, the Hessian itself is not needed any longer afterwards. The same bits at any
  /// number of threads. Throws Error: bad_input for a Hessian that is none, or that ten times its
  /// diagonal do not make positive definite.
  explicit PreparedHessian(const HessianOptions& options, const Context& context = {});

  std::int64_t cols() const;
  Format format() const;
  HessianMethod method() const;
  double damping() const;             ///< that it took
  std::int64_t dead_columns() const;  ///< whose diagonal number is 0

  struct Parts;  // src/ops
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

/// Bytes of host memory that making a PreparedHessian takes at most, and that it keeps, beside the
/// Hessian itself.
struct HessianBytes {
  std::int64_t making = 0, kept = 0;
};
HessianBytes hessian_bytes(std::int64_t cols, Format format, HessianMethod method);

struct HessianQuantizeOptions {
  TensorView input;  ///< host memory; finite; as many columns as the Hessian
  const PreparedHessian* hessian = nullptr;  ///< says the format, too
  ScaleRule scale_rule = ScaleRule::search;  ///< or `full` for NVFP4
  GlobalScale global_scale{};                ///< NVFP4; computed from the input if absent
  /// NVFP4: the largest magnitude of the whole tensor, or group of tensors, of which the input is a
  /// part; the global scale is computed from it.
  std::optional<float> tensor_amax{};
};

/// Blocks along the rows, row-major scales. Rows do not depend on each other: a part of them has
/// the same bytes. Throws Error.
BlockTensor quantize_with_hessian(const HessianQuantizeOptions& options,
                                  const Context& context = {});

/// The same into memory of the caller, sized by BlockShape; returns the global scale, 1 for MXFP4.
float quantize_with_hessian_into(const HessianQuantizeOptions& options,
                                 std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                                 const Context& context = {});

/// What quantizing costs at the output of a layer.
struct OutputError {
  double error = 0;  ///< tr((Q - W) H (Q - W)^T)
  double power = 0;  ///< tr(W H W^T)
  double relative() const { return power > 0 ? error / power : 0; }
};

/// Of `weights` and what became of them, under a Hessian as HessianOptions takes it: as it is,
/// neither shrunk nor damped. Any format; host memory; finite numbers. Throws Error.
OutputError output_error(const TensorView& weights, const BlockTensorView& quantized,
                         std::span<const float> hessian, const Context& context = {});

}  // namespace microscale
