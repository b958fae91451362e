// Products by packed weights that come as bytes: what the operators of PyTorch and JAX call, whose
// arguments are arrays and numbers. All positional, so that a call costs little.
#include <fmt/format.h>

#include "matmul.hpp"
#include "microscale/error.hpp"

namespace microscale::python {
namespace {

/// `bytes` as the packed weights of `matrices` (0: one, whose result has no axis for it) of n x k.
PackedWeightsObject weights_of(nb::handle bytes, std::int64_t matrices, std::int64_t n,
                               std::int64_t k, std::string_view format) {
  if (n < 0 || k < 0 || matrices < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("n, k: {} x {} is no shape of weights", n, k));
  PackedWeightsObject packed;
  packed.blocks = {n, k, format_from(format)};
  packed.matrices = std::max<std::int64_t>(matrices, 1);
  packed.shape =
      matrices > 0 ? std::vector<std::int64_t>{matrices, n, k} : std::vector<std::int64_t>{n, k};
  packed.bytes = nb::borrow(bytes);
  packed.global_scale = packed.up_global_scale = nb::none();
  return packed;
}

/// With the names of the operators' arguments.
ProductWords words_of(nb::handle dtype, nb::handle out) {
  return {
      .a = "x",
      .b = "packed",
      .gate = "packed",
      .output = {out, out.is_none() ? dtype : nb::handle(Py_None), Py_None, Py_None, "row_major"}};
}

const RunWords defaults{Py_None, Py_None, Py_None};

}  // namespace

void bind_packed_products(nb::module_& module) {
  module.def(
      "packed_matmul",
      [](nb::handle a, nb::handle packed, nb::handle global_scale, nb::handle bias, std::int64_t n,
         std::int64_t k, std::string_view format, nb::handle dtype, nb::handle out) {
        const FromDispatcher resolved;
        PackedWeightsObject weights = weights_of(packed, 0, n, k, format);
        weights.global_scale = nb::borrow(global_scale);
        return product(a, weights, bias, words_of(dtype, out), defaults);
      },
      nb::arg("a").none(), nb::arg("packed"), nb::arg("global_scale").none(),
      nb::arg("bias").none(), nb::arg("n"), nb::arg("k"), nb::arg("format"),
      nb::arg("dtype") = nb::none(), nb::arg("out") = nb::none(),
      nb::sig("def packed_matmul(a: Array, packed: Array, global_scale: Array | None, bias: Array "
              "| None, n: int, k: int, format: str, dtype: DTypeLike = None, out: Array | None = "
              "None) -> Any"),
      "matmul by the bytes of a PackedWeights of shape (n, k).");
  module.def(
      "packed_matmul_out",
      [](nb::handle a, nb::handle packed, nb::handle global_scale, nb::handle bias, std::int64_t n,
         std::int64_t k, std::string_view format, nb::handle out) {
        const FromDispatcher resolved;
        PackedWeightsObject weights = weights_of(packed, 0, n, k, format);
        weights.global_scale = nb::borrow(global_scale);
        product(a, weights, bias, words_of(Py_None, out), defaults);
      },
      nb::arg("a").none(), nb::arg("packed"), nb::arg("global_scale").none(),
      nb::arg("bias").none(), nb::arg("n"), nb::arg("k"), nb::arg("format"), nb::arg("out"),
      nb::sig("def packed_matmul_out(a: Array, packed: Array, global_scale: Array | None, bias: "
              "Array | None, n: int, k: int, format: str, out: Array) -> None"),
      "packed_matmul into out: the kernel of an operator as it is, with no Python around it.");
  module.def(
      "packed_gated_matmul",
      [](nb::handle a, nb::handle packed, nb::handle global_scale, nb::handle up_global_scale,
         nb::handle gate_bias, nb::handle up_bias, std::int64_t n, std::int64_t k,
         std::string_view format, std::string_view activation, nb::handle dtype, nb::handle out) {
        const FromDispatcher resolved;
        PackedWeightsObject weights = weights_of(packed, 0, n, k, format);
        weights.gated = true;
        weights.global_scale = nb::borrow(global_scale);
        weights.up_global_scale = nb::borrow(up_global_scale);
        return gated_product(a, weights, Py_None, activation, gate_bias, up_bias,
                             words_of(dtype, out), defaults);
      },
      nb::arg("a").none(), nb::arg("packed"), nb::arg("global_scale").none(),
      nb::arg("up_global_scale").none(), nb::arg("gate_bias").none(), nb::arg("up_bias").none(),
      nb::arg("n"), nb::arg("k"), nb::arg("format"), nb::arg("activation") = "silu",
      nb::arg("dtype") = nb::none(), nb::arg("out") = nb::none(),
      nb::sig("def packed_gated_matmul(a: Array, packed: Array, global_scale: Array | None, "
              "up_global_scale: Array | None, gate_bias: Array | None, up_bias: Array | None, n: "
              "int, k: int, format: str, activation: str = 'silu', dtype: DTypeLike = None, out: "
              "Array | None = None) -> Any"),
      "gated_matmul by the bytes of what pack_gated_weights makes of two matrices (n, k).");
  module.def(
      "packed_grouped_matmul",
      [](nb::handle a, nb::handle packed, nb::handle global_scale, nb::handle bias,
         nb::handle offsets, nb::handle counts, std::int64_t capacity, nb::handle row_weights,
         std::int64_t experts, std::int64_t n, std::int64_t k, std::string_view format,
         nb::handle dtype, nb::handle out) {
        const FromDispatcher resolved;
        PackedWeightsObject weights = weights_of(packed, experts, n, k, format);
        weights.global_scale = nb::borrow(global_scale);
        return grouped_product(a, weights, {offsets, counts, capacity}, row_weights, bias,
                               words_of(dtype, out), defaults);
      },
      nb::arg("a").none(), nb::arg("packed"), nb::arg("global_scale").none(),
      nb::arg("bias").none(), nb::arg("offsets").none(), nb::arg("counts").none(),
      nb::arg("capacity"), nb::arg("row_weights").none(), nb::arg("experts"), nb::arg("n"),
      nb::arg("k"), nb::arg("format"), nb::arg("dtype") = nb::none(), nb::arg("out") = nb::none(),
      nb::sig(
          "def packed_grouped_matmul(a: Array, packed: Array, global_scale: Array | None, bias: "
          "Array | None, offsets: Array | None, counts: Array | None, capacity: int, "
          "row_weights: Array | None, experts: int, n: int, k: int, format: str, dtype: "
          "DTypeLike = None, out: Array | None = None) -> Any"),
      "grouped_matmul by the bytes of a PackedWeights of shape (experts, n, k).");
}

}  // namespace microscale::python
