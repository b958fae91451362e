#include "checkpoint/kept_check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "checkpoint/containers/coded_models.hpp"
#include "checkpoint/kept_codes.hpp"
#include "model_builder.hpp"

namespace microscale {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

class KeptCheck : public ::testing::Test {
 protected:
  KeptCheck() : codes_(tile_elements), scales_(tile_elements / 16) {
    testing::gpt_oss_model().model.write(place_ / "in");
    options_.input = place_ / "in";
    options_.output = place_ / "out";
    options_.container = Container::modelopt;
    before_ = convert_model(options_).hash_before;
  }

  std::uint64_t hash() {
    const ModelPlan plan = take(make_model_plan(take(options_for(options_))));
    std::size_t modules = 0;
    const std::uint64_t sum = hash_of_output(plan, options_.output, {{{}, codes_, scales_}},
                                             [&](std::string_view) { ++modules; });
    EXPECT_EQ(modules, 9u);
    return sum;
  }

  TemporaryFolder place_;
  ConvertModelOptions options_;
  std::uint64_t before_ = 0;
  std::vector<std::uint8_t> codes_, scales_;
};

TEST_F(KeptCheck, what_was_written_has_the_hash_of_what_was_read) { EXPECT_EQ(hash(), before_); }

TEST_F(KeptCheck, notices_a_code_that_changed) {
  const auto path = options_.output / "model-1.safetensors";
  std::string bytes = testing::read_file(path);
  const auto header = take(read_safetensors_header(take(InputFile::open(path))));
  for (const TensorEntry& entry : header.tensors) {
    if (entry.name.ends_with("experts.1.up_proj.weight")) bytes[entry.begin + 100] ^= 0x10;
  }
  testing::write_file(path, bytes);
  EXPECT_NE(hash(), before_);
}

TEST_F(KeptCheck, names_a_weight_that_is_not_there) {
  for (const char* name : {"model-1.safetensors", "model.safetensors.index.json"}) {
    std::string bytes = testing::read_file(options_.output / name);
    for (std::size_t at = 0;
         (at = bytes.find("experts.1.up_proj.weight", at)) != std::string::npos;) {
      bytes[at + 8] = '7';
    }
    testing::write_file(options_.output / name, bytes);
  }
  expect_error(ErrorCode::io, "experts.1.up_proj", [&] { hash(); });
}

}  // namespace
}  // namespace microscale
