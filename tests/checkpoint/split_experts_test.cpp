#include "checkpoint/split_experts.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

using testing::SmallModel;
using testing::TemporaryFolder;
using Names = std::vector<std::string>;

// One layer of two experts, hidden 4 and inner 2, and a norm.
SmallModel fused() {
  SmallModel model;
  model.add_floats("m.experts.gate_up_proj", {2, 4, 4}, std::vector<float>(32, 1.0f));
  model.add_floats("m.experts.down_proj", {2, 4, 2}, std::vector<float>(16, 1.0f));
  model.add_floats("m.norm.weight", {4}, {1, 1, 1, 1});
  model.config = R"({"model_type": "mixtral", "hidden_size": 4})";
  return model;
}

// Names of the model's tensors as they are looked at beside one with the tensors `other`.
Names names_beside(const SmallModel& model, const Names& other) {
  TemporaryFolder folder;
  SmallModel second;
  for (const std::string& name : other) second.add_floats(name, {1}, {1});
  model.write(folder / "a");
  second.write(folder / "b");
  const QuantizedFolder a = take(open_quantized_folder(folder / "a")),
                        b = take(open_quantized_folder(folder / "b"));
  SplitTensors split = split_like(a, b, {}, ExpertOrder::halves);
  const SplitTensors moved = std::move(split);
  Names names;
  for (const LogicalTensor& tensor : moved.tensors) {
    names.push_back(tensor.name);
    if (tensor.slice) {
      EXPECT_EQ(tensor.elements(), tensor.slice->rows * tensor.slice->cols) << tensor.name;
      EXPECT_EQ(tensor.bytes(), static_cast<std::uint64_t>(tensor.elements()) * 4) << tensor.name;
    }
  }
  return names;
}

TEST(SplitLike, splits_what_the_other_holds_split) {
  EXPECT_EQ(names_beside(fused(), {"m.experts.0.gate_proj.weight"}),
            (Names{"m.experts.0.down_proj.weight", "m.experts.0.gate_proj.weight",
                   "m.experts.0.up_proj.weight", "m.experts.1.down_proj.weight",
                   "m.experts.1.gate_proj.weight", "m.experts.1.up_proj.weight", "m.norm.weight"}));
}

TEST(SplitLike, leaves_everything_else_as_it_is) {
  const Names whole{"m.experts.down_proj", "m.experts.gate_up_proj", "m.norm.weight"};
  EXPECT_EQ(names_beside(fused(), {"m.experts.gate_up_proj"}), whole);
  EXPECT_EQ(names_beside(fused(), {"m.expertss.0.gate_proj.weight"}), whole);
  SmallModel odd = fused();  // of no layout that is known
  odd.add_floats("m.experts.down_proj", {2, 3, 2}, std::vector<float>(12, 1.0f));
  EXPECT_EQ(names_beside(odd, {"m.experts.0.gate_proj.weight"}), whole);
}

}  // namespace
}  // namespace microscale
