// The arithmetic against an independent one (scripts/golden/tensor.py), and against what an H200
// gave (gpu_check mma).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "emulator/tensor/mma.hpp"
#include "support/mma_replay.hpp"
#include "support/paths.hpp"

namespace microscale::testing {
namespace {

std::ifstream golden(const std::string& name) {
  return std::ifstream(microscale::testing::test_data() + "/golden/" + name);
}

std::vector<std::uint32_t> codes(const std::string& text, std::size_t digits) {
  std::vector<std::uint32_t> values;
  for (std::size_t at = 0; at < text.size(); at += digits)
    values.push_back(static_cast<std::uint32_t>(std::stoul(text.substr(at, digits), nullptr, 16)));
  return values;
}

tensor::Operand operand_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(tensor::Operand::e2m1); ++i)
    if (name_of(static_cast<tensor::Operand>(i)) == name) return static_cast<tensor::Operand>(i);
  ADD_FAILURE() << name;
  return tensor::Operand::f16;
}

/// One row of A times one column of B, placed at (row, column) of an otherwise empty product.
std::uint32_t product(const tensor::MmaShape& shape, const std::vector<std::uint32_t>& a,
                      const std::vector<std::uint32_t>& b,
                      const std::vector<std::uint32_t>& scale_a,
                      const std::vector<std::uint32_t>& scale_b, std::uint32_t c, int row,
                      int column) {
  std::uint32_t registers[10][32] = {}, scales[2][32] = {}, d[4][32];
  const auto put = [&](int first, int bits, int shift, tensor::Slot slot, std::uint32_t code) {
    registers[first + slot.reg][slot.lane] |= code << (bits * slot.item + shift);
  };
  const int a_bits = container_bits(shape.kind, shape.a),
            b_bits = container_bits(shape.kind, shape.b);
  for (int k = 0; k < shape.k; ++k) {
    put(0, a_bits, container_shift(shape.kind, shape.a), tensor::a_slot(a_bits, {row, k}),
        a[static_cast<std::size_t>(k)]);
    put(4, b_bits, container_shift(shape.kind, shape.b), tensor::b_slot(b_bits, {k, column}),
        b[static_cast<std::size_t>(k)]);
  }
  const tensor::Slot at = tensor::d_slot(32, {row, column});
  registers[6 + at.reg][at.lane] = c;
  tensor::MmaOperands in;
  std::array<std::uint32_t*, 4> out{};
  for (std::size_t i = 0; i < 4; ++i) {
    in.a[i] = registers[i], in.c[i] = registers[6 + i], out[i] = d[i];
    if (i < 2) in.b[i] = registers[4 + i];
  }
  in.select_a = {0, row % 2}, in.select_b = {0, column % 4};
  for (int chunk = 0; chunk < shape.scale_vector; ++chunk) {
    const tensor::Slot sa = a_scale_slot(in.select_a, row, chunk),
                       sb = b_scale_slot(in.select_b, column, chunk);
    scales[0][sa.lane] |= scale_a[static_cast<std::size_t>(chunk)] << (8 * sa.item);
    scales[1][sb.lane] |= scale_b[static_cast<std::size_t>(chunk)] << (8 * sb.item);
  }
  in.scale_a = scales[0], in.scale_b = scales[1];
  EXPECT_FALSE(mma(shape, tensor::Generation::blackwell, in, out).any());
  return d[at.reg][at.lane];
}

TEST(MmaGolden, block_scaled_products_equal_the_transcription_in_fractions) {
  std::ifstream file = golden("tensor_model.txt");
  std::string line, kind;
  int cases = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> kind;
    if (kind == "#") continue;
    std::string x, y, a, b, sa, sb, c, d;
    words >> x >> y >> a >> b >> sa >> sb >> c >> d;
    tensor::MmaShape shape;
    const std::size_t digits = kind == "fp4" ? 1 : 2;
    if (kind == "fp4") {
      shape.k = 64, shape.a = shape.b = tensor::Operand::e2m1;
      shape.kind = y == "4" ? tensor::Kind::mxf4nvf4 : tensor::Kind::mxf4;
      shape.scale = x == "ue4m3" ? tensor::ScaleType::ue4m3 : tensor::ScaleType::ue8m0;
      shape.scale_vector = std::stoi(y);
    } else {
      shape.k = 32, shape.a = operand_of(x), shape.b = operand_of(y);
      shape.kind = tensor::Kind::mxf8f6f4;
      shape.scale = tensor::ScaleType::ue8m0, shape.scale_vector = 1;
    }
    const std::uint32_t got = product(shape, codes(a, digits), codes(b, digits), codes(sa, 2),
                                      codes(sb, 2), codes(c, 8)[0], cases % 16, cases / 16 % 8);
    ASSERT_EQ(got, codes(d, 8)[0]) << line;
    ++cases;
  }
  EXPECT_EQ(cases, 440);
}

std::map<std::string, std::string> hardware() {
  std::map<std::string, std::string> digests;
  std::ifstream file = golden("tensor_h200.txt");
  std::string name, spread, value;
  while (file >> name >> spread >> value) digests[name + " " + spread] = value;
  return digests;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

TEST(MmaGolden, mma_sync_equals_an_h200) {
  const auto digests = hardware();
  ASSERT_FALSE(digests.empty());
  for (const tensor::MmaShape& shape : hopper_mma_shapes())
    for (int spread = 0; spread < spreads; ++spread) {
      std::uint64_t hash = digest(nullptr, 0);
      for (std::uint64_t i = 0; i < mma_golden_cases; ++i) {
        const auto d = model_mma(shape, tensor::Generation::hopper,
                                 mma_case(shape, static_cast<Spread>(spread), i));
        hash = digest(d.data(), d.size(), hash);
      }
      const std::string name = kernel_name(shape) + " " + spread_names[spread];
      ASSERT_TRUE(digests.contains(name)) << name;
      EXPECT_EQ(hex(hash), digests.at(name)) << name;
    }
}

TEST(MmaGolden, wgmma_equals_an_h200) {
  const auto digests = hardware();
  for (const WgmmaVariant& variant : hopper_wgmma_variants())
    for (int spread = 0; spread < spreads; ++spread) {
      std::uint64_t hash = digest(nullptr, 0);
      for (std::uint64_t i = 0; i < wgmma_golden_cases; ++i) {
        const auto d = model_wgmma(variant, wgmma_case(variant, static_cast<Spread>(spread), i));
        hash = digest(d.data(), d.size(), hash);
      }
      const std::string name = variant.name + " " + spread_names[spread];
      ASSERT_TRUE(digests.contains(name)) << name;
      EXPECT_EQ(hex(hash), digests.at(name)) << name;
    }
}

}  // namespace
}  // namespace microscale::testing
