#include "checkpoint/file_names.hpp"

#include <gtest/gtest.h>

#include "checkpoint/model_plan.hpp"
#include "checkpoint/sample_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using testing::fails_with;
using testing::options_for;
using testing::succeeds;
using testing::write_file;

// Index, manifest and reports are JSON.
TEST(CheckFileNames, names_that_are_no_text_are_refused_before_anything_is_made) {
  const testing::TemporaryFolder folder;
  testing::sample_model().write(folder / "in");
  for (const char* name : {"tok\xFF.txt", "checkpoint-\xC3/a.bin", "sub\x80/a.json"}) {
    write_file(folder / "in" / name, "x");
    const auto plan = make_model_plan(options_for(folder, Format::mxfp4));
    EXPECT_TRUE(fails_with(plan, "is no UTF-8 text")) << name;
    EXPECT_FALSE(fs::exists(folder / "out"));
    fs::remove_all(folder / "in" / *fs::path(name).begin());
  }
  write_file(folder / "in" / "t\xC3\xB6k.txt", "x");
  EXPECT_TRUE(succeeds(make_model_plan(options_for(folder, Format::mxfp4))));
}

}  // namespace
}  // namespace microscale
