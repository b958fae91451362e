// Products of two block-scaled operands on a device: data, the call, the model of the matrix
// instruction in the kernel's order, and the bound.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cuda/matmul/block_scaled/plan.hpp"
#include "emulator/tensor/mma.hpp"
#include "layouts/tiled_128x4.hpp"
#include "support/mma_layouts.hpp"
#include "support/products.hpp"

namespace microscale::test {

/// Rows of a matrix each, in a tensor of all of them.
using Parts = std::vector<std::int64_t>;

/// Scales of a row-major tensor in `layout`, each part by itself; `padding`: what tiles hold beside
/// them.
inline std::vector<std::uint8_t> laid_out(const BlockTensor& tensor, Layout layout,
                                          const Parts& parts, std::int64_t first = 0,
                                          std::uint8_t padding = 0) {
  const std::int64_t blocks = tensor.shape().blocks_per_line();
  if (layout == Layout::row_major) return {tensor.scales().begin(), tensor.scales().end()};
  std::vector<std::uint8_t> out;
  for (const std::int64_t rows : parts) {
    const auto at = static_cast<std::int64_t>(out.size());
    out.resize(out.size() + static_cast<std::size_t>(tiled_128x4::bytes(rows, blocks)), padding);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < blocks; ++c)
        out[static_cast<std::size_t>(at + tiled_128x4::offset(r, c, blocks))] =
            tensor.scales()[static_cast<std::size_t>((first + r) * blocks + c)];
    first += rows;
  }
  return out;
}

/// A product as tests state it: tensors of all matrices' rows, scales in rows.
struct ProductCase {
  BlockTensor a, b, up{};  // up: gated
  std::int64_t n = 0;      // rows of b a matrix
  Layout a_layout = Layout::row_major, b_layout = Layout::row_major;
  std::optional<Layout> up_layout{};    // b's, if none
  std::int64_t matrices = 1;            // of a batch
  bool wide_offsets = false;            // of 8 bytes on the device
  std::vector<std::int32_t> offsets{};  // grouped: matrices + 1 of them, or
  std::vector<std::int32_t> counts{};   // `matrices` of these, with
  std::int64_t capacity = 0;            // rows from one matrix to the next
  DType d_type = DType::f32;
  float alpha = 1.0f;
  std::vector<float> bias{}, up_bias{};  // matrices x n
  std::vector<float> row_weights{};
  bool gelu = false;
  std::uint8_t padding = 0;   // of tiled scales
  std::int64_t d_stride = 0;  // 0: n

  bool gated() const { return up.shape().rows != 0; }
  bool grouped() const { return !offsets.empty() || !counts.empty(); }
  std::int64_t rows() const { return a.shape().rows; }
  std::int64_t k() const { return a.shape().cols; }
  std::int64_t count() const {
    if (!counts.empty()) return static_cast<std::int64_t>(counts.size());
    return grouped() ? static_cast<std::int64_t>(offsets.size()) - 1 : matrices;
  }
  /// First row of a group, and how many.
  std::pair<std::int64_t, std::int64_t> rows_of(std::int64_t e) const {
    const auto at = static_cast<std::size_t>(e);
    if (!counts.empty()) return {e * capacity, counts[at]};
    return {offsets[at], offsets[at + 1] - offsets[at]};
  }
  /// The matrix of a row of a; -1: nobody's.
  std::int64_t matrix_of(std::int64_t row) const {
    if (!grouped()) return row / (rows() / matrices);
    for (std::int64_t e = 0; e < count(); ++e)
      if (const auto [first, rows] = rows_of(e); row >= first && row < first + rows) return e;
    return -1;
  }
};

/// What is put where nothing was stored.
inline constexpr std::uint8_t untouched = 0xA5;

class DeviceBytes {
 public:
  DeviceBytes(cuda::Device& device, std::span<const std::uint8_t> bytes)
      : device_(device), at_(device.allocate(static_cast<std::int64_t>(bytes.size()) + 16)) {
    device.copy_to_device(at_, bytes.data(), static_cast<std::int64_t>(bytes.size()), nullptr);
  }
  template <class Number>
  DeviceBytes(cuda::Device& device, const std::vector<Number>& numbers)
      : DeviceBytes(device, {reinterpret_cast<const std::uint8_t*>(numbers.data()),
                             numbers.size() * sizeof(Number)}) {}
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { device_.release(at_); }
  template <class Type = std::uint8_t>
  Type* as() const {
    return static_cast<Type*>(at_);
  }

 private:
  cuda::Device& device_;
  void* at_;
};

using BlockScaledOperation = std::function<void(cuda::Device&, const cuda::Product&)>;

/// By the kernels that take codes and scales as they are.
inline void run_block_scaled_kernels(cuda::Device& device, const cuda::Product& product) {
  if (product.empty()) return;
  cuda::block_scaled::run(device, cuda::block_scaled::plan_of(product), product, nullptr);
}

/// d, rows of a x n, as the device makes it.
inline Matrix run_block_scaled(cuda::Device& device, const ProductCase& c,
                               const BlockScaledOperation& operation = run_block_scaled_kernels) {
  Parts a_parts;
  for (std::int64_t i = 0; i < c.count(); ++i)
    a_parts.push_back(!c.counts.empty() ? c.capacity
                      : c.grouped()     ? c.rows_of(i).second
                                        : c.rows() / c.matrices);
  const Parts b_parts(static_cast<std::size_t>(c.count()), c.n);
  const std::int64_t stride = c.d_stride ? c.d_stride : c.n;
  Matrix wide(c.d_type, c.rows(), stride);
  std::fill(wide.bytes.begin(), wide.bytes.end(), untouched);
  const DeviceBytes a(device, c.a.codes()), b(device, c.b.codes()), up(device, c.up.codes()),
      a_scales(device,
               laid_out(c.a, c.a_layout, a_parts, c.offsets.empty() ? 0 : c.offsets[0], c.padding)),
      b_scales(device, laid_out(c.b, c.b_layout, b_parts, 0, c.padding)),
      up_scales(device, laid_out(c.up, c.up_layout.value_or(c.b_layout),
                                 c.gated() ? b_parts : Parts{}, 0, c.padding)),
      numbers(device, c.counts.empty() ? c.offsets : c.counts),
      numbers_64(device,
                 std::vector<std::int64_t>(c.counts.empty() ? c.offsets.begin() : c.counts.begin(),
                                           c.counts.empty() ? c.offsets.end() : c.counts.end())),
      bias(device, c.bias), up_bias(device, c.up_bias), weights(device, c.row_weights),
      d(device, wide.bytes),
      globals(device, std::vector<float>{c.a.global_scale, c.b.global_scale, c.up.global_scale});

  const auto operand = [](const BlockTensor& blocks, Layout layout, const DeviceBytes& codes,
                          const DeviceBytes& scales) {
    return cuda::ProductOperand{.format = blocks.shape().format,
                                .data = codes.as(),
                                .stride = blocks.shape().code_bytes_per_line(),
                                .scales = scales.as(),
                                .layout = layout};
  };
  cuda::Product product;
  product.a = operand(c.a, c.a_layout, a, a_scales);
  product.b = operand(c.b, c.b_layout, b, b_scales);
  if (c.gated()) product.up = operand(c.up, c.up_layout.value_or(c.b_layout), up, up_scales);
  product.grouped = c.grouped();
  product.n = c.n;
  product.k = c.k();
  product.rows = {c.grouped() ? c.rows() : c.rows() / c.matrices, c.count(),
                  !c.grouped()     ? nullptr
                  : c.wide_offsets ? numbers_64.as()
                                   : numbers.as(),
                  c.wide_offsets};
  if (!c.counts.empty()) product.rows.capacity = c.capacity;
  product.output.d = d.as();
  product.output.d_stride = stride;
  product.output.d_matrix = c.grouped() ? 0 : c.rows() / c.matrices * stride;
  product.output.d_type = static_cast<std::int32_t>(c.d_type);
  product.output.bias = c.bias.empty() ? nullptr : bias.as();
  product.output.up_bias = c.up_bias.empty() ? nullptr : up_bias.as();
  product.output.bias_matrix = c.n;
  product.output.a_global = globals.as<float>();
  product.output.b_global = globals.as<float>() + 1;
  product.output.up_global = globals.as<float>() + 2;
  product.output.row_weights = c.row_weights.empty() ? nullptr : weights.as<float>();
  product.output.alpha = c.alpha;
  product.output.gated = c.gated();
  product.output.gelu = c.gelu;
  operation(device, product);
  device.copy_to_host(wide.bytes.data(), d.as(), static_cast<std::int64_t>(wide.bytes.size()),
                      nullptr);
  if (stride == c.n) return wide;
  Matrix narrow(c.d_type, c.rows(), c.n);
  const auto element = static_cast<std::size_t>(size_of(c.d_type));
  for (std::int64_t r = 0; r < c.rows(); ++r) {
    const std::uint8_t* row = wide.bytes.data() + static_cast<std::size_t>(r * stride) * element;
    std::copy_n(row, static_cast<std::size_t>(c.n) * element,
                narrow.bytes.begin() + r * c.n * static_cast<std::int64_t>(element));
    EXPECT_TRUE(std::all_of(row + static_cast<std::size_t>(c.n) * element,
                            row + static_cast<std::size_t>(stride) * element,
                            [](std::uint8_t byte) { return byte == untouched; }))
        << "row " << r << " was written beyond column " << c.n;
  }
  return narrow;
}

/// The instruction that multiplies these formats.
inline emulator::tensor::MmaShape block_scaled_shape(Format a, Format b) {
  using namespace emulator::tensor;
  const auto operand = [](Format format) {
    return format == Format::mxfp8_e4m3   ? Operand::e4m3
           : format == Format::mxfp8_e5m2 ? Operand::e5m2
                                          : Operand::e2m1;
  };
  const bool fp4 = operand(a) == Operand::e2m1;
  MmaShape shape = testing::shape_of(fp4 ? Kind::mxf4nvf4 : Kind::mxf8f6f4, fp4 ? 64 : 32,
                                     operand(a), operand(b));
  if (a == Format::mxfp4) shape.scale = ScaleType::ue8m0, shape.scale_vector = 2;
  return shape;
}

/// A code of a row-major tensor; 0 beyond its end.
inline std::uint32_t code_at(const BlockTensor& t, std::int64_t row, std::int64_t col) {
  if (row >= t.shape().rows || col >= t.shape().cols) return 0;
  const std::uint8_t* line = t.codes().data() + row * t.shape().code_bytes_per_line();
  if (info(t.shape().format).code_bits == 8) return line[col];
  return line[col / 2] >> (col % 2 * 4) & 15u;
}
inline std::uint32_t scale_at(const BlockTensor& t, std::int64_t row, std::int64_t block) {
  const std::int64_t blocks = t.shape().blocks_per_line();
  return row < t.shape().rows && block < blocks
             ? t.scales()[static_cast<std::size_t>(row * blocks + block)]
             : 0;
}

/// a @ b^T by the model of the instruction, from zero, K in order: FP32 bits of the sums.
inline std::vector<float> model_sums(const BlockTensor& a, const BlockTensor& b) {
  using namespace emulator::tensor;
  const MmaShape shape = block_scaled_shape(a.shape().format, b.shape().format);
  const std::int64_t m = a.shape().rows, n = b.shape().rows, k = a.shape().cols;
  std::vector<float> sums(static_cast<std::size_t>(m * n));
  for (std::int64_t row = 0; row < m; row += 16)
    for (std::int64_t column = 0; column < n; column += 8) {
      std::uint32_t d[4][32] = {};
      for (std::int64_t first = 0; first < k; first += shape.k) {
        std::uint32_t registers_a[4][32] = {}, registers_b[4][32] = {}, sa[32] = {}, sb[32] = {};
        const auto put = [&](const BlockTensor& t, Operand type, auto& registers, Slot slot,
                             std::int64_t line, std::int64_t col) {
          const int bits = container_bits(shape.kind, type);
          registers[slot.reg][slot.lane] |=
              code_at(t, line, col) << (bits * slot.item + container_shift(shape.kind, type));
        };
        for (int i = 0; i < shape.k; ++i) {
          for (int r = 0; r < 16; ++r)
            put(a, shape.a, registers_a, a_slot(container_bits(shape.kind, shape.a), {r, i}),
                row + r, first + i);
          for (int c = 0; c < 8; ++c)
            put(b, shape.b, registers_b, b_slot(container_bits(shape.kind, shape.b), {i, c}),
                column + c, first + i);
        }
        const std::int64_t block = first * shape.scale_vector / shape.k;
        for (int chunk = 0; chunk < shape.scale_vector; ++chunk) {
          for (int r = 0; r < 16; ++r)
            sa[a_scale_slot({}, r, chunk).lane] |= scale_at(a, row + r, block + chunk) << 8 * chunk;
          for (int c = 0; c < 8; ++c)
            sb[b_scale_slot({}, c, chunk).lane] |= scale_at(b, column + c, block + chunk)
                                                   << 8 * chunk;
        }
        MmaOperands in;
        std::array<std::uint32_t*, 4> out{};
        for (std::size_t i = 0; i < 4; ++i)
          in.a[i] = registers_a[i], in.b[i] = registers_b[i], in.c[i] = out[i] = d[i];
        in.scale_a = sa, in.scale_b = sb;
        mma(shape, Generation::blackwell, in, out);
      }
      for (int r = 0; r < 16; ++r)
        for (int c = 0; c < 8; ++c) {
          const Slot slot = d_slot(32, {r, c});
          if (row + r < m && column + c < n)
            sums[static_cast<std::size_t>((row + r) * n + column + c)] =
                std::bit_cast<float>(d[slot.reg][slot.lane]);
        }
    }
  return sums;
}

/// Largest distance of a sum over k from the exact one (docs/matmul_blackwell.md), without factors:
/// `magnitude`: sum of |a * b|; `largest`: of the products of what the instruction aligns, block
/// scales for FP4 by FP4, scaled elements not below their smallest normal ones else.
inline double block_scaled_bound(bool fp4, std::int64_t k, double magnitude, double largest) {
  const double steps = static_cast<double>((k + (fp4 ? 63 : 31)) / (fp4 ? 64 : 32));
  const double cut = fp4 ? 5 * 0x1p-35 : 33 * 0x1p-25;
  return 1.01 * steps * (0x1p-23 * magnitude + cut * (magnitude + largest)) + steps * 0x1p-149;
}

inline bool is_fp4(Format format) { return info(format).element == Element::e2m1; }

/// One operand in FP64, where no scale makes a value overflow.
struct Exactly {
  std::int64_t cols;
  std::vector<double> values;   // code * scale
  std::vector<double> largest;  // of a row: what the instruction aligns; see block_scaled_bound

  Exactly(const BlockTensor& tensor, bool fp4) : cols(tensor.shape().cols) {
    const FormatInfo& facts = info(tensor.shape().format);
    BlockTensor ones = tensor;
    std::fill(ones.scales().begin(), ones.scales().end(), facts.e8m0_scale ? 127 : 0x38);
    ones.global_scale = 1.0f;
    const Matrix elements = decoded(ones.view());
    const int normal = facts.element == Element::e4m3 ? -6 : -14;
    for (std::int64_t row = 0; row < tensor.shape().rows; ++row) {
      double most = 0;
      for (std::int64_t i = 0; i < cols; ++i) {
        const auto byte = static_cast<int>(scale_at(tensor, row, i / facts.block));
        const double scale = facts.e8m0_scale ? std::ldexp(1.0, byte - 127)
                             : byte < 8       ? std::ldexp(byte, -9)
                                              : std::ldexp(8 + byte % 8, byte / 8 - 10);
        const double x = elements.at(row, i) * scale;
        const double aligned = fp4 ? std::max(scale, facts.e8m0_scale ? 0.0 : 0x1p-6)
                                   : std::max(std::fabs(x), std::ldexp(scale, normal));
        values.push_back(x);
        most = std::max(most, aligned);
      }
      largest.push_back(most);
    }
  }
  double at(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
};

/// Every row of d that is somebody's is near the exact product, every other one untouched.
inline void expect_near_exact(const Matrix& d, const ProductCase& c) {
  const bool fp4 = is_fp4(c.a.shape().format);
  const Exactly a(c.a, fp4), b(c.b, fp4);
  const double factor = static_cast<double>(c.alpha) * c.a.global_scale * c.b.global_scale;
  int failures = 0;
  for (std::int64_t row = 0; row < c.rows() && failures < 5; ++row) {
    const std::int64_t matrix = c.matrix_of(row);
    for (std::int64_t col = 0; col < c.n && failures < 5; ++col) {
      if (matrix < 0) {
        const auto size = static_cast<std::size_t>(size_of(c.d_type));
        EXPECT_EQ(d.bytes[static_cast<std::size_t>(row * c.n + col) * size], untouched);
        continue;
      }
      const std::int64_t line = matrix * c.n + col;
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < c.k(); ++i) {
        const double product = a.at(row, i) * b.at(line, i);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double largest =
          a.largest[static_cast<std::size_t>(row)] * b.largest[static_cast<std::size_t>(line)];
      const double off = block_scaled_bound(fp4, c.k(), magnitude, largest) * std::fabs(factor);
      const double bias = c.bias.empty() ? 0 : c.bias[static_cast<std::size_t>(line)];
      const double weight =
          c.row_weights.empty() ? 1 : c.row_weights[static_cast<std::size_t>(row)];
      const double wanted = (sum * factor + bias) * weight;
      const double reach = std::fabs(sum * factor) + std::fabs(bias) + off;
      const double allowed = (off + 5 * 0x1p-24 * reach) * std::fabs(weight) + 0x1p-148 +
                             half_unit(std::fabs(wanted) + off, c.d_type);
      const double got = d.at(row, col);
      if (!(std::fabs(got - wanted) <= allowed)) {
        ++failures;
        ADD_FAILURE() << "d[" << row << ", " << col << "] is " << got << ", exactly " << wanted
                      << "; off by " << std::fabs(got - wanted) << ", allowed " << allowed;
      }
    }
  }
}

}  // namespace microscale::test
