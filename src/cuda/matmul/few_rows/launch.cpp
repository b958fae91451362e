#include "cuda/matmul/few_rows/launch.hpp"

namespace microscale::cuda::few_rows {

std::optional<Plan> choose(const DeviceFacts& facts, const Product& product) {
  if (const auto plan = line_plan(facts, product)) return Plan(*plan);
  if (const auto plan = stream_plan(facts, product)) return Plan(*plan);
  return {};
}

std::string describe(const Plan& plan) {
  return std::visit([](const auto& cut) { return cuda::describe(cut); }, plan);
}

void run(Device& device, const Plan& plan, const Product& product, Stream stream) {
  if (const auto* line = std::get_if<LinePlan>(&plan))
    line_stream(device, *line, product, stream);
  else
    matmul_stream(device, std::get<StreamPlan>(plan), product, stream);
}

}  // namespace microscale::cuda::few_rows
