// abs_max of every vector table: the reference's answer, whatever the length and wherever the
// special value.
#include <gtest/gtest.h>

#include "cpu/compare.hpp"
#include "cpu/inputs.hpp"

namespace microscale {
namespace {

void check(const KernelTable& table, const test::Input& input, std::size_t first,
           std::size_t count) {
  const auto bytes = test::to_bytes(input);
  const void* data = bytes.data() + first * static_cast<std::size_t>(size_of(input.type));
  const AbsMaxRun want =
      reference_kernels.abs_max(data, input.type, static_cast<std::int64_t>(count));
  const AbsMaxRun got = table.abs_max(data, input.type, static_cast<std::int64_t>(count));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(got.amax), std::bit_cast<std::uint32_t>(want.amax))
      << to_string(table.backend) << ' ' << to_string(input.type) << ' ' << input.name << ' '
      << first << ' ' << count;
  EXPECT_EQ(got.non_finite, want.non_finite) << input.name;
}

TEST(CpuAbsMax, equals_the_reference_on_every_kind_of_input) {
  for (const KernelTable* table : test::vector_tables())
    for (DType type : {DType::f32, DType::f16, DType::bf16})
      for (const test::Input& input : test::inputs(type, 5000))
        check(*table, input, 0, input.bits.size());
}

TEST(CpuAbsMax, finds_the_largest_and_the_special_value_at_every_place) {
  for (const KernelTable* table : test::vector_tables()) {
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
      for (std::size_t count : {0u, 1u, 7u, 63u, 130u}) {
        for (std::size_t place = 0; place < count; ++place) {
          for (float value : {3.0f, -5.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
            test::Input input = test::of_values("one value", type, static_cast<int>(count) + 1,
                                                [](int i) { return i % 2 ? 0.5f : -1.0f; });
            input.bits[place + 1] = test::to_bits(value, type);
            check(*table, input, 1, count);
          }
        }
        check(*table, test::of_values("ones", type, 131, [](int) { return 1.0f; }), 1, count);
      }
    }
  }
}

}  // namespace
}  // namespace microscale
