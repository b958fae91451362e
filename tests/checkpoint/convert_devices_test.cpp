// Conversions on other processors than the host: the same files, report and errors.
#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/convert.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/tile_quantizer.hpp"
#include "cuda/device/kernel_images.hpp"
#include "cuda/operations.hpp"
#include "cuda/queueing_device.hpp"
#include "microscale/error.hpp"
#include "model_builder.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using cuda::test::QueueingDevice;
using testing::options_for;
using testing::random_tensor;
using testing::read_folder;
using testing::sample_model;
using testing::TemporaryFolder;
using testing::TestModel;

class ConvertOnDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }

  // Workers take the two devices in turn.
  TileQuantizerFactory quantizers() {
    return [this](int worker, const TileBufferSizes& sizes) {
      return with_host_for_the_rest(cuda::make_tile_quantizer(devices[worker % 2], sizes),
                                    cuda::host_only_reason);
    };
  }
  QueueingDevice devices[2];
  const TemporaryFolder folder;
};

TEST_F(ConvertOnDevices, files_and_report_are_those_of_the_host) {
  TestModel model = sample_model();
  model.shards[0]["model.layers.0.a.big.weight"] =
      random_tensor(StoredType::bf16, {700, 2064 * 2}, 20);
  model.shards[1]["model.layers.0.a.long.weight"] =
      random_tensor(StoredType::f32, {2, tile_elements + 160}, 21);
  model.write(folder / "in");
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    SCOPED_TRACE(info(format).name);
    QuantizeModelOptions options = options_for(folder, format);
    options.include = {"*", "model.layers.0.a.long"};  // of two rows: kept, unless it is named
    options.numerics.scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil;
    options.numerics.rounding = Rounding::stochastic;  // depends on each element's position
    const Conversion host = convert_model(options);
    const auto wanted = read_folder(options.output);
    std::filesystem::remove_all(options.output);
    for (const int threads : {1, 4}) {
      options.threads = threads;
      const Conversion conversion = convert_model(options, {}, quantizers());
      EXPECT_TRUE(read_folder(options.output) == wanted) << threads;
      EXPECT_EQ(to_json(conversion.report), to_json(host.report)) << threads;
      std::filesystem::remove_all(options.output);
    }
  }
  EXPECT_GT(devices[0].launches, 0);
  EXPECT_GT(devices[1].launches, 0);
  EXPECT_EQ(devices[0].held() + devices[1].held(), 0u);
}

TEST_F(ConvertOnDevices, finish_what_the_host_began) {
  sample_model().write(folder / "in");
  QuantizeModelOptions options = options_for(folder, Format::nvfp4, 1);
  convert_model(options);
  const auto wanted = read_folder(options.output);
  std::filesystem::remove_all(options.output);
  try {
    convert_model(options, [](std::int64_t done, std::int64_t total, std::string_view) {
      return done < total * 3 / 4;
    });
    FAIL() << "not interrupted";
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::interrupted);
  }
  options.resume = true;
  convert_model(options, {}, quantizers());
  EXPECT_TRUE(read_folder(options.output) == wanted);
}

TEST_F(ConvertOnDevices, weighted_tensors_are_left_to_the_host) {
  TestModel model;
  model.shards[0]["a.o_proj.weight"] = random_tensor(StoredType::f32, {40, 64}, 1);
  model.shards[0]["b.o_proj.weight"] = random_tensor(StoredType::f32, {40, 64}, 2);
  model.write(folder / "in");
  std::vector<float> weights;
  for (int i = 0; i < 64; ++i) weights.push_back(i % 7 == 0 ? 100.0f : 0.01f);
  testing::write_safetensors(folder / "importance.safetensors",
                             {{"a.o_proj", testing::tensor_of(StoredType::f32, {64}, weights)}});
  QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  options.importance = folder / "importance.safetensors";
  convert_model(options);
  const auto wanted = read_folder(options.output);
  std::filesystem::remove_all(options.output);
  convert_model(options, {}, quantizers());
  EXPECT_TRUE(read_folder(options.output) == wanted);
  EXPECT_EQ(devices[0].launches + devices[1].launches, 2)
      << "of b.o_proj, and of a.o_proj by its weights alone, whose error is set beside";
}

TEST_F(ConvertOnDevices, a_weight_that_is_not_finite_is_named_as_on_the_host) {
  TestModel model = sample_model();
  std::vector<float> values(64 * 96, 1.0f);
  values[96 * 5 + 7] = std::numeric_limits<float>::infinity();
  model.shards[0][testing::attention + "o_proj.weight"] =
      testing::tensor_of(StoredType::f32, {64, 96}, values);
  model.write(folder / "in");
  for (const Format format : {Format::nvfp4, Format::mxfp4}) {
    const QuantizeModelOptions options = options_for(folder, format);
    std::string said[2];
    for (const bool device : {false, true}) {
      try {
        device ? convert_model(options, {}, quantizers()) : convert_model(options);
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        said[device] = error.what();
      }
      std::filesystem::remove_all(options.output);
    }
    EXPECT_NE(said[1].find("is infinite at [5, 7]"), std::string::npos) << said[1];
    EXPECT_EQ(said[0], said[1]);
  }
}

TEST_F(ConvertOnDevices, a_device_without_room_is_an_error_before_anything_is_written) {
  sample_model().write(folder / "in");
  const QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  devices[0].room = 1 << 20;
  try {
    convert_model(options, {}, quantizers());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(options.output));
}

}  // namespace
}  // namespace microscale
