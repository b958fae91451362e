// How fast the emulator goes, every check on: arithmetic alone, and the MXFP4 quantizer that the
// library ships. One core; processor time of this thread, so that a busy machine does not show.
//
//   emulator_bench [ROWS COLS]        the quantizer's matrix, 1024 x 1024 if not given

#include <ctime>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/device/kernel_images.hpp"
#include "cuda/operations.hpp"
#include "emulator/device.hpp"
#include "microscale/emulator.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// A kernel whose loop is `body`, repeated, over registers that it keeps live.
std::string kernel(const std::string& body, int repeats) {
  std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
      ".reg .pred %p<4>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<8>;\n"
      "mov.u32 %r1, %tid.x; mov.u32 %r2, 12345; mov.u32 %r30, 0; mov.f32 %f1, 0f3F8CCCCD; mov.f32 "
      "%f2, 0f3F000000;\n"
      "mov.u32 %r3, %r1; mov.u32 %r4, %r1; mov.u32 %r5, %r1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; "
      "mov.f32 %f5, %f2;\n"
      "LOOP:\n";
  for (int i = 0; i < repeats; ++i) text += body;
  text += "\nadd.u32 %r30, %r30, 1; setp.lt.u32 %p1, %r30, 2000; @%p1 bra LOOP;\nret;\n}\n";
  return text;
}

void measure(const char* name, const std::string& body) {
  emulator::Memory memory;
  const emulator::Module module(memory, kernel(body, 32));
  emulator::LaunchRequest request;
  request.kernel = "k";
  request.block.x = 128;
  request.arguments = emulator::arguments(std::uint64_t{0});
  request.options.threads = 1;
  emulator::launch(memory, module, request);
  const double begin = processor_seconds();
  const emulator::LaunchReport report = emulator::launch(memory, module, request);
  const double seconds = processor_seconds() - begin;
  const auto instructions = static_cast<double>(report.warp_instructions);
  std::printf("%-28s %8.2f ns a warp-instruction  %7.2f G lane-instructions/s\n", name,
              1e9 * seconds / instructions, 32e-9 * instructions / seconds);
}

void quantizer(int major, std::int64_t rows, std::int64_t cols) {
  emulator::EmulatorDevice device(major, 0);
  device.options.threads = 1;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  std::uint32_t state = 1;
  for (float& value : values)
    value = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-20f - 8.0f;
  const auto bytes = static_cast<std::int64_t>(4 * values.size());
  void* input = device.allocate(bytes);
  device.copy_to_device(input, values.data(), bytes, nullptr);
  QuantizeOptions options;
  options.format = Format::mxfp4;
  options.input = {
      .data = input, .dtype = DType::f32, .rows = rows, .cols = cols, .row_stride = cols};
  options.axis = BlockAxis::cols;
  const auto code_bytes = static_cast<std::size_t>(rows * cols / 2), scale_bytes = code_bytes / 16;
  auto* codes = static_cast<std::uint8_t*>(device.allocate(static_cast<std::int64_t>(code_bytes)));
  auto* scales =
      static_cast<std::uint8_t*>(device.allocate(static_cast<std::int64_t>(scale_bytes)));
  cuda::quantize(device, options, {codes, code_bytes}, {scales, scale_bytes}, nullptr);
  const double begin = processor_seconds();
  cuda::quantize(device, options, {codes, code_bytes}, {scales, scale_bytes}, nullptr);
  const double seconds = processor_seconds() - begin;
  const auto instructions = static_cast<double>(device.last_report.warp_instructions);
  std::printf(
      "quantize mxfp4 sm_%d0 %lld x %lld: %.3f s, %.2f ns a warp-instruction, %.2f G "
      "lane-instructions/s\n",
      major, static_cast<long long>(rows), static_cast<long long>(cols), seconds,
      1e9 * seconds / instructions, 32e-9 * instructions / seconds);
}

}  // namespace
}  // namespace microscale

int main(int argc, char** argv) {
  using microscale::measure;
  measure("integer add", "add.u32 %r3, %r3, %r2; add.u32 %r4, %r4, %r1; ");
  measure("integer mad, xor, shift",
          "mad.lo.u32 %r3, %r3, %r2, %r1; xor.b32 %r4, %r3, %r2; shl.b32 %r5, %r4, 3; ");
  measure("fp32 fma", "fma.rn.f32 %f3, %f3, %f2, %f1; fma.rn.f32 %f4, %f4, %f2, %f1; ");
  measure("fp32 add, mul, min",
          "add.f32 %f3, %f3, %f2; mul.f32 %f4, %f3, %f2; min.f32 %f5, %f4, %f1; ");
  measure("compare and select", "setp.lt.u32 %p1, %r3, %r2; selp.b32 %r3, %r4, %r5, %p1; ");
  const long rows = argc > 2 ? std::atol(argv[1]) : 1024,
             cols = argc > 2 ? std::atol(argv[2]) : 1024;
  if (!microscale::cuda::kernel_images().empty())
    for (const int major : {9, 10, 12}) microscale::quantizer(major, rows, cols);
  return 0;
}
