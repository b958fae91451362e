// Operands of MXFP4 whose products are exact in FP8, with every chunk of 128 elements of k in every
// element of d. The bound of a product in FP8 is 1.7 % of its sum of magnitudes: of a long row a
// lost chunk stays within it. Against an exact result no lost, doubled or misplaced one does.
//
// Magnitudes of a are 1 to 6 and, one in each four elements, 1/2 with the other sign; of the
// weights 1 to 4, with one sign a row. So each four products have a sum that is not zero. Scales
// are 1 or 2, one for 128 elements of a, one for each block of the weights. A chunk's products are
// multiples of 1/4 of a's scale; their magnitudes add up to less than 2^13 of these
// (exact_products_test.cpp looks), which Hopper's FP8 sums hold without a cut.
#pragma once

#include <cstdint>
#include <random>
#include <tuple>
#include <utility>

#include "microscale/quantize.hpp"

namespace microscale::test {

inline constexpr std::int64_t fp8_chunk = 128;  // elements of k that are summed in FP8

inline BlockTensor exact_rows(std::int64_t rows, std::int64_t cols, unsigned seed) {
  BlockTensor tensor(BlockShape{rows, cols, Format::mxfp4});
  std::mt19937 random(seed);
  const auto four = [&] {  // E2M1 codes 2 to 7 are 1 to 6, 9 is -1/2
    std::uint8_t codes[4];
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(2 + random() % 6);
    codes[random() % 4] = 9;
    return std::pair{static_cast<std::uint8_t>(codes[0] | codes[1] << 4),
                     static_cast<std::uint8_t>(codes[2] | codes[3] << 4)};
  };
  for (std::size_t i = 0; i < tensor.codes().size(); i += 2)
    std::tie(tensor.codes()[i], tensor.codes()[i + 1]) = four();
  const std::int64_t blocks = cols / 32;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::uint8_t scale = 127;
    for (std::int64_t block = 0; block < blocks; ++block) {
      if (block % (fp8_chunk / 32) == 0) scale = static_cast<std::uint8_t>(127 + random() % 2);
      tensor.scales()[static_cast<std::size_t>(row * blocks + block)] = scale;
    }
  }
  return tensor;
}

inline BlockTensor exact_weights(std::int64_t rows, std::int64_t cols, unsigned seed) {
  BlockTensor tensor(BlockShape{rows, cols, Format::mxfp4});
  std::mt19937 random(seed);
  const auto line = static_cast<std::size_t>(cols / 2);
  for (std::size_t i = 0; i < tensor.codes().size(); ++i) {
    const unsigned low = 2 + random() % 5, high = 2 + random() % 5,
                   signs = i / line % 2 == 0 ? 0 : 0x88;
    tensor.codes()[i] = static_cast<std::uint8_t>(low | high << 4 | signs);
  }
  for (std::uint8_t& scale : tensor.scales()) scale = static_cast<std::uint8_t>(127 + random() % 2);
  return tensor;
}

}  // namespace microscale::test
