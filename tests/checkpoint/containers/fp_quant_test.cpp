// FP-Quant's layers: decoded where nothing turned them, refused by name where a matrix did.
#include <gtest/gtest.h>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/containers/containers.hpp"

namespace microscale {
namespace {

using testing::Bytes;
using testing::CodedModel;
using testing::TemporaryFolder;

const std::string module = "model.layers.0.mlp.up_proj";

Bytes bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(float_to_bf16(value));
  return testing::bytes_of(halves);
}

// A matrix [side, side] with ones on its diagonal.
Bytes identity(std::size_t side) {
  std::vector<float> values(side * side);
  for (std::size_t i = 0; i < side; ++i) values[i * side + i] = 1;
  return bf16(values);
}

CodedModel fp_quant_model(Format format, float divisor) {
  CodedModel coded;
  const std::int64_t rows = 96, cols = 128, block = format == Format::nvfp4 ? 16 : 32;
  const Bytes codes = testing::random_bytes(rows * cols / 2, 1);
  const Bytes scales = format == Format::nvfp4
                           ? testing::random_bytes(rows * cols / block, 2, 0x20, 0x7E)
                           : testing::random_bytes(rows * cols / block, 2, 116, 122);
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint8_t code = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    const std::uint8_t scale = scales[i / static_cast<std::size_t>(block)];
    values[i] = format == Format::nvfp4
                    ? testing::e2m1_value(code) * (testing::e4m3_value(scale) * (1 / divisor))
                    : testing::e2m1_value(code) * testing::e8m0_value(scale) / divisor;
  }
  coded.model.add(module + ".qweight", StoredType::u8, {rows, cols / 2}, codes);
  coded.model.add(module + ".scales", StoredType::u8, {rows, cols / block}, scales);
  coded.model.add(module + ".weight_global_scale", StoredType::bf16, {1}, bf16({divisor}));
  coded.model.add(module + ".act_global_scale", StoredType::bf16, {1}, bf16({divisor}));
  for (const char* matrix : {".forward_hadamard_matrix", ".backward_hadamard_matrix"})
    coded.model.add(module + matrix, StoredType::bf16, {32, 32}, identity(32));
  coded.model.add_floats("model.norm.weight", {128}, testing::gaussian(128, 3));
  coded.values[module + ".weight"] = std::move(values);
  coded.model.config = R"({"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 1,
      "quantization_config": {"quant_method": "fp_quant", "transform_init": "identity"}})";
  return coded;
}

QuantizedFolder opened(const CodedModel& coded, const TemporaryFolder& place) {
  coded.model.write(place.path());
  return take(open_quantized_folder(place.path()));
}

TEST(FpQuant, layers_that_nothing_turned_are_decoded) {
  for (const auto& [format, divisor] :
       {std::pair{Format::nvfp4, 8.0f}, {Format::mxfp4, 1.0f}, {Format::mxfp4, 3.0f}}) {
    TemporaryFolder place;
    const CodedModel coded = fp_quant_model(format, divisor);
    const QuantizedFolder folder = opened(coded, place);
    EXPECT_EQ(folder.unusable, Findings());
    testing::expect_values(folder, coded);
    EXPECT_EQ(folder.find(module)->blocks().has_value(), divisor != 3.0f);
  }
}

TEST(FpQuant, a_weight_that_was_turned_is_refused_by_name) {
  CodedModel coded = fp_quant_model(Format::mxfp4, 3);
  std::vector<float> hadamard(32 * 32);
  for (std::size_t i = 0; i < hadamard.size(); ++i)
    hadamard[i] = (__builtin_popcountll(i / 32 & i % 32) % 2 ? -1.0f : 1.0f) * 0.17677669f;
  coded.model.at(module + ".forward_hadamard_matrix").bytes = bf16(hadamard);
  TemporaryFolder place;
  const QuantizedFolder folder = opened(coded, place);
  ASSERT_EQ(folder.unusable.size(), 1u);
  EXPECT_NE(folder.unusable[0].message.find("by forward_hadamard_matrix before it was rounded"),
            std::string::npos);
}

TEST(FpQuant, parts_that_do_not_fit_are_named) {
  CodedModel coded = fp_quant_model(Format::nvfp4, 10);
  coded.model.at(module + ".weight_global_scale").bytes = bf16({-1});
  TemporaryFolder one;
  EXPECT_NE(opened(coded, one).unusable.at(0).message.find("is not one positive number"),
            std::string::npos);
  coded = fp_quant_model(Format::nvfp4, 10);
  coded.model.at(module + ".scales") = {StoredType::u8, {96, 3}, Bytes(96 * 3)};
  TemporaryFolder two;
  EXPECT_NE(opened(coded, two).unusable.at(0).message.find("have scales [96, 8] or [96, 4]"),
            std::string::npos);
}

}  // namespace
}  // namespace microscale
