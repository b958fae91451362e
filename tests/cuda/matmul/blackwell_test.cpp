#include "cuda/matmul/blackwell.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/matmul.hpp"
#include "cuda/matmul/block_scaled/plan.hpp"
#include "fake_device.hpp"

namespace microscale::cuda {
namespace {

class BlackwellProducts : public ::testing::Test {
 protected:
  BlockTensorView blocks(std::uint8_t* at, Format format, std::int64_t rows, std::int64_t cols,
                         Layout layout = Layout::row_major) {
    BlockTensorView view;
    view.shape = {rows, cols, format, BlockAxis::cols, layout};
    view.codes = {at, static_cast<std::size_t>(view.shape.code_bytes())};
    view.scales = {at + 8192, static_cast<std::size_t>(view.shape.scale_bytes())};
    view.device_global_scale = reinterpret_cast<const float*>(at + 16384);
    return view;
  }
  /// The kernels that such a product launches on a device of that number.
  std::vector<std::string> launched(int major, Format a_format, Format b_format, std::int64_t m,
                                    bool packed = false) {
    const MatmulInput a = blocks(memory_->bytes, a_format, m, 128);
    MatmulWeights b = blocks(memory_->bytes + 20480, b_format, 24, 128);
    if (packed) {
      PackedWeights p;
      p.shape = std::get<BlockTensorView>(b).shape;
      p.on_cpu = false;
      p.bytes = {memory_->bytes + 20480, 4096};
      b = p;
    }
    const MatmulOutput d = MutableTensorView{memory_->bytes + 40960, DType::bf16, m, 24, 24};
    MatmulCall call{.a = a, .b = b, .d = d};
    call.on_device = true;
    test::FakeDevice device(major, 0);
    const std::int64_t bytes = matmul_workspace_bytes(device, call);
    matmul(device, call, {work_->bytes, static_cast<std::size_t>(bytes)}, nullptr);
    EXPECT_EQ(is_blackwell_product(device.info(), call), device.launches.size() == 1);
    std::vector<std::string> names;
    for (const auto& seen : device.launches) names.push_back(seen.name);
    return names;
  }
  std::unique_ptr<test::Aligned> memory_ = std::make_unique<test::Aligned>(),
                                 work_ = std::make_unique<test::Aligned>();
};

using Names = std::vector<std::string>;

TEST_F(BlackwellProducts, have_their_kernels_from_17_rows_on_and_for_one) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  EXPECT_EQ(launched(12, Format::nvfp4, Format::nvfp4, 17),
            Names{"matmul_block_scaled_nvfp4_nvfp4"});
  EXPECT_EQ(launched(12, Format::mxfp8_e4m3, Format::mxfp4, 40),
            Names{"matmul_block_scaled_mxfp8_e4m3_mxfp4"});
  EXPECT_EQ(launched(12, Format::nvfp4, Format::nvfp4, 16).size(), 2u);
  EXPECT_EQ(launched(12, Format::nvfp4, Format::nvfp4, 1), Names{"matmul_vector_nvfp4_any"});
  EXPECT_EQ(launched(10, Format::nvfp4, Format::nvfp4, 1), Names{"matmul_vector_nvfp4_any"});
}

TEST_F(BlackwellProducts, leave_the_rest_to_what_every_gpu_has) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  EXPECT_EQ(launched(12, Format::mxfp4, Format::mxfp8_e4m3, 40).size(),
            2u);  // no such instruction here
  EXPECT_EQ(launched(12, Format::nvfp4, Format::nvfp4, 40, true).size(), 2u);  // packed
  EXPECT_EQ(launched(10, Format::nvfp4, Format::nvfp4, 40).size(), 2u);
  EXPECT_EQ(launched(9, Format::nvfp4, Format::nvfp4, 1).size(), 2u);
}

TEST_F(BlackwellProducts, of_groups_go_by_an_experts_average_rows) {
  const MatmulWeights b = blocks(memory_->bytes + 20480, Format::nvfp4, 24, 128);
  const MatmulOutput d = MutableTensorView{memory_->bytes + 40960, DType::bf16, 68, 24, 24};
  const ExpertRows groups{memory_->bytes, OffsetType::i32, 4};
  const DeviceInfo device = test::FakeDevice(12, 0).info();
  for (const std::int64_t rows : {67, 68}) {
    const MatmulInput a = blocks(memory_->bytes, Format::nvfp4, rows, 128);
    MatmulCall call{.a = a, .b = b, .d = d};
    call.groups = &groups;
    call.matrices = 4;
    EXPECT_EQ(is_blackwell_product(device, call), rows == 68);
  }
}

}  // namespace
}  // namespace microscale::cuda
