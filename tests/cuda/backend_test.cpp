// The public operations reach src/cuda through the table that it provides.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/device/environment.hpp"
#include "cuda/device/kernel_images.hpp"
#include "cuda/queueing_device.hpp"
#include "seam/gpu_operations.hpp"
#include "support/matrices.hpp"

namespace microscale::cuda {
namespace {

using test::QueueingDevice;

TEST(CudaBackend, runs_a_public_operation_on_the_current_device) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  QueueingDevice device;
  const DeviceInForce in_force(device);
  const auto matrix = microscale::test::gaussian(DType::bf16, 8, 64);
  const auto bytes = static_cast<std::int64_t>(matrix.bytes.size());
  auto* const memory = static_cast<std::uint8_t*>(device.allocate(1 << 16));
  const Stream stream = device.make_stream();
  device.copy_to_device(memory, matrix.bytes.data(), bytes, stream);
  QuantizeOptions options{.input = matrix.view(), .format = Format::mxfp4};
  BlockTensor wanted = microscale::quantize(options);
  options.input.data = memory;
  options.input.memory = microscale::Memory::device;
  const std::span codes(memory + (1 << 12), wanted.codes().size());
  const std::span scales(memory + (1 << 13), wanted.scales().size());
  quantize_into(options, codes, scales, {.backend = Backend::cuda, .stream = stream});
  std::vector<std::uint8_t> got(codes.size());
  device.copy_to_host(got.data(), codes.data(), static_cast<std::int64_t>(got.size()), stream);
  device.synchronize(stream);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.codes().begin()));
  EXPECT_EQ(device.launches, 1);
  device.release_stream(stream);
  device.release(memory);
}

TEST(CudaBackend, names_a_gpu_for_the_converter) {
  QueueingDevice device;
  const DeviceInForce in_force(device);
  EXPECT_EQ(gpu_operations("quantize").name_of_gpu(0), "Queue, sm_90a");
}

TEST(CudaBackend, offers_every_operation_of_the_table) {
  const GpuOperations& table = gpu_operations("test");
  const auto* const pointers = reinterpret_cast<void* const*>(&table);
  for (std::size_t i = 0; i < sizeof table / sizeof *pointers; ++i)
    EXPECT_NE(pointers[i], nullptr) << "function " << i << " of the table";
}

}  // namespace
}  // namespace microscale::cuda
