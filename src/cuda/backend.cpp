// What operations get where they are told Backend::cuda: each on the calling thread's current GPU.
#include <fmt/format.h>

#include "cuda/attention/attention.hpp"
#include "cuda/device/environment.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/matmul/matmul.hpp"
#include "cuda/operations.hpp"
#include "microscale/error.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale::cuda {
namespace {

// on_current<quantize> is quantize without its first argument, which is the current device.
template <auto operation>
struct OnCurrent;
template <class Result, class... Args, Result (*operation)(Device&, Args...)>
struct OnCurrent<operation> {
  static Result run(Args... args) { return operation(runtime_device(), args...); }
};
template <auto operation>
constexpr auto on_current = &OnCurrent<operation>::run;

std::string name_of_gpu(int ordinal) {
  const DeviceInfo& gpu = runtime_device(ordinal).info();
  if (architecture_of(gpu).empty())
    throw Error(ErrorCode::unsupported,
                fmt::format("quantize: GPU {} ({}) has compute capability {}.{}; there are kernels "
                            "for 9.0, 10.x and 12.x, so choose another GPU or --device cpu",
                            ordinal, gpu.name, gpu.major, gpu.minor));
  return fmt::format("{}, {}", gpu.name, architecture_of(gpu));
}

void load_kernels_of(int ordinal) {
  Device& device = runtime_device(ordinal);
  device.make_current();
  load_all_kernels(device);
}

bool is_gpu_memory(const void* data) {
  if (Device* emulated = device_of_environment())
    return emulated->memory_of(data) == Memory::device;
  return driver_memory(data).kind == DriverMemory::device;
}

std::unique_ptr<TileQuantizer> make_tile_quantizer_on(int ordinal, const TileBufferSizes& sizes) {
  return make_tile_quantizer(runtime_device(ordinal), sizes);
}

}  // namespace

// Nothing else names this symbol, so the linker is told to want it (src/CMakeLists.txt): that takes
// this file out of the static library.
extern "C" {
extern const GpuOperations microscale_cuda_backend;
}
const GpuOperations microscale_cuda_backend{
    .quantize = on_current<quantize>,
    .quantize_both = on_current<quantize_both>,
    .grouped_quantize = on_current<grouped_quantize>,
    .silu_mul_quantize = on_current<silu_mul_quantize>,
    .rms_norm_quantize = on_current<rms_norm_quantize>,
    .hadamard_quantize = on_current<hadamard_quantize>,
    .dequantize = on_current<dequantize>,
    .repack_scales = on_current<repack_scales>,
    .repack_containers = on_current<repack_containers>,
    .matmul_workspace_bytes = on_current<matmul_workspace_bytes>,
    .matmul = on_current<matmul>,
    .keep_matmul_plan = on_current<keep_plan>,
    .packed_weights_bytes = packed_weights_bytes,
    .pack_weights = on_current<pack_weights>,
    .append_kv = on_current<append_kv>,
    .attention_workspace_bytes = on_current<attention::workspace_bytes>,
    .attention = on_current<attention::attend>,
    .keep_attention_plan = on_current<attention::keep_plan>,
    .name_of_gpu = name_of_gpu,
    .load_kernels = load_kernels_of,
    .make_tile_quantizer = make_tile_quantizer_on,
    .host_only_reason = host_only_reason,
    .is_gpu_memory = is_gpu_memory,
};

namespace {

[[maybe_unused]] const bool provided = (provide_gpu_operations(microscale_cuda_backend), true);

}  // namespace
}  // namespace microscale::cuda
