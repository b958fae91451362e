// What the levels compute on, and what comes out of it: in FP64, with how far each level may be
// off.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "device_bytes.hpp"
#include "ladder.hpp"

namespace levels {

enum class GemvData : std::uint8_t {
  task,   // as the contest made it: codes 0 to 3 in the even places, scales 0, 1 and 2
  half,   // every code and every scale of a; b's scales at most 1/8: no FP16 sum of a block
          // overflows
  full,   // every code and every scale
  corner  // zeros, but for one element a row: 0.5 * 0.5 under the scales 448 and 448
};

struct GemvInput {
  GemvShape shape;
  std::vector<std::uint8_t> a, b, a_scales, b_scales;  // row-major
};
GemvInput gemv_input(GemvData data, const GemvShape& shape);

/// The product in FP64, and the sum of the products' magnitudes, [l][m].
struct GemvTruth {
  std::vector<double> value, magnitude;
};
GemvTruth gemv_truth(const GemvInput& input);

/// `input` on a device. Its scales are put into 128x4 tiles if `tiled`.
class GemvBuffers {
 public:
  GemvBuffers(microscale::cuda::Device& device, const GemvInput& input, bool tiled = false);
  GemvArgs args() const;
  std::vector<double> result() const;  // c as it is now
  std::vector<float> sums() const;

 private:
  GemvShape shape_;
  bool tiled_;
  microscale::cuda::DeviceBytes a_, b_, a_scales_, b_scales_, c_, sums_;
};

struct GemvErrors {
  int unequal = 0;      // other than the FP64 product, rounded to FP16
  int beyond = 0;       // of them: outside the contest's rtol = atol = 1e-3
  int wrong = 0;        // outside what the level's arithmetic may be off
  int not_numbers = 0;  // NaN, or infinite where the product is not
  std::string first;    // the first wrong one, in words
};
GemvErrors compare(const GemvLevel& level, const GemvInput& input, const GemvTruth& truth,
                   const std::vector<double>& got);

using GemvLauncher = std::function<void(const GemvLaunch&, const GemvArgs&)>;
/// Launches kernels of an image (PTX, or a cubin on a GPU). Both outlive what is returned.
GemvLauncher launcher_on(microscale::cuda::Device& device, const std::vector<std::uint8_t>& image);

/// What a level makes of `input`.
std::vector<double> run_gemv(microscale::cuda::Device& device, const GemvLauncher& launch,
                             const GemvLevel& level, const GemvInput& input, bool tiled = false);

}  // namespace levels
