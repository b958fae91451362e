// This program links microscale alone, as a program for the CPU does.
#include "seam/gpu_operations.hpp"

#include <gtest/gtest.h>

#include "microscale/error.hpp"
#include "support/matrices.hpp"

namespace microscale {
namespace {

template <class Call>
void expect_told_what_to_link(const std::string& operation, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    const std::string words = error.what();
    EXPECT_EQ(words.rfind(operation + ": ", 0), 0u) << words;
    EXPECT_NE(words.find("link microscale::cuda"), std::string::npos) << words;
  }
}

TEST(GpuOperations, are_refused_with_what_to_link_where_nothing_provides_them) {
  expect_told_what_to_link("matmul", [] { gpu_operations("matmul"); });
  const auto matrix = test::gaussian(DType::bf16, 8, 64);
  std::vector<std::uint8_t> codes(256), scales(16);
  expect_told_what_to_link("quantize", [&] {
    quantize_into({.input = on_device(matrix.view()), .format = Format::mxfp4}, codes, scales);
  });
}

}  // namespace
}  // namespace microscale
