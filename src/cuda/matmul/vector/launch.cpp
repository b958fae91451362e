#include "cuda/matmul/vector/plan.hpp"

#include <fmt/format.h>

#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "formats/integers.hpp"

namespace microscale::cuda::vector {

bool takes(const Product& p) {
  return p.a.format == Format::nvfp4 && p.weights() == Format::nvfp4 && !p.b.packed &&
         p.rows.m == 1 && !p.grouped && p.rows.matrices <= 65535 && !p.gated() &&
         p.k % slice == 0 && p.k <= (std::int64_t{1} << 28) && p.n <= (std::int64_t{1} << 31);
}

bool takes_alignment(const Product& p) {
  return (reinterpret_cast<std::uintptr_t>(p.a.data) | reinterpret_cast<std::uintptr_t>(p.b.data)) %
             code_alignment ==
         0;
}

Entry<MatmulVectorArgs> kernel_of(std::int64_t k) {
  for (const int made : made_for)
    if (k == made) return kernels::matmul_vector("nvfp4", k);
  return kernels::matmul_vector("nvfp4", "any");
}

Plan plan_of(const Product& product) {
  const std::int64_t units = ceil_div(product.n, 32 * rows) * 32;
  return {ceil_div(units, warps)};
}

std::string describe(const Plan& plan) {
  return fmt::format("vector, {} blocks a matrix", plan.blocks);
}

void run(Device& device, const Plan& plan, const Product& product, Stream stream) {
  MatmulVectorArgs args{};
  args.a = product.a.data;
  args.a_scales = product.a.scales;
  args.b = product.b.data;
  args.b_scales = product.b.scales;
  args.a_scale_matrix = scale_bytes(product.a, 1, product.k);
  args.b_scale_matrix = scale_bytes(product.b, product.n, product.k);
  args.a_tiled = product.a.layout == Layout::tiled_128x4;
  args.b_tiled = product.b.layout == Layout::tiled_128x4;
  args.n = product.n;
  args.k = product.k;
  args.output = product.output;
  const Launch shape{static_cast<unsigned>(plan.blocks),
                     static_cast<unsigned>(product.rows.matrices), 1, threads, 0};
  launch(device, kernel_of(product.k), product.operation, shape, args, stream);
}

}  // namespace microscale::cuda::vector
