#include "checkpoint/input_scales.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/convert.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "checkpoint/verify_model.hpp"
#include "model_builder.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::fails_with;
using testing::mlp;
using testing::succeeds;
using testing::TemporaryFolder;
using testing::tensor_of;
using testing::TestTensors;
using testing::write_file;

TestTensors number(const std::string& name, float value) {
  return {{name, tensor_of(StoredType::f32, {}, {value})}};
}

class InputScales : public ::testing::Test {
 protected:
  Result<InputAmaxes> json(const std::string& text) {
    write_file(folder / "x.json", text);
    return InputAmaxes::open(folder / "x.json");
  }
  Result<InputAmaxes> tensors(const TestTensors& tensors) {
    testing::write_safetensors(folder / "x.safetensors", tensors);
    return InputAmaxes::open(folder / "x.safetensors");
  }
  // Of these modules, by the text of a JSON file.
  Result<std::vector<ScaledInput>> settled(const std::string& text,
                                           const std::vector<std::string>& modules) {
    std::vector<ScaledInput> inputs;
    for (const std::string& module : modules) inputs.push_back({module, module});
    const InputAmaxes amaxes = take(json(text));
    const auto counts = settle_input_amaxes(amaxes, inputs);
    if (!counts) return counts.failure();
    lent = counts.value().lent;
    return inputs;
  }

  TemporaryFolder folder;
  std::int64_t lent = -1;
};

double amax_of(const Result<InputAmaxes>& amaxes, std::string_view module) {
  const auto found = amaxes.value().find(module);
  EXPECT_TRUE(succeeds(found));
  return found && found.value() ? *found.value() : -1;
}

TEST_F(InputScales, a_number_stands_under_the_module_in_json_and_in_tensors) {
  const auto text = json(R"({"a.b": 2.5, "c": [3], "__tool__": "mine"})");
  EXPECT_EQ(amax_of(text, "a.b"), 2.5);
  EXPECT_EQ(amax_of(text, "c"), 3);
  EXPECT_EQ(text.value().find("d").value(), nullptr);
  for (const StoredType type : {StoredType::f32, StoredType::bf16, StoredType::f16}) {
    const auto file = tensors({{"a.b", tensor_of(type, {1}, {2.5f})}});
    EXPECT_EQ(amax_of(file, "a.b"), 2.5);
  }
}

TEST_F(InputScales, other_tools_spellings_mean_what_these_tools_mean) {
  for (const char* name :
       {"a.b.input_amax", "a.b.amax", "a.b.input_quantizer._amax", "a.b_input_quantizer._amax"}) {
    EXPECT_EQ(amax_of(tensors(number(name, 12)), "a.b"), 12) << name;
  }
  EXPECT_EQ(amax_of(tensors(number("a.b.input_global_scale", 2688.0f / 8)), "a.b"), 8);
  TestTensors modelopt = number("a.b.input_scale", 0.5f);
  modelopt["a.b.weight_scale_2"] = tensor_of(StoredType::f32, {}, {1});
  EXPECT_EQ(amax_of(tensors(modelopt), "a.b"), 0.5 * 2688);
  modelopt = number("a.b.input_scale", 0.5f);
  modelopt["a.b.weight"] = testing::random_tensor(StoredType::f8_e4m3, {2, 32}, 1);
  EXPECT_EQ(amax_of(tensors(modelopt), "a.b"), 0.5 * 448);
}

// What llm-compressor stored is stored again, bit for bit.
TEST_F(InputScales, statistics_of_calibrate_have_the_largest_of_each_layer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  TestTensors vectors;
  for (const std::string suffix : {"", ".mean", ".amax"}) {
    vectors["a.q_proj" + suffix] =
        tensor_of(StoredType::f32, {3}, {suffix == ".amax" ? 2.5f : 9.0f, 0.5f, 1.0f});
  }
  vectors["a.q_proj.hessian"] = tensor_of(StoredType::f32, {3, 3}, std::vector<float>(9, 7.0f));
  vectors["a.o_proj.amax"] = tensor_of(StoredType::f32, {2}, {nan, 1.0f});
  vectors["a.k_proj"] = tensor_of(StoredType::f32, {3}, {9.0f, 0.5f, 1.0f});
  const auto open = [&](const SafetensorsMetadata& metadata) {
    std::vector<PlannedTensor> planned;
    for (const auto& [name, tensor] : vectors) {
      planned.push_back({name, tensor.type, tensor.shape});
    }
    const SafetensorsLayout layout = take(plan_safetensors(planned, metadata));
    std::string file = layout.header;
    for (const TensorEntry& entry : layout.tensors) file += vectors.at(entry.name).bytes;
    write_file(folder / "s.safetensors", file);
    return InputAmaxes::open(folder / "s.safetensors");
  };
  const auto found = open({{"microscale_statistics", "1"},
                           {"shares", R"({"a.k_proj": "a.q_proj", "a.v_proj": "a.none"})"}});
  ASSERT_TRUE(succeeds(found));
  EXPECT_EQ(amax_of(found, "a.q_proj"), 2.5);
  EXPECT_EQ(amax_of(found, "a.k_proj"), 2.5);
  EXPECT_EQ(found.value().find("a.v_proj").value(), nullptr);
  EXPECT_TRUE(fails_with(found.value().find("a.o_proj"), "'a.o_proj.amax' is not finite"));
  EXPECT_EQ(found.value().strangers({"a.q_proj", "a.k_proj"}),
            std::vector<std::string>{"a.o_proj.amax"});
  EXPECT_TRUE(fails_with(open({{"microscale_statistics", "3"}}), "s.safetensors': its metadata"));
  const auto plain = open({});  // of another tool: these vectors are no numbers
  ASSERT_TRUE(succeeds(plain));
  EXPECT_TRUE(fails_with(plain.value().find("a.o_proj"), "one number was wanted"));
}

TEST_F(InputScales, a_stored_scale_survives) {
  for (const float scale : {1e-3f, 0.7f, 123.456f, 3.1e7f}) {
    const auto file = tensors(number("a.input_global_scale", scale));
    EXPECT_EQ(static_cast<float>(2688.0 / amax_of(file, "a")), scale);
  }
}

TEST_F(InputScales, what_cannot_be_used_is_named_when_a_layer_asks_for_it) {
  EXPECT_TRUE(fails_with(tensors(number("a.input_scale", 1)).value().find("a"),
                         "'a.input_scale' does not say of which format it is"));
  EXPECT_TRUE(fails_with(tensors(number("a", NAN)).value().find("a"), "'a' is not finite"));
  EXPECT_TRUE(fails_with(tensors(number("a", INFINITY)).value().find("a"), "is not finite"));
  EXPECT_TRUE(fails_with(tensors(number("a", -1)).value().find("a"), "'a' is negative"));
  EXPECT_TRUE(fails_with(json(R"({"a": NaN})").value().find("a"), "'a' is no finite number"));
  EXPECT_TRUE(fails_with(json(R"({"a": "2"})").value().find("a"), "'a' is no finite number"));
  EXPECT_TRUE(
      fails_with(tensors({{"a", tensor_of(StoredType::f32, {2}, {1, 2})}}).value().find("a"),
                 "'a' is F32 [2]; one number was wanted"));
  EXPECT_TRUE(fails_with(json(R"({"a": 1, "a.amax": 2})").value().find("a"), "and not the same"));
  EXPECT_TRUE(succeeds(json(R"({"a": 1, "a.amax": 1, "b": -1})").value().find("a")));
}

TEST_F(InputScales, a_file_that_is_none_is_refused) {
  EXPECT_TRUE(fails_with(json("[1]"), "an object of module names and numbers was wanted"));
  EXPECT_TRUE(fails_with(json("{\"a\": "), "x.json"));
  EXPECT_FALSE(InputAmaxes::open(folder / "absent.json"));
  write_file(folder / "numbers", R"({"a": 4})");  // by what is in it
  EXPECT_EQ(amax_of(InputAmaxes::open(folder / "numbers"), "a"), 4);
}

TEST_F(InputScales, layers_that_are_fused_share_the_largest) {
  const auto inputs = settled(
      R"({"l.q_proj": 1, "l.k_proj": 3, "l.v_proj": 2, "l.o_proj": 5, "l.gate_up_proj": 7})",
      {"l.q_proj", "l.k_proj", "l.v_proj", "l.o_proj", "l.gate_proj", "l.up_proj"});
  ASSERT_TRUE(succeeds(inputs));
  std::vector<double> amaxes;
  for (const ScaledInput& input : inputs.value()) amaxes.push_back(input.amax);
  EXPECT_EQ(amaxes, (std::vector<double>{3, 3, 3, 5, 7, 7}));
  EXPECT_EQ(lent, 0);
}

TEST_F(InputScales, experts_lend_each_other_what_is_missing) {
  const std::vector<std::string> modules{"l.experts.0.gate_proj", "l.experts.0.up_proj",
                                         "l.experts.0.down_proj", "l.experts.1.gate_proj",
                                         "l.experts.1.up_proj",   "l.experts.1.down_proj"};
  const auto inputs = settled(
      R"({"l.experts.0.gate_proj": 2, "l.experts.0.down_proj": 9, "l.experts.1.down_proj": 0})",
      modules);
  ASSERT_TRUE(succeeds(inputs));
  EXPECT_EQ(inputs.value()[1].amax, 2);
  EXPECT_EQ(inputs.value()[3].amax, 2);
  EXPECT_EQ(inputs.value()[4].amax, 2);
  EXPECT_EQ(inputs.value()[5].amax, 9);
  EXPECT_EQ(lent, 3);
  EXPECT_TRUE(fails_with(settled(R"({"l.experts.0.gate_proj": 2})", modules),
                         "have no number (its first name is 'l.experts.0.gate_proj') for "
                         "'l.experts.0.down_proj'"));
}

TEST_F(InputScales, a_layer_without_a_number_is_named) {
  EXPECT_TRUE(fails_with(settled("{}", {"a"}), "have no number (it has none at all) for 'a'"));
  EXPECT_TRUE(fails_with(settled(R"({"a": 0})", {"a"}), "say 0 for 'a'"));
  EXPECT_TRUE(fails_with(settled(R"({"a": 1e-41})", {"a"}), "beyond any scale, for 'a'"));
  EXPECT_TRUE(fails_with(settled(R"({"a": 1e300})", {"a"}), "'a' is no finite number"));
}

// All the way: what is written, at any thread count, and that verify and a resumed run know it.
TEST_F(InputScales, names_of_no_module_are_strangers) {
  const std::unordered_set<std::string> modules{"a", "b"};
  const auto strangers = [&](const InputAmaxes& amaxes) { return amaxes.strangers(modules); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(strangers(take(json(R"({"a": 1, "b.input_amax": 2, "__note__": 3})"))), Names());
  EXPECT_EQ(strangers(take(json(R"({"a": 1, "bb": 2, "c.input_amax": 3})"))),
            (Names{"bb", "c.input_amax"}));
  TestTensors checkpoint = number("c.input_global_scale", 1);
  checkpoint["c.weight_global_scale"] = number("x", 1).at("x");
  EXPECT_EQ(strangers(take(tensors(checkpoint))),
            (Names{"c.input_global_scale", "c.weight_global_scale"}));
  checkpoint["c.weight"] = testing::random_tensor(StoredType::bf16, {4, 4}, 1);
  EXPECT_EQ(strangers(take(tensors(checkpoint))), Names{"c.input_global_scale"})
      << "a checkpoint has other numbers too";
}

TEST_F(InputScales, are_written_for_every_layer_and_verified) {
  const testing::TestModel model = testing::sample_model();
  model.write(folder / "in");
  nlohmann::ordered_json numbers;
  for (const char* leaf : {"q_proj", "k_proj", "v_proj", "o_proj"}) numbers[attention + leaf] = 2.0;
  numbers[attention + "v_proj"] = 4.0;
  numbers[mlp + "gate_up_proj"] = 0.5;
  write_file(folder / "amax.json", numbers.dump());
  QuantizeModelOptions options = testing::options_for(folder, Format::nvfp4, 1);
  options.input_scales = folder / "amax.json";
  const Conversion conversion = convert_model(options);
  for (const TensorPlan& tensor : conversion.plan.tensors) {
    EXPECT_EQ(tensor.input_amax.has_value(), tensor.treatment == Treatment::quantize);
  }
  const TestTensors output = testing::read_tensors(options.output);
  const auto divisor = [&](const std::string& module) {
    float value = 0;
    std::memcpy(&value, output.at(module + ".input_global_scale").bytes.data(), 4);
    return value;
  };
  EXPECT_EQ(divisor(attention + "q_proj"), 672.0f);
  EXPECT_EQ(divisor(attention + "v_proj"), 672.0f);
  EXPECT_EQ(divisor(attention + "o_proj"), 1344.0f);
  EXPECT_EQ(divisor(mlp + "up_proj"), 5376.0f);
  EXPECT_EQ(verify_checkpoint(options.output, {}).errors(), 0);

  options.output = folder / "again";
  options.threads = 3;
  convert_model(options);
  EXPECT_EQ(testing::read_folder(folder / "again"), testing::read_folder(folder / "out"));

  numbers.erase(mlp + "gate_up_proj");
  write_file(folder / "amax.json", numbers.dump());
  EXPECT_TRUE(fails_with(make_model_plan(options), "for '" + mlp + "gate_proj'"));
}

}  // namespace
}  // namespace microscale
