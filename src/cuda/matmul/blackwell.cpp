#include "cuda/matmul/blackwell.hpp"

#include "cuda/matmul/block_scaled/launch.hpp"
#include "cuda/matmul/vector/launch.hpp"

namespace microscale::cuda {
namespace {

BlockScaledOperand operand_of(const BlockTensorView& view) {
  return {view.shape.format, view.shape.layout, view.codes.data(), view.scales.data()};
}

/// Without rows and output. Both operands of the call are block-scaled and plain.
BlockScaledProduct product_of(const MatmulCall& call) {
  BlockScaledProduct product;
  product.a = operand_of(*call.a_blocks());
  product.b = operand_of(std::get<BlockTensorView>(call.b));
  if (call.gated) product.up = operand_of(*call.up);
  product.n = call.n();
  product.k = call.k();
  product.output.gated = call.gated;
  return product;
}

bool is_vector_product(const MatmulCall& call) {
  if (call.groups != nullptr) return false;
  BlockScaledProduct product = product_of(call);
  product.rows = {call.rows(), call.matrices, nullptr, 0};
  return vector_product_offered(product);
}

}  // namespace

bool is_blackwell_product(const DeviceInfo& device, const MatmulCall& call) {
  if (call.a_blocks() == nullptr || call.packed() != nullptr) return false;
  if (device.major != 10 && device.major != 12) return false;
  if (is_vector_product(call)) return true;
  const std::int64_t shared_out = call.groups != nullptr ? call.matrices : 1;
  return device.major == 12 && call.rows() >= least_block_scaled_rows * shared_out &&
         block_scaled_pair_offered(call.a_blocks()->shape.format, call.b_shape().format);
}

void blackwell_product(Device& device, const MatmulCall& call, const ProductRows& rows,
                       const ProductOutput& output, Stream stream) {
  BlockScaledProduct product = product_of(call);
  product.rows = rows;
  product.output = output;
  if (is_vector_product(call))
    vector_product(device, product, call.operation, stream);
  else
    block_scaled_product(device, product, call.operation, stream);
}

}  // namespace microscale::cuda
