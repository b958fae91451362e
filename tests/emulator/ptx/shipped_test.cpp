// Every PTX image that the library carries: parsed whole, and every instruction there on its
// target.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "cuda/device/kernel_images.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/targets.hpp"

namespace microscale::emulator::ptx {
namespace {

TEST(PtxShipped, every_image_of_the_build_parses_and_fits_its_target) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  std::size_t files = 0, lines = 0, instructions = 0;
  double seconds = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    SCOPED_TRACE(std::string(image.file) + " " + std::string(image.architecture));
    const auto bytes = image.ptx.bytes();
    const std::string ptx(bytes.begin(), bytes.end());
    lines += static_cast<std::size_t>(std::count(ptx.begin(), ptx.end(), '\n'));
    ++files;
    const auto start = std::chrono::steady_clock::now();
    const auto module = Module::parse(ptx);
    ASSERT_TRUE(module.ok()) << module.failure().message;
    const auto target = target_of(image.architecture);
    ASSERT_TRUE(target);
    for (std::size_t i = 0; i < module.value().functions().size(); ++i) {
      if (!module.value().functions()[i].has_body) continue;
      const auto body = module.value().body(i);
      ASSERT_TRUE(body.ok()) << body.failure().message;
      const Status fits = check_all(*body.value(), *target, module.value().version());
      EXPECT_TRUE(fits.ok()) << fits.failure().message;
      instructions += body.value()->code.size();
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  EXPECT_GT(instructions, 1'000'000u);
  std::cout << files << " files, " << lines << " lines, " << instructions << " instructions in "
            << seconds << " s: " << static_cast<double>(lines) / seconds / 1e6
            << " million lines a second\n";
}

}  // namespace
}  // namespace microscale::emulator::ptx
