#include "microscale/checkpoint_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/small_model.hpp"
#include "checkpoint/support.hpp"
#include "checkpoint/weight_reader.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;

TEST(CheckpointFile, maps_what_the_converter_reads) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    TemporaryFolder folder;
    testing::small_llama(format).write(folder.path());
    const QuantizedFolder read = take(open_quantized_folder(folder.path()));
    const CheckpointFile model(folder.path());
    ASSERT_EQ(model.tensors().size(), read.tensors.size());
    for (std::size_t i = 0; i < read.tensors.size(); ++i) {
      const CheckpointTensor& tensor = model.tensors()[i];
      const LogicalTensor& wanted = read.tensors[i];
      EXPECT_EQ(tensor.name, wanted.name);
      EXPECT_EQ(tensor.shape, wanted.shape);
      ASSERT_EQ(tensor.blocks.has_value(), wanted.module != nullptr) << tensor.name;
      PieceData data;
      const Status status = read_piece(read, pieces_of(wanted).at(0), data);
      ASSERT_TRUE(status.ok());
      ASSERT_TRUE(std::ranges::equal(tensor.bytes, data.codes)) << tensor.name;
      if (!tensor.blocks) continue;
      EXPECT_EQ(tensor.dtype, info(format).name);
      EXPECT_TRUE(std::ranges::equal(tensor.blocks->scales, data.scales));
      const BlockShape& shape = tensor.blocks->shape;
      std::vector<float> values(data.values.size());
      dequantize(*tensor.blocks, packed(values.data(), DType::f32, shape.rows, shape.cols));
      EXPECT_EQ(values, data.values) << tensor.name;
    }
  }
}

TEST(CheckpointFile, finds_by_the_names_of_weight_and_layer) {
  TemporaryFolder folder;
  testing::small_llama(Format::nvfp4).write(folder.path());
  CheckpointFile model(folder.path());
  const std::string layer = "model.layers.0.self_attn.q_proj";
  const CheckpointTensor* const found = model.find(layer + ".weight");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, layer + ".weight");
  EXPECT_EQ(model.find(layer), found);
  EXPECT_EQ(model.find("model.nothing"), nullptr);
  const CheckpointFile moved = std::move(model);
  EXPECT_EQ(moved.find(layer), found);
}

TEST(CheckpointFile, refuses_what_is_no_checkpoint) {
  TemporaryFolder folder;
  EXPECT_THROW(CheckpointFile(folder.path() / "absent"), Error);
  std::ofstream(folder.path() / "model.safetensors") << "no header";
  EXPECT_THROW(CheckpointFile{folder.path()}, Error);
}

}  // namespace
}  // namespace microscale
