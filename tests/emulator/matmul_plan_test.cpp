// A kept plan, run with other memory than it was made with, gives the bytes of an eager call: one
// product of every family, on the emulator.
#include <gtest/gtest.h>

#include <map>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/matmul.hpp"
#include "device_bytes.hpp"
#include "emulator/device.hpp"
#include "support/matrices.hpp"
#include "support/packed_tiles.hpp"
#include "support/random_blocks.hpp"

namespace microscale::emulator {
namespace {

using cuda::DeviceBytes;

EmulatorDevice& gpu(int major) {
  static std::map<int, std::unique_ptr<EmulatorDevice>> made;
  auto& device = made[major];
  if (!device)
    device = std::make_unique<EmulatorDevice>(major, 0,
                                              LaunchOptions{.instruction_budget = 2'000'000'000});
  return *device;
}

struct Kind {
  const char* family;
  int major;
  Format format;
  std::int64_t m, n, k;
  bool packed = false, blocks = false;  // weights; a
};

std::vector<std::uint8_t> bytes_of(std::span<const std::uint8_t> s) { return {s.begin(), s.end()}; }
std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}

/// Operands in device memory, and the call.
class Operands {
 public:
  Operands(const Kind& kind, unsigned seed)
      : device_(gpu(kind.major)),
        b_(test::random_blocks(kind.format, kind.n, kind.k, Layout::row_major, seed)),
        a_codes_(device_, a_bytes(kind, seed, true)),
        a_scales_(device_, a_bytes(kind, seed, false)),
        b_codes_(device_, kind.packed ? test::packed_tiles(b_, 1, nullptr) : bytes_of(b_.codes())),
        b_scales_(device_, bytes_of(b_.scales())),
        one_(device_, {0x00, 0x00, 0x80, 0x3F}),
        d_(device_, std::vector<std::uint8_t>(static_cast<std::size_t>(kind.m * kind.n * 4))) {
    const auto* one = reinterpret_cast<const float*>(one_.data());
    if (kind.blocks)
      a_ = BlockTensorView{.shape = {kind.m, kind.k, kind.format},
                           .codes = span_of(a_codes_),
                           .scales = span_of(a_scales_),
                           .global_scale = GlobalScale::on_device(one)};
    else
      a_ = TensorView{a_codes_.data(), DType::bf16, kind.m, kind.k, kind.k};
    if (kind.packed) {
      PackedWeights packed;
      packed.shape = b_.shape();
      packed.memory = microscale::Memory::device;
      packed.bytes = span_of(b_codes_);
      packed.global_scale = GlobalScale::on_device(one);
      weights_ = packed;
    } else {
      weights_ = BlockTensorView{.shape = b_.shape(),
                                 .codes = span_of(b_codes_),
                                 .scales = span_of(b_scales_),
                                 .global_scale = GlobalScale::on_device(one)};
    }
    output_ = MutableTensorView{d_.data(), DType::f32, kind.m, kind.n, kind.n};
    call_.on_device = true;
  }
  const MatmulCall& call() const { return call_; }
  std::vector<std::uint8_t> d() const { return d_.to_host(); }

 private:
  static std::vector<std::uint8_t> a_bytes(const Kind& kind, unsigned seed, bool codes) {
    if (!kind.blocks) return test::gaussian(DType::bf16, kind.m, kind.k, seed, 1.0f).bytes;
    const BlockTensor a =
        test::random_blocks(kind.format, kind.m, kind.k, Layout::row_major, seed + 5);
    return bytes_of(codes ? a.codes() : a.scales());
  }

  cuda::Device& device_;
  BlockTensor b_;
  DeviceBytes a_codes_, a_scales_, b_codes_, b_scales_, one_, d_;
  MatmulInput a_;
  MatmulWeights weights_;
  MatmulOutput output_;
  MatmulCall call_{.a = a_, .b = weights_, .d = output_};
};

TEST(MatmulKeptPlan, gives_the_bytes_of_an_eager_call) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  using enum Format;
  for (const Kind& kind :
       {Kind{"few_rows", 9, nvfp4, 1, 48, 256}, Kind{"few_rows", 9, mxfp4, 5, 48, 256, true},
        Kind{"in_registers", 9, nvfp4, 20, 40, 128, true}, Kind{"packs", 9, mxfp4, 20, 40, 128},
        Kind{"expanded", 9, mxfp8_e4m3, 1030, 4096, 64},
        Kind{"fallback", 9, mxfp8_e5m2, 3, 24, 128},
        Kind{"block_scaled", 12, nvfp4, 20, 24, 128, false, true},
        Kind{"tcgen05", 10, nvfp4, 20, 24, 128, false, true},
        Kind{"vector", 10, nvfp4, 1, 24, 128, false, true}}) {
    SCOPED_TRACE(kind.family);
    cuda::Device& device = gpu(kind.major);
    const Operands made(kind, 1), other(kind, 2), wanted(kind, 2);
    const auto plan = cuda::keep_plan(device, made.call());
    EXPECT_TRUE(plan->describe().starts_with(kind.family)) << plan->describe();
    const DeviceBytes workspace(device, plan->workspace_bytes());
    if (std::string_view(kind.family) == "expanded") continue;  // seconds; chosen is enough
    plan->run(other.call(), span_of(workspace), nullptr);
    cuda::matmul(device, wanted.call(), span_of(workspace), nullptr);
    EXPECT_EQ(other.d(), wanted.d());
    EXPECT_NE(other.d(), made.d());
  }
}

}  // namespace
}  // namespace microscale::emulator
