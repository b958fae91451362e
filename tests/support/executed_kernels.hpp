// Whether an emulated GPU has executed all kernels that the library carries for one purpose.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "cuda/device/kernels.hpp"
#include "emulator/device.hpp"

namespace microscale::emulator {

/// Whose kernels a GPU of compute capability `major` runs.
inline const char* architecture_of(int major) {
  return major == 9 ? "sm_90a" : major == 10 ? "sm_100f" : "sm_120f";
}

/// Of `architecture`, those whose names begin with one of `families`, and with none of `others`.
inline ::testing::AssertionResult executed_all(
    const EmulatorDevice& gpu, const char* architecture,
    std::initializer_list<std::string_view> families,
    std::initializer_list<std::string_view> others = {}) {
  const auto begins = [](std::string_view name, auto with) {
    for (const std::string_view each : with)
      if (name.starts_with(each)) return true;
    return false;
  };
  int count = 0;
  std::string left_out;
  for (const std::string& name : cuda::kernel_names(architecture)) {
    if (!begins(name, families) || begins(name, others)) continue;
    ++count;
    if (!gpu.executed.contains(name)) left_out += " " + name;
  }
  if (count == 0) return ::testing::AssertionFailure() << architecture << " has no such kernels";
  if (!left_out.empty()) return ::testing::AssertionFailure() << "never executed:" << left_out;
  return ::testing::AssertionSuccess();
}

}  // namespace microscale::emulator
