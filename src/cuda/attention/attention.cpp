#include "cuda/attention/attention.hpp"

#include "cuda/device/operands.hpp"

namespace microscale::cuda::attention {
namespace {

constexpr const char* operation = "attention";

/// All memory of the call is the device's, and so is a workspace of `needed` bytes, apart from it.
void check_memory(Device& device, const AttentionCall& call,
                  std::span<const std::uint8_t> workspace, std::int64_t needed) {
  check_workspace(operation, "attention_workspace_bytes", workspace, needed);
  check_on_device(device, operation, call.memory);
  if (needed == 0) return;
  const MemoryRange work{"the workspace", workspace.data(), needed};
  check_on_device(device, operation, std::span(&work, 1));
  check_apart(operation, work, call.memory);
}

class KeptPlan final : public GpuAttentionPlan {
 public:
  KeptPlan(Device& device, const AttentionCall& call)
      : device_(device), plan_(choose(DeviceFacts(device), call)) {}
  std::int64_t workspace_bytes() const override { return plan_.workspace_bytes(); }
  std::string describe() const override { return attention::describe(plan_); }
  void run(const AttentionCall& call, std::span<std::uint8_t> workspace,
           void* stream) const override {
    attention::run(device_, plan_, call, workspace, stream);
  }

 private:
  Device& device_;
  Plan plan_;
};

}  // namespace

std::unique_ptr<GpuAttentionPlan> keep_plan(Device& device, const AttentionCall& call) {
  return std::make_unique<KeptPlan>(device, call);
}

void run(Device& device, const Plan& plan, const AttentionCall& call,
         std::span<std::uint8_t> workspace, Stream stream) {
  if (plan.items() == 0) return;
  check_memory(device, call, workspace, plan.workspace_bytes());
  std::visit([&](const auto& of_family) { run(device, of_family, call, workspace.data(), stream); },
             plan.family);
}

std::int64_t workspace_bytes(Device& device, const AttentionCall& call) {
  return choose(DeviceFacts(device), call).workspace_bytes();
}

void attend(Device& device, const AttentionCall& call, std::span<std::uint8_t> workspace,
            Stream stream) {
  run(device, choose(DeviceFacts(device), call), call, workspace, stream);
}

}  // namespace microscale::cuda::attention
