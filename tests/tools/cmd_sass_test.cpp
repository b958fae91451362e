// sass: its table and document, from a disassembly and from the kernels that the program carries.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cuda/device/kernel_images.hpp"
#include "sass/disassemble.hpp"
#include "sass/listings.hpp"
#include "tools/subprocess.hpp"

namespace microscale::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Sass : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "microscale_test_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = (folder_ / "kernel.sass").string();
    std::ofstream(file_) << nvdisasm_text("kernel", line_of(0, "LDG.E.U8 R0, desc[UR4][R2.64]") +
                                                        line_of(16, "FMNMX R0, R0, R1, PT") +
                                                        line_of(32, "STL [R1], R0") +
                                                        line_of(48, "EXIT") + line_of(64, "NOP"));
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::string file_;
};

TEST_F(Sass, counts_a_disassembly) {
  const Json json = Json::parse(microscale({"sass", file_, "--json"}).out);
  ASSERT_EQ(json["kernels"].size(), 1u);
  const Json& kernel = json["kernels"][0];
  EXPECT_EQ(kernel["name"], "kernel");
  EXPECT_EQ(kernel["instructions"], 4);
  EXPECT_EQ(kernel["registers"], 47);
  EXPECT_EQ(kernel["shared_bytes"], 2048);
  EXPECT_EQ(kernel["byte_global"], 1);
  EXPECT_EQ(kernel["min_max"], 1);
  EXPECT_EQ(kernel["local_stores"], 1);
  EXPECT_EQ(kernel["classes"]["global"], 1);
  EXPECT_TRUE(kernel["instructions_an_element"].is_null());  // no kernel of this library
}

TEST_F(Sass, prints_a_table) {
  const Outcome outcome = microscale({"sass", file_});
  EXPECT_EQ(outcome.code, 0);
  for (const char* word : {"kernel", "/element", "regs", "min/max", "47", "2048"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << outcome.out;
}

TEST_F(Sass, says_what_it_cannot_read) {
  EXPECT_EQ(microscale({"sass"}).code, 2);
  EXPECT_EQ(microscale({"sass", file_, "--kernel", "other"}).code, 2);
  EXPECT_EQ(microscale({"sass", (folder_ / "none").string()}).code, 4);
  EXPECT_EQ(microscale({"sass", "sm_77"}).code, 2);
  std::ofstream(folder_ / "text") << "nothing\n";
  EXPECT_EQ(microscale({"sass", (folder_ / "text").string()}).code, 3);
  std::ofstream(folder_ / "cubin") << "\x7f"
                                      "ELF";
  const Outcome outcome = microscale({"sass", (folder_ / "cubin").string()}, "",
                                     {{"MICROSCALE_NVDISASM", "/nowhere/nvdisasm"}});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("no nvdisasm found"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("scripts/get_nvdisasm"), std::string::npos) << outcome.err;
}

TEST_F(Sass, counts_what_the_program_carries) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: it carries none";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  const Outcome outcome =
      microscale({"sass", "sm_120f", "--kernel", "dequantize_mxfp4_bf16", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  ASSERT_EQ(json["kernels"].size(), 1u);
  EXPECT_NE(std::string(json["kernels"][0]["assembler"]).find(", V1"), std::string::npos);
  const double each = json["kernels"][0]["instructions_an_element"];
  EXPECT_GT(each, 3);
  EXPECT_LT(each, 40);
}

}  // namespace
}  // namespace microscale::testing
