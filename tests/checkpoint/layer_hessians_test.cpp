// Whole conversions with a file of statistics: which layers take which Hessian, that the bytes are
// those of quantize_with_hessian, what is refused and what is said.
#include "checkpoint/layer_hessians.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/convert.hpp"
#include "checkpoint/output_folder.hpp"
#include "microscale/quantize.hpp"
#include "sample_model.hpp"
#include "support/hessian_oracle.hpp"

namespace microscale {
namespace {

using testing::attention;
using testing::mlp;
using testing::tensor_of;
using testing::TestTensors;

constexpr const char* sharing =
    R"({"model.layers.0.self_attn.k_proj": "model.layers.0.self_attn.q_proj",
        "model.layers.0.self_attn.v_proj": "model.layers.0.self_attn.q_proj",
        "model.layers.0.mlp.up_proj": "model.layers.0.mlp.gate_proj"})";

std::string text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class LayerHessiansTest : public ::testing::Test {
 protected:
  LayerHessiansTest() : options_(testing::options_for(folder_, Format::nvfp4)) {
    testing::sample_model().write(folder_ / "in");
    options_.importance = folder_ / "statistics.safetensors";
    add(attention + "q_proj", test::correlated_hessian(64, 300, 1), 64);
    add(attention + "o_proj", test::correlated_hessian(96, 300, 2), 96);
    add(mlp + "gate_proj", test::correlated_hessian(64, 300, 3), 64);
  }

  void add(const std::string& module, const std::vector<float>& hessian, std::int64_t cols) {
    std::vector<float> diagonal;
    for (std::int64_t k = 0; k < cols; ++k)
      diagonal.push_back(hessian[static_cast<std::size_t>(k * (cols + 1))]);
    tensors_[module] = tensor_of(StoredType::f32, {cols}, diagonal);
    tensors_[module + ".hessian"] = tensor_of(StoredType::f32, {cols, cols}, hessian);
  }

  void write_statistics() {
    std::vector<PlannedTensor> planned;
    for (const auto& [name, tensor] : tensors_)
      planned.push_back({name, tensor.type, tensor.shape});
    const auto layout = plan_safetensors(planned, metadata_);
    ASSERT_TRUE(testing::succeeds(layout));
    std::string file = layout.value().header;
    for (const TensorEntry& entry : layout.value().tensors) file += tensors_.at(entry.name).bytes;
    testing::write_file(options_.importance, file);
  }

  TestTensors converted() {
    write_statistics();
    std::filesystem::remove_all(options_.output);
    notices_ = convert_model(options_).plan.notices;
    return testing::read_tensors(options_.output);
  }

  void refused(ErrorCode code, const std::string& phrase) {
    write_statistics();
    std::filesystem::remove_all(options_.output);
    testing::expect_error(code, phrase, [&] { convert_model(options_); });
  }

  // The bytes of a layer whose tensor is in `shard` of the sample model.
  void expect_layer(const TestTensors& output, const std::string& module, std::size_t shard,
                    const std::string& owner, double shrink, float amax) {
    const testing::TestModel model = testing::sample_model();
    const testing::TestTensor& weight = model.shards[shard].at(module + ".weight");
    const std::vector<float> values = testing::values_of(weight),
                             h = testing::values_of(tensors_.at(owner + ".hessian"));
    HessianOptions options;
    options.hessian = h;
    options.cols = weight.shape[1];
    options.format = options_.format;
    options.shrink = shrink;
    if (options_.statistics.method == StatisticsMethod::block_hessian)
      options.method = HessianMethod::block_hessian;
    options.damping = options_.statistics.damping;
    const PreparedHessian hessian(options);
    const BlockTensor wanted = quantize_with_hessian(
        {.input = packed(values.data(), DType::f32, weight.shape[0], weight.shape[1]),
         .hessian = &hessian,
         .tensor_amax = amax});
    EXPECT_TRUE(output.at(module + ".weight_packed").bytes == text_of(wanted.codes())) << module;
    EXPECT_TRUE(output.at(module + ".weight_scale").bytes == text_of(wanted.scales())) << module;
  }

  float amax_of(std::initializer_list<std::pair<std::size_t, std::string>> modules) {
    const testing::TestModel model = testing::sample_model();
    float amax = 0;
    for (const auto& [shard, module] : modules)
      for (const float value : testing::values_of(model.shards[shard].at(module + ".weight")))
        amax = std::max(amax, std::fabs(value));
    return amax;
  }

  bool told(const std::string& phrase) const {
    return std::ranges::any_of(notices_, [&](const std::string& notice) {
      return notice.find(phrase) != std::string::npos;
    });
  }

  testing::TemporaryFolder folder_;
  QuantizeModelOptions options_;
  TestTensors tensors_;
  SafetensorsMetadata metadata_{{"microscale_statistics", "1"}, {"shares", sharing}};
  std::vector<std::string> notices_;
};

TEST_F(LayerHessiansTest, layers_take_their_hessian_or_that_of_whom_they_share_inputs_with) {
  for (const Format format : {Format::nvfp4, Format::mxfp4})
    for (const StatisticsMethod method :
         {StatisticsMethod::automatic, StatisticsMethod::block_hessian})
      for (const int threads : {1, 3}) {
        options_.format = format;
        options_.statistics.method = method;
        options_.threads = threads;
        const TestTensors output = converted();
        const float qkv = amax_of(
            {{0, attention + "q_proj"}, {1, attention + "k_proj"}, {1, attention + "v_proj"}});
        const float gate_up = amax_of({{0, mlp + "gate_proj"}, {1, mlp + "up_proj"}});
        expect_layer(output, attention + "q_proj", 0, attention + "q_proj", 0.3, qkv);
        expect_layer(output, attention + "k_proj", 1, attention + "q_proj", 0.3, qkv);
        expect_layer(output, attention + "v_proj", 1, attention + "q_proj", 0.3, qkv);
        expect_layer(output, mlp + "up_proj", 1, mlp + "gate_proj", 0.3, gate_up);
        expect_layer(output, attention + "o_proj", 0, attention + "o_proj", 0.3,
                     amax_of({{0, attention + "o_proj"}}));
      }
}

TEST_F(LayerHessiansTest, tokens_and_options_decide_how_much_it_shrinks) {
  const float amax = amax_of({{0, attention + "o_proj"}});
  metadata_.emplace_back("tokens", R"({"model.layers.0.self_attn.o_proj": 6144})");
  expect_layer(converted(), attention + "o_proj", 0, attention + "o_proj", 0.1, amax);
  options_.statistics.shrink = 0.5;
  options_.statistics.damping = 0.05;
  expect_layer(converted(), attention + "o_proj", 0, attention + "o_proj", 0.5, amax);
}

TEST_F(LayerHessiansTest, what_was_shrunk_when_it_was_made_is_shrunk_no_more) {
  const float amax = amax_of({{0, attention + "o_proj"}});
  metadata_.emplace_back("shrunk", "0.3");
  expect_layer(converted(), attention + "o_proj", 0, attention + "o_proj", 0, amax);
}

TEST_F(LayerHessiansTest, search_takes_the_vectors_and_layers_without_a_hessian_are_searched) {
  options_.statistics.method = StatisticsMethod::search;
  const TestTensors searched = converted();
  tensors_.erase(attention + "o_proj.hessian");
  options_.statistics = {};
  const TestTensors mixed = converted();
  const std::string codes = attention + "o_proj.weight_packed";
  EXPECT_EQ(mixed.at(codes), searched.at(codes));
  EXPECT_NE(mixed.at(attention + "q_proj.weight_packed"),
            searched.at(attention + "q_proj.weight_packed"));
  EXPECT_TRUE(told("has Hessians for 5 of 6 layers; the others are searched"));
}

TEST_F(LayerHessiansTest, damping_and_columns_without_input_are_said) {
  std::vector<float> flat(64 * 64);  // one token, and a column that it has nothing of
  for (std::size_t i = 1; i < 64; ++i)
    for (std::size_t j = 1; j < 64; ++j) flat[i * 64 + j] = float((i % 7) * (j % 7)) + 1e-3f;
  for (std::size_t i = 1; i < 64; ++i) flat[i * 65] += 1e-6f;
  add(attention + "q_proj", flat, 64);
  options_.statistics.damping = 0;
  options_.statistics.shrink = 0;
  const TestTensors output = converted();
  EXPECT_TRUE(told("were damped by up to 0.001 times their mean instead of 0"));
  EXPECT_TRUE(told("1 input columns of 1 layers, 'model.layers.0.self_attn.q_proj' among them"));
}

TEST_F(LayerHessiansTest, what_is_no_hessian_is_refused_by_name) {
  const TestTensors sound = tensors_;
  const std::string q = attention + "q_proj";
  const auto with = [&](std::size_t i, std::size_t j, float value) {
    std::vector<float> h = testing::values_of(sound.at(q + ".hessian"));
    h[i * 64 + j] = value;
    add(q, h, 64);
  };
  with(3, 5, std::numeric_limits<float>::quiet_NaN());
  refused(ErrorCode::bad_input, "the Hessian of 'model.layers.0.self_attn.q_proj' in '");
  with(3, 5, 1e6f);
  refused(ErrorCode::bad_input, "is not symmetric: 1000000 at (3, 5)");
  tensors_[q + ".hessian"] = tensor_of(StoredType::f32, {64, 63}, std::vector<float>(64 * 63));
  refused(ErrorCode::bad_input, "must be F32 of shape [64, 64]");
  tensors_ = sound;
  metadata_.emplace_back("tokens", R"({"a": -1})");
  refused(ErrorCode::bad_input, "\"tokens\" in its metadata is no object of counts");
}

TEST_F(LayerHessiansTest, options_without_effect_are_refused) {
  write_statistics();
  const auto refuse = [&](const std::string& phrase, auto&& change) {
    QuantizeModelOptions changed = options_;
    change(changed);
    testing::expect_error(ErrorCode::invalid_argument, phrase,
                          [&] { plan_quantize_model(changed); });
  };
  refuse("have no effect without statistics", [](auto& o) {
    o.importance.clear();
    o.statistics.method = StatisticsMethod::gptq;
  });
  refuse("have no effect on --method search",
         [](auto& o) { o.statistics = {.method = StatisticsMethod::search, .shrink = 0.1}; });
  refuse("shrink 2", [](auto& o) { o.statistics.shrink = 2; });
  refuse("damping -1", [](auto& o) { o.statistics.damping = -1; });
  refuse("codes rounded to the nearest",
         [](auto& o) { o.numerics.rounding = Rounding::stochastic; });
  std::erase_if(tensors_, [](const auto& tensor) { return tensor.first.ends_with(".hessian"); });
  write_statistics();
  refuse("--method gptq wants Hessians",
         [](auto& o) { o.statistics.method = StatisticsMethod::gptq; });
}

TEST_F(LayerHessiansTest, every_option_is_of_the_fingerprint) {
  write_statistics();
  const ModelPlan plan = take(make_model_plan(options_));
  const Fingerprint usual = take(fingerprint_of(plan, options_));
  for (const StatisticsUse& use : {StatisticsUse{.method = StatisticsMethod::search},
                                   StatisticsUse{.shrink = 0.2}, StatisticsUse{.damping = 0.02}}) {
    options_.statistics = use;
    EXPECT_NE(difference(usual, take(fingerprint_of(plan, options_))), "");
  }
}

TEST_F(LayerHessiansTest, units_of_one_hessian_lie_together_and_memory_counts_it) {
  write_statistics();
  const ModelPlan plan = take(make_model_plan(options_));
  const Importance statistics = take(Importance::open(options_.importance, plan));
  const LayerHessians hessians(plan, options_, &statistics);
  const Batch batch = make_schedule(plan, {false, false}, 1 << 30).front();
  const auto pieces = hessians.pieces(batch.convert);
  ASSERT_EQ(pieces.size(), 1u);  // all are small
  EXPECT_EQ(pieces[0].size(), batch.convert.size());
  std::vector<std::string> owners;
  for (const Unit& unit : pieces[0]) {
    if (unit.kind != Unit::Kind::quantize) continue;
    const QuantizedMatrix& matrix = plan.shards[unit.shard].matrices[unit.item];
    if (!hessians.has(matrix)) continue;
    const std::string& owner = *statistics.hessian_of(matrix.slice.module);
    if (owners.empty() || owners.back() != owner) owners.push_back(owner);
  }
  EXPECT_EQ(owners.size(), 3u);
  const auto bytes = [](std::int64_t cols) {
    const HessianBytes each = hessian_bytes(cols, Format::nvfp4, HessianMethod::gptq);
    return each.making + each.kept + cols * cols * 4;
  };
  EXPECT_EQ(hessians.bytes(), 2 * bytes(64) + bytes(96));
  QuantizeModelOptions without = options_;
  without.statistics.method = StatisticsMethod::search;
  EXPECT_EQ(LayerHessians(plan, without, &statistics).bytes(), 0);
}

}  // namespace
}  // namespace microscale
