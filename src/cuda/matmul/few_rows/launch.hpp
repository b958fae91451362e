// Products of few rows of a with 4-bit weights on Hopper, streamed through rings in shared memory:
// what choose() asks (choose), and what runs what it was told (run).
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "cuda/device/facts.hpp"
#include "cuda/matmul/few_rows/line_launch.hpp"
#include "cuda/matmul/few_rows/stream_launch.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::few_rows {

using Plan = std::variant<LinePlan, StreamPlan>;

/// None where these kernels do not serve: see line_plan and stream_plan. Of a product that has
/// elements of d.
std::optional<Plan> choose(const DeviceFacts& facts, const Product& product);
std::string describe(const Plan& plan);

/// One launch, no workspace, nothing waited for.
void run(Device& device, const Plan& plan, const Product& product, Stream stream);

}  // namespace microscale::cuda::few_rows
