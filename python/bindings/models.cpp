// Conversion of model folders.
#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "checkpoint/choose_formats.hpp"
#include "checkpoint/memory_budget.hpp"
#include "core/result.hpp"
#include "interruptible.hpp"
#include "keywords.hpp"
#include "microscale/checkpoint.hpp"
#include "microscale/error.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

using Path = std::filesystem::path;
using Words = std::vector<std::string>;

struct QuantizeModelWords {
  std::optional<double> bits;
  std::optional<std::int64_t> fit;
  Words menu, include, ignore;
  std::optional<Path> importance;
  std::string method;
  std::optional<double> shrink;
  double damping = 0.01;
  std::optional<std::string> experts;
  bool allow_incomplete = false;
  std::string activations;
  std::optional<Path> input_scales;
  std::vector<std::pair<Path, double>> lora;
  std::vector<std::pair<std::string, std::string>> use;
  std::optional<std::string> container;
  int threads = 0;
  std::int64_t max_memory = 0;
  std::vector<int> gpus;
  bool resume = false;
};

ExpertOrder expert_order_from(std::string_view name) {
  if (name == "interleaved") return ExpertOrder::interleaved;
  if (name == "halves") return ExpertOrder::halves;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("experts: there is no order '{}'; choose one of interleaved, halves", name));
}

Activations activations_from(std::string_view name) {
  if (name == "dense") return Activations::dense;
  if (name == "dynamic") return Activations::dynamic;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("activations: '{}' is unknown; choose one of dense, dynamic", name));
}

UseFormat use_from(const std::string& pattern, const std::string& name) {
  const auto format = parse_weight_format(name);
  if (format) return {pattern, *format};
  throw Error(ErrorCode::invalid_argument,
              fmt::format("use: there is no format '{}' for '{}'; choose one of nvfp4, mxfp4, "
                          "mxfp8, fp8, fp8_tensor",
                          name, pattern));
}

Container container_from(const std::string& name) {
  if (const auto container = parse_container(name)) return *container;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("container: '{}' is unknown; choose one of {}", name, container_names()));
}

StatisticsUse statistics_from(const QuantizeModelWords& words) {
  const auto method = parse_statistics_method(words.method);
  if (!method)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("method: '{}' is unknown; choose one of {}", words.method,
                            statistics_method_names()));
  return {*method, words.shrink, words.damping};
}

int threads_of(int threads) {
  if (threads >= 0) return threads;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("threads: {}; pass 1 or more, or 0 for one per core", threads));
}

/// Of the whole process, as the library counts: `bytes` beside what it holds already, which is a
/// gigabyte where torch is loaded.
std::int64_t limit_from(std::int64_t bytes) {
  if (bytes <= 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("max_memory: {}; pass a number of bytes", bytes));
  return bytes + resident_bytes();
}

Budget budget_from(const QuantizeModelWords& words) {
  Budget budget{words.bits, words.fit, {}};
  for (const std::string& name : words.menu) {
    const auto format = parse_menu_format(name);
    if (!format)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("menu: there is no format '{}'; name some of nvfp4, mxfp4, mxfp8, fp8, "
                      "bf16",
                      name));
    budget.menu.push_back(*format);
  }
  return budget;
}

QuantizeModelOptions options_of(const Path& source, const Path& target,
                                const std::optional<std::string>& format,
                                const NumericWords& numeric, const QuantizeModelWords& words) {
  QuantizeModelOptions options;
  options.budget = budget_from(words);
  options.input = source;
  options.output = target;
  options.include = words.include;
  options.ignore = words.ignore;
  options.importance = words.importance.value_or(Path());
  options.statistics = statistics_from(words);
  if (words.experts) options.experts = expert_order_from(*words.experts);
  options.allow_incomplete = words.allow_incomplete;
  options.activations = activations_from(words.activations);
  options.input_scales = words.input_scales.value_or(Path());
  options.container = words.container ? container_from(*words.container) : container_for(target);
  for (const auto& [path, weight] : words.lora) options.lora.push_back({path, weight});
  for (const auto& [pattern, name] : words.use) options.use.push_back(use_from(pattern, name));
  const auto weights = parse_weight_format(format.value_or("nvfp4"));
  if (options.budget.given()) {
    if (format)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("format: '{}' is for all layers, and {} chooses for each; leave one "
                              "out, or name what may be chosen as menu",
                              *format, words.bits ? "bits" : "fit"));
    options = take(with_menu(std::move(options)));
  } else if (weights == WeightFormat::fp8 || weights == WeightFormat::fp8_tensor) {
    set_format(options, *weights);
  } else {
    options.format = format_from(format.value_or("nvfp4"));
  }
  options.numerics = numerics_from(numeric, options.format);
  options.threads = threads_of(words.threads);
  options.max_memory = limit_from(words.max_memory);
  options.gpus = words.gpus;
  options.resume = words.resume;
  return options;
}

#define MODEL_PARAMETERS                                                                       \
  const Path &source, const Path &target, const std::optional<std::string>&format,             \
      NUMERIC_PARAMETERS, std::optional<double> bits, std::optional<std::int64_t> fit,         \
      const Words &menu, const Words &include, const Words &ignore,                            \
      std::optional<Path> importance, const std::string &method, std::optional<double> shrink, \
      double damping, std::optional<std::string> experts, bool allow_incomplete,               \
      const std::string &activations, std::optional<Path> input_scales,                        \
      const std::vector<std::pair<Path, double>>&lora,                                         \
      const std::vector<std::pair<std::string, std::string>>&use,                              \
      std::optional<std::string> container, int threads, std::int64_t max_memory,              \
      const std::vector<int>&gpus, bool resume
#define MODEL_OPTIONS                                                                          \
  options_of(source, target, format, NUMERIC_WORDS,                                            \
             {bits,   fit,       menu,    include,          ignore,      importance,   method, \
              shrink, damping,   experts, allow_incomplete, activations, input_scales, lora,   \
              use,    container, threads, max_memory,       gpus,        resume})
#define MODEL_ARGUMENTS                                                                           \
  nb::arg("source"), nb::arg("target"),                                                           \
      nb::arg("format") = nb::none(), nb::kw_only(), NUMERIC_ARGUMENTS,                           \
      nb::arg("bits") = nb::none(), nb::arg("fit") = nb::none(), nb::arg("menu") = nb::tuple(),   \
      nb::arg("include") = nb::tuple(), nb::arg("ignore") = nb::tuple(),                          \
      nb::arg("importance") = nb::none(), nb::arg("method") = "auto",                             \
      nb::arg("shrink") = nb::none(), nb::arg("damping") = 0.01, nb::arg("experts") = nb::none(), \
      nb::arg("allow_incomplete") = false, nb::arg("activations") = "dense",                      \
      nb::arg("input_scales") = nb::none(), nb::arg("lora") = nb::tuple(),                        \
      nb::arg("use") = nb::tuple(), nb::arg("container") = nb::none(), nb::arg("threads") = 0,    \
      nb::arg("max_memory") = std::int64_t{1} << 30, nb::arg("gpus") = nb::tuple(),               \
      nb::arg("resume") = false
#define MODEL_SIGNATURE                                                                          \
  "(source: str | os.PathLike[str], target: str | os.PathLike[str], format: str | None = "       \
  "None, *, " NUMERIC_SIGNATURE                                                                  \
  "bits: float | None = None, fit: int | None = None, menu: Sequence[str] = (), "                \
  "include: Sequence[str] = (), ignore: Sequence[str] = (), importance: str | "                  \
  "os.PathLike[str] | None = None, method: str = 'auto', shrink: float | None = None, damping: " \
  "float = 0.01, experts: str | None = None, allow_incomplete: bool = False, "                   \
  "activations: str = 'dense', "                                                                 \
  "input_scales: str | os.PathLike[str] | None = None, "                                         \
  "lora: Sequence[tuple[str | os.PathLike[str], float]] = (), use: Sequence[tuple[str, str]] = " \
  "(), "                                                                                         \
  "container: str | None = None, "                                                               \
  "threads: int = 0, max_memory: int "                                                           \
  "= 1073741824, gpus: "                                                                         \
  "Sequence[int] = (), resume: bool = False"

}  // namespace

void bind_models(nb::module_& module) {
  module.def(
      "plan_quantize_model",
      [](MODEL_PARAMETERS) {
        const QuantizeModelOptions options = MODEL_OPTIONS;
        const WithoutGil released;
        return plan_quantize_model(options);
      },
      MODEL_ARGUMENTS, nb::sig("def plan_quantize_model" MODEL_SIGNATURE ") -> ConversionPlan"),
      "What quantize_model would do; reads headers only.");
  module.def(
      "quantize_model",
      [](MODEL_PARAMETERS, nb::handle progress) {
        const QuantizeModelOptions options = MODEL_OPTIONS;
        ConversionPlan plan;
        run_interruptible(progress, [&](const ProgressCallback& report) {
          plan = quantize_model(options, report);
        });
        return plan;
      },
      MODEL_ARGUMENTS, nb::arg("progress") = nb::none(),
      nb::sig("def quantize_model" MODEL_SIGNATURE
              ", progress: Progress = None) -> ConversionPlan"),
      "Converts a Hugging Face model folder, or one .safetensors or GGUF file, to the folder "
      "`target`.\n\n"
      "format: nvfp4 (None), mxfp4, mxfp8 or fp8. bits: chooses each layer's instead, so that the\n"
      "error is least with so many bits a weight; fit: the same with so many bytes of all files;\n"
      "menu: out of which formats, bf16 for what stays (all that the container holds). include, "
      "ignore: globs of tensors, or 're:' and a regular\n"
      "expression. importance: statistics of the layers' inputs, as calibrate makes\n"
      "them. method: what is done with them: 'gptq', 'block-hessian', 'search'; 'auto' is gptq "
      "where\n"
      "they have Hessians. shrink, damping: as quantize_with_hessian. max_memory: bytes to\n"
      "take at most, beside what the process holds. experts: 'interleaved' or 'halves', the order "
      "of gate and up in stacked "
      "experts\n"
      "where neither config.json nor the tensors tell. allow_incomplete: takes a model that lacks\n"
      "layers, experts or partners of layers. activations: 'dynamic' tells engines to\n"
      "quantize the inputs of mxfp4 and mxfp8 layers too. input_scales: JSON or safetensors with\n"
      "the largest magnitude of each layer's input, for nvfp4. lora: pairs of a LoRA adapter\n"
      "that peft saved and a weight, added before quantizing. use: pairs of a pattern and a "
      "format\n"
      "(also fp8: a scale for each row) for layers that get another. container:\n"
      "'compressed-tensors', 'modelopt', 'gguf', 'comfyui' or 'gpt-oss'; None: by the target's "
      "name, "
      "gguf\n"
      "for .gguf and comfyui for .safetensors, each one file, else compressed-tensors. gpus: "
      "numbers "
      "of\n"
      "GPUs to quantize on, with the same bytes. resume: goes on where\n"
      "an earlier run was stopped. progress(bytes_done, bytes_total, item): False stops.\n"
      "Ctrl-C raises KeyboardInterrupt, and resume=True goes on later. Raises OSError, ValueError\n"
      "for what is no model, MemoryError.");
  module.def(
      "convert_model",
      [](const Path& source, const Path& target, const std::string& container, bool to_nvfp4,
         bool exact, int threads, std::int64_t max_memory, bool resume, bool read_back,
         nb::handle progress) {
        const ConvertModelOptions options{source,
                                          target,
                                          container_from(container),
                                          to_nvfp4,
                                          exact,
                                          threads_of(threads),
                                          limit_from(max_memory),
                                          resume,
                                          read_back};
        ConvertedModel model;
        run_interruptible(progress, [&](const ProgressCallback& report) {
          model = convert_model(options, report);
        });
        return model;
      },
      nb::arg("source"), nb::arg("target"), nb::arg("container"), nb::kw_only(),
      nb::arg("to_nvfp4") = false, nb::arg("exact") = false, nb::arg("threads") = 0,
      nb::arg("max_memory") = std::int64_t{1} << 30, nb::arg("resume") = false,
      nb::arg("read_back") = false, nb::arg("progress") = nb::none(),
      nb::sig("def convert_model(source: str | os.PathLike[str], target: str | os.PathLike[str], "
              "container: str, *, to_nvfp4: bool = False, exact: bool = False, threads: int = 0, "
              "max_memory: int = 1073741824, resume: bool = False, read_back: bool = False, "
              "progress: Progress = None) -> ConvertedModel"),
      "Puts weights that are quantized already into another container with their codes.\n\n"
      "MXFP4 becomes NVFP4, by the same codes where scales reach, where the container has no\n"
      "MXFP4; to_nvfp4: also where it has. exact: refuses what would change a value. Hashes\n"
      "the values of what was written, of which it reads a sixteenth again, with read_back all.\n"
      "Raises ValueError, OSError, MemoryError.");
  module.def(
      "dequantize_model",
      [](const Path& source, const Path& target, nb::handle dtype, int threads, bool allow_nan,
         nb::handle progress) {
        const DequantizeModelOptions options{source, target, dtype_from(dtype, "dtype"),
                                             threads_of(threads), allow_nan};
        DequantizedModel model;
        run_interruptible(progress, [&](const ProgressCallback& report) {
          model = dequantize_model(options, report);
        });
        return model;
      },
      nb::arg("source"), nb::arg("target"), nb::arg("dtype") = "bf16", nb::kw_only(),
      nb::arg("threads") = 0, nb::arg("allow_nan") = false, nb::arg("progress") = nb::none(),
      nb::sig("def dequantize_model(source: str | os.PathLike[str], target: str | "
              "os.PathLike[str], dtype: DTypeLike = 'bf16', *, threads: int = 0, allow_nan: bool "
              "= False, progress: Progress = None) -> DequantizedModel"),
      "Expands a quantized folder to dense weights under the original names.\n\n"
      "Raises ValueError, and writes nothing, where a weight cannot be decoded, where scales are\n"
      "NaN (but for allow_nan), or where values would become infinite as f16.");
  module.def(
      "repair_model",
      [](const Path& source, std::optional<Path> target, int threads, nb::handle progress) {
        const RepairModelOptions options{source, target.value_or(Path()), threads_of(threads),
                                         !target};
        RepairReport report;
        run_interruptible(progress, [&](const ProgressCallback& callback) {
          report = repair_model(options, callback);
        });
        return report;
      },
      nb::arg("source"), nb::arg("target") = nb::none(), nb::kw_only(), nb::arg("threads") = 0,
      nb::arg("progress") = nb::none(),
      nb::sig("def repair_model(source: str | os.PathLike[str], target: str | os.PathLike[str] | "
              "None = None, *, threads: int = 0, progress: Progress = None) -> RepairReport"),
      "Writes a quantized folder again as loaders want it: one global scale for fused layers, the\n"
      "ignore list in engines' spellings, without what a calibration left. No target: only says\n"
      "what would change. Raises ValueError for an error that this does not mend.");
  module.def(
      "verify_model",
      [](const Path& path, int threads) {
        threads_of(threads);
        std::vector<std::string> problems;
        run_interruptible(nb::none(), [&](const ProgressCallback&) {
          problems = verify_model({path, threads});
        });
        return sentences_of(problems);
      },
      nb::arg("path"), nb::kw_only(), nb::arg("threads") = 0,
      nb::sig("def verify_model(path: str | os.PathLike[str], *, threads: int = 0) -> list[str]"),
      "Checks everything that a loader relies on: a sentence for each problem, none if all is "
      "well.");
}

}  // namespace microscale::python
