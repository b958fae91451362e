// Runs the micro-kernels of opcode_cases.hpp on whatever stands behind the device seam.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "support/opcode_list.hpp"

namespace microscale::opcode_cases {

inline constexpr int cases_per_opcode = 4096, threads = 128;

/// The module's text with the NUL that the CUDA runtime wants behind PTX.
inline std::vector<std::uint8_t> image_of(const std::string& text) {
  std::vector<std::uint8_t> image(text.begin(), text.end());
  image.push_back(0);
  return image;
}

/// The results of one case, a 64-bit word a thread; narrower results are zero-extended.
inline std::vector<std::uint64_t> run(cuda::Device& device, cuda::Kernel kernel, const Case& one) {
  const std::vector<std::uint8_t> operands = operands_of(one, cases_per_opcode);
  std::vector<std::uint64_t> results(cases_per_opcode);
  const auto input_bytes = static_cast<std::int64_t>(operands.size());
  const std::int64_t result_size = std::int64_t{cases_per_opcode} * result_bytes;
  struct {
    void* operands;
    void* results;
  } args{device.allocate(input_bytes), device.allocate(result_size)};
  device.copy_to_device(args.operands, operands.data(), input_bytes, nullptr);
  device.set_bytes(args.results, 0, result_size, nullptr);
  device.launch({.kernel = kernel,
                 .grid = {cases_per_opcode / threads},
                 .threads = threads,
                 .args = &args,
                 .args_bytes = sizeof args});
  device.copy_to_host(results.data(), args.results, result_size, nullptr);
  device.synchronize(nullptr);
  device.release(args.operands);
  device.release(args.results);
  return results;
}

/// Of a family, case by case.
inline std::vector<std::vector<std::uint64_t>> run(cuda::Device& device, const Family& family,
                                                   const char* target) {
  const auto image = image_of(module_text(family.cases, target));
  const cuda::Module module = device.load_module(image);
  std::vector<std::vector<std::uint64_t>> all;
  for (std::size_t i = 0; i < family.cases.size(); ++i) {
    const std::string name = fmt::format("case_{}", i);
    all.push_back(run(device, device.find_kernel(module, name.c_str()), family.cases[i]));
  }
  return all;
}

/// What a golden file keeps of a case's results.
inline std::string digest(std::span<const std::uint64_t> results) {
  return fmt::format("{:016x}", XXH3_64bits(results.data(), results.size_bytes()));
}

}  // namespace microscale::opcode_cases
