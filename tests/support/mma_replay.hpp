// A case of mma_cases.hpp or wgmma_cases.hpp run through the model.
#pragma once

#include <cstring>
#include <vector>

#include "emulator/tensor/mma.hpp"
#include "support/wgmma_cases.hpp"

namespace microscale::testing {

/// D, register by register, as the checker's kernel stores it.
inline std::vector<std::uint32_t> model_mma(const tensor::MmaShape& shape,
                                            tensor::Generation generation,
                                            const std::vector<std::uint32_t>& words) {
  tensor::MmaOperands in;
  const std::uint32_t* at = words.data();
  for (int i = 0; i < a_registers(shape); ++i, at += 32) in.a[static_cast<std::size_t>(i)] = at;
  for (int i = 0; i < b_registers(shape); ++i, at += 32) in.b[static_cast<std::size_t>(i)] = at;
  const int results = result_registers(shape, shape.d);
  for (int i = 0; i < results; ++i, at += 32) in.c[static_cast<std::size_t>(i)] = at;
  if (shape.scale != tensor::ScaleType::none) in.scale_a = at, in.scale_b = at + 32;
  std::vector<std::uint32_t> out(static_cast<std::size_t>(32 * results));
  std::array<std::uint32_t*, 4> d{};
  for (int i = 0; i < results; ++i) d[static_cast<std::size_t>(i)] = out.data() + 32 * i;
  mma(shape, generation, in, d);
  return out;
}

/// D as [register][thread of 128].
inline std::vector<std::uint32_t> model_wgmma(const WgmmaVariant& v,
                                              const std::vector<std::uint32_t>& words) {
  const std::uint32_t* registers = words.data() + wgmma_header_words;
  const std::uint32_t* c = registers + wgmma_a_words;
  const std::uint32_t* image = c + 128 * v.shape.d_registers();
  const auto descriptor = [&](int at) {
    return tensor::wgmma_descriptor(
        words[static_cast<std::size_t>(at)] |
        static_cast<std::uint64_t>(words[static_cast<std::size_t>(at + 1)]) << 32);
  };
  const tensor::ReadChunk read = [image](std::uint32_t address, std::uint8_t* bytes) {
    std::memcpy(bytes, reinterpret_cast<const std::uint8_t*>(image) + address % image_bytes, 16);
  };
  tensor::WgmmaTile a, b;
  const int k = v.shape.k();
  if (v.a_in_registers) {
    const std::uint32_t* rows[16];
    for (int warp = 0; warp < 4; ++warp)
      for (int reg = 0; reg < 4; ++reg) rows[4 * warp + reg] = registers + 128 * reg + 32 * warp;
    read_register_tile(v.shape, rows, a);
  } else {
    read_shared_tile(v.shape.a, 64, k, descriptor(0), v.options.mn_major_a, read, a);
  }
  read_shared_tile(v.shape.b, v.shape.n, k, descriptor(2), v.options.mn_major_b, read, b);
  const int count = v.shape.d_registers();
  std::vector<std::uint32_t> out(c, c + 128 * count);
  std::vector<std::uint32_t*> d;
  for (int warp = 0; warp < 4; ++warp)
    for (int reg = 0; reg < count; ++reg) d.push_back(out.data() + 128 * reg + 32 * warp);
  tensor::WgmmaOptions options = v.options;
  options.accumulate = words[4] != 0;
  wgmma(v.shape, options, a, b, d.data());
  return out;
}

}  // namespace microscale::testing
