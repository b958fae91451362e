#include "checkpoint/gguf_layout.hpp"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/containers/gguf_small.hpp"
#include "checkpoint/gguf_output.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

TEST(GgufLayout, a_scale_lies_beside_its_weight) {
  EXPECT_EQ(gguf_scale_name("blk.0.ffn_up.weight"), "blk.0.ffn_up.scale");
}

TEST(GgufLayout, every_byte_of_every_tensor_has_one_writer) {
  const testing::TemporaryFolder folder;
  testing::GgufBuilder builder = testing::small_metadata("llama");
  testing::add_small_tensors(builder);
  builder.tensor("blk.1.ffn_up_exps.weight", GgufType::f32, {64, 6, 3},
                 testing::counting(64 * 6 * 3, 1));
  testing::write_file(folder / "in.gguf", builder.file());
  QuantizeModelOptions options;
  options.input = folder / "in.gguf";
  options.output = folder / "out.gguf";
  options.container = Container::gguf;
  const ModelPlan plan = take(plan_gguf_output(options));
  ASSERT_EQ(plan.shards.size(), 1u);
  const ShardPlan& shard = plan.shards.front();
  EXPECT_EQ(shard.name, "out.gguf");
  EXPECT_TRUE(plan.one_file);
  std::map<std::uint64_t, std::uint64_t> runs{{0, shard.layout.header.size()}};
  for (const QuantizedMatrix& matrix : shard.matrices) {
    const auto elements = static_cast<std::uint64_t>(matrix.slice.rows * matrix.slice.cols);
    EXPECT_TRUE(runs.emplace(matrix.at.codes, elements / 64 * 36).second);
    EXPECT_TRUE(runs.emplace(matrix.at.global_scale, 4).second);
  }
  for (const CopiedTensor& copy : shard.copies) {
    EXPECT_TRUE(runs.emplace(copy.at, plan.tensors[copy.tensor].entry->bytes()).second);
  }
  EXPECT_EQ(runs.size(), shard.layout.tensors.size() + 1 + 2 * 2);  // three experts, not one
  std::uint64_t end = 0;
  for (const auto& [begin, bytes] : runs) {
    EXPECT_GE(begin, end);
    EXPECT_LT(begin, end + 32);  // padding
    end = begin + bytes;
  }
  EXPECT_EQ((end + 31) / 32 * 32, shard.layout.file_size);
  EXPECT_EQ(plan.summary.disk_needed, static_cast<std::int64_t>(shard.layout.file_size));
}

}  // namespace
}  // namespace microscale
