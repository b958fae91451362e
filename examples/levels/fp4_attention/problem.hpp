// What the levels compute on, and what comes out of it in FP64, with how far a level may be off.
#pragma once

#include <vector>

#include "cuda/device/device.hpp"
#include "device_bytes.hpp"
#include "ladder.hpp"
#include "microscale/numerics.hpp"

namespace levels {

enum class AttentionData : std::uint8_t {
  exact,    // q and k of -2 to 2, v of 8 bits: the same in FP32, FP16 and E2M1
  uniform,  // U[-1, 1], whose blocks have one scale, nearly all
  spread    // the same, blocks of q and k times powers of two from 1/4 to 2
};

/// [head][token][d].
struct AttentionInput {
  AttentionShape shape;
  double scale;  // of the scores
  std::vector<float> q, k, v;
};
/// scale: 1 / sqrt(d) but where it is given.
AttentionInput attention_input(AttentionData data, const AttentionShape& shape, unsigned seed,
                               double scale = 0);

/// `input` as a level multiplies it: q and k quantized by the library under `rule` and decoded, v
/// rounded if the level does.
AttentionInput as_computed(const AttentionInput& input, const AttentionLevel& level,
                           microscale::ScaleRule rule);

/// In FP64; how far a level may be off what it is given.
struct AttentionTruth {
  std::vector<double> value, bound;
};
AttentionTruth attention_truth(const AttentionInput& input);

/// Kernels of an image on a device. Both outlive it.
class AttentionKernels {
 public:
  AttentionKernels(microscale::cuda::Device& device, const std::vector<std::uint8_t>& image)
      : device_(device), module_(device.load_module(image)) {}

  /// What a level makes of `input`. Levels 7 and 8 are given what the library's quantizer makes.
  std::vector<float> run(const AttentionLevel& level, const AttentionInput& input,
                         microscale::ScaleRule rule) const;
  /// Level 1: the results of each probe's operands, as ProbeArgs has them.
  std::vector<float> probe(const char* entry, const std::vector<std::uint32_t>& operands) const;

 private:
  void launch(const std::string& entry, std::int64_t blocks, int threads, int shared_bytes,
              const void* args, std::int64_t args_bytes) const;
  microscale::cuda::Device& device_;
  microscale::cuda::Module module_;
};

/// Largest |got - value| / bound.
double worst_of_bound(const std::vector<float>& got, const AttentionTruth& truth);
/// Of each head, and their mean.
double mean_cosine(const std::vector<float>& got, const AttentionTruth& truth, int heads);

}  // namespace levels
