// Which kernels attend: the whole tree, in one place (docs/attention.md, "What runs where").
#include <fmt/format.h>

#include "cuda/attention/attention.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda::attention {
namespace {

void check_architecture(const DeviceFacts& facts) {
  const DeviceInfo& device = facts.info();
  if (facts.architecture().empty())
    throw Error(
        ErrorCode::unsupported,
        fmt::format("attention: backend cuda has kernels for attention on compute capability 9.0, "
                    "10.x and 12.x in this version, and {} is {}.{}; copy the operands to host "
                    "memory and leave the backend to `automatic`",
                    device.name, device.major, device.minor));
}

/// Whether the kernels that read a cache as it is take a call on Hopper: what they alone can do,
/// and, of caches whose scales lie as they want them, where they are predicted to be faster.
bool decodes_on_hopper(const DeviceInfo& device, const AttentionCall& call) {
  const KvCache& cache = *call.cache();
  if (call.options.splits > 1 || cache.first.count > 0 || cache.recent.count > 0 || cache.k_mean ||
      cache.hadamard != 0)
    return true;
  if (!decode::takes_scales(cache)) return false;
  return decode::cycles_of(device, call) <= prefill::cycles_of(device, call);
}

}  // namespace

Plan choose(const DeviceFacts& facts, const AttentionCall& call) {
  check_architecture(facts);
  const DeviceInfo& device = facts.info();
  const bool cached = call.cache() && call.q_dense();
  const bool exact = call.options.numerics.accuracy == AttentionAccuracy::storage;
  switch (device.major) {
    case 12:
      if (cached && exact) return {decode::plan_of(facts, call)};
      return {block_scaled::plan_of(facts, call)};
    case 9:
      if (cached && decodes_on_hopper(device, call)) return {decode::plan_of(facts, call)};
      return {prefill::plan_of(device, call)};
    default:
      if (!cached)
        refuse_attention(
            "attends on compute capability 10.x to keys and values in a cache, with q in FP32, "
            "BF16 or FP16; append k and v to one, dequantize q, or take a host backend");
      return {decode::plan_of(facts, call)};
  }
}

std::int64_t Plan::items() const {
  return std::visit([](const auto& plan) { return plan.items.count; }, family);
}

std::int64_t Plan::workspace_bytes() const {
  return std::visit([](const auto& plan) { return plan.workspace_bytes; }, family);
}

std::string describe_kernels(const Plan& plan) {
  return std::visit([](const auto& of_family) { return describe(of_family); }, plan.family);
}

std::string describe(const Plan& plan) {
  return fmt::format("{}; workspace {} bytes", describe_kernels(plan), plan.workspace_bytes());
}

}  // namespace microscale::cuda::attention
