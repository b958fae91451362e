#include "products.hpp"

#include <algorithm>
#include <vector>

#include "product_checker.hpp"
#include "support/exact_products.hpp"

namespace microscale::cuda {
namespace {

struct LineShape {
  std::int64_t n, k, matrices = 1;
  Layout layout = Layout::row_major;
};

}  // namespace

void check_products(Device& device, const Scope& scope, EqualityTotals& totals) {
  ProductChecker checker(device, totals);
  const bool least = scope.amount == Amount::least;
  const std::int64_t n = 37;
  const std::vector<std::int64_t> depths =
      least ? std::vector<std::int64_t>{224, 2176} : std::vector<std::int64_t>{32, 672, 1152, 4096};
  constexpr Format formats[] = {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3,
                                Format::mxfp8_e5m2};
  for (const Format format : scope.formats)
    for (const std::int64_t k : depths) {
      const CheckedOperand b(device, test::random_blocks(format, n, k, Layout::row_major, 7)),
          b_tiled(device, test::random_blocks(format, n, k, Layout::tiled_128x4, 8));
      for (const std::int64_t m : {1, 5, 12, 19}) {
        std::vector<CheckedOperand> inputs;
        for (const DType type : {DType::f16, DType::bf16})
          inputs.emplace_back(device, test::gaussian(type, m, k, 3, 2.0f));
        for (const Format a : formats)
          inputs.emplace_back(
              device,
              test::random_blocks(a, m, k, m < 12 ? Layout::row_major : Layout::tiled_128x4, 9));
        for (const CheckedOperand& a : inputs)
          for (const bool packed : {false, true})
            checker.product(a, m < 12 ? b : b_tiled, m, n, packed,
                            packed   ? DType::f32
                            : m == 5 ? DType::bf16
                                     : DType::f16);
        for (const bool packed : {false, true}) checker.gated(inputs[1], b, b_tiled, m, n, packed);
      }
      const CheckedOperand experts(device,
                                   test::random_blocks(format, 4 * n, k, Layout::row_major, 11));
      for (const bool packed : {false, true})
        for (const std::int64_t capacity : {0, 13, 18})
          checker.grouped(Format::nvfp4, experts, 4, n, packed, capacity);
    }
  // One row by plain weights: rows that end in a stage, matrices that end in a row tile.
  for (const Format format : scope.formats)
    for (const LineShape& l : {LineShape{n, 16 * info(format).block},
                               {n, 2560},
                               {70, 1536, 5},
                               {128, 2560, 3, Layout::tiled_128x4},
                               {33, 6656}}) {
      const CheckedOperand b(device,
                             test::random_blocks(format, l.matrices * l.n, l.k, l.layout, 7)),
          dense(device, test::gaussian(DType::bf16, l.matrices, l.k, 3, 2.0f)),
          blocks(device, test::random_blocks(Format::nvfp4, l.matrices, l.k, Layout::row_major, 9));
      for (const CheckedOperand* a : {&dense, &blocks})
        for (int twice = 0; twice < 4; ++twice)  // with and without constant weights
          checker.product(*a, b, 1, l.n, /*packed=*/false, DType::f32, false, l.matrices);
    }
  for (const Format format : scope.formats) {  // rows so long that they are not streamed
    if (info(format).code_bits != 4) continue;
    const std::int64_t columns = 21;
    for (const std::int64_t m : {8, 16}) {
      const std::int64_t k = m == 8 ? 81920 : 49152;
      const CheckedOperand b(device, test::random_blocks(format, columns, k, Layout::row_major, 7));
      const DType type = m == 8 ? DType::bf16 : DType::f16;
      checker.product(CheckedOperand(device, test::gaussian(type, m, k, 3, 2.0f)), b, m, columns,
                      /*packed=*/true, DType::f32);
    }
  }
  // Sums of one sign, in which an accumulator that cuts off drifts, and scales far apart.
  for (const Format format : scope.formats) {
    const std::int64_t k = least ? 2176 : 8192, columns = 72;
    const CheckedOperand b(device,
                           absolute(test::random_blocks(format, columns, k, Layout::row_major, 7))),
        b_spread(device, test::random_blocks(format, columns, k, Layout::row_major, 7,
                                             info(format).e8m0_scale ? 97 : 0x01,
                                             info(format).e8m0_scale ? 157 : 0x7E));
    for (const std::int64_t m : least ? std::vector<std::int64_t>{1, 5, 12, 40}
                                      : std::vector<std::int64_t>{1, 5, 12, 40, 200, 1100}) {
      const CheckedOperand dense(device, absolute(test::gaussian(DType::bf16, m, k, 3, 2.0f))),
          codes(device, absolute(test::random_blocks(format, m, k, Layout::row_major, 9)));
      for (const CheckedOperand* a : {&dense, &codes})
        for (const bool packed : {false, true}) {
          checker.product(*a, b, m, columns, packed, DType::f32);
          checker.product(*a, b_spread, m, columns, packed, DType::f32);
          if (format == Format::mxfp4 && packed && a == &codes && m >= 200)
            checker.product(*a, b, m, columns, packed, DType::f32, /*fast=*/true);
          checker.repeated(*a, b_spread, m, columns, packed, least ? 2 : 200);
        }
    }
  }
  // Every chunk of k in every element, in FP8 (from 256 rows on) and in 16 bits.
  for (const std::int64_t k :
       least ? std::vector<std::int64_t>{1056} : std::vector<std::int64_t>{96, 1056, 8192, 28672}) {
    const std::int64_t m = least ? 257 : 1100, columns = 72;
    const CheckedOperand a(device, test::exact_rows(m, k, 3)),
        b(device, test::exact_weights(columns, k, 4));
    for (const bool fast : {true, false})
      for (const bool packed : {true, false}) checker.exact(a, b, m, columns, packed, fast);
  }
  if (least) return;
  for (const Format format : scope.formats) {  // so many rows that weights are expanded first
    const std::int64_t m = 9000, columns = 256, k = 224;
    const CheckedOperand a(device, test::random_blocks(format, m, k, Layout::tiled_128x4, 9)),
        b(device, test::random_blocks(format, columns, k, Layout::row_major, 7));
    for (const bool packed : {false, true}) checker.product(a, b, m, columns, packed, DType::bf16);
    if (format == Format::mxfp4) checker.product(a, b, m, columns, true, DType::f32, /*fast=*/true);
    for (const Format to : formats)
      for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
        checker.quantized(a, b, m, columns, /*packed=*/true, to, layout);
        if (format == Format::mxfp4)
          checker.quantized(a, b, m, columns, true, to, layout, /*fast=*/true);
      }
  }
  // Block-scaled by block-scaled as both lie, k whole instructions of Blackwell: tiles that are not
  // full, several for a multiprocessor, and pairs of blocks of which the second has few rows.
  for (const Format format : scope.formats)
    for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
      for (const std::int64_t m : {40, 140, 1100}) {
        const std::int64_t columns = m == 1100 ? 6200 : 600, k = 1088;
        const CheckedOperand a(device, test::random_blocks(format, m, k, Layout::tiled_128x4, 9)),
            b(device, test::random_blocks(format, columns, k, layout, 7)),
            up(device, test::random_blocks(format, columns, k, Layout::tiled_128x4, 8));
        checker.product(a, b, m, columns, /*packed=*/false, DType::bf16);
        checker.repeated(a, b, m, columns, /*packed=*/false, 20);
        if (m < 1100) checker.gated(a, b, up, m, columns, /*packed=*/false);
      }
}

}  // namespace microscale::cuda
