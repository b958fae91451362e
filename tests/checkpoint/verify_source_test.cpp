#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/sample_model.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::options_for;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::TestModel;

/// "in" quantized to "out", changed by hand, and held against "in".
class VerifySource : public ::testing::Test {
 protected:
  void make(Format format, ScaleRule rule) {
    TestModel model;
    model.config = R"({"model_type": "llama", "hidden_size": 128, "rope_theta": 10000.0})";
    for (const std::string name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      model.shards[0][attention + name + ".weight"] =
          random_tensor(StoredType::bf16, {128, 128}, static_cast<unsigned>(name.front()), 0.1f);
    }
    model.shards[0]["model.norm.weight"] = random_tensor(StoredType::bf16, {128}, 7);
    model.write(folder_ / "in");
    QuantizeModelOptions options = options_for(folder_, format);
    options.numerics.scale_rule = rule;
    quantize_model(options);
    std::filesystem::remove(folder_ / "out" / manifest_name);  // it would tell
  }

  VerifyReport report() const {
    return verify_checkpoint(folder_ / "out", {.threads = 2, .source = folder_ / "in"});
  }

  std::vector<std::string> rules() const {
    std::vector<std::string> rules;
    for (const Finding& finding : report().findings) {
      rules.push_back(finding.rule + " " + finding.tensor);
    }
    return rules;
  }

  /// The bytes of a tensor of "out", to be changed.
  template <class Change>
  void change(const std::string& name, const Change& change) const {
    auto tensors = testing::read_tensors(folder_ / "out");
    change(tensors.at(name).bytes);
    testing::write_safetensors(folder_ / "out/model.safetensors", tensors);
  }

  TemporaryFolder folder_;
};

TEST_F(VerifySource, a_true_copy_has_no_findings_and_its_rule_is_named) {
  for (const auto& [format, rule] :
       {std::pair(Format::nvfp4, ScaleRule::search), std::pair(Format::nvfp4, ScaleRule::nearest),
        std::pair(Format::mxfp4, ScaleRule::floor),
        std::pair(Format::mxfp8_e4m3, ScaleRule::rceil)}) {
    make(format, rule);
    const VerifyReport verified = report();
    EXPECT_EQ(verified.findings, Findings());
    ASSERT_TRUE(verified.source.has_value());
    EXPECT_EQ(verified.source->copies, 1);
    ASSERT_EQ(verified.source->tensors.size(), 4u);
    for (const SourceTensor& tensor : verified.source->tensors) {
      EXPECT_EQ(tensor.not_nearest, 0);
      EXPECT_EQ(tensor.elements, 128 * 128);
      EXPECT_GE(tensor.rule_share, 0.995);
      EXPECT_NEAR(tensor.ratio, 1, 0.05);
      // Of two rules that agree on all of it the first is named.
      if (format == Format::nvfp4) {
        EXPECT_EQ(tensor.rule, to_string(rule));
      }
    }
    for (std::size_t i = 1; i < 4; ++i) {
      EXPECT_GE(verified.source->tensors[i - 1].relative_mse,
                verified.source->tensors[i].relative_mse);
    }
    std::filesystem::remove_all(folder_ / "out");
    std::filesystem::remove_all(folder_ / "in");
  }
}

TEST_F(VerifySource, codes_that_another_beats_are_counted) {
  make(Format::nvfp4, ScaleRule::search);
  change(attention + "o_proj.weight_packed", [](std::string& bytes) {
    for (std::size_t i = 64; i < 70; ++i) bytes[i] = static_cast<char>(bytes[i] ^ 0x02);
  });
  const VerifyReport verified = report();
  ASSERT_EQ(verified.findings.size(), 1u);
  EXPECT_EQ(
      verified.findings[0].message,
      "model.safetensors: '" + attention +
          "o_proj.weight': 6 of 16384 codes are not the nearest for their scales, first row 1, "
          "column 0: rounded otherwise, fitted to activations, or damaged");
  std::int64_t counted = 0;
  for (const SourceTensor& tensor : verified.source->tensors) counted += tensor.not_nearest;
  EXPECT_EQ(counted, 6);
}

TEST_F(VerifySource, a_rule_that_was_not_followed_is_told_with_the_one_that_fits) {
  make(Format::mxfp4, ScaleRule::floor);
  const auto floor = testing::read_tensors(folder_ / "out");
  std::filesystem::remove_all(folder_ / "out");
  make(Format::mxfp4, ScaleRule::ceil);
  auto mixed = testing::read_tensors(folder_ / "out");
  for (const char* part : {"o_proj.weight_packed", "o_proj.weight_scale"}) {
    mixed[attention + part] = floor.at(attention + part);
  }
  testing::write_safetensors(folder_ / "out/model.safetensors", mixed);
  const VerifyReport verified = report();
  ASSERT_EQ(verified.findings.size(), 1u);
  EXPECT_EQ(verified.findings[0].rule, "source-rule");
  EXPECT_EQ(verified.findings[0].message,
            "model.safetensors: '" + attention +
                "o_proj.weight': its scales follow the rule 'floor'; those of most tensors follow "
                "'ceil'");
  EXPECT_EQ(verified.errors(), 0);
}

TEST_F(VerifySource, a_global_scale_that_was_not_applied_is_a_ratio) {
  make(Format::nvfp4, ScaleRule::search);
  float divisor = 0;
  change(attention + "o_proj.weight_global_scale", [&](std::string& bytes) {
    std::memcpy(&divisor, bytes.data(), 4);
    const float one = 1.0f;
    std::memcpy(bytes.data(), &one, 4);
  });
  const VerifyReport verified = report();
  const auto found = std::find_if(verified.findings.begin(), verified.findings.end(),
                                  [](const Finding& each) { return each.rule == "source-ratio"; });
  ASSERT_NE(found, verified.findings.end());
  EXPECT_NEAR(verified.source->tensors.front().ratio / divisor, 1, 0.02);
}

TEST_F(VerifySource, copies_are_equal_and_nothing_is_missing) {
  make(Format::mxfp4, ScaleRule::search);
  change("model.norm.weight", [](std::string& bytes) { bytes[5] ^= 1; });
  EXPECT_EQ(rules(), std::vector<std::string>{"source-copy model.norm.weight"});
  TestModel other;
  other.shards[0][attention + "q_proj.weight"] = random_tensor(StoredType::bf16, {128, 64}, 3);
  other.shards[0][attention + "k_proj.weight"] = random_tensor(StoredType::bf16, {128, 128}, 3);
  other.shards[0]["model.norm.weight"] = random_tensor(StoredType::bf16, {128}, 7);
  other.shards[0]["model.more"] = random_tensor(StoredType::bf16, {3}, 3);
  other.shards[0][attention + "v_proj.weight"] = random_tensor(StoredType::bf16, {128, 128}, 3);
  std::filesystem::remove_all(folder_ / "in");
  other.write(folder_ / "in");
  const auto found = rules();
  EXPECT_EQ(std::count(found.begin(), found.end(), "source-missing " + attention + "o_proj.weight"),
            1);
  EXPECT_EQ(std::count(found.begin(), found.end(), "source-lost model.more"), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), "source-shape " + attention + "q_proj.weight"),
            1);
}

// Scales of FP8 are normal numbers, so the smallest of values have few codes.
TEST(VerifySourceFp8, values_below_normal_numbers_are_rounded_as_the_format_can) {
  TestModel model;
  model.shards[0][attention + "o_proj.weight"] =
      random_tensor(StoredType::f32, {64, 64}, 1, 1e-40f);
  const TemporaryFolder folder;
  model.write(folder / "in");
  QuantizeModelOptions options = options_for(folder, Format::mxfp8_e4m3);
  options.use = {{"*", WeightFormat::fp8}};
  quantize_model(options);
  for (const Finding& finding :
       verify_checkpoint(folder / "out", {.threads = 1, .source = folder / "in"}).findings) {
    EXPECT_EQ(finding.severity, Severity::warning) << finding.message;
  }
}

TEST(VerifySourceExperts, fused_experts_are_found_one_by_one) {
  TestModel model;
  model.config = R"({"model_type": "llama4", "hidden_size": 64})";
  const std::string experts = "model.layers.0.feed_forward.experts.";
  model.shards[0][experts + "gate_up_proj"] = random_tensor(StoredType::bf16, {2, 64, 256}, 1);
  model.shards[0][experts + "down_proj"] = random_tensor(StoredType::bf16, {2, 128, 64}, 2);
  const TemporaryFolder folder;
  model.write(folder / "in");
  QuantizeModelOptions options = options_for(folder, Format::mxfp4);
  options.experts = ExpertOrder::halves;
  quantize_model(options);
  const VerifyReport verified =
      verify_checkpoint(folder / "out", {.threads = 2, .source = folder / "in"});
  EXPECT_EQ(verified.findings, Findings());
  EXPECT_EQ(verified.source->tensors.size(), 6u);
}

// What no rounding does: each is an error, with its cause.
TEST_F(VerifySource, values_beyond_what_the_format_costs_are_errors_that_name_the_cause) {
  const std::string codes = attention + "o_proj.weight_packed",
                    weight = attention + "o_proj.weight";
  const auto found = [&](Format format, auto&& damage) {
    make(format, format == Format::nvfp4 ? ScaleRule::search : ScaleRule::floor);
    damage();
    std::string text;
    for (const Finding& finding : report().findings) {
      if (finding.severity == Severity::error)
        text += finding.rule + " | " + finding.message + "\n";
    }
    std::filesystem::remove_all(folder_ / "in");
    std::filesystem::remove_all(folder_ / "out");
    return text;
  };
  const auto bytewise = [&](auto&& make_byte) {
    return [this, codes, make_byte] {
      change(codes, [&](std::string& bytes) {
        for (char& byte : bytes) byte = make_byte(static_cast<unsigned char>(byte));
      });
    };
  };
  for (const Format format : {Format::nvfp4, Format::mxfp4}) {
    EXPECT_NE(found(format, bytewise([](int) { return '\0'; })).find("all of them are 0"),
              std::string::npos);
    EXPECT_NE(found(format, bytewise([](int b) { return static_cast<char>(b ^ 0x88); }))
                  .find("times those of the original: their signs are turned"),
              std::string::npos);
    EXPECT_NE(found(format, bytewise([](int b) { return static_cast<char>(b << 4 | b >> 4); }))
                  .find("source-error | model.safetensors: '" + weight + "': its relative MSE is "),
              std::string::npos);
    EXPECT_NE(found(format, bytewise([](int b) { return static_cast<char>(b << 4 | b >> 4); }))
                  .find("the two codes of each byte are swapped"),
              std::string::npos);
    EXPECT_NE(found(format, bytewise([](int b) { return static_cast<char>(b * 7 & 0x77); }))
                  .find("these are other weights, or they are damaged"),
              std::string::npos);
    // Rows turned round: 64 bytes of codes a row, with the scales of each.
    const auto turn = [&] {
      for (const char* part : {".weight_packed", ".weight_scale"}) {
        change(attention + "o_proj" + part, [](std::string& bytes) {
          const std::size_t row = bytes.size() / 128;
          std::string turned;
          for (std::size_t at = bytes.size(); at > 0; at -= row)
            turned += bytes.substr(at - row, row);
          bytes = turned;
        });
      }
    };
    EXPECT_NE(found(format, turn).find("its rows are in another order: row 0 is row 127 of the"),
              std::string::npos);
  }
}

TEST_F(VerifySource, a_coarse_rule_that_is_known_is_no_error) {
  make(Format::mxfp4, ScaleRule::amax_ceil);
  EXPECT_EQ(report().errors(), 0);
}

// Layers in FP8 are held against the original as others are, whatever container.
TEST_F(VerifySource, fp8_layers_are_compared_by_their_values) {
  for (const Container container : {Container::compressed_tensors, Container::modelopt}) {
    make(Format::nvfp4, ScaleRule::search);
    std::filesystem::remove_all(folder_ / "out");
    QuantizeModelOptions options = options_for(folder_, Format::nvfp4);
    options.container = container;
    options.use = {{"*.o_proj", WeightFormat::fp8}};
    quantize_model(options);
    std::filesystem::remove(folder_ / "out" / manifest_name);
    const VerifyReport verified = report();
    EXPECT_EQ(verified.findings, Findings());
    ASSERT_EQ(verified.source->tensors.size(), 4u);
    const auto& tensors = verified.source->tensors;
    const auto fp8 = std::find_if(tensors.begin(), tensors.end(), [](const SourceTensor& each) {
      return each.name == attention + "o_proj.weight";
    });
    ASSERT_NE(fp8, tensors.end());
    EXPECT_EQ(fp8->coding, "FP8 E4M3, one scale per row");
    EXPECT_EQ(fp8->rule, "");
    EXPECT_GT(fp8->relative_mse, 0.0003);
    EXPECT_LT(fp8->relative_mse, 0.0012);
    EXPECT_NEAR(fp8->ratio, 1, 0.01);
    const std::string weight = attention + "o_proj.weight";
    const auto found = [&](auto&& damage) {
      const auto whole = testing::read_tensors(folder_ / "out");
      change(weight, damage);
      const auto all = rules();
      testing::write_safetensors(folder_ / "out/model.safetensors", whole);
      return all;
    };
    EXPECT_EQ(found([](std::string& codes) { std::fill(codes.begin(), codes.end(), '\0'); }),
              std::vector<std::string>{"source-ratio " + weight});
    EXPECT_EQ(found([](std::string& codes) {
                for (char& code : codes) code = static_cast<char>(code ^ 0x80);
              }),
              std::vector<std::string>{"source-ratio " + weight});
    EXPECT_EQ(found([](std::string& codes) {
                std::rotate(codes.begin(), codes.begin() + 1, codes.end());
              }),
              std::vector<std::string>{"source-error " + weight});
    EXPECT_EQ(found([](std::string& codes) { codes.replace(5 * 128, 128, 128, '\0'); }),
              std::vector<std::string>{"source-block " + weight});
    std::filesystem::remove_all(folder_ / "out");
    std::filesystem::remove_all(folder_ / "in");
  }
}

// Holes: a scale so small that a block is nothing, codes and scales of zeros, one row or a few.
TEST_F(VerifySource, blocks_that_hold_nothing_are_errors_with_their_place) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    const bool mx = format != Format::nvfp4;
    const std::string weight = attention + "o_proj.weight";
    const std::string codes = format == Format::mxfp8_e4m3 ? weight : weight + "_packed";
    const std::size_t blocks = mx ? 4 : 8;  // in a row
    const auto messages = [&](auto&& damage) {
      make(format, mx ? ScaleRule::floor : ScaleRule::search);
      damage();
      std::vector<std::string> found;
      for (const Finding& finding : report().findings) {
        if (finding.rule == "source-block") found.push_back(finding.message);
      }
      std::filesystem::remove_all(folder_ / "in");
      std::filesystem::remove_all(folder_ / "out");
      return found;
    };
    const auto zero_rows = [&](std::size_t first, std::size_t count) {
      for (const std::string& part : {codes, weight + "_scale"}) {
        change(part, [&](std::string& bytes) {
          const std::size_t row = bytes.size() / 128;
          bytes.replace(first * row, count * row, count * row, '\0');
        });
      }
    };
    const auto of = [&](std::size_t lost, int row, const std::string& columns) {
      return std::vector<std::string>{fmt::format(
          "model.safetensors: '{}': {} of {} blocks of {} values hold nothing of the original's "
          "(they are 0, or far from them), first row {}, columns {}; convert the model again",
          weight, lost, 128 * blocks, mx ? 32 : 16, row, columns)};
    };
    const std::string first = mx ? "0 to 31" : "0 to 15";
    EXPECT_EQ(messages([&] { zero_rows(97, 1); }), of(blocks, 97, first));
    EXPECT_EQ(messages([&] { zero_rows(3, 6); }), of(6 * blocks, 3, first));
    for (const int flip : {0xFF, 0x20, 0x40}) {
      if (!mx) continue;
      const auto damage = [&] {
        change(weight + "_scale", [&](std::string& bytes) {
          char& scale = bytes[97 * blocks + 1];
          scale = flip == 0xFF ? '\0' : static_cast<char>(scale ^ flip);
        });
      };
      EXPECT_EQ(messages(damage), of(1, 97, "32 to 63")) << flip;
    }
  }
}

// What `dequantize` writes is dense, and neither a copy nor damaged.
TEST_F(VerifySource, a_folder_that_was_decoded_again_is_said_to_be_one) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    make(format, ScaleRule::search);
    std::filesystem::rename(folder_ / "out", folder_ / "coded");
    dequantize_model({.input = folder_ / "coded", .output = folder_ / "out", .threads = 1});
    std::filesystem::remove(folder_ / "out" / manifest_name);
    const VerifyReport verified = report();
    EXPECT_EQ(verified.errors(), 0);
    ASSERT_EQ(verified.warnings(), 1);
    EXPECT_EQ(verified.findings[0].rule, "source-decoded");
    EXPECT_NE(verified.findings[0].message.find("it and 3 more weights are dense, and the "
                                                "original's but for rounding"),
              std::string::npos)
        << verified.findings[0].message;
    EXPECT_EQ(verified.source->decoded, 4);
    EXPECT_EQ(verified.source->copies, 1);
    // A few values that differ are damage.
    const auto original = testing::read_tensors(folder_ / "in");
    auto tensors = testing::read_tensors(folder_ / "out");
    tensors[attention + "k_proj.weight"] = original.at(attention + "k_proj.weight");
    tensors[attention + "k_proj.weight"].bytes[9] ^= 0x10;
    tensors[attention + "q_proj.weight"].bytes.replace(0, 256, 256, '\0');
    testing::write_safetensors(folder_ / "out/model.safetensors", tensors);
    const auto found = rules();
    EXPECT_EQ(std::count(found.begin(), found.end(), "source-copy " + attention + "k_proj.weight"),
              1);
    EXPECT_EQ(std::count(found.begin(), found.end(), "source-copy " + attention + "q_proj.weight"),
              1);
    for (const char* name : {"in", "out", "coded"}) std::filesystem::remove_all(folder_ / name);
  }
}

// What quantize copies of config.json is the original's.
TEST_F(VerifySource, other_numbers_in_config_are_warned_of) {
  make(Format::mxfp4, ScaleRule::floor);
  std::string config = testing::read_file(folder_ / "out/config.json");
  config.replace(config.find("10000.0"), 7, "5.0");
  testing::write_file(folder_ / "out/config.json", config);
  const VerifyReport answer = report();
  ASSERT_EQ(answer.findings.size(), 1u);
  EXPECT_EQ(answer.errors(), 0);
  EXPECT_EQ(answer.findings[0].rule, "source-config");
  EXPECT_EQ(answer.findings[0].message,
            "config.json: rope_theta is 5.0, and 10000.0 in the original");
}

}  // namespace
}  // namespace microscale
