#include "threads.hpp"

#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "device_bytes.hpp"
#include "gpu_timing.hpp"
#include "microscale/error.hpp"
#include "microscale/matmul.hpp"

namespace microscale::cuda {
namespace {

constexpr std::int64_t n = 256;
constexpr int calls = 2000;

std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}

/// One row of a by packed MXFP4 weights, into d on a stream of its own. What the codes and scales
/// are does not matter, as long as no scale is NaN.
class RowProduct {
 public:
  RowProduct(Device& device, std::int64_t k)
      : device_(device),
        stream_(device.make_stream()),
        shape_{n, k, Format::mxfp4},
        a_(random_matrix(device, DType::bf16, k)),
        codes_(random_matrix(device, DType::bf16, shape_.code_bytes() / 2)),
        scales_(device,
                std::vector<std::uint8_t>(static_cast<std::size_t>(shape_.scale_bytes()), 120)),
        packed_(device,
                packed_weights_bytes({.b = on_device(BlockTensorView{.shape = shape_})}, on())),
        d_(device, n * 4),
        workspace_(device, workspace_bytes) {
    device.synchronize(nullptr);  // operands are there
    const BlockTensorView view{.shape = shape_,
                               .codes = span_of(codes_),
                               .scales = span_of(scales_),
                               .memory = Memory::device};
    weights_ = pack_weights({.b = view}, span_of(packed_), on());
    device.synchronize(stream_);
  }
  ~RowProduct() { device_.release_stream(stream_); }

  void multiply() const {
    matmul({.a = TensorView{a_.data(), DType::bf16, 1, shape_.cols, shape_.cols, Memory::device},
            .b = weights_,
            .d = MutableTensorView{d_.data(), DType::f32, 1, n, n, Memory::device}},
           on());
  }
  std::vector<std::uint8_t> result() const {
    device_.synchronize(stream_);
    return d_.to_host();
  }

 private:
  static constexpr std::int64_t workspace_bytes = 1 << 20;  // more than a row takes
  Context on() const {
    return {.backend = Backend::cuda, .stream = stream_, .workspace = span_of(workspace_)};
  }

  Device& device_;
  Stream stream_;
  BlockShape shape_;
  DeviceBytes a_, codes_, scales_, packed_, d_, workspace_;
  PackedWeights weights_;
};

}  // namespace

void check_threads(Device& device, EqualityTotals& totals) {
  const RowProduct products[] = {{device, 16384}, {device, 512}};
  std::vector<std::uint8_t> alone[2];
  for (int i = 0; i < 2; ++i) {
    products[i].multiply();
    alone[i] = products[i].result();
  }
  std::atomic<int> failed{0};
  std::thread threads[2];
  for (int i = 0; i < 2; ++i)
    threads[i] = std::thread([&, i] {
      device.make_current();
      try {
        for (int call = 0; call < calls; ++call) products[i].multiply();
        if (products[i].result() != alone[i]) ++failed;
      } catch (const Error&) {
        ++failed;
      }
    });
  for (std::thread& thread : threads) thread.join();
  totals.calls += 2 * calls;
  totals.elements += 2 * n;
  totals.failed += failed;
  if (failed > 0)
    totals.differences.push_back(
        "products of two host threads by one kernel with unlike shared memory");
}

}  // namespace microscale::cuda
