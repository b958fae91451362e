#include "cuda/device/kernel_images.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/device/kernels.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

class CarriedBytes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
};

std::string message_of(const ImageBytes& image) {
  try {
    image.bytes();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "unpacked";
}

TEST_F(CarriedBytes, unpack_to_an_elf_file_and_to_text_that_defines_every_entry) {
  for (const KernelImage& image : kernel_images()) {
    SCOPED_TRACE(std::string(image.file) + " " + std::string(image.architecture));
    const auto cubin = image.cubin.bytes(), ptx = image.ptx.bytes();
    EXPECT_LT(image.cubin.packed().size(), cubin.size());
    EXPECT_LT(image.ptx.packed().size(), ptx.size());
    ASSERT_GT(cubin.size(), 4u);
    EXPECT_EQ(std::string(cubin.begin(), cubin.begin() + 4),
              "\x7F"
              "ELF");
    const std::string_view text(reinterpret_cast<const char*>(ptx.data()), ptx.size());
    const std::string_view directive = ".entry ";
    std::vector<std::string_view> defined;
    for (std::size_t at = text.find(directive); at != text.npos; at = text.find(directive, at)) {
      at += directive.size();
      defined.push_back(text.substr(at, text.find('(', at) - at));
    }
    EXPECT_FALSE(defined.empty());
    EXPECT_EQ(names_in(image), defined);
  }
}

TEST_F(CarriedBytes, are_unpacked_once_whoever_asks) {
  const ImageBytes image(kernel_images().front().ptx.packed());
  std::vector<std::span<const std::uint8_t>> seen(8);
  std::vector<std::thread> threads;
  for (auto& mine : seen) threads.emplace_back([&] { mine = image.bytes(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : seen) {
    EXPECT_EQ(each.data(), seen[0].data());
    EXPECT_EQ(each.size(), seen[0].size());
  }
  EXPECT_TRUE(std::ranges::equal(seen[0], kernel_images().front().ptx.bytes()));
}

TEST_F(CarriedBytes, that_were_damaged_are_refused_each_time) {
  const auto packed = kernel_images().front().ptx.packed();
  std::vector<std::uint8_t> damaged(packed.begin(), packed.end());
  damaged.back() ^= 1;  // in the checksum
  const ImageBytes image(damaged);
  for (int i = 0; i < 2; ++i)
    EXPECT_NE(message_of(image).find("checksum"), std::string::npos) << message_of(image);
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, packed.size() / 2})
    EXPECT_NE(message_of(ImageBytes(packed.first(size))), "unpacked") << size;
}

TEST(ImageBytes, that_are_not_compressed_are_refused) {
  const std::string text = ".version 9.0\n.target sm_90a\n";
  const ImageBytes image({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  EXPECT_NE(message_of(image).find("build the library again"), std::string::npos)
      << message_of(image);
}

}  // namespace
}  // namespace microscale::cuda
