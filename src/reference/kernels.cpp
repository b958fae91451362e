// The reference backend: one slow, obviously right version of each kernel. Every other backend is
// tested against it.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "formats/block_quantizer.hpp"
#include "formats/compat.hpp"
#include "seam/kernel_table.hpp"
#include "seam/row_kernels.hpp"
#include "reference/attention.hpp"
#include "reference/dense.hpp"
#include "reference/kv_rows.hpp"
#include "reference/matmul.hpp"
#include "reference/producers.hpp"

namespace microscale {
namespace {

// Codes one per byte into a line: 4-bit codes two to a byte, the even element in the low nibble.
void store_codes(const std::uint8_t* codes, int count, int code_bits, std::uint8_t* output) {
  if (code_bits == 8) {
    std::memcpy(output, codes, static_cast<std::size_t>(count));
    return;
  }
  for (int i = 0; i < count; i += 2)
    output[i / 2] = static_cast<std::uint8_t>(codes[i] | (codes[i + 1] << 4));
}

template <class Codec, int Count, bool E8M0Scale>
void quantize_lines(const QuantizeLines& call) {
  const int code_bits = info(call.format).code_bits;
  const BlockContext context{call.numerics, call.global_scale,
                             nvfp4_scale_factor(call.global_scale)};
  std::array<float, Count> values;
  std::array<std::uint8_t, Count> codes;
  for (std::int64_t line = 0; line < call.lines; ++line) {
    for (std::int64_t block = 0; block < call.blocks; ++block) {
      const std::int64_t first = block * Count;
      for (int i = 0; i < Count; ++i)
        values[static_cast<std::size_t>(i)] =
            load_dense(call.input, call.input_type, line * call.input_stride + first + i);
      const auto index = [&](int i) {
        return call.first_index + static_cast<std::uint64_t>(line) * call.index_line_stride +
               static_cast<std::uint64_t>(first + i) * call.index_step;
      };
      const float* weights = call.weights ? call.weights + first : nullptr;
      call.scales[line * call.scale_stride + block] = quantize_block<Codec, Count, E8M0Scale>(
          values.data(), weights, context, index, codes.data());
      store_codes(codes.data(), Count, code_bits,
                  call.codes + line * call.code_stride + first * code_bits / 8);
    }
  }
}

// The same loop around another tool's arithmetic.
void quantize_lines_as_tool(const QuantizeLines& call) {
  const FormatInfo& format = info(call.format);
  const ToolBlocks tool{call.numerics, call.format, call.input_type, call.tool_global};
  std::array<float, 32> values;
  std::array<std::uint8_t, 32> codes;
  for (std::int64_t line = 0; line < call.lines; ++line) {
    for (std::int64_t block = 0; block < call.blocks; ++block) {
      const std::int64_t first = block * format.block;
      for (int i = 0; i < format.block; ++i)
        values[static_cast<std::size_t>(i)] =
            load_dense(call.input, call.input_type, line * call.input_stride + first + i);
      call.scales[line * call.scale_stride + block] =
          quantize_block_as_tool(tool, values.data(), codes.data());
      store_codes(codes.data(), format.block, format.code_bits,
                  call.codes + line * call.code_stride + first * format.code_bits / 8);
    }
  }
}

void quantize(const QuantizeLines& call) {
  if (follows_tool(call.numerics, call.format)) return quantize_lines_as_tool(call);
  const FormatInfo& format = info(call.format);
  if (!format.e8m0_scale) return quantize_lines<E2M1, 16, false>(call);
  with_codec(format.element, [&](auto codec) { quantize_lines<decltype(codec), 32, true>(call); });
}

void dequantize(const DequantizeLines& call) {
  const FormatInfo& format = info(call.format);
  for (std::int64_t line = 0; line < call.lines; ++line) {
    const std::uint8_t* codes = call.codes + line * call.code_stride;
    const std::uint8_t* scales = call.scales + line * call.scale_stride;
    for (std::int64_t i = 0; i < call.blocks * format.block; ++i) {
      const std::uint8_t scale = scales[i / format.block];
      const float step =
          format.e8m0_scale ? decode_e8m0(scale) : nvfp4_step(scale, call.global_scale);
      const std::uint8_t code =
          format.code_bits == 8 ? codes[i] : (codes[i / 2] >> (i % 2 * 4)) & 15;
      const float value =
          with_codec(format.element, [&](auto codec) { return decltype(codec)::decode(code); });
      store_dense(value * step, call.output, call.output_type, line * call.output_stride + i);
    }
  }
}

AbsMaxRun abs_max(const void* input, DType type, std::int64_t count) {
  AbsMaxRun run;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto magnitude = std::bit_cast<std::uint32_t>(load_dense(input, type, i)) & 0x7FFFFFFFu;
    if (magnitude >= 0x7F800000u) run.non_finite = true;
    if (magnitude <= 0x7F800000u) run.amax = std::max(run.amax, std::bit_cast<float>(magnitude));
  }
  return run;
}

void to_floats(const void* elements, DType type, std::int64_t count, float* output) {
  for (std::int64_t i = 0; i < count; ++i) output[i] = load_dense(elements, type, i);
}

constexpr RowKernels rows{.to_floats = to_floats,
                          .transform_key = transform_key,
                          .quantize_fp8 = quantize_fp8,
                          .silu_mul = silu_mul_rows,
                          .rms_norm = rms_norm_rows,
                          .hadamard = hadamard_rows};

}  // namespace

const KernelTable reference_kernels{
    .backend = Backend::reference,
    .available = [] { return true; },
    .supports_quantize = [](const QuantizeLines&) { return true; },
    .quantize = quantize,
    .supports_dequantize = [](const DequantizeLines&) { return true; },
    .dequantize = dequantize,
    .abs_max = abs_max,
    .rows = &rows,
    .matmul = &reference_matmul,
    .attention = &reference_attention,
};

}  // namespace microscale
