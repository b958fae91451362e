// Products, and weights prepared for them.
#pragma once

#include <optional>

#include "block_tensor.hpp"
#include "microscale/matmul.hpp"

namespace microscale::python {

struct PackedWeightsObject {
  nb::object bytes;                          // at a multiple of 64
  nb::object global_scale, up_global_scale;  // None, a float, or an array
  std::vector<std::int64_t> shape;           // (n, k), or (matrices, n, k)
  BlockShape blocks;                         // of one matrix
  std::int64_t matrices = 1;
  bool gated = false;
};

/// A product's operand, with the arrays it refers to.
struct WeightOperand {
  Array array;  // codes, or packed bytes
  MatmulWeights weights;
  BlockTensorView up;
  std::int64_t n = 0, k = 0, matrices = 1;
};
/// A BlockTensor or PackedWeights, or the parts of packed weights, which no Python object holds.
struct WeightSource {
  nb::handle object;
  const PackedWeightsObject* packed = nullptr;

  WeightSource(nb::handle given) : object(given) {}
  WeightSource(const PackedWeightsObject& parts) : packed(&parts) {}
};
/// `per_expert`: the global scale may be one for each matrix.
WeightOperand take_weights(const WeightSource& source, const char* name, const Call& call,
                           bool gated, bool per_expert = false);

struct InputOperand {
  Array array;
  const BlockTensorObject* blocks = nullptr;  // null: dense
  BlockOperand operand;
};
/// The first operand: an array or a BlockTensor.
InputOperand take_input(nb::handle object, const char* name);
/// One matrix of `batch` (1: all rows are one matrix).
MatmulInput matmul_input(InputOperand& input, std::int64_t batch, const Call& call,
                         std::int64_t experts = 0);
std::span<const std::int64_t> shape_of(const InputOperand& input);

/// What a product writes: a dense array, or a block tensor.
struct OutputOperand {
  nb::object object;
  MatmulOutput output;
};
struct OutputWords {
  nb::handle out, out_dtype, out_format, out_global_scale;
  std::string_view out_layout;
};
OutputOperand make_output(const Call& call, const InputOperand& input,
                          std::span<const std::int64_t> shape, std::int64_t batch,
                          const OutputWords& words, std::int64_t experts = 0);
/// Zeros into a new result, for rows of no expert.
void clear_output(const Call& call, const OutputOperand& output);

struct ProductWords {
  /// What input and weights are called, for messages.
  const char *a = "a", *b = "b", *gate = "gate";
  OutputWords output;
  float alpha = 1.0f;
  bool fast_accumulation = false, constant_weights = false;
};
nb::object product(nb::handle a, const WeightSource& b, nb::handle bias, const ProductWords& words,
                   const RunWords& run);
/// `up`: None where the weights of both are packed.
nb::object gated_product(nb::handle a, const WeightSource& gate, nb::handle up,
                         std::string_view activation, nb::handle gate_bias, nb::handle up_bias,
                         const ProductWords& words, const RunWords& run);
struct GroupWords {
  nb::handle offsets, counts;  // one of the two
  std::int64_t capacity = 0;
};
nb::object grouped_product(nb::handle a, const WeightSource& b, const GroupWords& group_words,
                           nb::handle row_weights, nb::handle bias, const ProductWords& words,
                           const RunWords& run);

void bind_matmul(nb::module_& module);
void bind_packed_products(nb::module_& module);
void bind_jax(nb::module_& module);
void bind_packed_weights(nb::module_& module);

}  // namespace microscale::python
