// repair_model: what it mends, what it leaves alone, and that the result passes verify.
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include <nlohmann/json.hpp>

#include "checkpoint/model_builder.hpp"
#include "checkpoint/verify_support.hpp"
#include "checkpoint/weight_reader.hpp"

namespace microscale {
namespace {

using testing::bytes_of;
using testing::expect_error;
using testing::findings_of;
using testing::read_folder;
using testing::SmallModel;
using testing::TemporaryFolder;
using testing::Texts;
using Json = nlohmann::ordered_json;

const std::string attention = "model.layers.0.self_attn.", mlp = "model.layers.0.mlp.";
const std::vector<std::string> layers{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                      "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

/// small_llama with these decode multipliers for q and gate, quantized under them.
SmallModel with_globals(float q, float gate, unsigned seed = 1) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  model.add_quantized(attention + "q_proj", Format::nvfp4, 64, 64, testing::gaussian(4096, seed),
                      q);
  model.add_quantized(mlp + "gate_proj", Format::nvfp4, 64, 64, testing::gaussian(4096, seed + 3),
                      gate);
  return model;
}

std::vector<float> values_of(const std::filesystem::path& path, const std::string& module) {
  const QuantizedFolder folder = take(open_quantized_folder(path));
  PieceData data;
  take(read_piece(folder, pieces_of(*folder.find(module)).front(), data));
  return data.values;
}

struct Repaired {
  TemporaryFolder folder;
  RepairReport report;

  explicit Repaired(const SmallModel& model, int threads = 2) {
    model.write(folder / "in");
    const auto before = read_folder(folder / "in");
    report = repair_model({folder / "in", folder / "out", threads, false});
    EXPECT_EQ(read_folder(folder / "in"), before) << "the input is untouched";
    if (report.written) {
      EXPECT_EQ(findings_of(folder / "out"), Texts());
      EXPECT_FALSE(std::filesystem::exists(folder / "out.partial"));
    }
  }
};

TEST(RepairModel, powers_of_two_go_into_the_block_scales) {
  const float g = nvfp4_global_scale(0.125f);
  const Repaired repaired(with_globals(g / 4, g * 2));
  EXPECT_EQ(repaired.report.found, 2);
  EXPECT_EQ(repaired.report.blocks_inexact, 0);
  EXPECT_EQ(repaired.report.codes_changed, 0);
  EXPECT_EQ(repaired.report.relative_change, 0);
  EXPECT_GT(repaired.report.scales_changed, 0);
  ASSERT_EQ(repaired.report.changes.size(), 1u);
  for (const std::string& layer : layers) {
    const std::string module = "model.layers.0." + layer;
    EXPECT_EQ(values_of(repaired.folder / "in", module), values_of(repaired.folder / "out", module))
        << module;
  }
  const auto in = testing::read_tensors(repaired.folder / "in");
  const auto out = testing::read_tensors(repaired.folder / "out");
  for (const auto& [name, tensor] : in) {
    if (name.ends_with(".weight_packed")) {
      EXPECT_EQ(out.at(name), tensor) << name;
    }
  }
}

TEST(RepairModel, other_ratios_change_only_the_smaller_side_and_are_counted) {
  const float g = nvfp4_global_scale(0.125f);
  const Repaired repaired(with_globals(g * 0.7f, g));
  const auto in = testing::read_tensors(repaired.folder / "in");
  const auto out = testing::read_tensors(repaired.folder / "out");
  std::int64_t codes = 0, scales = 0;
  for (const auto& [name, tensor] : in) {
    const bool of_q = name.starts_with(attention + "q_proj");
    if (!of_q) {
      EXPECT_EQ(out.at(name), tensor) << name;
    }
    for (std::size_t i = 0; of_q && i < tensor.bytes.size(); ++i) {
      const int a = static_cast<std::uint8_t>(tensor.bytes[i]);
      const int b = static_cast<std::uint8_t>(out.at(name).bytes[i]);
      if (name.ends_with("packed")) codes += ((a & 15) != (b & 15)) + ((a >> 4) != (b >> 4));
      if (name.ends_with("weight_scale")) scales += a != b;
    }
  }
  EXPECT_EQ(repaired.report.blocks, 256);
  EXPECT_EQ(repaired.report.codes_changed, codes);
  EXPECT_EQ(repaired.report.scales_changed, scales);
  EXPECT_GT(repaired.report.blocks_inexact, 200);
  EXPECT_GT(repaired.report.relative_change, 0);
  EXPECT_LT(repaired.report.relative_change, 2e-3);
}

TEST(RepairModel, refuses_scales_so_far_apart_that_weights_would_vanish) {
  for (const float factor : {1e6f, 1e-6f}) {
    const TemporaryFolder folder;
    const float g = nvfp4_global_scale(0.125f);
    SmallModel model = with_globals(g, g);
    std::vector<std::uint8_t>& divisor = model.at(mlp + "gate_proj.weight_global_scale").bytes;
    const float wrong =
        std::bit_cast<float>(std::array{divisor[0], divisor[1], divisor[2], divisor[3]}) * factor;
    const auto bytes = std::bit_cast<std::array<std::uint8_t, 4>>(wrong);
    divisor.assign(bytes.begin(), bytes.end());
    model.write(folder / "in");
    expect_error(ErrorCode::bad_input, "quantize the original again", [&] {
      repair_model({folder / "in", folder / "out", 1, false});
    });
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
    EXPECT_FALSE(std::filesystem::exists(folder / "out.partial"));
  }
}

TEST(RepairModel, gives_the_same_bytes_on_any_number_of_threads) {
  const float g = nvfp4_global_scale(0.125f);
  const SmallModel model = with_globals(g * 0.7f, g * 1.3f);
  const Repaired one(model, 1), five(model, 5);
  EXPECT_EQ(read_folder(one.folder / "out"), read_folder(five.folder / "out"));
}

TEST(RepairModel, experts_may_lie_in_several_files) {
  const float g = nvfp4_global_scale(0.125f);
  SmallModel model = testing::small_llama(Format::nvfp4);
  const std::string second = "model-2.safetensors";
  const std::string experts = "model.layers.0.block_sparse_moe.experts.0.";
  for (const auto& [name, global] :
       {std::pair("w1", g), std::pair("w3", g / 2), std::pair("w2", g)}) {
    model.add_quantized(experts + name, Format::nvfp4, 64, 64, testing::gaussian(4096, 9), global,
                        second);
  }
  // Codes in one file, scales in the other.
  model.shards["model.safetensors"][experts + "w3.weight_scale"] =
      model.at(experts + "w3.weight_scale");
  model.shards[second].erase(experts + "w3.weight_scale");
  const Repaired repaired(model);
  EXPECT_TRUE(repaired.report.written);
  EXPECT_EQ(repaired.report.blocks_inexact, 0);
  EXPECT_EQ(values_of(repaired.folder / "in", experts + "w3"),
            values_of(repaired.folder / "out", experts + "w3"));
}

TEST(RepairModel, mends_ignore_lists_leftovers_and_metadata) {
  SmallModel model = testing::small_llama(Format::nvfp4);
  Json config = Json::parse(model.config);
  config["kept"] = 1;
  config["quantization_config"]["ignore"] = {attention + "qkv_proj", "re:.*down_proj$", "visual"};
  model.config = config.dump();
  model.add_floats(mlp + "up_proj.input_quantizer._amax", {1}, {3});
  model.add_floats(attention + "o_proj.input_scale", {1}, {3});
  model.metadata = {{"format", "np"}, {"note", "x"}};
  model.files["tokenizer.json"] = "{}";
  const Repaired repaired(model);
  ASSERT_EQ(repaired.report.changes.size(), 3u);
  EXPECT_EQ(
      repaired.report.changes[0],
      "took out 'model.layers.0.mlp.up_proj.input_quantizer._amax' and 1 more, left over from "
      "a calibration");
  const auto files = read_folder(repaired.folder / "out");
  EXPECT_TRUE(files.contains("tokenizer.json"));
  const Json after = Json::parse(files.at("config.json"));
  EXPECT_EQ(after["kept"], 1);
  EXPECT_EQ(after["quantization_config"]["ignore"], (Json{"lm_head", "visual"}));
  const auto in = testing::read_tensors(repaired.folder / "in");
  auto out = testing::read_tensors(repaired.folder / "out");
  EXPECT_EQ(out.size() + 2, in.size());
  for (const auto& [name, tensor] : out) EXPECT_EQ(in.at(name), tensor) << name;
}

TEST(RepairModel, describes_weights_that_nothing_describes) {
  SmallModel model = testing::small_llama(Format::mxfp4);
  model.config = R"({"model_type": "llama", "quantization_config": null})";
  const Repaired repaired(model);
  EXPECT_EQ(repaired.report.changes,
            std::vector<std::string>{"described the mxfp4 weights in config.json anew"});
}

TEST(RepairModel, activations_that_were_quantized_still_are) {
  SmallModel model = testing::small_llama(Format::mxfp8_e4m3);
  Json config = Json::parse(model.config);
  Json& group = config["quantization_config"]["config_groups"]["group_0"];
  group["input_activations"] = group["weights"];  // not dynamic
  model.config = config.dump();
  const Repaired repaired(model);
  const Json after = Json::parse(testing::read_file(repaired.folder / "out/config.json"));
  const Json& inputs =
      after["quantization_config"]["config_groups"]["group_0"]["input_activations"];
  EXPECT_EQ(inputs["dynamic"], true);
}

TEST(RepairModel, writes_nothing_where_nothing_is_wrong_or_for_a_dry_run) {
  const TemporaryFolder folder;
  testing::small_llama(Format::nvfp4).write(folder / "good");
  const RepairReport good = repair_model({folder / "good", folder / "out", 1, false});
  EXPECT_TRUE(good.changes.empty());
  EXPECT_FALSE(good.written);
  with_globals(1e-5f, 1e-4f).write(folder / "bad");
  const RepairReport dry = repair_model({folder / "bad", {}, 1, true});
  EXPECT_EQ(dry.changes.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(RepairModel, refuses_what_it_cannot_mend) {
  const TemporaryFolder folder;
  SmallModel model = with_globals(1e-5f, 1e-4f);
  model.at(mlp + "down_proj.weight_scale").bytes[3] = 0x7F;
  model.write(folder / "nan");
  expect_error(ErrorCode::bad_input,
               "repair: this it cannot mend: model.safetensors: '" + mlp +
                   "down_proj.weight_scale': row 0, block 3: the scale is NaN",
               [&] {
                 repair_model({folder / "nan", folder / "out", 1, false});
               });
  expect_error(ErrorCode::invalid_argument, "repair: the output", [&] {
    repair_model({folder / "nan", folder / "nan", 1, false});
  });
  with_globals(1e-5f, 1e-4f).write(folder / "bad");
  testing::write_file(folder / "taken/file", "x");
  expect_error(ErrorCode::invalid_argument, "is there already", [&] {
    repair_model({folder / "bad", folder / "taken", 1, false});
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(RepairModel, can_be_stopped_and_started_again) {
  const TemporaryFolder folder;
  with_globals(1e-5f, 1e-4f).write(folder / "in");
  expect_error(ErrorCode::interrupted, "repair: stopped", [&] {
    repair_model({folder / "in", folder / "out", 1, false},
                 [](std::int64_t, std::int64_t, std::string_view item) { return item.empty(); });
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  EXPECT_TRUE(repair_model({folder / "in", folder / "out", 1, false}).written);
  EXPECT_EQ(findings_of(folder / "out"), Texts());
}

}  // namespace
}  // namespace microscale
