#include "emulator/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/threads.hpp"
#include "cuda/device/environment.hpp"
#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernels.hpp"
#include "emulator/machine/launch.hpp"
#include "emulator/memory/tensor_map.hpp"
#include "emulator/public_state.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

using Clock = std::chrono::steady_clock;

// Without the NUL that the CUDA runtime wants behind PTX.
std::string text_of(std::span<const std::uint8_t> image) {
  if (!image.empty() && image.back() == 0) image = image.first(image.size() - 1);
  return {reinterpret_cast<const char*>(image.data()), image.size()};
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

struct LoadedImage;
struct KernelHandle {
  const LoadedImage* image;
  std::string name;
};
struct LoadedImage {
  const cuda::KernelImage* carried = nullptr;  // by the library; null for others
  std::optional<Module> module;                // of a carried one: read when a kernel is looked for
  std::vector<std::unique_ptr<KernelHandle>> kernels;
};

}  // namespace

struct EmulatorDevice::State {
  Memory memory;
  std::mutex mutex;
  std::vector<std::unique_ptr<LoadedImage>> images;  // guarded by mutex
};

EmulatorDevice::EmulatorDevice(int major, int minor, LaunchOptions launch_options,
                               int multiprocessors)
    : options(launch_options), state_(std::make_unique<State>()) {
  info_.name = fmt::format("emulated GPU of compute capability {}.{}", major, minor);
  info_.major = major;
  info_.minor = minor;
  info_.multiprocessors = multiprocessors > 0 ? multiprocessors : available_cores();
  info_.l2_bytes = 1 << 20;
  info_.memory_bytes = std::int64_t{1} << 33;
  info_.reports_stray_accesses = true;
}
EmulatorDevice::~EmulatorDevice() { cuda::forget_kernels(*this); }

void* EmulatorDevice::allocate(std::int64_t bytes) {
  return reinterpret_cast<void*>(state_->memory.allocate(bytes));
}
void EmulatorDevice::release(void* memory) noexcept {
  if (memory && state_->memory.state().global.find(address_of(memory)))
    state_->memory.release(address_of(memory));
}
cuda::Memory EmulatorDevice::memory_of(const void* pointer) {
  return state_->memory.state().global.find(address_of(pointer)) ? cuda::Memory::device
                                                                 : cuda::Memory::host;
}
void* EmulatorDevice::allocate_host(std::int64_t bytes) {
  return ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{256});
}
void EmulatorDevice::release_host(void* memory) noexcept {
  ::operator delete (memory, std::align_val_t{256});
}
void EmulatorDevice::copy_to_device(void* to, const void* from, std::int64_t bytes, cuda::Stream) {
  state_->memory.write(address_of(to), from, bytes);
}
void EmulatorDevice::copy_to_host(void* to, const void* from, std::int64_t bytes, cuda::Stream) {
  state_->memory.read(to, address_of(from), bytes);
}
void EmulatorDevice::copy_on_device(void* to, const void* from, std::int64_t bytes, cuda::Stream) {
  std::vector<std::uint8_t> between(static_cast<std::size_t>(bytes));
  state_->memory.read(between.data(), address_of(from), bytes);
  state_->memory.write(address_of(to), between.data(), bytes);
}
void EmulatorDevice::set_bytes(void* to, int byte, std::int64_t bytes, cuda::Stream) {
  state_->memory.fill(address_of(to), byte, bytes);
}

cuda::Module EmulatorDevice::load_module(std::span<const std::uint8_t> image) {
  auto loaded = std::make_unique<LoadedImage>();
  loaded->module.emplace(state_->memory, text_of(image));
  std::lock_guard lock(state_->mutex);
  return state_->images.emplace_back(std::move(loaded)).get();
}

cuda::Module EmulatorDevice::load_image(const cuda::KernelImage& image) {
  auto loaded = std::make_unique<LoadedImage>();
  loaded->carried = &image;
  std::lock_guard lock(state_->mutex);
  return state_->images.emplace_back(std::move(loaded)).get();
}

cuda::Kernel EmulatorDevice::find_kernel(cuda::Module module, const char* name) {
  auto& image = *static_cast<LoadedImage*>(module);
  std::lock_guard lock(state_->mutex);
  if (!image.module)
    image.module.emplace(state_->memory, text_of(image.carried->ptx.bytes()),
                         std::string(image.carried->architecture));
  for (const std::string& each : image.module->kernels())
    if (each == name)
      return image.kernels.emplace_back(std::make_unique<KernelHandle>(KernelHandle{&image, each}))
          .get();
  return nullptr;
}

int EmulatorDevice::most_clusters(cuda::Kernel, int cluster, int, int shared_bytes) {
  if (shared_bytes > most_shared_bytes || cluster > 8) return 0;
  return std::max(info_.multiprocessors / cluster, 1);
}

cuda::TensorMap EmulatorDevice::tensor_map(const cuda::TensorBoxes& boxes) {
  TensorMap map;
  map.rank = static_cast<std::uint32_t>(boxes.rank);
  map.element_bytes = static_cast<std::uint32_t>(boxes.element_bytes);
  map.address = reinterpret_cast<std::uintptr_t>(boxes.data);
  for (std::size_t i = 0; i < 5; ++i) {
    map.size[i] = static_cast<std::uint64_t>(boxes.size[i]);
    map.stride[i] = static_cast<std::uint64_t>(boxes.stride[i]);
    map.box[i] = static_cast<std::uint32_t>(boxes.box[i]);
  }
  map.swizzle = boxes.swizzle_128 ? Swizzle::b128 : Swizzle::none;
  const TensorMapBytes encoded = encode(map);
  cuda::TensorMap made;
  static_assert(sizeof made == tensor_map_bytes);
  std::memcpy(&made, encoded.data(), sizeof made);
  return made;
}

void EmulatorDevice::launch(const cuda::LaunchCall& call) {
  const auto& kernel = *static_cast<const KernelHandle*>(call.kernel);
  LaunchRequest request;
  request.kernel = kernel.name;
  request.grid = {call.grid.x, call.grid.y, call.grid.z};
  request.block.x = static_cast<std::uint32_t>(call.threads);
  request.cluster.x = static_cast<std::uint32_t>(call.cluster);
  request.dynamic_shared_bytes = call.shared_bytes;
  const auto* bytes = static_cast<const std::uint8_t*>(call.args);
  request.arguments.assign(bytes, bytes + call.args_bytes);
  request.options = options;
  LaunchReport report = emulator::launch(state_->memory, *kernel.image->module, request);
  std::lock_guard lock(state_->mutex);
  last_report = std::move(report);
  executed.insert(kernel.name);
  if (last_report.findings.empty()) return;
  std::string text = to_sentence(last_report.findings.front());
  if (last_report.findings.size() > 1)
    text += fmt::format("; and {} more findings", last_report.findings.size() - 1);
  throw Error(ErrorCode::check_failed, "emulator: " + text);
}

cuda::Event EmulatorDevice::make_event() { return new Clock::time_point(Clock::now()); }
void EmulatorDevice::release_event(cuda::Event event) noexcept {
  delete static_cast<Clock::time_point*>(event);
}
void EmulatorDevice::record(cuda::Event event, cuda::Stream) {
  *static_cast<Clock::time_point*>(event) = Clock::now();
}
double EmulatorDevice::milliseconds_between(cuda::Event begin, cuda::Event end) {
  return std::chrono::duration<double, std::milli>(*static_cast<Clock::time_point*>(end) -
                                                   *static_cast<Clock::time_point*>(begin))
      .count();
}

void EmulatorDevice::begin_capture(cuda::Stream) {
  throw Error(ErrorCode::unsupported,
              "emulator: a launch cannot be captured; call the operation itself");
}
cuda::Graph EmulatorDevice::end_capture(cuda::Stream) {
  begin_capture(nullptr);
  return nullptr;
}
void EmulatorDevice::launch_graph(cuda::Graph, cuda::Stream) { begin_capture(nullptr); }

namespace {

std::unique_ptr<cuda::Device> make_gpu(int major, int minor) {
  return std::make_unique<EmulatorDevice>(major, minor);
}

}  // namespace

// Nothing names this symbol, so the linker is told to want it (src/CMakeLists.txt): that takes this
// file out of the static library.
extern "C" {
extern const bool microscale_emulated_gpus;
}
const bool microscale_emulated_gpus = (cuda::provide_emulated_gpus(make_gpu), true);

}  // namespace microscale::emulator
