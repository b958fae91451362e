#include "core/backend_name.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "microscale/error.hpp"

namespace microscale {
namespace {

class BackendNameTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("MICROSCALE_BACKEND")) saved_ = value;
    unsetenv("MICROSCALE_BACKEND");
  }
  void TearDown() override {
    unsetenv("MICROSCALE_BACKEND");
    if (!saved_.empty()) setenv("MICROSCALE_BACKEND", saved_.c_str(), 1);
  }
  std::string saved_;
};

TEST_F(BackendNameTest, is_empty_where_it_is_unset) {
  EXPECT_EQ(backend_of_environment(), "");
  setenv("MICROSCALE_BACKEND", "", 1);
  EXPECT_EQ(backend_of_environment(), "");
}

TEST_F(BackendNameTest, is_a_backend_or_an_emulated_gpu) {
  for (const char* name :
       {"reference", "avx2", "avx512", "amx", "emulator-sm90", "emulator-sm120"}) {
    setenv("MICROSCALE_BACKEND", name, 1);
    EXPECT_EQ(backend_of_environment(), name);
  }
  EXPECT_EQ(find_emulated_gpu("emulator-sm100")->major, 10);
  EXPECT_EQ(find_emulated_gpu("reference"), nullptr);
}

TEST_F(BackendNameTest, of_nobody_is_refused_with_all_that_there_are) {
  for (const char* name : {"bogus", "emulator-bogus", "emulator-", "cuda", "AVX2"}) {
    setenv("MICROSCALE_BACKEND", name, 1);
    try {
      backend_of_environment();
      FAIL() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      const std::string message = error.what();
      EXPECT_NE(message.find("=" + std::string(name) + " "), std::string::npos) << message;
      for (const char* choice : {"reference", "avx2", "avx512", "amx"})
        EXPECT_NE(message.find(choice), std::string::npos) << message;
      for (const EmulatedGpu& gpu : emulated_gpus)
        EXPECT_NE(message.find(gpu.name), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace microscale
