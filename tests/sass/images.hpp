// The kernel images that a test looks at, by name: where the library carries kernels but none of
// that name, the test fails. It must not pass, or be skipped, because a file was renamed.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "cuda/device/kernel_images.hpp"

namespace microscale::testing {

inline std::vector<const cuda::KernelImage*> images_named(std::string_view prefix) {
  std::vector<const cuda::KernelImage*> found;
  for (const cuda::KernelImage& image : cuda::kernel_images())
    if (image.file.starts_with(prefix)) found.push_back(&image);
  EXPECT_TRUE(!found.empty() || cuda::kernel_images().empty()) << "no kernel image " << prefix;
  return found;
}

}  // namespace microscale::testing
