#include "checkpoint/kept_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "checkpoint/convert.hpp"
#include "checkpoint/sample_model.hpp"

namespace microscale {
namespace {

using testing::TemporaryFolder;
using testing::tensor_of;

std::int64_t counted(StoredType type, const std::string& bytes, std::int64_t& first) {
  return count_not_finite(type, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                          first);
}

TEST(CountNotFinite, knows_every_type_of_floats) {
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16}) {
    std::int64_t first = -1;
    EXPECT_EQ(
        counted(type, tensor_of(type, {5}, {1, 60000, nan, -infinite, infinite}).bytes, first), 3)
        << to_string(type);
    EXPECT_EQ(first, 2);
    EXPECT_EQ(counted(type, tensor_of(type, {2}, {0, -60000}).bytes, first), 0);
  }
  std::int64_t first = -1;
  EXPECT_EQ(counted(StoredType::f64, std::string("\0\0\0\0\0\0\xF0\x7F", 8), first), 1);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(counted(StoredType::i64, std::string(16, '\xFF'), first), 0);
}

TEST(KeptValues, are_named_after_the_run_and_copied_as_they_are) {
  const TemporaryFolder folder;
  testing::TestModel model = testing::sample_model();
  std::vector<float> values(64, 1.0f);
  values[3] = std::nanf("");
  values[9] = std::numeric_limits<float>::infinity();
  model.shards[0]["model.extra_norm.weight"] = tensor_of(StoredType::bf16, {64}, values);
  model.write(folder / "in");
  const ConversionPlan plan = quantize_model(testing::options_for(folder, Format::nvfp4));
  EXPECT_EQ(plan.notices.back(),
            "'model.extra_norm.weight' holds 2 values that are NaN or infinite, the first at "
            "element 3; it is kept as it is, so the model computes with them: check the original");
  EXPECT_EQ(testing::read_tensors(folder / "out").at("model.extra_norm.weight"),
            model.shards[0]["model.extra_norm.weight"]);
}

// Of shards that an interrupted run has finished too.
TEST(KeptValues, of_a_resumed_run_are_those_of_an_undisturbed_one) {
  const TemporaryFolder folder;
  testing::TestModel model = testing::sample_model();
  std::vector<float> values(64, 1.0f);
  values[3] = std::nanf("");
  for (std::size_t shard = 0; shard < 2; ++shard) {
    model.shards[shard]["model.norm" + std::to_string(shard) + ".weight"] =
        tensor_of(StoredType::bf16, {64}, values);
  }
  model.write(folder / "in");
  QuantizeModelOptions options = testing::options_for(folder, Format::nvfp4, 1);
  const Conversion whole = convert_model(options);
  options.output = folder / "again";
  testing::expect_error(ErrorCode::interrupted, "--resume", [&] {
    convert_model(options, [&](std::int64_t, std::int64_t, std::string_view) {
      return !std::filesystem::exists(options.output / "model-00001-of-00002.safetensors");
    });
  });
  options.resume = true;
  const Conversion resumed = convert_model(options);
  EXPECT_EQ(resumed.plan.notices, whole.plan.notices);
  EXPECT_EQ(std::count_if(resumed.plan.notices.begin(), resumed.plan.notices.end(),
                          [](const std::string& text) {
                            return text.find("that is NaN or infinite") != text.npos;
                          }),
            2);
  EXPECT_EQ(to_json(resumed.report), to_json(whole.report));
  EXPECT_EQ(testing::read_file(options.output / "microscale_manifest.json"),
            testing::read_file(folder / "out/microscale_manifest.json"));
}

}  // namespace
}  // namespace microscale
