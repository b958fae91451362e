// pack_weights on device memory.
#include <fmt/format.h>

#include <vector>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/matmul.hpp"
#include "formats/integers.hpp"
#include "layouts/fragment_tiles.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr const char* operation = "pack_weights";

std::string_view kernel_kind(Format format) {
  switch (format) {
    case Format::mxfp4:
      return "mxfp4";
    case Format::nvfp4:
      return "nvfp4";
    case Format::mxfp8_e4m3:
    case Format::mxfp8_e5m2:
      return "mxfp8";
    default:
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: backend cuda multiplies MXFP4, NVFP4 and MXFP8, the weights are "
                              "{}; use one of these, or a CPU backend",
                              operation, info(format).name));
  }
}

}  // namespace

std::int64_t packed_weights_bytes(const BlockShape& shape, std::int64_t matrices, bool gated) {
  kernel_kind(shape.format);
  const FormatInfo& format = info(shape.format);
  return matrices * fragment_tiles::matrix_bytes(shape.rows, shape.cols, gated, format.code_bits,
                                                 format.block);
}

PackedWeights pack_weights(Device& device, const BlockTensorView& b, const BlockTensorView* up,
                           std::span<std::uint8_t> bytes, std::int64_t matrices, Stream stream) {
  const std::int64_t needed = cuda::packed_weights_bytes(b.shape, matrices, up != nullptr);
  if (static_cast<std::int64_t>(bytes.size()) != needed)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the output has {} bytes, {} are needed (see packed_weights_bytes)",
                            operation, bytes.size(), needed));
  PackedWeights packed;
  packed.shape = b.shape;
  packed.shape.layout = Layout::row_major;
  packed.matrices = matrices;
  packed.gated = up != nullptr;
  packed.memory = Memory::device;
  packed.bytes = bytes;
  packed.global_scale = b.global_scale;
  if (up) packed.up_global_scale = up->global_scale;
  if (needed == 0) return packed;
  std::vector<Operand> operands{
      {"the codes", b.codes.data(), static_cast<std::int64_t>(b.codes.size()), false},
      {"the scales", b.scales.data(), static_cast<std::int64_t>(b.scales.size()), false},
      {"the output", bytes.data(), needed, true}};
  PackWeightsArgs args{};
  args.codes = b.codes.data();
  args.scales = b.scales.data();
  args.rows = b.shape.rows;
  args.cols = b.shape.cols;
  args.matrices = matrices;
  args.scale_matrix = b.shape.scale_bytes();
  args.tiled = b.shape.layout == Layout::tiled_128x4;
  args.packed = bytes.data();
  if (up) {
    operands.push_back(
        {"the codes of up", up->codes.data(), static_cast<std::int64_t>(up->codes.size()), false});
    operands.push_back({"the scales of up", up->scales.data(),
                        static_cast<std::int64_t>(up->scales.size()), false});
    args.up_codes = up->codes.data();
    args.up_scales = up->scales.data();
    args.up_scale_matrix = up->shape.scale_bytes();
    args.up_tiled = up->shape.layout == Layout::tiled_128x4;
  }
  check_operands(device, operation, operands);
  const FormatInfo& format = info(b.shape.format);
  const std::int64_t warp_tiles = pack_parts * 4 / format.code_bits;
  const std::int64_t warps = matrices * fragment_tiles::row_tiles(b.shape.rows, up != nullptr) *
                             ceil_div(fragment_tiles::col_tiles(b.shape.cols), warp_tiles);
  launch(device, kernels::pack_weights(kernel_kind(b.shape.format)), operation,
         {static_cast<unsigned>(ceil_div(warps * 32, pack_threads)), 1, 1, pack_threads, 0}, args,
         stream);
  return packed;
}

}  // namespace microscale::cuda
