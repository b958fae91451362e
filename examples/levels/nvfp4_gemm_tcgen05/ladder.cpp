#include "ladder.hpp"

#include <stdexcept>
#include <string>

#include "args.hpp"
#include "cuda/matmul/tcgen05/plan.hpp"
#include "device_bytes.hpp"

namespace levels {

using namespace microscale;

namespace {

std::vector<std::uint8_t> bytes_of(std::span<const std::uint8_t> s) { return {s.begin(), s.end()}; }

cuda::TensorMap boxes_of(cuda::Device& device, const std::uint8_t* codes, const BlockShape& shape) {
  cuda::TensorBoxes boxes;
  boxes.data = codes;
  boxes.rank = 2;
  boxes.size = {shape.cols / 2, shape.rows};
  boxes.stride = {1, shape.cols / 2};
  boxes.box = {128, gemm_tile};
  boxes.swizzle_128 = true;
  return device.tensor_map(boxes);
}

}  // namespace

std::vector<float> run_gemm(cuda::Device& device, const std::vector<std::uint8_t>& image,
                            const GemmLevel& level, const BlockTensor& a, const BlockTensor& b) {
  const std::int64_t m = a.shape().rows, n = b.shape().rows, k = a.shape().cols;
  if (m % 128 != 0 || n % 128 != 0 || k % 256 != 0)
    throw std::invalid_argument(
        "the levels take m and n in multiples of 128 and k in those of 256");
  const cuda::DeviceBytes a_codes(device, bytes_of(a.codes())),
      b_codes(device, bytes_of(b.codes())), a_scales(device, bytes_of(a.scales())),
      b_scales(device, bytes_of(b.scales())),
      d(device, std::vector<std::uint8_t>(static_cast<std::size_t>(m * n * 4)));
  if (level.entry != nullptr) {
    const GemmArgs args{.a_boxes = boxes_of(device, a_codes.data(), a.shape()),
                        .b_boxes = boxes_of(device, b_codes.data(), b.shape()),
                        .a = a_codes.data(),
                        .b = b_codes.data(),
                        .a_scales = a_scales.data(),
                        .b_scales = b_scales.data(),
                        .d = reinterpret_cast<float*>(d.data()),
                        .m = static_cast<std::int32_t>(m),
                        .n = static_cast<std::int32_t>(n),
                        .k = static_cast<std::int32_t>(k)};
    const cuda::Kernel kernel = device.find_kernel(device.load_module(image), level.entry);
    if (kernel == nullptr) throw std::runtime_error(std::string("no kernel ") + level.entry);
    const bool ring = std::string(level.entry) == "gemm_2_tensor_copies";
    device.launch({.kernel = kernel,
                   .grid = {static_cast<unsigned>(n / 128), static_cast<unsigned>(m / 128), 1},
                   .threads = gemm_threads,
                   .shared_bytes = ring ? gemm_stages * 36864 : 0,
                   .args = &args,
                   .args_bytes = sizeof args});
  } else {
    const auto operand = [](const cuda::DeviceBytes& codes, const cuda::DeviceBytes& scales,
                            const BlockShape& shape) {
      return cuda::ProductOperand{.format = Format::nvfp4,
                                  .data = codes.data(),
                                  .stride = shape.code_bytes_per_line(),
                                  .scales = scales.data(),
                                  .layout = Layout::tiled_128x4};
    };
    cuda::Product product;
    product.a = operand(a_codes, a_scales, a.shape());
    product.b = operand(b_codes, b_scales, b.shape());
    product.n = n;
    product.k = k;
    product.rows = {m, 1, nullptr, 0};
    product.output.d = d.data();
    product.output.d_stride = n;
    product.output.d_type = static_cast<std::int32_t>(DType::f32);
    product.output.alpha = 1.0f;
    cuda::tcgen05::Plan plan =
        cuda::tcgen05::plan_of(device.info(), product, cuda::tcgen05::paired);
    if (!level.persistent) plan.clusters = static_cast<int>(plan.tiles_down * plan.column_tiles);
    cuda::tcgen05::run(device, plan, product, nullptr, nullptr);
  }
  const std::vector<std::uint8_t> bytes = d.to_host();
  const auto* first = reinterpret_cast<const float*>(bytes.data());
  return {first, first + m * n};
}

}  // namespace levels
