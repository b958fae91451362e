#include "producers.hpp"

#include <fmt/format.h>

#include "keywords.hpp"
#include "microscale/error.hpp"
#include "microscale/fused.hpp"

namespace microscale::python {
namespace {

/// What is quantized: format, layout, options and the global scale.
struct ProducedWords {
  std::string_view format, layout;
  nb::handle global_scale, scale_rule, rounding;
  std::uint64_t seed = 0;
};

/// A new block tensor of the shape of `like`, and where to write it.
struct Produced {
  NewBlocks blocks;
  QuantizedOutput output;
};

Produced make_produced(const Call& call, const Array& like, const ProducedWords& words) {
  const Format format = format_from(words.format);
  const BlockShape shape =
      block_shape_of(like.sizes(), format, -1, layout_from(words.layout), like.name);
  if (format == Format::nvfp4 && words.global_scale.is_none())
    throw Error(ErrorCode::invalid_argument,
                "global_scale: NVFP4 needs one, because the result is not known before it is "
                "quantized; pass a number, or on a GPU a float32 array of one element");
  Produced made{make_blocks(call, like.sizes(), shape), {}};
  made.output.format = format;
  made.output.layout = shape.layout;
  made.output.numerics = numerics_from({words.scale_rule, words.rounding, nb::none(), nb::none(),
                                        nb::none(), nb::none(), words.seed},
                                       format);
  made.output.global_scale = global_scale_of(words.global_scale, "global_scale", call);
  made.output.codes = made.blocks.codes;
  made.output.scales = made.blocks.scales;
  made.output.memory = call.memory();
  made.blocks.tensor.global_scale = nb::borrow(words.global_scale);
  return made;
}

void require_alike(const Array& array, const Array& first) {
  if (array.type == first.type && std::ranges::equal(array.sizes(), first.sizes())) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the {} must be as {}, which is a {}", array.name, describe(array),
                          first.name, describe(first)));
}

nb::object silu_mul(nb::handle gate, nb::handle up, const ProducedWords& words,
                    const RunWords& run) {
  const Array first = take(gate, "gate"), second = take(up, "up");
  Call call(first, run);
  call.require_here(second);
  require_alike(second, first);
  Produced made = make_produced(call, first, words);
  const SiluMulOptions options{matrix_of(first), matrix_of(second), made.output};
  call.run([&](const Context& context) { silu_mul_quantize_into(options, context); });
  return nb::cast(std::move(made.blocks.tensor));
}

/// The operands of a norm; `sums` becomes the new array for x + residual, where there is one.
RmsNormOptions norm_of(const Call& call, const Array& input, nb::handle weight, float epsilon,
                       nb::handle residual, nb::object& sums) {
  RmsNormOptions options{.input = matrix_of(input),
                         .weight = nullptr,
                         .epsilon = epsilon,
                         .residual = {},
                         .sum = {},
                         .output = {}};
  if (!weight.is_none()) {
    const Array array = take(weight, "weight");
    call.require_here(array);
    options.weight = numbers_of(array, input.type, options.input.cols);
  }
  if (residual.is_none()) return options;
  const Array added = take(residual, "residual");
  call.require_here(added);
  require_alike(added, input);
  options.residual = matrix_of(added);
  Array sum;
  sums = call.make(input.type, input.sizes(), sum);
  options.sum = output_matrix_of(sum);
  return options;
}

nb::object rms_norm_quantize(nb::handle x, nb::handle weight, float epsilon, nb::handle residual,
                             const ProducedWords& words, const RunWords& run) {
  const Array input = take(x, "x");
  Call call(input, run);
  Produced made = make_produced(call, input, words);
  nb::object sums;
  RmsNormOptions options = norm_of(call, input, weight, epsilon, residual, sums);
  options.output = made.output;
  call.run([&](const Context& context) { rms_norm_quantize_into(options, context); });
  nb::object blocks = nb::cast(std::move(made.blocks.tensor));
  return sums.is_valid() ? nb::object(nb::make_tuple(blocks, sums)) : blocks;
}

nb::object rms_norm(nb::handle x, nb::handle weight, float epsilon, nb::handle residual) {
  const FromDispatcher resolved;
  const Array input = take(x, "x");
  Call call(input, {Py_None, Py_None, Py_None});
  nb::object sums;
  const RmsNormOptions options = norm_of(call, input, weight, epsilon, residual, sums);
  Array result;
  nb::object normed = call.make(input.type, input.sizes(), result);
  const MutableTensorView to = output_matrix_of(result);
  call.run([&](const Context& context) { rms_norm_into(options, to, context); });
  return sums.is_valid() ? nb::object(nb::make_tuple(normed, sums)) : normed;
}

/// 4 words of 32 bits from a Python integer of `order` bits.
std::array<std::uint32_t, 4> sign_bits(nb::handle negated) {
  std::array<std::uint32_t, 4> words{};
  if (negated.is_none()) return words;
  nb::object rest = nb::borrow(negated);
  for (std::uint32_t& word : words) {
    word = nb::cast<std::uint32_t>(rest & nb::int_(0xFFFFFFFFu));
    rest = rest >> nb::int_(32);
  }
  return words;
}

nb::object hadamard(nb::handle x, int order, nb::handle negated, const ProducedWords& words,
                    const RunWords& run) {
  const Array input = take(x, "x");
  Call call(input, run);
  Produced made = make_produced(call, input, words);
  const HadamardOptions options{matrix_of(input), order, sign_bits(negated), made.output};
  call.run([&](const Context& context) { hadamard_quantize_into(options, context); });
  return nb::cast(std::move(made.blocks.tensor));
}

}  // namespace

#define PRODUCED_PARAMETERS                                                               \
  const char *format, const char *layout, nb::handle global_scale, nb::handle scale_rule, \
      nb::handle rounding, std::uint64_t seed
#define PRODUCED_WORDS \
  ProducedWords { format, layout, global_scale, scale_rule, rounding, seed }
#define PRODUCED_ARGUMENTS                                                  \
  nb::arg("format") = "nvfp4", nb::arg("layout") = "row_major",             \
  nb::arg("global_scale") = nb::none(), nb::arg("scale_rule") = nb::none(), \
  nb::arg("rounding") = nb::none(), nb::arg("seed") = 0
#define PRODUCED_SIGNATURE                                                                        \
  "format: str = 'nvfp4', layout: str = 'row_major', global_scale: float | Array | None = None, " \
  "scale_rule: str | None = None, rounding: str | None = None, seed: int = 0, "

void bind_producers(nb::module_& module) {
  module.def(
      "silu_mul_quantize",
      [](nb::handle gate, nb::handle up, PRODUCED_PARAMETERS, RUN_PARAMETERS) {
        return silu_mul(gate, up, PRODUCED_WORDS, RUN_WORDS);
      },
      nb::arg("gate").none(), nb::arg("up").none(), nb::kw_only(), PRODUCED_ARGUMENTS,
      RUN_ARGUMENTS,
      nb::sig("def silu_mul_quantize(gate: Array, up: Array, *, " PRODUCED_SIGNATURE RUN_SIGNATURE
              ") -> BlockTensor"),
      "SiLU(gate) * up, quantized in the same pass: the bytes are those of quantizing the float32\n"
      "product. gate and up: of one shape and type. NVFP4 needs global_scale.");
  module.def(
      "rms_norm_quantize",
      [](nb::handle x, nb::handle weight, float epsilon, nb::handle residual, PRODUCED_PARAMETERS,
         RUN_PARAMETERS) {
        return rms_norm_quantize(x, weight, epsilon, residual, PRODUCED_WORDS, RUN_WORDS);
      },
      nb::arg("x").none(), nb::arg("weight") = nb::none(), nb::kw_only(), nb::arg("eps") = 1e-6f,
      nb::arg("residual") = nb::none(), PRODUCED_ARGUMENTS, RUN_ARGUMENTS,
      nb::sig("def rms_norm_quantize(x: Array, weight: Array | None = None, *, eps: float = 1e-06, "
              "residual: Array | None = None, " PRODUCED_SIGNATURE RUN_SIGNATURE ") -> Any"),
      "x / sqrt(mean(x * x) + eps) * weight of each row, quantized in the same pass.\n\n"
      "weight: of x's type, one for each element of a row. With residual, of x's shape and type, "
      "the\n"
      "sum x + residual is normed, and the result is (BlockTensor, sum).");
  module.def(
      "rms_norm",
      [](nb::handle x, nb::handle weight, float epsilon, nb::handle residual) {
        return rms_norm(x, weight, epsilon, residual);
      },
      nb::arg("x").none(), nb::arg("weight").none(), nb::arg("eps"),
      nb::arg("residual") = nb::none(),
      nb::sig("def rms_norm(x: Array, weight: Array | None, eps: float, residual: Array | None = "
              "None) -> Any"),
      "rms_norm_quantize without a quantizer, on the CPU: the matrix in x's type.");
  module.def(
      "hadamard_quantize",
      [](nb::handle x, int order, nb::handle negated, PRODUCED_PARAMETERS, RUN_PARAMETERS) {
        return hadamard(x, order, negated, PRODUCED_WORDS, RUN_WORDS);
      },
      nb::arg("x").none(), nb::kw_only(), nb::arg("order") = 32, nb::arg("negated") = nb::none(),
      PRODUCED_ARGUMENTS, RUN_ARGUMENTS,
      nb::sig("def hadamard_quantize(x: Array, *, order: int = 32, negated: int | None = "
              "None, " PRODUCED_SIGNATURE RUN_SIGNATURE ") -> BlockTensor"),
      "The orthonormal Hadamard transform of each run of `order` neighbours (16, 32, 64 or 128),\n"
      "quantized in the same pass. negated: bit i says whether element i of every run changes its\n"
      "sign first.");
  bind_grouped_quantize(module);
}

}  // namespace microscale::python
