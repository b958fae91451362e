// matmul, gated_matmul and grouped_matmul.
#include "matmul.hpp"

#include <fmt/format.h>

#include "keywords.hpp"
#include "microscale/error.hpp"
#include "microscale/matmul_plan.hpp"

namespace microscale::python {
namespace {

/// (..., k) by (n, k), or (matrices, m, k) by (matrices, n, k): the shape of the result.
struct ProductShape {
  std::array<std::int64_t, max_rank> sizes{};
  std::size_t rank = 0;
  std::int64_t batch = 1;

  std::span<const std::int64_t> shape() const { return {sizes.data(), rank}; }
};

ProductShape product_shape(const InputOperand& input, const WeightOperand& b, bool batched) {
  const std::span<const std::int64_t> a = shape_of(input);
  const char* const name = input.array.name;
  ProductShape found;
  if (a.empty() || a.back() != b.k)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: of shape {}, its last axis must have the weights' k = {}", name,
                            shape_text(a), b.k));
  if (batched && b.matrices != 1) {
    if (a.size() != 3 || a[0] != b.matrices)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: of shape {} beside {} matrices of weights; pass ({}, m, {})",
                              name, shape_text(a), b.matrices, b.matrices, b.k));
    found.batch = b.matrices;
  }
  found.rank = a.size();
  std::ranges::copy(a, found.sizes.begin());
  found.sizes[found.rank - 1] = b.n;
  return found;
}

void run(const MatmulOptions& options, const Context& context) { matmul(options, context); }
void run(const GatedMatmulOptions& options, const Context& context) {
  gated_matmul(options, context);
}
void run(const GroupedMatmulOptions& options, const Context& context) {
  grouped_matmul(options, context);
}

/// On a GPU by a plan: the choice of kernels is made once, for workspace and launch.
template <class Options>
void run_product(Call& call, const Options& options) {
  if (call.memory() == Memory::host) {
    call.run([&](const Context& context) { run(options, context); });
    return;
  }
  const MatmulPlan plan(options, call.context());
  call.give_workspace(plan.workspace_bytes());
  call.run([&](const Context& context) { plan.run(options, context); });
}

TensorView bias_row(nb::handle bias, const char* name, std::int64_t n, const Call& call) {
  if (bias.is_none()) return {};
  const Array array = take(bias, name);
  call.require_here(array);
  return row_of(array, n);
}

Activation activation_from(std::string_view name) {
  if (name == "silu") return Activation::silu;
  if (name == "gelu_tanh") return Activation::gelu_tanh;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("activation: there is no '{}'; choose one of silu, gelu_tanh", name));
}

}  // namespace

nb::object product(nb::handle a, const WeightSource& b, nb::handle bias, const ProductWords& words,
                   const RunWords& run) {
  InputOperand input = take_input(a, words.a);
  Call call(input.array, run);
  const WeightOperand weights = take_weights(b, words.b, call, false);
  const ProductShape shape = product_shape(input, weights, true);
  OutputOperand output = make_output(call, input, shape.shape(), shape.batch, words.output);
  run_product(call, MatmulOptions{.a = matmul_input(input, shape.batch, call),
                                  .b = weights.weights,
                                  .d = output.output,
                                  .batch = shape.batch,
                                  .alpha = words.alpha,
                                  .bias = bias_row(bias, "bias", weights.n, call),
                                  .fast_accumulation = words.fast_accumulation,
                                  .constant_weights = words.constant_weights});
  return output.object;
}

nb::object gated_product(nb::handle a, const WeightSource& gate, nb::handle up,
                         std::string_view activation, nb::handle gate_bias, nb::handle up_bias,
                         const ProductWords& words, const RunWords& run) {
  InputOperand input = take_input(a, words.a);
  Call call(input.array, run);
  const bool packed = up.is_none();
  const WeightOperand weights = take_weights(gate, words.gate, call, packed);
  WeightOperand second;
  if (!packed) {
    second = take_weights(up, "up", call, false);
    if (!std::holds_alternative<BlockTensorView>(weights.weights) ||
        !std::holds_alternative<BlockTensorView>(second.weights))
      throw Error(ErrorCode::invalid_argument,
                  "up: packed weights hold both projections; pass pack_gated_weights(gate, up) as "
                  "gate alone");
  } else if (std::holds_alternative<BlockTensorView>(weights.weights)) {
    throw Error(ErrorCode::invalid_argument,
                "up: missing; it is left out only where gate is of pack_gated_weights");
  }
  const ProductShape shape = product_shape(input, weights, true);
  OutputOperand output = make_output(call, input, shape.shape(), shape.batch, words.output);
  GatedMatmulOptions options{.a = matmul_input(input, shape.batch, call),
                             .gate = weights.weights,
                             .d = output.output,
                             .batch = shape.batch,
                             .activation = activation_from(activation),
                             .alpha = words.alpha,
                             .gate_bias = bias_row(gate_bias, "gate_bias", weights.n, call),
                             .up_bias = bias_row(up_bias, "up_bias", weights.n, call),
                             .fast_accumulation = words.fast_accumulation,
                             .constant_weights = words.constant_weights};
  if (!packed) options.up = std::get<BlockTensorView>(second.weights);
  run_product(call, options);
  return output.object;
}

nb::object grouped_product(nb::handle a, const WeightSource& b, const GroupWords& group_words,
                           nb::handle row_weights, nb::handle bias, const ProductWords& words,
                           const RunWords& run) {
  InputOperand input = take_input(a, words.a);
  Call call(input.array, run);
  const ExpertRows groups =
      expert_rows_of(group_words.offsets, group_words.counts, group_words.capacity, call);
  const WeightOperand weights = take_weights(b, words.b, call, false, true);
  if (weights.matrices != groups.experts)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} matrices beside {} experts; pass one for each", words.b,
                            weights.matrices, groups.experts));
  const ProductShape shape = product_shape(input, weights, false);
  OutputOperand output = make_output(call, input, shape.shape(), 1, words.output, groups.experts);
  if (words.output.out.is_none()) clear_output(call, output);
  GroupedMatmulOptions options{.a = matmul_input(input, 1, call, groups.experts),
                               .b = weights.weights,
                               .d = output.output,
                               .groups = groups,
                               .alpha = words.alpha,
                               .fast_accumulation = words.fast_accumulation,
                               .constant_weights = words.constant_weights};
  std::int64_t rows = 1;
  for (const std::int64_t size : shape.shape().first(shape.rank - 1)) rows *= size;
  if (!row_weights.is_none()) {
    const Array array = take(row_weights, "row_weights");
    call.require_here(array);
    options.row_weights = static_cast<const float*>(numbers_of(array, float32_type, rows));
  }
  if (!bias.is_none()) {
    const Array array = take(bias, "bias");
    call.require_here(array);
    options.bias = matrix_of(array);
  }
  run_product(call, options);
  return output.object;
}

// Keywords of all products, as in keywords.hpp.
#define PRODUCT_PARAMETERS                                                         \
  float alpha, nb::handle out, nb::handle out_dtype, nb::handle out_format,        \
      nb::handle out_global_scale, const char *out_layout, bool fast_accumulation, \
      bool constant_weights
#define PRODUCT_WORDS                                                                     \
  ProductWords {                                                                          \
    .output = {out, out_dtype, out_format, out_global_scale, out_layout}, .alpha = alpha, \
    .fast_accumulation = fast_accumulation, .constant_weights = constant_weights          \
  }
#define PRODUCT_ARGUMENTS                                                                  \
  nb::arg("alpha") = 1.0f, nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(), \
  nb::arg("out_format") = nb::none(), nb::arg("out_global_scale") = nb::none(),            \
  nb::arg("out_layout") = "row_major", nb::arg("fast_accumulation") = false,               \
  nb::arg("constant_weights") = false
#define PRODUCT_SIGNATURE                                                                      \
  "alpha: float = 1.0, out: Array | BlockTensor | None = None, out_dtype: DTypeLike = None, "  \
  "out_format: str | None = None, out_global_scale: float | Array | None = None, out_layout: " \
  "str = 'row_major', fast_accumulation: bool = False, constant_weights: bool = False, "

void bind_matmul(nb::module_& module) {
  module.def(
      "matmul",
      [](nb::handle a, nb::handle b, nb::handle bias, PRODUCT_PARAMETERS, RUN_PARAMETERS) {
        return product(a, b, bias, PRODUCT_WORDS, RUN_WORDS);
      },
      nb::arg("a").none(), nb::arg("b").none(), nb::kw_only(), nb::arg("bias") = nb::none(),
      PRODUCT_ARGUMENTS, RUN_ARGUMENTS,
      nb::sig("def matmul(a: Array | BlockTensor, b: BlockTensor | PackedWeights, *, bias: Array | "
              "None = None, " PRODUCT_SIGNATURE RUN_SIGNATURE ") -> Any"),
      "alpha * a @ b.T + bias.\n\n"
      "a: (..., k), float32, bfloat16, float16, or a BlockTensor; b: weights (n, k), with blocks\n"
      "along k; or a: (batch, m, k) and b: (batch, n, k). bias: n numbers. The result is (..., "
      "n),\n"
      "of a's type, bfloat16 where a is a BlockTensor, or out_dtype. With out_format it is a\n"
      "BlockTensor; NVFP4 then needs out_global_scale. out: an array, or BlockTensor, to write "
      "to.\n"
      "fast_accumulation: twice the rate on Hopper for MXFP4 by MXFP4, 13 bits of sums of 128.\n"
      "constant_weights: promises that nothing writes the weights any more (a GPU then reads them\n"
      "earlier).\n\n"
      "The same call gives the same bytes every time. docs/matmul.md has the bound of error and\n"
      "which formats each backend multiplies; others raise NotImplementedError.");
  module.def(
      "gated_matmul",
      [](nb::handle a, nb::handle gate, nb::handle up, const char* activation, nb::handle gate_bias,
         nb::handle up_bias, PRODUCT_PARAMETERS, RUN_PARAMETERS) {
        return gated_product(a, gate, up, activation, gate_bias, up_bias, PRODUCT_WORDS, RUN_WORDS);
      },
      nb::arg("a").none(), nb::arg("gate").none(), nb::arg("up") = nb::none(), nb::kw_only(),
      nb::arg("activation") = "silu", nb::arg("gate_bias") = nb::none(),
      nb::arg("up_bias") = nb::none(), PRODUCT_ARGUMENTS, RUN_ARGUMENTS,
      nb::sig("def gated_matmul(a: Array | BlockTensor, gate: BlockTensor | PackedWeights, up: "
              "BlockTensor | None = None, *, activation: str = 'silu', gate_bias: Array | None = "
              "None, up_bias: Array | None = None, " PRODUCT_SIGNATURE RUN_SIGNATURE ") -> Any"),
      "activation(alpha * a @ gate.T + gate_bias) * (alpha * a @ up.T + up_bias).\n\n"
      "activation: 'silu' or 'gelu_tanh'. gate: weights as of matmul, or what pack_gated_weights\n"
      "made of both, and up left out. The rest as matmul.");
  module.def(
      "grouped_matmul",
      [](nb::handle a, nb::handle b, nb::handle offsets, nb::handle counts, std::int64_t capacity,
         nb::handle row_weights, nb::handle bias, PRODUCT_PARAMETERS, RUN_PARAMETERS) {
        return grouped_product(a, b, {offsets, counts, capacity}, row_weights, bias, PRODUCT_WORDS,
                               RUN_WORDS);
      },
      nb::arg("a").none(), nb::arg("b").none(), nb::kw_only(), nb::arg("offsets") = nb::none(),
      nb::arg("counts") = nb::none(), nb::arg("capacity") = 0, nb::arg("row_weights") = nb::none(),
      nb::arg("bias") = nb::none(), PRODUCT_ARGUMENTS, RUN_ARGUMENTS,
      nb::sig("def grouped_matmul(a: Array | BlockTensor, b: BlockTensor | PackedWeights, *, "
              "offsets: Array | None = None, counts: Array | None = None, capacity: int = 0, "
              "row_weights: Array | None = None, bias: Array | None = None, " PRODUCT_SIGNATURE
                  RUN_SIGNATURE ") -> Any"),
      "The rows of many experts, each by its expert's weights (a mixture of experts).\n\n"
      "a: (rows, k). b: (experts, n, k). Expert e has the rows offsets[e] to offsets[e + 1], or "
      "the\n"
      "first counts[e] of the rows from e * capacity on; int32 or int64, one or the other.\n"
      "row_weights: float32, one for each row. bias: (experts, n). Rows without an expert are not\n"
      "read; they are zeros in a new result and stay as they are in out. A BlockTensor a is of\n"
      "grouped_quantize. The rest as matmul.");
}

}  // namespace microscale::python
