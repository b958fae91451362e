// The NVFP4 matrix-vector product from a thread a row to the matrix unit: checks every level
// against FP64, then times it at the contest's three shapes. With --model nothing is timed and no
// GPU is needed: the emulator counts.
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "../harness.hpp"
#include "../image.hpp"
#include "cuda/device/kernels.hpp"
#include "emulator/device.hpp"
#include "problem.hpp"

namespace {

using namespace levels;
using namespace microscale;

constexpr double read_bytes_per_second = 4.24e12;  // what an H200 was seen to read

std::vector<std::uint8_t> image(const std::string& architecture, const char* kind) {
  return image_beside_program("nvfp4_gemv", architecture, kind);
}

void check_all(cuda::Device& device, const GemvLauncher& launch) {
  for (const GemvData data : {GemvData::task, GemvData::half, GemvData::full})
    for (const GemvShape& shape : {GemvShape{5, 64, 1}, {300, 2112, 3}}) {
      const GemvInput input = gemv_input(data, shape);
      const GemvTruth truth = gemv_truth(input);
      for (const GemvLevel& level : gemv_levels) {
        if (data == GemvData::full && level.kept == Kept::halves) continue;  // they overflow
        for (int tiled = 0; tiled <= level.both_layouts; ++tiled) {
          const auto errors =
              compare(level, input, truth, run_gemv(device, launch, level, input, tiled));
          if (errors.wrong > 0) throw std::runtime_error(errors.first);
          if (data == GemvData::task && errors.unequal > 0)
            throw std::runtime_error(std::string(level.name) + ": not exact on the contest's data");
        }
      }
    }
  std::printf("%zu levels agree with FP64\n", std::size(gemv_levels));
}

/// What the emulator counts of one launch of each level, for 128 rows of 7168.
void model() {
  constexpr GemvShape shape{128, 7168, 1};
  const GemvInput input = gemv_input(GemvData::half, shape);
  const auto ptx = image("90a", "ptx");
  std::printf(
      "| level | PTX instructions an element | sectors a load | bytes of sectors an element | "
      "conflicts a shared access |\n|---|---|---|---|---|\n");
  for (const GemvLevel& level : gemv_levels) {
    emulator::EmulatorDevice device(9, 0);
    device.options.statistics = true;
    const GemvLauncher on_emulator = launcher_on(device, ptx);
    std::uint64_t instructions = 0, sectors = 0, requests = 0, conflicts = 0, accesses = 0;
    run_gemv(
        device,
        [&](const GemvLaunch& launch, const GemvArgs& args) {
          on_emulator(launch, args);
          instructions += device.last_report.warp_instructions;
          for (const auto& each : device.last_report.instructions) {
            conflicts += each.bank_conflicts;
            accesses += each.shared_requests;
            if (!each.opcode.starts_with("ld")) continue;
            sectors += each.sectors;
            requests += each.global_requests;
          }
        },
        level, input);
    const auto per = [](std::uint64_t a, double b) {
      return b > 0 ? static_cast<double>(a) / b : 0;
    };
    const auto elements = static_cast<double>(shape.elements());
    std::printf("| %s | %.1f | %.1f | %.2f | %.2f |\n", level.name,
                per(32 * instructions, elements), per(sectors, static_cast<double>(requests)),
                per(32 * sectors, elements), per(conflicts, static_cast<double>(accesses)));
  }
}

/// Kernels by name, launched as they are, without overlap.
class Kernels {
 public:
  Kernels(cuda::Device& device, std::vector<std::uint8_t> cubin)
      : device_(device), cubin_(std::move(cubin)), module_(device.load_module(cubin_)) {}
  const void* operator[](const char* entry) {
    const void*& kernel = kernels_[entry];
    if (!kernel) kernel = device_.find_kernel(module_, entry);
    if (!kernel) throw std::runtime_error(std::string("no kernel is called ") + entry);
    return kernel;
  }
  void launch(const GemvLaunch& call, GemvArgs args, cudaStream_t stream) {
    void* parameters[] = {&args};
    check(cudaLaunchKernel((*this)[call.entry], {call.x, call.y, call.z},
                           {static_cast<unsigned>(call.threads), 1, 1}, parameters,
                           static_cast<std::size_t>(call.shared_bytes), stream),
          call.entry);
  }

 private:
  cuda::Device& device_;
  std::vector<std::uint8_t> cubin_;
  cuda::Module module_;
  std::map<std::string_view, const void*> kernels_;
};

void time_shape(const Bench& bench, cuda::Device& device, Kernels& kernels,
                const GemvShape& shape) {
  const GemvInput input = gemv_input(GemvData::half, shape);
  std::vector<std::unique_ptr<GemvBuffers>> sets;
  for (int i = sets_past_cache(shape.bytes()); i > 0; --i)
    sets.push_back(std::make_unique<GemvBuffers>(device, input));
  char title[128];
  std::snprintf(title, sizeof title, "%lld x %lld, L %lld: %.1f MB, read in %.1f us at best",
                static_cast<long long>(shape.m), static_cast<long long>(shape.k),
                static_cast<long long>(shape.l), static_cast<double>(shape.bytes()) / 1e6,
                static_cast<double>(shape.bytes()) / read_bytes_per_second * 1e6);
  bench.table(title);
  for (const GemvLevel& level : gemv_levels)
    bench.row(
        {.name = level.name,
         .bytes = shape.bytes(),
         .elements = shape.elements(),
         .occupancy = occupancy(kernels[level.entry], level.threads, shared_bytes(level, shape.k)),
         .sets = static_cast<int>(sets.size()),
         .run =
             [&](int set, cudaStream_t stream) {
               const GemvArgs args = sets[static_cast<std::size_t>(set)]->args();
               run_level(level, shape,
                         [&](const GemvLaunch& launch) { kernels.launch(launch, args, stream); });
             },
         .launches = level.second ? 2 : 1});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && std::string_view(argv[1]) == "--model") {
    model();
    return 0;
  }
  const Bench bench(argc, argv);
  cuda::Device& device = cuda::runtime_device();
  Kernels kernels(device,
                  image(std::string(cuda::architecture_of(device.info())).substr(3), "cubin"));
  if (!bench.profiling())
    check_all(device, [&](const GemvLaunch& launch, const GemvArgs& args) {
      kernels.launch(launch, args, nullptr);
      device.synchronize(nullptr);
    });
  if (bench.checking_only()) return 0;
  for (const GemvShape& shape : ranked_shapes) time_shape(bench, device, kernels, shape);
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_nvfp4_gemv: %s\n", error.what());
  return 1;
}
