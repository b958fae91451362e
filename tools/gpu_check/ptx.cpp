// What the opcodes of a Hopper GPU compute, against the emulator (instructions.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/threads.hpp"
#include "emulator/device.hpp"
#include "formats/elements.hpp"
#include "instructions.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"
#include "support/opcode_run.hpp"

namespace microscale::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* target = "sm_90a";

using Results = std::vector<std::uint64_t>;

// One line about the first thread that differs.
void show_difference(const opcode_cases::Case& one, const Results& gpu, const Results& machine) {
  const auto operands = opcode_cases::operands_of(one, opcode_cases::cases_per_opcode);
  std::int64_t count = 0;
  std::size_t first = gpu.size();
  for (std::size_t i = 0; i < gpu.size(); ++i)
    if (gpu[i] != machine[i]) {
      first = std::min(first, i);
      ++count;
    }
  std::uint64_t abc[3];
  std::memcpy(abc, &operands[first * opcode_cases::operand_bytes], sizeof abc);
  fmt::print("  {}: {} differ; of {:#x}, {:#x}, {:#x} the GPU makes {:#x}, the emulator {:#x}\n",
             one.name, count, abc[0], abc[1], abc[2], gpu[first], machine[first]);
}

// Opcodes that differ and should not; adds the digests of `device` to `golden`.
int compare(Device& device, const opcode_cases::Family& family, Json& golden) {
  emulator::EmulatorDevice machine(device.info().major, device.info().minor);
  const auto gpu = opcode_cases::run(device, family, target);
  std::vector<Results> emulated(gpu.size());
  int differing = 0, refused = 0;
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    const opcode_cases::Case& one = family.cases[i];
    golden["families"][family.name][one.name] = opcode_cases::digest(gpu[i]);
    try {
      emulated[i] = opcode_cases::run(machine, {family.name, {one}}, target)[0];
    } catch (const Error& error) {
      fmt::print("  {}: {}\n", one.name, error.what());
      ++refused;
      continue;
    }
    if (gpu[i] == emulated[i]) continue;
    ++differing;
    show_difference(one, gpu[i], emulated[i]);
  }
  fmt::print("{:<24}{:>6} opcodes{:>10} cases{:>6} opcodes differ{:>6} refused\n", family.name,
             gpu.size(), gpu.size() * opcode_cases::cases_per_opcode, differing, refused);
  return differing + refused;
}

constexpr std::int64_t sweep_step = std::int64_t{1} << 26;

// Thread i converts the FP32 pattern first + i, twice, and stores both bytes.
std::string sweep_text(const char* opcode) {
  return fmt::format(
      ".version 9.0\n.target {}\n.address_size 64\n"
      ".visible .entry sweep(.param .align 8 .b8 args[16])\n{{\n"
      "  .reg .b16 %h<2>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<6>;\n"
      "  ld.param.u64 %rd1, [args];\n  ld.param.u32 %r1, [args+8];\n"
      "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ntid.x;\n  mov.u32 %r4, %tid.x;\n"
      "  mad.lo.s32 %r5, %r2, %r3, %r4;\n  add.s32 %r6, %r5, %r1;\n"
      "  {} %h1, %r6, %r6;\n  mul.wide.u32 %rd2, %r5, 2;\n  add.s64 %rd3, %rd1, %rd2;\n"
      "  st.global.b16 [%rd3], %h1;\n  ret;\n}}\n",
      target, opcode);
}

template <class Codec>
std::int64_t sweep(Device& device, const char* opcode) {
  const auto image = opcode_cases::image_of(sweep_text(opcode));
  const Kernel kernel = device.find_kernel(device.load_module(image), "sweep");
  std::vector<std::uint16_t> bytes(sweep_step);
  struct {
    void* results;
    std::uint32_t first;
  } args{device.allocate(2 * sweep_step), 0};
  std::vector<std::int64_t> wrong(static_cast<std::size_t>(sweep_step >> 16), 0);
  for (std::int64_t first = 0; first < std::int64_t{1} << 32; first += sweep_step) {
    args.first = static_cast<std::uint32_t>(first);
    device.launch({.kernel = kernel,
                   .grid = {static_cast<unsigned>(sweep_step / 256)},
                   .threads = 256,
                   .args = &args,
                   .args_bytes = sizeof args});
    device.copy_to_host(bytes.data(), args.results, 2 * sweep_step, nullptr);
    device.synchronize(nullptr);
    parallel_for(static_cast<std::int64_t>(wrong.size()), 0, [&](std::int64_t part) {
      for (std::int64_t i = part << 16; i < (part + 1) << 16; ++i) {
        const auto bits = static_cast<std::uint32_t>(first + i);
        float value;
        std::memcpy(&value, &bits, sizeof value);
        const std::uint8_t byte =
            value != value ? Codec::nan_code : Codec::encode(value, Rounding::nearest_even, 0);
        wrong[static_cast<std::size_t>(part)] +=
            bytes[static_cast<std::size_t>(i)] != (byte | byte << 8);
      }
    });
  }
  device.release(args.results);
  std::int64_t total = 0;
  for (std::int64_t count : wrong) total += count;
  fmt::print("{:<40}{:>14} inputs{:>8} differ\n", opcode, std::int64_t{1} << 32, total);
  return total;
}

}  // namespace

bool is_hopper(const Device& device) {
  if (device.info().major == 9) return true;
  fmt::print("these instructions are Hopper's; this is a {}: not run\n", device.info().name);
  return false;
}

int check_opcodes(std::span<char*> words) {
  std::string golden_file;
  bool sweeps = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--no-sweep") {
      sweeps = false;
    } else if (word == "--golden" && i + 1 < words.size()) {
      golden_file = words[++i];
    } else {
      fmt::print(stderr, "usage: gpu_check ptx [--golden FILE] [--no-sweep]\n");
      return 2;
    }
  }
  Device& device = runtime_device();
  if (!is_hopper(device)) return 5;
  Json golden;
  golden["device"] = device.info().name;
  std::int64_t wrong = 0;
  for (const auto& family : opcode_cases::families()) wrong += compare(device, family, golden);
  if (sweeps) {
    wrong += sweep<E4M3>(device, "cvt.rn.satfinite.e4m3x2.f32");
    wrong += sweep<E5M2>(device, "cvt.rn.satfinite.e5m2x2.f32");
  }
  if (!golden_file.empty()) std::ofstream(golden_file) << golden.dump(1) << "\n";
  return wrong > 0 ? 1 : 0;
}

}  // namespace microscale::cuda
