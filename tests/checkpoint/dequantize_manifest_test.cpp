// dequantize on folders with weights beside the model, and against the manifest of its input.
#include <gtest/gtest.h>

#include "checkpoint/model_builder.hpp"
#include "checkpoint/small_model.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::SmallModel;
using testing::TemporaryFolder;

// "<code>: <message>" of what dequantize_model throws.
std::string failure_of(const fs::path& input, const fs::path& output) {
  try {
    dequantize_model({input, output, DType::bf16});
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no failure";
}

SmallModel with_side_file() {
  SmallModel model = testing::small_llama(Format::mxfp4);
  model.add_quantized("mtp.fc", Format::mxfp4, 64, 64, testing::gaussian(64 * 64, 5), {},
                      "mtp.safetensors");
  model.add_floats("adapter.norm", {4}, {1, 2, 3, 4}, "zz.safetensors");
  return model;
}

// SmallModel writes an index of several files; here only the first is the model.
void write_with_side_files(const fs::path& folder) {
  with_side_file().write(folder);
  fs::remove(folder / shard_index_name);
}

TEST(DequantizeModel, decodes_files_beside_the_model_and_copies_those_that_are_dense) {
  TemporaryFolder folder;
  write_with_side_files(folder / "in");
  dequantize_model({folder / "in", folder / "out", DType::bf16});
  const ModelFolder side = take(open_model_folder(folder / "out/mtp.safetensors"));
  ASSERT_EQ(side.tensors.size(), 1u);
  EXPECT_EQ(side.tensors[0].name(), "mtp.fc.weight");
  EXPECT_EQ(side.tensors[0].entry->type, StoredType::bf16);
  EXPECT_EQ(testing::read_file(folder / "out/zz.safetensors"),
            testing::read_file(folder / "in/zz.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "out" / shard_index_name));
}

TEST(DequantizeModel, writes_a_manifest_and_refuses_what_its_manifest_denies) {
  TemporaryFolder folder;
  write_with_side_files(folder / "in");
  dequantize_model({folder / "in", folder / "dense", DType::bf16});
  QuantizeModelOptions options;
  options.input = folder / "dense";
  options.output = folder / "out";
  quantize_model(options);
  const auto spoil = [&](const fs::path& file, const std::string& tensor) {
    const ModelFolder model = take(open_model_folder(file));
    std::string bytes = testing::read_file(file);
    bytes[model.find(tensor)->entry->begin] ^= 1;
    testing::write_file(file, bytes);
  };
  const std::string codes = "model.layers.0.mlp.up_proj.weight_packed";
  spoil(folder / "out/model.safetensors", codes);
  EXPECT_EQ(failure_of(folder / "out", folder / "again")
                .find("bad_input: dequantize: the model is not what was written: "
                      "model.safetensors: '" +
                      codes + "': its bytes were changed"),
            0u)
      << failure_of(folder / "out", folder / "again");
  EXPECT_FALSE(fs::exists(folder / "again"));
  testing::expect_error(ErrorCode::bad_input, codes, [&] {
    dequantize_model({folder / "out", folder / "again", DType::bf16, 1, true});
  });
  testing::write_file(folder / "out/microscale_manifest.json", "{");
  EXPECT_NE(failure_of(folder / "out", folder / "again").find("microscale_manifest.json: "),
            std::string::npos);
  EXPECT_TRUE(verify_model({.input = folder / "dense", .threads = 1}).empty());
  spoil(folder / "dense/mtp.safetensors", "mtp.fc.weight");
  const auto problems = verify_model({.input = folder / "dense", .threads = 1});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("'mtp.fc.weight': its bytes were changed"), std::string::npos);
}

}  // namespace
}  // namespace microscale
