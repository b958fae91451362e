// microscale._core: what the package is made of.
#include <fmt/format.h>
#include <nanobind/stl/vector.h>

#include <csignal>

#include "block_tensor.hpp"
#include "device_array.hpp"
#include "interruptible.hpp"
#include "kv_cache.hpp"
#include "matmul.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"
#include "microscale/version.hpp"
#include "operands.hpp"
#include "producers.hpp"
#include "program.hpp"
#include "quantize.hpp"

namespace microscale::python {
namespace {

/// microscale::Error as the class of microscale._errors that its code has.
void raise(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    try {
      const nb::object made = nb::module_::import_("microscale._errors")
                                  .attr("error_of")(to_string(error.code()), text_of(error.what()));
      PyErr_SetObject(made.type().ptr(), made.ptr());
    } catch (nb::python_error& failed) {
      failed.restore();
    }
  }
}

/// The command line. Ctrl-C is the program's while it runs, as where it is started by itself.
int run_cli(const std::vector<std::string>& arguments) {
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) std::signal(SIGINT, SIG_DFL);
  const WithoutGil released;
  return run_program(arguments);
}

nb::object set_defaults(nb::handle backend, nb::handle threads, nb::handle stream) {
  RunDefaults& defaults = defaults_of_thread();
  const nb::object before = nb::make_tuple(
      defaults.backend == Backend::automatic ? std::string("auto")
                                             : std::string(to_string(defaults.backend)),
      defaults.threads,
      defaults.stream ? nb::object(nb::int_(reinterpret_cast<std::uintptr_t>(*defaults.stream)))
                      : nb::object(nb::none()));
  RunDefaults changed;
  changed.backend = backend_from(word_of(backend, "backend"));
  changed.threads = threads_from(threads);
  if (!stream.is_none()) changed.stream = stream_from(stream);
  defaults = changed;
  return before;
}

void bind_facts(nb::module_& module) {
  module.attr("__version__") = nb::str(version().data());
  module.def("cli", run_cli, nb::arg("arguments"),
             nb::sig("def cli(arguments: Sequence[str]) -> int"));
  module.def("set_defaults", set_defaults, nb::arg("backend"), nb::arg("threads"),
             nb::arg("stream").none(),
             nb::sig("def set_defaults(backend: str, threads: int, stream: Stream) -> tuple[str, "
                     "int, int | None]"));
  module.def(
      "available_backends",
      [] {
        std::vector<std::string> names;
        for (const Backend backend : available_backends()) names.emplace_back(to_string(backend));
        return names;
      },
      "Names of the CPU's backends that this machine runs, the fastest first. "
      "MICROSCALE_BACKEND=name\nin the environment narrows the list to that one.");
  module.def(
      "formats",
      [] {
        std::vector<std::string> names;
        for (const FormatInfo& format : all_formats()) names.emplace_back(format.name);
        return names;
      },
      "Names of all formats.");
  module.def(
      "scale_rules",
      [](const std::string& format) {
        std::vector<std::string> names;
        for (const ScaleRule rule : scale_rules(format_from(format)))
          names.emplace_back(to_string(rule));
        return names;
      },
      nb::arg("format"), "Names of the scale rules of a format, the default first.");
}

/// Of microscale/cuda.py.
void bind_cuda(nb::module_& module) {
  module.def("cuda_device_count", cuda::device_count, "The number of GPUs; 0 without a driver.");
  module.def("cuda_unavailable_reason", cuda::unavailable_reason,
             "Says why device_count() is 0; empty otherwise.");
  module.def(
      "cuda_current_device", cuda::current_device,
      "The number of the calling thread's current GPU. Raises NotImplementedError without one.");
  module.def("cuda_select_device", cuda::select_device, nb::arg("ordinal"),
             "Makes a GPU the calling thread's current one, as cudaSetDevice does.");
  module.def("cuda_device_name", cuda::device_name,
             "Name of the current GPU, and the architecture whose kernels it runs.");
  module.def(
      "cuda_load_kernels",
      [] {
        const WithoutGil released;
        cuda::load_kernels();
      },
      "Loads all kernels of the current GPU, as the first call on it does. Call it before a graph\n"
      "is captured.");
  module.def(
      "cuda_synchronize",
      [](nb::handle stream) {
        void* const pointer = stream.is_none() ? nullptr : stream_from(stream);
        const WithoutGil released;
        cuda::synchronize(pointer);
      },
      nb::arg("stream") = nb::none(),
      nb::sig("def cuda_synchronize(stream: Stream = None) -> None"),
      "Waits for all work of a stream, the default one if left out.");
  module.def(
      "cuda_is_capturing",
      [](nb::handle stream) {
        return cuda::is_capturing(stream.is_none() ? nullptr : stream_from(stream));
      },
      nb::arg("stream") = nb::none(),
      nb::sig("def cuda_is_capturing(stream: Stream = None) -> bool"),
      "Whether a stream of the current GPU is being captured into a graph.");
}

}  // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // objects that live to the end of the interpreter are not leaks
  nb::register_exception_translator(raise);
  watch_end_of_process();
  bind_facts(module);
  bind_cuda(module);
  bind_device_array(module);
  bind_block_tensor(module);
  bind_packed_weights(module);
  bind_quantize(module);
  bind_hessian(module);
  bind_scales(module);
  bind_matmul(module);
  bind_packed_products(module);
  bind_jax(module);
  bind_producers(module);
  bind_kv_cache(module);
  bind_attention(module);
  bind_model_results(module);
  bind_models(module);
  bind_model_reports(module);
  bind_checkpoint_file(module);
  bind_emulator(module);
}

}  // namespace microscale::python
