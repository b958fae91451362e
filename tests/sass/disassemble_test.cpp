// Finding and running nvdisasm; stand-ins where its answers matter.
#include "sass/disassemble.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "cuda/device/kernel_images.hpp"
#include "microscale/error.hpp"
#include "sass/listings.hpp"

namespace microscale::testing {
namespace {

namespace fs = std::filesystem;

/// A folder, and an environment that is put back.
class Disassemble : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "microscale_test_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (const char* variable : {"MICROSCALE_NVDISASM", "PATH", "CUDA_HOME", "CUDA_PATH"}) {
      const char* value = std::getenv(variable);
      before_.emplace_back(variable, value ? std::optional<std::string>(value) : std::nullopt);
    }
  }
  void TearDown() override {
    for (const auto& [variable, value] : before_)
      value ? setenv(variable, value->c_str(), 1) : unsetenv(variable);
    fs::remove_all(folder_);
  }

  fs::path script(const fs::path& path, const std::string& body) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n" << body;
    chmod(path.c_str(), 0755);
    return path;
  }

  fs::path folder_;
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(Disassemble, finds_what_the_variable_names_before_the_path) {
  const fs::path named = script(folder_ / "named", ""),
                 on_path = script(folder_ / "bin/nvdisasm", "");
  setenv("PATH", on_path.parent_path().c_str(), 1);
  unsetenv("MICROSCALE_NVDISASM");
  EXPECT_EQ(sass::find_nvdisasm(), on_path);
  setenv("MICROSCALE_NVDISASM", named.c_str(), 1);
  EXPECT_EQ(sass::find_nvdisasm(), named);
  setenv("MICROSCALE_NVDISASM", "/nowhere/nvdisasm", 1);
  EXPECT_EQ(sass::find_nvdisasm(), fs::path());
}

TEST_F(Disassemble, finds_the_toolkit) {
  const fs::path program = script(folder_ / "cuda/bin/nvdisasm", "");
  unsetenv("MICROSCALE_NVDISASM");
  setenv("PATH", "/nowhere", 1);
  setenv("CUDA_HOME", (folder_ / "cuda").c_str(), 1);
  EXPECT_EQ(sass::find_nvdisasm(), program);
}

TEST_F(Disassemble, gives_the_program_the_cubin_and_reads_its_answer) {
  std::ofstream(folder_ / "answer") << nvdisasm_text("kernel", line_of(0, "EXIT"));
  script(folder_ / "fake", "cmp -s \"$1\" '" + (folder_ / "a.cubin").string() + "' && cat '" +
                               (folder_ / "answer").string() + "'\n");
  setenv("MICROSCALE_NVDISASM", (folder_ / "fake").c_str(), 1);
  std::ofstream(folder_ / "a.cubin") << "\x7f"
                                        "ELF and so on";
  EXPECT_EQ(sass::listing_of_file(folder_ / "a.cubin").functions.at(0).name, "kernel");
  EXPECT_EQ(sass::listing_of_file(folder_ / "answer").functions.at(0).name, "kernel");  // a text
}

TEST_F(Disassemble, says_what_is_wrong) {
  const std::uint8_t cubin[] = {0x7F, 'E', 'L', 'F'};
  const auto code_of = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::pair{error.code(), std::string(error.what())};
    }
    return std::pair{ErrorCode::interrupted, std::string("nothing thrown")};
  };
  setenv("MICROSCALE_NVDISASM", "/nowhere/nvdisasm", 1);
  auto [code, message] = code_of([&] { sass::disassemble(cubin); });
  EXPECT_EQ(code, ErrorCode::unsupported);
  EXPECT_NE(message.find("MICROSCALE_NVDISASM"), std::string::npos) << message;
  setenv("MICROSCALE_NVDISASM", script(folder_ / "bad", "echo 'not a cubin' >&2; exit 7\n").c_str(),
         1);
  std::tie(code, message) = code_of([&] { sass::disassemble(cubin); });
  EXPECT_EQ(code, ErrorCode::bad_input);
  EXPECT_NE(message.find("exit code 7: not a cubin"), std::string::npos) << message;
  EXPECT_EQ(code_of([&] { sass::listing_of_file(folder_ / "none"); }).first, ErrorCode::io);
  EXPECT_EQ(code_of([&] { sass::listing_of_file(folder_); }).first, ErrorCode::io);
}

TEST(Cubin, names_its_assembler) {
  const auto named = [](const std::string& text) {
    return sass::assembler_of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  const std::string zero(1, '\0'), line = "Cuda compilation tools, release ";
  EXPECT_EQ(named("ELF" + zero + line + "13.0, V13.0.88" + zero + "more"), "13.0, V13.0.88");
  EXPECT_EQ(named(line + "1"), "1");
  EXPECT_EQ(named("ELF" + zero), "");
  for (const cuda::KernelImage& image : cuda::kernel_images())
    EXPECT_NE(sass::assembler_of(image.cubin.bytes()), "")
        << image.file << " " << image.architecture;
}

TEST_F(Disassemble, reads_a_real_cubin) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  int looked_at = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    if (image.file != "abs_max") continue;
    ++looked_at;
    const sass::Listing listing = sass::disassemble(image.cubin.bytes());
    EXPECT_EQ(listing.functions.size(), 4u);  // three types and global_scale
    for (const sass::Function& kernel : listing.functions) {
      EXPECT_GT(kernel.registers, 8) << kernel.name;
      EXPECT_GT(kernel.code.size(), 20u) << kernel.name;
    }
  }
  EXPECT_EQ(looked_at, 3);  // architectures
}

}  // namespace
}  // namespace microscale::testing
