#include "cuda/matmul/vector/launch.hpp"

#include <fmt/format.h>

#include "cuda/device/launch.hpp"
#include "cuda/matmul/vector/plan.hpp"

namespace microscale::cuda {
namespace {

bool at_32_bytes(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % 32 == 0;
}

std::int64_t scale_bytes(const BlockScaledOperand& operand, std::int64_t rows, std::int64_t k) {
  return BlockShape{rows, k, operand.format, BlockAxis::cols, operand.layout}.scale_bytes();
}

}  // namespace

bool vector_product_offered(const BlockScaledProduct& p) {
  return p.a.format == Format::nvfp4 && p.b.format == Format::nvfp4 && p.rows.m == 1 &&
         p.rows.expert_rows == nullptr && p.rows.matrices <= 65535 && !p.output.gated &&
         p.k % vector_rows::slice == 0 && p.k <= (std::int64_t{1} << 28) &&
         p.n <= (std::int64_t{1} << 31) && at_32_bytes(p.a.codes) && at_32_bytes(p.b.codes);
}

std::string vector_kernel(std::int64_t k) {
  for (const int made : vector_rows::made_for)
    if (k == made) return fmt::format("matmul_vector_nvfp4_{}", k);
  return "matmul_vector_nvfp4_any";
}

void vector_product(Device& device, const BlockScaledProduct& product, const char* operation,
                    Stream stream) {
  if (product.rows.matrices == 0 || product.n == 0) return;
  vector_rows::MatmulVectorArgs args{};
  args.a = product.a.codes;
  args.a_scales = product.a.scales;
  args.b = product.b.codes;
  args.b_scales = product.b.scales;
  args.a_scale_matrix = scale_bytes(product.a, 1, product.k);
  args.b_scale_matrix = scale_bytes(product.b, product.n, product.k);
  args.a_tiled = product.a.layout == Layout::tiled_128x4;
  args.b_tiled = product.b.layout == Layout::tiled_128x4;
  args.n = product.n;
  args.k = product.k;
  args.output = product.output;
  const std::int64_t units = ceil_div(product.n, 32 * vector_rows::rows) * 32;
  const Launch shape{static_cast<unsigned>(ceil_div(units, vector_rows::warps)),
                     static_cast<unsigned>(product.rows.matrices), 1, vector_rows::threads, 0};
  launch(device, vector_kernel(product.k), operation, shape, args, stream);
}

}  // namespace microscale::cuda
