// A vector table beside the reference on the same call: the first difference with its place and
// meaning.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <vector>

#include "formats/elements.hpp"
#include "seam/kernel_table.hpp"
#include "reference/dense.hpp"
#include "support/present.hpp"

namespace microscale::test {

/// Vector tables that this machine can run.
inline std::vector<const KernelTable*> vector_tables() {
  return present({&avx2_kernels, &avx512_kernels});
}

/// Bytes at a multiple of 64 plus `offset`, filled with a pattern, with a margin that must stay as
/// it is.
class Bytes {
 public:
  explicit Bytes(std::int64_t size, std::int64_t offset = 0)
      : size_(size),
        offset_(offset),
        memory_(static_cast<std::uint8_t*>(
                    std::aligned_alloc(64, (size + offset + 2 * margin + 63) / 64 * 64)),
                &std::free) {
    std::memset(memory_.get(), fill, static_cast<std::size_t>(size + offset + 2 * margin));
  }
  std::uint8_t* data() { return memory_.get() + margin + offset_; }
  std::int64_t size() const { return size_; }
  bool equal(Bytes& other) {
    return size_ == other.size_ &&
           std::memcmp(data(), other.data(), static_cast<std::size_t>(size_)) == 0;
  }
  bool margins_untouched() const {
    for (std::int64_t i = 0; i < margin; ++i)
      if (memory_[i] != fill || memory_[margin + offset_ + size_ + i] != fill) return false;
    return true;
  }

 private:
  static constexpr std::int64_t margin = 128;
  static constexpr std::uint8_t fill = 0xA5;
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  std::int64_t size_, offset_;
  std::unique_ptr<std::uint8_t[], void (*)(void*)> memory_;
};

/// How a matrix lies in memory: gaps after lines and bytes off alignment.
struct Placement {
  std::int64_t lines = 1, blocks = 1;
  std::int64_t input_gap = 0;  // elements after each line
  std::int64_t output_gap = 0, offset = 0;
};

/// What a quantizer wrote.
struct Blocks {
  Bytes& codes;
  Bytes& scales;
};

/// `table` on `call`, whose codes and scales are set here: nothing, or what differs first from the
/// `wanted` ones.
inline ::testing::AssertionResult same_blocks(const KernelTable& table, QuantizeLines call,
                                              const Placement& at, const Blocks& wanted) {
  const FormatInfo& format = info(call.format);
  Bytes codes(wanted.codes.size(), at.offset), scales(wanted.scales.size(), at.offset);
  call.codes = codes.data();
  call.scales = scales.data();
  table.quantize(call);
  if (!codes.margins_untouched() || !scales.margins_untouched())
    return ::testing::AssertionFailure() << "wrote outside its output";
  if (codes.equal(wanted.codes) && scales.equal(wanted.scales))
    return ::testing::AssertionSuccess();
  for (std::int64_t line = 0; line < at.lines; ++line) {
    for (std::int64_t i = 0; i < at.blocks * format.block; ++i) {
      const std::int64_t block = i / format.block, s = line * call.scale_stride + block,
                         c = line * call.code_stride + i * format.code_bits / 8;
      const int shift = format.code_bits == 4 ? static_cast<int>(i % 2 * 4) : 0;
      const int mask = format.code_bits == 4 ? 15 : 255;
      const int got = codes.data()[c] >> shift & mask,
                want = wanted.codes.data()[c] >> shift & mask;
      const int got_scale = scales.data()[s], want_scale = wanted.scales.data()[s];
      if (got == want && got_scale == want_scale) continue;
      std::ostringstream text;
      text << format.name << ' ' << to_string(call.numerics.scale_rule) << " line " << line
           << " block " << block << " element " << i % format.block << std::hex << ": scale 0x"
           << got_scale << " (reference 0x" << want_scale << "), code 0x" << got << " (0x" << want
           << ')' << std::hexfloat << ", value "
           << load_dense(call.input, call.input_type, line * call.input_stride + i) << "; block:";
      for (std::int64_t j = 0; j < format.block; ++j)
        text << ' '
             << load_dense(call.input, call.input_type,
                           line * call.input_stride + block * format.block + j);
      return ::testing::AssertionFailure() << text.str();
    }
  }
  return ::testing::AssertionFailure() << format.name << ": bytes between the lines changed";
}

/// The first of `tables` whose codes or scales of `call` (which are set here) are not the
/// reference's, and what differs first; nothing if all are. The reference, the slowest by far, runs
/// once.
inline ::testing::AssertionResult same_blocks(const std::vector<const KernelTable*>& tables,
                                              QuantizeLines call, const Placement& at) {
  const FormatInfo& format = info(call.format);
  call.lines = at.lines;
  call.blocks = at.blocks;
  call.input_stride = at.blocks * format.block + at.input_gap;
  call.code_stride = code_bytes(format, at.blocks * format.block) + at.output_gap;
  call.scale_stride = at.blocks + at.output_gap;
  Bytes codes(at.lines * call.code_stride), scales(at.lines * call.scale_stride);
  call.codes = codes.data();
  call.scales = scales.data();
  reference_kernels.quantize(call);
  for (const KernelTable* table : tables) {
    const auto same = same_blocks(*table, call, at, {codes, scales});
    if (!same)
      return ::testing::AssertionFailure() << to_string(table->backend) << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

/// Both tables on `call` (its output is set here); nothing, or what differs first.
inline ::testing::AssertionResult same_values(const KernelTable& table, DequantizeLines call,
                                              const Placement& at) {
  const FormatInfo& format = info(call.format);
  const std::int64_t element = size_of(call.output_type);
  call.lines = at.lines;
  call.blocks = at.blocks;
  call.output_stride = at.blocks * format.block + at.output_gap;
  const std::int64_t size = at.lines * call.output_stride * element;
  Bytes output[2] = {Bytes(size, at.offset * element), Bytes(size)};
  for (int i = 0; i < 2; ++i) {
    call.output = output[i].data();
    (i == 0 ? table : reference_kernels).dequantize(call);
  }
  if (!output[0].margins_untouched())
    return ::testing::AssertionFailure() << "wrote outside its output";
  if (std::memcmp(output[0].data(), output[1].data(), static_cast<std::size_t>(size)) == 0)
    return ::testing::AssertionSuccess();
  for (std::int64_t i = 0; i < size / element; ++i) {
    std::uint32_t got = 0, want = 0;
    std::memcpy(&got, output[0].data() + i * element, static_cast<std::size_t>(element));
    std::memcpy(&want, output[1].data() + i * element, static_cast<std::size_t>(element));
    if (got == want) continue;
    const std::int64_t line = i / call.output_stride, col = i % call.output_stride;
    if (col >= at.blocks * format.block)
      return ::testing::AssertionFailure() << "wrote between lines";
    const int code = call.codes[line * call.code_stride + col * format.code_bits / 8];
    const int scale = call.scales[line * call.scale_stride + col / format.block];
    return ::testing::AssertionFailure()
           << format.name << " to " << to_string(call.output_type) << " line " << line
           << " element " << col << std::hex << ": code byte 0x" << code << ", scale 0x" << scale
           << ": 0x" << got << " (reference 0x" << want << "), " << std::hexfloat
           << load_dense(output[0].data(), call.output_type, i) << " ("
           << load_dense(output[1].data(), call.output_type, i) << ')';
  }
  return ::testing::AssertionFailure();
}

}  // namespace microscale::test
