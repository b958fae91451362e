// Quantizing with the Hessian of a layer's inputs.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <utility>

#include "block_tensor.hpp"
#include "keywords.hpp"
#include "microscale/error.hpp"
#include "microscale/hessian.hpp"
#include "quantize.hpp"

namespace microscale::python {
namespace {

HessianMethod method_from(std::string_view name) {
  for (const HessianMethod method : {HessianMethod::gptq, HessianMethod::block_hessian})
    if (to_string(method) == name) return method;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("method: '{}' is unknown; choose one of gptq, block-hessian", name));
}

std::span<const float> hessian_of(const Array& array, std::int64_t cols, const Call& call) {
  call.require_here(array);
  return {static_cast<const float*>(numbers_of(array, float32_type, cols * cols)),
          static_cast<std::size_t>(cols * cols)};
}

void require_host(const Call& call, const char* name) {
  if (call.memory() == Memory::device)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: runs on the CPU only; copy the arrays there", name));
}

nb::object quantize_array(nb::handle x, nb::handle hessian, HessianOptions options,
                          std::optional<double> shrink, std::optional<std::int64_t> tokens,
                          HessianQuantizeOptions words, nb::handle global_scale,
                          nb::handle tensor_amax, const RunWords& run) {
  const Array input = take(x, "x"), inputs = take(hessian, "hessian");
  Call call(input, run);
  require_host(call, "quantize_with_hessian");
  words.input = matrix_of(input);
  options.cols = words.input.cols;
  options.hessian = hessian_of(inputs, options.cols, call);
  options.shrink = shrink.value_or(tokens ? hessian_shrink(*tokens, options.cols) : options.shrink);
  const BlockShape blocks =
      block_shape_of(input.sizes(), options.format, -1, Layout::row_major, "x");
  words.global_scale = global_scale_of(global_scale, "global_scale", call);
  if (!tensor_amax.is_none()) words.tensor_amax = number_of(tensor_amax, "tensor_amax");
  NewBlocks made = make_blocks(call, input.sizes(), blocks);
  const float scale = call.run([&](const Context& context) {
    const PreparedHessian prepared(options, context);
    words.hessian = &prepared;
    return quantize_with_hessian_into(words, made.codes, made.scales, context);
  });
  made.tensor.global_scale =
      options.format == Format::nvfp4 ? nb::object(nb::float_(double(scale))) : nb::none();
  return nb::cast(std::move(made.tensor));
}

std::pair<double, double> error_of(nb::handle x, nb::handle t, nb::handle hessian,
                                   const RunWords& run) {
  const Array weights = take(x, "x"), inputs = take(hessian, "hessian");
  const BlockTensorObject& tensor = block_tensor_of(t, "t");
  BlockOperand quantized = take_blocks(tensor, "t");
  Call call(weights, run);
  require_host(call, "output_error");
  call.require_here(quantized.codes);
  set_global_scale(quantized, tensor, call);
  const TensorView view = matrix_of(weights);
  const std::span<const float> h = hessian_of(inputs, view.cols, call);
  const OutputError error = call.run(
      [&](const Context& context) { return output_error(view, quantized.view, h, context); });
  return {error.error, error.power};
}

}  // namespace

void bind_hessian(nb::module_& module) {
  module.def(
      "quantize_with_hessian",
      [](nb::handle x, nb::handle hessian, const std::string& format, const std::string& method,
         std::optional<double> shrink, std::optional<std::int64_t> tokens, double damping,
         const std::string& scale_rule, nb::handle global_scale, nb::handle tensor_amax,
         RUN_PARAMETERS) {
        HessianOptions options;
        options.format = format_from(format);
        options.method = method_from(method);
        options.damping = damping;
        HessianQuantizeOptions words;
        const auto rule = parse_scale_rule(scale_rule);
        if (!rule)
          throw Error(
              ErrorCode::invalid_argument,
              fmt::format("scale_rule: '{}' is unknown; choose search or full", scale_rule));
        words.scale_rule = *rule;
        return quantize_array(x, hessian, options, shrink, tokens, words, global_scale, tensor_amax,
                              RUN_WORDS);
      },
      nb::arg("x").none(), nb::arg("hessian").none(), nb::arg("format") = "nvfp4", nb::kw_only(),
      nb::arg("method") = "gptq", nb::arg("shrink") = nb::none(), nb::arg("tokens") = nb::none(),
      nb::arg("damping") = 0.01, nb::arg("scale_rule") = "search",
      nb::arg("global_scale") = nb::none(), nb::arg("tensor_amax") = nb::none(), RUN_ARGUMENTS,
      nb::sig("def quantize_with_hessian(x: Array, hessian: Array, format: str = 'nvfp4', *, "
              "method: str = 'gptq', shrink: float | None = None, tokens: int | None = None, "
              "damping: float = 0.01, scale_rule: str = 'search', global_scale: float | Array | "
              "None = None, tensor_amax: float | None = None, " RUN_SIGNATURE ") -> BlockTensor"),
      "Quantizes the weight of a layer, (n, k), so that the layer's output changes least, on the\n"
      "CPU. hessian: float32 (k, k), the mean of x x^T over its inputs x.\n\n"
      "format: nvfp4 or mxfp4. method: 'gptq', or 'block-hessian', which chooses scales only.\n"
      "shrink: part by which numbers off the diagonal become smaller; left out, 0.1, and where\n"
      "`tokens`, of which the Hessian is the mean, are fewer than 64 k, 0.3. damping: part of the\n"
      "diagonal's mean that is added to it, more where it takes more. scale_rule: search or full\n"
      "(nvfp4). The rest as quantize. docs/formats/accuracy.md defines the bytes. Raises "
      "ValueError.");
  module.def(
      "output_error",
      [](nb::handle x, nb::handle t, nb::handle hessian, RUN_PARAMETERS) {
        return error_of(x, t, hessian, RUN_WORDS);
      },
      nb::arg("x").none(), nb::arg("t").none(), nb::arg("hessian").none(), nb::kw_only(),
      RUN_ARGUMENTS,
      nb::sig("def output_error(x: Array, t: BlockTensor, hessian: Array, *, " RUN_SIGNATURE
              ") -> tuple[float, float]"),
      "What quantizing a weight x to t costs at the output of its layer, and the output's own\n"
      "size: tr((t - x) hessian (t - x)^T) and tr(x hessian x^T). On the CPU.");
}

}  // namespace microscale::python
