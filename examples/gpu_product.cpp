// A product with NVFP4 weights on a GPU, as an engine runs it: the weights are quantized and packed
// once, the call is captured into a CUDA graph, and the graph is launched for every step.
// `build/example_gpu_product` prints the first results beside a CPU's, and fails if they are apart.
// MICROSCALE_BACKEND=emulator-sm90 runs the same kernels without a GPU; it has no graphs, so there
// the call itself is repeated.
#ifdef EXAMPLE_HAS_CUDA_RUNTIME
#include <cuda_runtime_api.h>
#endif

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "microscale/cuda.hpp"
#include "microscale/device_buffer.hpp"
#include "microscale/matmul.hpp"
#include "microscale/quantize.hpp"

using namespace microscale;

// Runs `call(stream)` `times` times: captured once, launched from a graph.
template <class Call>
void repeat(int times, Call&& call) {
#ifdef EXAMPLE_HAS_CUDA_RUNTIME
  if (std::getenv("MICROSCALE_BACKEND") == nullptr) {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    call(stream);  // allocates nothing and waits for nothing, so it may be captured
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    for (int i = 0; i < times; ++i) cudaGraphLaunch(executable, stream);
    cuda::synchronize(stream);  // throws what went wrong on the way
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    return;
  }
#endif
  for (int i = 0; i < times; ++i) call(nullptr);
}

int main() try {
  constexpr std::int64_t m = 4, n = 256, k = 512;
  std::vector<std::uint16_t> x(m * k);  // BF16
  std::vector<float> weights(n * k), d(m * n), wanted(m * n);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(std::sin(0.1f * i)) >> 16);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.05f * std::sin(0.37f * i);
  cuda::load_kernels();  // not in a capture

  // Once: FP32 weights to NVFP4, whose global scale stays on the GPU, and to the order that the
  // product's kernels read.
  const BlockShape shape{.rows = n, .cols = k};
  const DeviceBuffer dense = DeviceBuffer::copy_of(std::span(weights)), codes(shape.code_bytes()),
                     scales(shape.scale_bytes()), global(sizeof(float));
  const GlobalScale global_scale =
      quantize_into({.input = packed(dense.data(), DType::f32, n, k, Memory::device),
                     .computed_global_scale = global.as<float>()},
                    codes.bytes(), scales.bytes());
  const PackOptions given{
      .b = packed(shape, codes.data(), scales.data(), global_scale, Memory::device)};
  const DeviceBuffer bytes(packed_weights_bytes(given));
  const PackedWeights b = pack_weights(given, bytes.bytes());

  // For every step: device memory in, device memory out.
  const DeviceBuffer input = DeviceBuffer::copy_of(std::span(x)), output(m * n * 4);
  const MatmulOptions product{
      .a = TensorView(packed(input.data(), DType::bf16, m, k, Memory::device)),
      .b = b,
      .d = packed(output.data(), DType::f32, m, n, Memory::device)};
  const DeviceBuffer workspace(matmul_workspace_bytes(product, {}));
  cuda::synchronize();
  repeat(3, [&](void* stream) {
    matmul(product, {.stream = stream, .workspace = workspace.bytes()});
  });
  output.copy_to(std::span(d));

  const BlockTensor on_cpu = quantize({.input = packed(weights.data(), DType::f32, n, k)});
  matmul({.a = TensorView(packed(x.data(), DType::bf16, m, k)),
          .b = on_cpu.view(),
          .d = packed(wanted.data(), DType::f32, m, n)});
  float apart = 0;
  for (std::size_t i = 0; i < d.size(); ++i) apart = std::fmax(apart, std::fabs(d[i] - wanted[i]));
  std::printf("%s: %g %g %g, CPU: %g %g %g; at most %g apart\n", cuda::device_name().c_str(), d[0],
              d[1], d[2], wanted[0], wanted[1], wanted[2], apart);
  return apart < 1e-4f ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
