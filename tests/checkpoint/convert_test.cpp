// Whole conversions: every byte of the output against quantizing each matrix at once in memory.
#include "checkpoint/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/fused_experts.hpp"
#include "checkpoint/tile.hpp"
#include "microscale/quantize.hpp"
#include "model_builder.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::mlp;
using testing::options_for;
using testing::random_tensor;
using testing::read_folder;
using testing::read_tensors;
using testing::sample_model;
using testing::TemporaryFolder;
using testing::TestModel;
using testing::TestTensor;
using testing::TestTensors;
using testing::values_of;

float amax_of(const std::vector<std::vector<float>>& members) {
  float amax = 0;
  for (const auto& values : members) {
    for (const float value : values) amax = std::max(amax, std::fabs(value));
  }
  return amax;
}

std::string text_of(std::span<const std::uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

// What the output must hold for one layer.
void expect_layer(const TestTensors& output, const std::string& module,
                  const std::vector<float>& values, std::int64_t rows, std::int64_t cols,
                  const QuantizeModelOptions& options, std::optional<float> global_scale = {},
                  std::span<const float> weights = {}) {
  const BlockTensor wanted =
      quantize({.input = {values.data(), DType::f32, rows, cols, cols},
                .format = options.format,
                .numerics = options.numerics,
                .global_scale = info(options.format).e8m0_scale || !global_scale
                                    ? GlobalScale()
                                    : GlobalScale(*global_scale),
                .weights = weights});
  const FormatInfo& format = info(options.format);
  const std::string codes = module + (format.code_bits == 4 ? ".weight_packed" : ".weight");
  ASSERT_TRUE(output.contains(codes)) << codes;
  EXPECT_EQ(output.at(codes).shape, (std::vector<std::int64_t>{rows, cols * format.code_bits / 8}));
  EXPECT_TRUE(output.at(codes).bytes == text_of(wanted.codes())) << codes;
  EXPECT_TRUE(output.at(module + ".weight_scale").bytes == text_of(wanted.scales())) << module;
  if (!format.e8m0_scale) {
    float divisor;
    std::memcpy(&divisor, output.at(module + ".weight_global_scale").bytes.data(), 4);
    EXPECT_EQ(divisor, 1.0f / wanted.global_scale) << module;
  }
}

// Asks for the least limit that works, and takes it with room for one or two workers.
Conversion convert_in_least_memory(QuantizeModelOptions options) {
  options.max_memory = 1;
  for (int attempt = 0;; ++attempt) {
    try {
      return convert_model(options);
    } catch (const Error& error) {
      const std::string message = error.what();
      const std::size_t least = message.rfind("least ");
      // What is resident may grow between two calls, most of all under a sanitizer.
      if (error.code() != ErrorCode::out_of_memory || least == std::string::npos || attempt == 20)
        throw;
      options.max_memory = (std::stoll(message.substr(least + 6)) + 8) << 20;
    }
  }
}

TEST(Convert, writes_each_layer_as_if_quantized_in_memory) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    SCOPED_TRACE(info(format).name);
    const TestModel model = sample_model();
    const TemporaryFolder folder;
    model.write(folder / "in");
    const QuantizeModelOptions options = options_for(folder, format);
    convert_model(options);
    const TestTensors output = read_tensors(options.output);
    const auto in = [&](std::size_t shard, const std::string& name) {
      return values_of(model.shards[shard].at(name + ".weight"));
    };

    const auto q = in(0, attention + "q_proj"), k = in(1, attention + "k_proj"),
               v = in(1, attention + "v_proj");
    const float qkv = nvfp4_global_scale(amax_of({q, k, v}));
    expect_layer(output, attention + "q_proj", q, 96, 64, options, qkv);
    expect_layer(output, attention + "k_proj", k, 32, 64, options, qkv);
    expect_layer(output, attention + "v_proj", v, 33, 64, options, qkv);
    const auto gate = in(0, mlp + "gate_proj"), up = in(1, mlp + "up_proj");
    const float gate_up = nvfp4_global_scale(amax_of({gate, up}));
    expect_layer(output, mlp + "gate_proj", gate, 7, 64, options, gate_up);
    expect_layer(output, mlp + "up_proj", up, 7, 64, options, gate_up);
    expect_layer(output, attention + "o_proj", in(0, attention + "o_proj"), 64, 96, options);

    std::size_t copied = 0;
    for (const TestTensors& shard : model.shards) {
      for (const auto& [name, tensor] : shard) {
        if (!output.contains(name) || output.at(name).type == StoredType::f8_e4m3) continue;
        EXPECT_EQ(output.at(name), tensor) << name;
        ++copied;
      }
    }
    EXPECT_EQ(copied, 10u);
    EXPECT_EQ(output.size(), 10u + 6u * (format == Format::nvfp4 ? 3u : 2u));
  }
}

TEST(Convert, mirrors_shards_copies_other_files_and_leaves_nothing_else) {
  const TemporaryFolder folder;
  sample_model().write(folder / "in");
  const auto before = read_folder(folder / "in");
  const QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  convert_model(options);
  EXPECT_EQ(read_folder(folder / "in"), before) << "the input is untouched";
  const auto files = read_folder(options.output);
  std::vector<std::string> names;
  for (const auto& entry : files) names.push_back(entry.first);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "1_Pooling/config.json", "config.json", "empty.txt", "microscale_manifest.json",
                "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                "model.safetensors.index.json", "tokenizer.json"}));
  EXPECT_EQ(files.at("tokenizer.json"), before.at("tokenizer.json"));
  const auto config = nlohmann::json::parse(files.at("config.json"));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["quantization_config"]["ignore"],
            nlohmann::json::parse(R"(["lm_head", "model.empty", "model.layers.0.mlp.down_proj",
                                      "model.layers.0.mlp.gate"])"));
  // Each stays in the shard it came from, and the index says so.
  const auto index = take(parse_shard_index(files.at("model.safetensors.index.json")));
  EXPECT_EQ(index.weight_map.at(attention + "q_proj.weight_packed"),
            "model-00001-of-00002.safetensors");
  EXPECT_EQ(index.weight_map.at(attention + "k_proj.weight_global_scale"),
            "model-00002-of-00002.safetensors");
  EXPECT_TRUE(take(open_model_folder(options.output)).notices.empty());
  EXPECT_TRUE(verify_model({options.output}).empty());
}

TEST(Convert, plan_tells_exactly_what_is_written) {
  const TemporaryFolder folder;
  sample_model().write(folder / "in");
  const QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  const ConversionPlan plan = plan_quantize_model(options);
  EXPECT_FALSE(std::filesystem::exists(options.output)) << "a plan writes nothing";
  convert_model(options);
  std::int64_t tensors = 0, disk = 0;
  for (const auto& [name, tensor] : read_tensors(options.output)) {
    tensors += static_cast<std::int64_t>(tensor.bytes.size());
  }
  for (const auto& [name, text] : read_folder(options.output))
    disk += static_cast<std::int64_t>(text.size());
  EXPECT_EQ(plan.bytes_after, tensors);
  EXPECT_EQ(plan.disk_needed, disk);
  EXPECT_GT(plan.disk_free, 0);
  EXPECT_EQ(plan.copied_files,
            (std::vector<std::string>{"1_Pooling/config.json", "empty.txt", "tokenizer.json"}));
}

// Large enough for several tiles: rows that do not divide a tile, and rows longer than one.
TEST(Convert, gives_the_same_bytes_and_report_at_any_thread_count_and_memory_limit) {
  TestModel model = sample_model();
  model.shards[0]["model.layers.0.a.big.weight"] =
      random_tensor(StoredType::bf16, {700, 2064 * 2}, 20);
  model.shards[1]["model.layers.0.a.long.weight"] =
      random_tensor(StoredType::f32, {2, tile_elements + 160}, 21);
  for (const Format format : {Format::nvfp4, Format::mxfp8_e4m3}) {
    const TemporaryFolder folder;
    model.write(folder / "in");
    std::map<std::string, std::string> first_files;
    std::string first_report;
    for (const auto& [threads, memory] :
         std::vector<std::pair<int, std::int64_t>>{{1, std::int64_t{1} << 30},
                                                   {2, std::int64_t{1} << 30},
                                                   {5, std::int64_t{1} << 30},
                                                   {5, 0}}) {
      QuantizeModelOptions options = options_for(folder, format, threads);
      options.include = {"*", "model.layers.0.a.long"};  // of two rows: kept, unless it is named
      options.numerics.scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil;
      options.numerics.rounding = Rounding::stochastic;  // depends on each element's position
      options.numerics.seed = 5;
      if (memory > 0) options.max_memory = memory;
      const Conversion conversion =
          memory > 0 ? convert_model(options) : convert_in_least_memory(options);
      const std::string report = to_json(conversion.report);
      const auto files = read_folder(options.output);
      if (first_report.empty()) first_report = report, first_files = files;
      EXPECT_EQ(report, first_report) << threads;
      EXPECT_TRUE(files == first_files) << threads;
      std::filesystem::remove_all(options.output);
    }
    // And the same as the whole matrix at once, stochastic bits included.
    QuantizeModelOptions options = options_for(folder, format);
    options.include = {"*", "model.layers.0.a.long"};
    options.numerics = {
        .scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil,
        .rounding = Rounding::stochastic,
        .seed = 5};
    convert_model(options);
    const TestTensors output = read_tensors(options.output);
    expect_layer(output, "model.layers.0.a.big",
                 values_of(model.shards[0].at("model.layers.0.a.big.weight")), 700, 4128, options);
    expect_layer(output, "model.layers.0.a.long",
                 values_of(model.shards[1].at("model.layers.0.a.long.weight")), 2,
                 tile_elements + 160, options);
  }
}

TEST(Convert, splits_fused_experts_of_every_layout) {
  constexpr std::int64_t experts = 3, inner = 32, hidden = 64;
  for (const bool transposed : {false, true}) {
    for (const bool interleaved : {false, true}) {
      SCOPED_TRACE(std::to_string(transposed) + std::to_string(interleaved));
      using Shape = std::vector<std::int64_t>;
      TestModel model;
      TestTensors& tensors = model.shards[0];
      tensors["m.experts.gate_up_proj"] = random_tensor(
          StoredType::bf16,
          transposed ? Shape{experts, hidden, 2 * inner} : Shape{experts, 2 * inner, hidden}, 1);
      tensors["m.experts.down_proj"] = random_tensor(
          StoredType::f32,
          transposed ? Shape{experts, inner, hidden} : Shape{experts, hidden, inner}, 2);
      tensors["m.experts.gate_up_proj_bias"] =
          random_tensor(StoredType::bf16, {experts, 2 * inner}, 3);
      tensors["m.experts.down_proj_bias"] = random_tensor(StoredType::f32, {experts, hidden}, 4);
      model.config = interleaved ? R"({"model_type": "gpt_oss"})" : R"({"model_type": "llama4"})";
      const TemporaryFolder folder;
      model.write(folder / "in");
      const QuantizeModelOptions options = options_for(folder, Format::nvfp4);
      const Conversion conversion = convert_model(options);
      const TestTensors output = read_tensors(options.output);
      EXPECT_EQ(output.size(), experts * 3 * 4u);
      EXPECT_TRUE(verify_model({options.output}).empty());

      const auto gate_up = values_of(tensors.at("m.experts.gate_up_proj"));
      const auto down = values_of(tensors.at("m.experts.down_proj"));
      const auto gate_up_bias = values_of(tensors.at("m.experts.gate_up_proj_bias"));
      const auto at = [&](const std::vector<float>& stored, std::int64_t expert, std::int64_t out,
                          std::int64_t outs, std::int64_t in, std::int64_t ins) {
        const std::int64_t start = expert * outs * ins;
        return stored[static_cast<std::size_t>(start +
                                               (transposed ? in * outs + out : out * ins + in))];
      };
      for (std::int64_t expert = 0; expert < experts; ++expert) {
        std::vector<float> halves[2], whole, bias[2];
        for (std::int64_t row = 0; row < inner; ++row) {
          for (int half = 0; half < 2; ++half) {
            const std::int64_t out = interleaved ? 2 * row + half : half * inner + row;
            bias[half].push_back(gate_up_bias[static_cast<std::size_t>(expert * 2 * inner + out)]);
            for (std::int64_t col = 0; col < hidden; ++col) {
              halves[half].push_back(at(gate_up, expert, out, 2 * inner, col, hidden));
            }
          }
        }
        for (std::int64_t row = 0; row < hidden; ++row) {
          for (std::int64_t col = 0; col < inner; ++col) {
            whole.push_back(at(down, expert, row, hidden, col, inner));
          }
        }
        const float shared = nvfp4_global_scale(amax_of({halves[0], halves[1]}));
        const std::string name = "m.experts." + std::to_string(expert) + ".";
        expect_layer(output, name + "gate_proj", halves[0], inner, hidden, options, shared);
        expect_layer(output, name + "up_proj", halves[1], inner, hidden, options, shared);
        expect_layer(output, name + "down_proj", whole, hidden, inner, options);
        EXPECT_EQ(output.at(name + "gate_proj.bias"),
                  testing::tensor_of(StoredType::bf16, {inner}, bias[0]));
        EXPECT_EQ(output.at(name + "up_proj.bias"),
                  testing::tensor_of(StoredType::bf16, {inner}, bias[1]));
        EXPECT_EQ(output.at(name + "down_proj.bias").shape, std::vector<std::int64_t>{hidden});
      }
      EXPECT_EQ(conversion.report.tensors.size(), 4u);
      EXPECT_EQ(total_error(conversion.report).elements,
                static_cast<std::uint64_t>(experts * 3 * inner * hidden));
    }
  }
}

TEST(Convert, weights_errors_by_importance) {
  TestModel model;
  model.shards[0]["a.o_proj.weight"] = random_tensor(StoredType::f32, {40, 64}, 1);
  model.shards[0]["b.o_proj.weight"] = random_tensor(StoredType::f32, {40, 64}, 2);
  const TemporaryFolder folder;
  model.write(folder / "in");
  std::vector<float> weights;
  for (int i = 0; i < 64; ++i) weights.push_back(i % 7 == 0 ? 100.0f : 0.01f);
  testing::write_safetensors(folder / "importance.safetensors",
                             {{"a.o_proj", testing::tensor_of(StoredType::f32, {64}, weights)}});
  QuantizeModelOptions options = options_for(folder, Format::nvfp4);
  options.importance = folder / "importance.safetensors";
  convert_model(options);
  const TestTensors output = read_tensors(options.output);
  const auto a = values_of(model.shards[0].at("a.o_proj.weight"));
  expect_layer(output, "a.o_proj", a, 40, 64, options, {}, weights);
  expect_layer(output, "b.o_proj", values_of(model.shards[0].at("b.o_proj.weight")), 40, 64,
               options);
  const BlockTensor plain =
      quantize({.input = {a.data(), DType::f32, 40, 64, 64}, .format = Format::nvfp4});
  EXPECT_NE(output.at("a.o_proj.weight_scale").bytes, text_of(plain.scales()))
      << "the weights must make a difference for this test to mean anything";
}

TEST(Convert, reports_on_every_tensor) {
  const TemporaryFolder folder;
  sample_model().write(folder / "in");
  const Conversion conversion = convert_model(options_for(folder, Format::nvfp4));
  const ModelReport& report = conversion.report;
  EXPECT_EQ(report.title, "in");
  EXPECT_EQ(report.format, "nvfp4");
  EXPECT_EQ(report.bytes_before, static_cast<std::uint64_t>(conversion.plan.bytes_before));
  EXPECT_EQ(report.element_values.size(), 16u);
  ASSERT_EQ(report.tensors.size(), 16u);
  std::size_t measured = 0;
  for (const TensorReport& tensor : report.tensors) {
    if (!tensor.measured()) {
      EXPECT_EQ(tensor.treatment, "copied");
      EXPECT_NE(tensor.reason, "") << tensor.name;
      continue;
    }
    ++measured;
    EXPECT_EQ(tensor.treatment, "nvfp4");
    EXPECT_EQ(tensor.error.elements,
              static_cast<std::uint64_t>(testing::element_count(tensor.shape)));
    EXPECT_GT(tensor.error.relative_mse(), 0.004) << tensor.name;
    EXPECT_LT(tensor.error.relative_mse(), 0.02) << tensor.name;
    EXPECT_TRUE(tensor.global_scale);
    EXPECT_EQ(tensor.blocks, static_cast<std::int64_t>(tensor.error.elements / 16));
    EXPECT_EQ(tensor.worst_blocks.size(), 2u);
  }
  EXPECT_EQ(measured, 6u);
}

TEST(Convert, progress_grows_to_the_total_from_one_thread_at_a_time) {
  const TemporaryFolder folder;
  sample_model().write(folder / "in");
  std::mutex busy;
  std::int64_t last = 0, all = 0;
  std::set<std::string> names;
  convert_model(options_for(folder, Format::nvfp4, 4),
                [&](std::int64_t done, std::int64_t total, std::string_view item) {
                  EXPECT_TRUE(busy.try_lock());
                  EXPECT_GE(done, last);
                  last = done, all = total;
                  names.emplace(item);
                  busy.unlock();
                  return true;
                });
  EXPECT_EQ(last, all);
  EXPECT_TRUE(names.contains(attention + "q_proj.weight"));
  EXPECT_TRUE(names.contains("tokenizer.json"));
}

TEST(Convert, single_file_without_config_gets_one_that_describes_the_format) {
  const TemporaryFolder folder;
  testing::write_safetensors(folder / "in/weights.safetensors",
                             {{"a.o_proj.weight", random_tensor(StoredType::f32, {16, 32}, 1)}});
  QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  options.input = folder / "in/weights.safetensors";
  convert_model(options);
  const auto files = read_folder(options.output);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_TRUE(files.contains("weights.safetensors"));
  EXPECT_TRUE(nlohmann::json::parse(files.at("config.json")).contains("quantization_config"));
}

TEST(Convert, all_zero_weights_give_zero_codes_and_a_usable_global_scale) {
  TestModel model;
  model.shards[0]["a.o_proj.weight"] =
      testing::tensor_of(StoredType::bf16, {16, 32}, std::vector<float>(512, 0.0f));
  const TemporaryFolder folder;
  model.write(folder / "in");
  convert_model(options_for(folder, Format::nvfp4));
  const TestTensors output = read_tensors(folder / "out");
  EXPECT_EQ(output.at("a.o_proj.weight_packed").bytes, std::string(256, '\0'));
  const float one = 1.0f;
  EXPECT_EQ(output.at("a.o_proj.weight_global_scale").bytes,
            std::string(reinterpret_cast<const char*>(&one), 4));
}

}  // namespace
}  // namespace microscale
