#include "matmul_operands.hpp"

#include <algorithm>

#include "core/threads.hpp"
#include "formats/random.hpp"

namespace microscale::bench {
namespace {

constexpr const char* option = "--rotate-mib";
constexpr float global_scale = 0.01f;  // keeps FP16 results of long sums finite

std::size_t aligned(std::int64_t bytes) {
  return (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
}

// Codes of every value; scales of a spread of magnitudes; no NaN.
void fill_blocks(Format format, std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                 std::uint32_t seed) {
  const FormatInfo& facts = info(format);
  parallel_for(static_cast<std::int64_t>((codes.size() + 65535) / 65536), 0, [&](std::int64_t p) {
    const std::size_t first = static_cast<std::size_t>(p) * 65536;
    for (std::size_t i = first; i < std::min(codes.size(), first + 65536); ++i) {
      auto code = static_cast<std::uint8_t>(mix32(static_cast<std::uint32_t>(i) + seed));
      if (facts.code_bits == 8 && (code & 0x7C) == 0x7C) code &= 0xBF;
      codes[i] = code;
    }
  });
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::uint32_t r = mix32(static_cast<std::uint32_t>(i) ^ (seed * 77u));
    scales[i] = static_cast<std::uint8_t>(facts.e8m0_scale ? 118 + r % 8 : 0x30 + r % 0x28);
  }
}

// BF16 of 2^-9 to 2^-1; the same bits as FP16 are 0.5 to 2.
void fill_dense(std::span<std::uint8_t> bytes) {
  auto* values = reinterpret_cast<std::uint16_t*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
    const std::uint32_t r = mix32(static_cast<std::uint32_t>(i));
    values[i] = static_cast<std::uint16_t>((r & 0x807F) | ((118 + (r >> 8) % 9) << 7));
  }
}

void run(const MatmulOptions& options, const Context& context) { matmul(options, context); }
void run(const GatedMatmulOptions& options, const Context& context) {
  gated_matmul(options, context);
}
void run(const GroupedMatmulOptions& options, const Context& context) {
  grouped_matmul(options, context);
}

}  // namespace

MatmulOperands::MatmulOperands(const MatmulCase& c) : case_(c), weight_shape_(c.weight_shape()) {
  weight_codes_ = aligned(weight_shape_.code_bytes() * c.matrices());
  weight_side_ = weight_codes_ + aligned(weight_shape_.scale_bytes() * c.matrices());
  weights_ = HostMemory(weight_side_ * static_cast<std::size_t>(c.sides()), option);
  for (std::int64_t side = 0; side < c.sides(); ++side) {
    const std::span<std::uint8_t> all =
        weights_.span().subspan(static_cast<std::size_t>(side) * weight_side_, weight_side_);
    fill_blocks(c.weights, all.first(weight_codes_), all.subspan(weight_codes_),
                static_cast<std::uint32_t>(side));
  }
  if (c.input) {
    input_shape_ = {c.rows(), c.k, *c.input};
    input_codes_ = aligned(input_shape_.code_bytes());
    input_ = HostMemory(input_codes_ + aligned(input_shape_.scale_bytes()), option);
    const std::span<std::uint8_t> all = input_.span();
    fill_blocks(*c.input, all.first(input_codes_), all.subspan(input_codes_), 99);
  } else {
    input_ = HostMemory(static_cast<std::size_t>(c.rows() * c.k * 2), option);
    fill_dense(input_.span());
  }
  std::int32_t row = 0;
  for (std::int64_t rows : c.groups) {
    offsets_.push_back(row);
    row += static_cast<std::int32_t>(rows);
  }
  offsets_.push_back(row);
}

BlockTensorView MatmulOperands::weights_in(const std::uint8_t* memory, std::int64_t side) const {
  const std::uint8_t* codes = memory + static_cast<std::size_t>(side) * weight_side_;
  const auto matrices = static_cast<std::size_t>(case_.matrices());
  return {weight_shape_,
          {codes, static_cast<std::size_t>(weight_shape_.code_bytes()) * matrices},
          {codes + weight_codes_, static_cast<std::size_t>(weight_shape_.scale_bytes()) * matrices},
          global_scale};
}

MatmulInput MatmulOperands::input_in(const std::uint8_t* memory) const {
  const std::int64_t rows = case_.kind == ProductKind::grouped ? case_.rows() : case_.m;
  if (!case_.input) return TensorView{memory, case_.dense, rows, case_.k, case_.k};
  BlockShape shape = input_shape_;
  shape.rows = rows;  // of one matrix; the spans are of all
  return BlockTensorView{
      shape,
      {memory, static_cast<std::size_t>(input_shape_.code_bytes())},
      {memory + input_codes_, static_cast<std::size_t>(input_shape_.scale_bytes())},
      global_scale};
}

void multiply(const MatmulCase& c, const MatmulOperandsView& operands, const Context& context) {
  with_options(c, operands, [&](const auto& options) { run(options, context); });
}

}  // namespace microscale::bench
