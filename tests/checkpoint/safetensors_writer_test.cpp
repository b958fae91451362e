#include "checkpoint/safetensors_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;
using testing::length_bytes;
using testing::succeeds;

// What safetensors.torch.save_file 0.8.0 wrote for these eleven tensors with metadata {"format":
// "pt"}.
const std::string golden_json =
    R"({"__metadata__":{"format":"pt"},"step":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
    R"("empty":{"dtype":"F32","shape":[0,5],"data_offsets":[8,8]},)"
    R"("global":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
    R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
    R"("a.weight":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},)"
    R"("b.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[22,34]},)"
    R"("quote\"\\\n\u001f)"
    "\xc3\xa9"
    R"(":{"dtype":"F16","shape":[1],"data_offsets":[34,36]},)"
    R"("e8":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[36,39]},)"
    R"("scale":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[39,43]},)"
    R"("packed":{"dtype":"U8","shape":[2,2],"data_offsets":[43,47]},)"
    R"("flag":{"dtype":"BOOL","shape":[1],"data_offsets":[47,48]}}   )";

std::vector<PlannedTensor> golden_tensors() {
  return {{"b.weight", StoredType::bf16, {2, 3}},
          {"a.weight", StoredType::bf16, {3}},
          {"scale", StoredType::f8_e4m3, {4}},
          {"packed", StoredType::u8, {2, 2}},
          {"e8", StoredType::f8_e8m0, {3}},
          {"global", StoredType::f32, {1}},
          {"scalar", StoredType::f32, {}},
          {"step", StoredType::i64, {1}},
          {"empty", StoredType::f32, {0, 5}},
          {"flag", StoredType::boolean, {1}},
          {"quote\"\\\n\x1f\xc3\xa9", StoredType::f16, {1}}};
}

TEST(PlanSafetensors, header_is_byte_for_byte_that_of_python) {
  const auto layout = plan_safetensors(golden_tensors());
  ASSERT_TRUE(succeeds(layout));
  EXPECT_EQ(golden_json.size(), 712u);
  EXPECT_EQ(layout.value().header, length_bytes(712) + golden_json);
  EXPECT_EQ(layout.value().file_size, 768u);
}

TEST(PlanSafetensors, order_given_does_not_matter) {
  auto tensors = golden_tensors();
  const auto by_name = [](const PlannedTensor& a, const PlannedTensor& b) {
    return a.name < b.name;
  };
  std::sort(tensors.begin(), tensors.end(), by_name);
  do {
    ASSERT_EQ(take(plan_safetensors(tensors)).header.substr(8), golden_json);
    std::rotate(tensors.begin(), tensors.begin() + 1, tensors.end());
  } while (!std::is_sorted(tensors.begin(), tensors.end(), by_name));
}

TEST(PlanSafetensors, offsets_are_those_the_reader_finds) {
  const SafetensorsLayout layout = take(plan_safetensors(golden_tensors()));
  const auto* json = reinterpret_cast<const std::uint8_t*>(layout.header.data()) + 8;
  const SafetensorsHeader header =
      take(parse_safetensors_header({json, layout.header.size() - 8}, layout.file_size));
  ASSERT_EQ(header.tensors, layout.tensors);
  EXPECT_EQ(layout.tensors.front().begin, layout.header.size());
  EXPECT_EQ(layout.tensors.back().end, layout.file_size);
  EXPECT_EQ(header.metadata, pytorch_metadata);
}

TEST(PlanSafetensors, without_tensors_and_metadata_the_header_is_an_empty_object) {
  const SafetensorsLayout layout = take(plan_safetensors({}, {}));
  EXPECT_EQ(layout.header, length_bytes(8) + "{}      ");
  EXPECT_EQ(layout.file_size, 16u);
}

TEST(PlanSafetensors, header_length_is_always_a_multiple_of_8) {
  for (std::size_t length = 1; length <= 16; ++length) {
    const SafetensorsLayout layout =
        take(plan_safetensors({{std::string(length, 'n'), StoredType::u8, {1}}}));
    EXPECT_EQ(layout.header.size() % 8, 0u) << length;
  }
}

TEST(PlanSafetensors, empty_tensors_keep_the_order_written) {
  // Read back they share an offset and come by name; the layout lists them as the header does.
  const SafetensorsLayout layout =
      take(plan_safetensors({{"a", StoredType::u8, {0}}, {"z", StoredType::f32, {0}}}));
  EXPECT_EQ(layout.tensors[0].name, "z");
  EXPECT_EQ(layout.tensors[1].name, "a");
  EXPECT_EQ(layout.tensors[0].begin, layout.tensors[1].end);
}

TEST(PlanSafetensors, what_the_reader_would_refuse_is_refused) {
  const std::vector<std::int64_t> one{1};
  EXPECT_TRUE(fails_with(plan_safetensors({{"", StoredType::u8, one}}), "an empty name"));
  EXPECT_TRUE(
      fails_with(plan_safetensors({{"a", StoredType::u8, one}, {"a", StoredType::f32, one}}),
                 "the key 'a' appears twice"));
  EXPECT_TRUE(fails_with(plan_safetensors({{"__metadata__", StoredType::u8, one}}), "twice"));
  EXPECT_TRUE(fails_with(plan_safetensors({{"\xff", StoredType::u8, one}}), "ill-formed UTF-8"));
  EXPECT_TRUE(fails_with(plan_safetensors({{std::string(1, '\0'), StoredType::u8, one}}), "NUL"));
  EXPECT_TRUE(fails_with(plan_safetensors({{"a", StoredType::u8, {-1}}}), "the dimension -1"));
  EXPECT_TRUE(fails_with(plan_safetensors({{"a", StoredType::f4, {3}}}),
                         "cannot write tensor 'a': 3 elements of 4 bits do not fill whole bytes"));
  const std::int64_t big = std::int64_t{1} << 47;
  EXPECT_TRUE(
      fails_with(plan_safetensors({{"a", StoredType::u8, {big}}, {"b", StoredType::u8, {big + 1}}}),
                 "above 2^48"));
}

}  // namespace
}  // namespace microscale
