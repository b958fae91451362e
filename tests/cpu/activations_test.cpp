// SiLU and GELU of every vector table: the reference's bits, whatever the gate and the length.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "cpu/compare.hpp"
#include "formats/random.hpp"
#include "reference/matmul.hpp"

namespace microscale {
namespace {

void check(const KernelTable& table, Activation kind, const std::vector<float>& gates,
           const std::vector<float>& ups) {
  std::vector<float> want = gates, got = gates;
  const auto count = static_cast<std::int64_t>(gates.size());
  reference_matmul.activate(kind, want.data(), ups.data(), count);
  table.matmul->activate(kind, got.data(), ups.data(), count);
  for (std::size_t i = 0; i < gates.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << to_string(table.backend) << " gate " << gates[i] << " up " << ups[i] << " at " << i
        << " of " << count;
  }
}

void check_everywhere(const std::vector<float>& gates, const std::vector<float>& ups) {
  for (const KernelTable* table : test::vector_tables())
    for (Activation kind : {Activation::silu, Activation::gelu_tanh})
      check(*table, kind, gates, ups);
}

std::vector<float> random_bits(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::bit_cast<float>(mix32(static_cast<std::uint32_t>(i) * 2 + seed));
  return values;
}

TEST(CpuActivations, equal_the_reference_on_random_bits) {
  check_everywhere(random_bits(100000, 1), random_bits(100000, 7));
}

TEST(CpuActivations, equal_the_reference_where_gates_are_of_ordinary_size) {
  std::vector<float> gates(100001), ups(gates.size());
  for (std::size_t i = 0; i < gates.size(); ++i) {
    gates[i] = static_cast<float>(i) * 0.002f - 100.0f;
    ups[i] = 1.0f + static_cast<float>(i % 37);
  }
  check_everywhere(gates, ups);
}

TEST(CpuActivations, equal_the_reference_at_every_short_length) {
  for (std::size_t count = 0; count < 70; ++count)
    check_everywhere(random_bits(count, 3), random_bits(count, 5));
}

TEST(CpuActivations, keep_nan) {
  const float nan = std::nanf("");
  for (const KernelTable* table : test::vector_tables())
    for (Activation kind : {Activation::silu, Activation::gelu_tanh}) {
      std::vector<float> gates(40, 1.0f);
      const std::vector<float> ups(40, 2.0f);
      gates[6] = nan;
      table->matmul->activate(kind, gates.data(), ups.data(), 40);
      EXPECT_TRUE(std::isnan(gates[6])) << to_string(table->backend);
      EXPECT_FALSE(std::isnan(gates[8])) << to_string(table->backend);
    }
}

}  // namespace
}  // namespace microscale
