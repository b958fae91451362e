#include "ops/backends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "microscale/error.hpp"

namespace microscale {
namespace {

class BackendsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("MICROSCALE_BACKEND")) saved_ = value;
    unsetenv("MICROSCALE_BACKEND");
  }
  void TearDown() override {
    if (saved_.empty())
      unsetenv("MICROSCALE_BACKEND");
    else
      setenv("MICROSCALE_BACKEND", saved_.c_str(), 1);
  }
  std::string saved_;
};

TEST_F(BackendsTest, reference_is_always_there_and_last) {
  EXPECT_EQ(available_backends().back(), Backend::reference);
}

TEST_F(BackendsTest, environment_narrows_the_choice) {
  setenv("MICROSCALE_BACKEND", "reference", 1);
  EXPECT_EQ(available_backends(), std::vector{Backend::reference});
  EXPECT_EQ(choose_backend("a call", Context{}).backend, Backend::reference);
}

TEST_F(BackendsTest, every_backend_has_a_name_and_a_table_for_products) {
  EXPECT_EQ(to_string(Backend::amx), "amx");
  for (Backend backend : available_backends()) {
    EXPECT_NE(to_string(backend), "unknown");
    MatmulProduct call;  // dense FP32 times MXFP4
    EXPECT_EQ(choose_backend(call, {.backend = backend}).backend, backend);
  }
}

TEST_F(BackendsTest, a_product_without_a_kernel_goes_to_the_reference) {
  MatmulProduct call;
  call.b_format = Format::mxint8;
  EXPECT_EQ(choose_backend(call, {}).backend, Backend::reference);
}

TEST_F(BackendsTest, one_asked_for_by_name_is_named_where_it_has_no_kernel) {
  MatmulProduct call;
  call.b_format = Format::mxint8;
  for (const Backend backend : available_backends()) {
    if (backend == Backend::reference) continue;
    try {
      choose_backend(call, {.backend = backend});
      FAIL() << to_string(backend) << " has a kernel for it";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find(to_string(backend)), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("does not support a in f32 by weights in mxint8"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(BackendsTest, an_emulated_gpu_leaves_those_of_the_processor) {
  const std::vector<Backend> all = available_backends();
  setenv("MICROSCALE_BACKEND", "emulator-sm90", 1);
  EXPECT_EQ(available_backends(), all);
}

TEST_F(BackendsTest, names_of_nobody_and_of_other_processors_are_refused) {
  const std::vector<Backend> all = available_backends();
  for (const char* name : {"avx1024", "emulator-sm70", "amx", "avx512", "avx2"}) {
    const auto has = [&](Backend backend) { return to_string(backend) == name; };
    if (std::any_of(all.begin(), all.end(), has)) continue;
    setenv("MICROSCALE_BACKEND", name, 1);
    try {
      available_backends();
      FAIL() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST_F(BackendsTest, automatic_falls_back_where_the_fastest_has_no_kernel) {
  QuantizeLines call;
  call.numerics.rounding = Rounding::stochastic;
  call.numerics.nan = NanPolicy::drop;
  call.format = Format::mxint8;
  EXPECT_TRUE(choose_backend(call, {}).supports_quantize(call));
}

TEST_F(BackendsTest, threads_are_not_negative) {
  try {
    choose_backend(QuantizeLines{}, {.threads = -4});
    FAIL() << "-4 threads were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("-4 threads"), std::string::npos) << error.what();
  }
}

TEST_F(BackendsTest, an_absent_backend_is_named) {
  setenv("MICROSCALE_BACKEND", "reference", 1);
  try {
    choose_backend(QuantizeLines{}, {.backend = Backend::avx512});
    FAIL() << "an absent backend was chosen";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("avx512 is not on this machine"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace microscale
