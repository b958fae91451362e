// Whole runs with a budget: what is chosen, written, recorded and refused.
#include "checkpoint/choose_formats.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/convert.hpp"
#include "checkpoint/knapsack.hpp"
#include "checkpoint/manifest.hpp"
#include "sample_model.hpp"

namespace microscale {
namespace {

using testing::expect_error;
using testing::options_for;
using testing::random_tensor;
using testing::read_folder;
using testing::TemporaryFolder;
using testing::tensor_of;
using testing::TestModel;

constexpr int layers = 4;

std::string layer_of(int number) { return "model.layers." + std::to_string(number) + "."; }

// Four layers of a Llama. Of layer 2 o_proj has outliers, so that it wants more bits than others.
TestModel llama() {
  TestModel model;
  auto& tensors = model.shards[0];
  unsigned seed = 1;
  for (int layer = 0; layer < layers; ++layer) {
    for (const std::string name :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
          "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      tensors[layer_of(layer) + name + ".weight"] =
          random_tensor(StoredType::bf16, {64, 64}, seed++);
    }
    for (const std::string norm : {"input_layernorm", "post_attention_layernorm"})
      tensors[layer_of(layer) + norm + ".weight"] = random_tensor(StoredType::bf16, {64}, seed++);
  }
  std::vector<float> values = testing::values_of(tensors[layer_of(2) + "self_attn.o_proj.weight"]);
  for (std::size_t i = 5; i < values.size(); i += 16) values[i] *= 30;
  tensors[layer_of(2) + "self_attn.o_proj.weight"] = tensor_of(StoredType::bf16, {64, 64}, values);
  tensors["model.embed_tokens.weight"] = random_tensor(StoredType::bf16, {50, 64}, seed++);
  tensors["model.norm.weight"] = random_tensor(StoredType::bf16, {64}, seed++);
  model.config = R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4})";
  return model;
}

class Budgets : public ::testing::Test {
 protected:
  void SetUp() override { llama().write(folder / "in"); }

  QuantizeModelOptions options(double bits, const std::string& out = "out", int threads = 2) const {
    QuantizeModelOptions options = options_for(folder, Format::nvfp4, threads);
    options.output = folder / out;
    options.budget.bits = bits;
    return options;
  }

  static const GroupFormats& group(const FormatChoice& choice, const std::string& name) {
    for (const GroupFormats& group : choice.groups)
      if (group.name.find(name) != std::string::npos) return group;
    throw std::out_of_range(name);
  }

  TemporaryFolder folder;
};

TEST_F(Budgets, choose_the_least_error_within_the_bits) {
  const Conversion made = convert_model(options(5));
  ASSERT_TRUE(made.plan.choice.has_value());
  const FormatChoice& choice = *made.plan.choice;
  EXPECT_EQ(choice.groups.size(), 4u * layers);
  EXPECT_LE(choice.bits(), 5);
  EXPECT_GT(choice.bits(), 4.9);
  EXPECT_EQ(choice.weighted_layers, 0);
  // What the files hold is what was chosen, and counts as many bits.
  double bits = 0;
  std::map<std::string, std::string> written;
  for (const TensorPlan& tensor : made.plan.tensors) written[tensor.name] = tensor.format;
  for (const GroupFormats& each : choice.groups) {
    bits += 8.0 * static_cast<double>(each.bytes[each.chosen]);
    const std::string name = each.name.substr(0, each.name.find('{'));
    for (const auto& [tensor, format] : written) {
      const bool member =
          each.name.ends_with('}')
              ? tensor.starts_with(name) &&
                    each.name.find(tensor.substr(name.size(), 4)) != std::string::npos
              : tensor == each.name + ".weight";
      if (!member) continue;
      const MenuFormat chosen = choice.menu[each.chosen];
      EXPECT_EQ(format, chosen ? to_string(*chosen) : "") << tensor;
    }
  }
  EXPECT_DOUBLE_EQ(bits / static_cast<double>(choice.weights()), choice.bits());
  // And no other choice within the bits has less error.
  std::vector<KnapsackItem> items;
  for (const GroupFormats& each : choice.groups) items.push_back({each.errors, each.bytes});
  const auto room = static_cast<std::int64_t>(5.0 / 8 * static_cast<double>(choice.weights()));
  EXPECT_NEAR(choice.error(), solve_knapsack(items, room)->cost, 1e-12);
}

TEST_F(Budgets, give_bits_to_the_layer_that_needs_them) {
  const FormatChoice choice = *convert_model(options(4.8)).plan.choice;
  const GroupFormats& outliers = group(choice, layer_of(2) + "self_attn.o_proj");
  const GroupFormats& usual = group(choice, layer_of(1) + "self_attn.o_proj");
  EXPECT_GT(outliers.errors[1], usual.errors[1]);  // mxfp4
  EXPECT_GE(outliers.bytes[outliers.chosen], usual.bytes[usual.chosen]);
}

TEST_F(Budgets, weigh_errors_by_the_statistics_of_inputs) {
  testing::TestTensors statistics;
  for (int layer = 0; layer < layers; ++layer) {
    for (const std::string name :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
          "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      std::vector<float> squares(64, 1e-6f);
      squares[static_cast<std::size_t>(layer)] = 1;  // one column is all that counts
      statistics[layer_of(layer) + name] = tensor_of(StoredType::f32, {64}, squares);
    }
  }
  testing::write_safetensors(folder / "statistics.safetensors", statistics);
  QuantizeModelOptions with = options(5);
  with.importance = folder / "statistics.safetensors";
  const FormatChoice choice = *convert_model(with).plan.choice;
  EXPECT_EQ(choice.weighted_layers, 7 * layers);
  const FormatChoice without = *plan_quantize_model(options(5, "other")).choice;
  EXPECT_NE(group(choice, "layers.0.self_attn.o_proj").errors,
            group(without, "layers.0.self_attn.o_proj").errors);
  // Under those weights NVFP4, which searches by them, has next to no error left in that column.
  EXPECT_LT(group(choice, "layers.0.self_attn.o_proj").errors[0],
            group(without, "layers.0.self_attn.o_proj").errors[0]);
}

TEST_F(Budgets, count_what_errors_add_to_the_divergence) {
  testing::TestTensors statistics;
  for (int layer = 0; layer < layers; ++layer) {
    for (const std::string name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                   "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj"}) {
      const std::vector<float> squares(64, layer == 1 ? 1.0f : 0x1p-10f);
      statistics[layer_of(layer) + name] = tensor_of(StoredType::f32, {64}, squares);
    }
  }
  const SafetensorsMetadata about{
      {"microscale_statistics", "1"},
      {"tokens", R"({"model.layers.0.self_attn.o_proj": 50, "model.layers.1.self_attn.o_proj": 100,
                     "model.layers.1.self_attn.q_proj": 100})"}};
  SafetensorsMetadata by_gradients = about;
  by_gradients.emplace_back("gradients", "squares");
  const auto write = [&](const char* name, const SafetensorsMetadata& metadata) {
    std::vector<PlannedTensor> planned;
    for (const auto& [module, tensor] : statistics)
      planned.push_back({module, tensor.type, tensor.shape});
    const SafetensorsLayout layout = plan_safetensors(planned, metadata).value();
    std::string file = layout.header;
    for (const TensorEntry& entry : layout.tensors) file += statistics.at(entry.name).bytes;
    testing::write_file(folder / name, file);
  };
  write("plain.safetensors", about);
  write("weighted.safetensors", by_gradients);
  QuantizeModelOptions with = options(5);
  with.importance = folder / "plain.safetensors";
  const FormatChoice shares = *plan_quantize_model(with).choice;
  with.importance = folder / "weighted.safetensors";
  const FormatChoice choice = *convert_model(with).plan.choice;
  EXPECT_FALSE(shares.by_gradients);
  EXPECT_TRUE(choice.by_gradients);
  EXPECT_EQ(choice.weighted_layers, 6 * layers);
  const auto errors = [&](const FormatChoice& of, int layer, const char* name) {
    return group(of, layer_of(layer) + name).errors;
  };
  // Half of the error under the statistics: the share times the output, of half of the tokens.
  const TestModel model = llama();
  for (const int layer : {0, 1}) {
    double output = 0;
    for (const float value :
         testing::values_of(model.shards[0].at(layer_of(layer) + "self_attn.o_proj.weight")))
      output += static_cast<double>(value) * static_cast<double>(value);
    output *= layer == 1 ? 1 : 0x1p-10 * 0.5;
    const double share = errors(shares, layer, "self_attn.o_proj")[0];
    EXPECT_NEAR(errors(choice, layer, "self_attn.o_proj")[0], share * output / 2,
                1e-9 * share * output);
  }
  EXPECT_GT(errors(choice, 0, "mlp.down_proj")[0], 0) << "which has no statistics";
  const GroupFormats& wanted = group(choice, layer_of(1) + "self_attn.{q_proj");
  const GroupFormats& other = group(choice, layer_of(0) + "self_attn.{q_proj");
  EXPECT_GT(wanted.bytes[wanted.chosen], other.bytes[other.chosen]);
  // The choice is read back as it was made.
  EXPECT_EQ(recorded_choice(take(with_menu(with))), choice);
}

TEST_F(Budgets, write_the_same_bytes_at_any_number_of_threads_and_in_little_memory) {
  convert_model(options(5.5, "one", 1));
  QuantizeModelOptions many = options(5.5, "many", 5);
  many.max_memory = std::int64_t{4} << 30;
  convert_model(many);
  EXPECT_EQ(read_folder(folder / "one"), read_folder(folder / "many"));
}

TEST_F(Budgets, fit_the_files_that_are_written) {
  const auto size_of_folder = [&](const std::string& name) {
    std::int64_t size = 0;
    for (const auto& [file, text] : read_folder(folder / name))
      size += static_cast<std::int64_t>(text.size());
    return size;
  };
  convert_model(options(4.5, "small"));
  const std::int64_t wanted = size_of_folder("small") + 20000;
  QuantizeModelOptions fit = options(0);
  fit.budget = {.bits = {}, .bytes = wanted, .menu = {}};
  const Conversion made = convert_model(fit);
  const std::int64_t size = size_of_folder("out");
  EXPECT_LE(size, wanted);
  EXPECT_EQ(size, made.plan.disk_needed);
  // A larger format of the smallest layers would not have fitted.
  EXPECT_GT(size, wanted - 64 * 64);
}

TEST_F(Budgets, refuse_what_cannot_be_met_and_say_the_least_and_the_most) {
  int calls = 0;
  const auto count = [&](std::int64_t, std::int64_t, std::string_view) { return ++calls > 0; };
  const auto refused = [&](const std::string& phrase, QuantizeModelOptions with) {
    expect_error(ErrorCode::invalid_argument, phrase, [&] { convert_model(with, count); });
    EXPECT_FALSE(std::filesystem::exists(with.output));
  };
  refused("take at least 4.25 bits a weight and at most 16", options(4));
  refused("at least 4.25 bits a weight and at most 16", options(17));
  QuantizeModelOptions fit = options(0);
  fit.budget = {.bits = {}, .bytes = 1000, .menu = {}};
  refused("--fit 1000 cannot be met", fit);
  EXPECT_EQ(calls, 0) << "before any weight was read";
  // The very least that is named can be met.
  try {
    convert_model(fit);
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::size_t at = text.find("at least ") + 9;
    fit.budget.bytes = std::stoll(text.substr(at));
  }
  const std::int64_t needed = convert_model(fit).plan.disk_needed;
  EXPECT_LE(needed, *fit.budget.bytes);
  EXPECT_GT(needed, *fit.budget.bytes - 4096) << "but for the room that its text leaves";
}

TEST_F(Budgets, refuse_what_is_no_budget) {
  const auto refused = [&](const std::string& phrase, const auto& change) {
    QuantizeModelOptions with = options(5);
    change(with);
    expect_error(ErrorCode::invalid_argument, phrase, [&] { convert_model(with); });
  };
  refused("give one", [](auto& o) { o.budget.bytes = 1; });
  refused("above 0", [](auto& o) { o.budget.bits = std::nan(""); });
  refused("no format of blocks", [](auto& o) {
    o.budget.menu = {WeightFormat::fp8, std::nullopt};
  });
  refused("nothing to choose", [](auto& o) { o.budget.menu = {WeightFormat::nvfp4}; });
  refused("it takes nvfp4, mxfp8, fp8 and bf16", [](auto& o) {
    o.container = Container::modelopt;
    o.budget.menu = {WeightFormat::mxfp4, std::nullopt};
  });
  refused("mixes formats layer by layer", [](auto& o) { o.container = Container::gpt_oss; });
  refused("--menu has no effect", [](auto& o) {
    o.budget.menu = {WeightFormat::nvfp4, std::nullopt};
    o.budget.bits.reset();
  });
}

TEST_F(Budgets, stay_with_a_choice_that_was_recorded) {
  QuantizeModelOptions with = options(5);
  int calls = 0;
  const auto stop = [&](std::int64_t done, std::int64_t total, std::string_view) {
    // The measuring is the first half; stop once something is being written.
    return ++calls > 0 && done <= total * 2 / 3;
  };
  expect_error(ErrorCode::interrupted, "--resume", [&] { convert_model(with, stop); });
  ASSERT_TRUE(std::filesystem::exists(folder / "out"));
  with.resume = true;
  std::int64_t first_total = 0;
  const Conversion resumed =
      convert_model(with, [&](std::int64_t, std::int64_t total, std::string_view) {
        if (first_total == 0) first_total = total;
        return true;
      });
  EXPECT_EQ(first_total, resumed.plan.bytes_before) << "nothing was measured again";
  convert_model(options(5, "whole"));
  EXPECT_EQ(read_folder(folder / "out"), read_folder(folder / "whole"));
  EXPECT_TRUE(convert_model(with).finished.done) << "and a finished folder is left as it is";
  QuantizeModelOptions other = options(6);
  other.resume = true;
  expect_error(ErrorCode::invalid_argument, "option budget was at most 5 bits",
               [&] { convert_model(other); });
}

TEST_F(Budgets, are_recorded_in_the_manifest) {
  const FormatChoice choice = *convert_model(options(5)).plan.choice;
  const auto manifest = parse_manifest(testing::read_file(folder / "out" / manifest_name));
  ASSERT_TRUE(testing::succeeds(manifest));
  std::map<std::string, std::string> made_of(manifest.value().made_of.begin(),
                                             manifest.value().made_of.end());
  EXPECT_EQ(made_of.at("option budget"),
            "at most 5 bits a weight, of nvfp4, mxfp4, mxfp8, fp8 and bf16");
  EXPECT_NE(made_of.at("option choice").find("self_attn.o_proj"), std::string::npos);
  QuantizeModelOptions again = options(5);
  EXPECT_EQ(recorded_choice(take(with_menu(again))), choice);
  again.budget.menu = {WeightFormat::nvfp4, std::nullopt};
  EXPECT_FALSE(recorded_choice(take(with_menu(again))).has_value()) << "of another menu";
}

TEST_F(Budgets, do_not_measure_for_a_folder_that_is_taken) {
  testing::write_file(folder / "out" / "something", "here");
  int calls = 0;
  expect_error(ErrorCode::invalid_argument, "is not empty", [&] {
    convert_model(options(5),
                  [&](std::int64_t, std::int64_t, std::string_view) { return ++calls > 0; });
  });
  EXPECT_EQ(calls, 0);
}

TEST_F(Budgets, describe_the_mixture_to_loaders) {
  QuantizeModelOptions with = options(9);  // some layers stay BF16
  with.budget.menu = {WeightFormat::nvfp4, std::nullopt};
  const FormatChoice choice = *convert_model(with).plan.choice;
  std::size_t dense = 0;
  for (const GroupFormats& each : choice.groups) dense += !choice.menu[each.chosen];
  EXPECT_GT(dense, 0u);
  EXPECT_LT(dense, choice.groups.size());
  EXPECT_EQ(verify_model({folder / "out", 1}), std::vector<std::string>());
  const auto config = nlohmann::json::parse(testing::read_file(folder / "out" / "config.json"));
  const auto& ignored = config["quantization_config"]["ignore"];
  for (const GroupFormats& each : choice.groups) {
    if (choice.menu[each.chosen] || each.name.find('{') != std::string::npos) continue;
    EXPECT_NE(std::find(ignored.begin(), ignored.end(), each.name), ignored.end()) << each.name;
  }
}

TEST_F(Budgets, report_the_curve_between_uniform_formats) {
  const Conversion made = convert_model(options(5));
  ASSERT_TRUE(made.report.choice.has_value());
  const ChoiceReport& choice = *made.report.choice;
  EXPECT_NEAR(choice.curve.front().bits, 4.25, 1e-9);
  EXPECT_EQ(choice.curve.back().bits, 16);
  EXPECT_NEAR(choice.curve.back().error, 0, 1e-12);
  const auto uniform = uniform_points(choice);
  ASSERT_EQ(uniform.size(), 5u);
  EXPECT_EQ(uniform[0].name, "nvfp4");
  EXPECT_NEAR(uniform[0].point.bits, 4.5, 1e-9);
  EXPECT_LT(chosen_point(choice).error, uniform[0].point.error) << "more bits, less error";
}

}  // namespace
}  // namespace microscale
