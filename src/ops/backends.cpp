#include "ops/backends.hpp"

#include <array>
#include <string>
#include <string_view>

#include "core/backend_name.hpp"
#include "formats/compat.hpp"

namespace microscale {
namespace {

// Fastest first. The reference supports everything and ends the list.
constexpr std::array tables{&amx_kernels, &avx512_kernels, &avx2_kernels, &reference_kernels};

std::string available_names() {
  std::string names;
  for (Backend backend : available_backends()) {
    if (!names.empty()) names += ", ";
    names += to_string(backend);
  }
  return names;
}

/// "bf16", "nvfp4".
std::string name_of(const MatmulRows& rows) {
  return std::string(rows.dense() ? to_string(rows.dtype) : info(rows.format).name);
}

/// `what` says of a call what a kernel would have to support.
template <class Supports>
const KernelTable& choose(const Context& context, const char* operation, Supports&& supports,
                          const std::string& what = "these options") {
  if (context.backend == Backend::cuda)
    throw Error(ErrorCode::unsupported,
                std::string(operation) +
                    ": backend cuda has no such operation (microscale/cuda.hpp lists what it has); "
                    "choose another backend for it, with host memory");
  if (context.threads < 0)
    throw Error(ErrorCode::invalid_argument, std::string(operation) + ": " +
                                                 std::to_string(context.threads) +
                                                 " threads; pass 1 or more, or 0 for one per core");
  bool present = false;
  for (Backend backend : available_backends()) {
    if (context.backend != Backend::automatic && context.backend != backend) continue;
    present = true;
    for (const KernelTable* table : tables)
      if (table->backend == backend && supports(*table)) return *table;
  }
  if (!present)
    throw Error(ErrorCode::unsupported,
                std::string(operation) + ": backend " + std::string(to_string(context.backend)) +
                    " is not on this machine; available: " + available_names());
  if (context.backend != Backend::automatic)
    throw Error(ErrorCode::unsupported,
                std::string(operation) + ": backend " + std::string(to_string(context.backend)) +
                    " does not support " + what + "; leave the backend to `automatic`");
  throw Error(ErrorCode::unsupported, std::string(operation) + ": no backend among " +
                                          available_names() + " supports " + what +
                                          "; leave the backend to `automatic`");
}

}  // namespace

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::automatic:
      return "automatic";
    case Backend::reference:
      return "reference";
    case Backend::avx2:
      return "avx2";
    case Backend::avx512:
      return "avx512";
    case Backend::amx:
      return "amx";
    case Backend::cuda:
      return "cuda";
  }
  return "unknown";
}

std::vector<Backend> available_backends() {
  std::string_view wanted = backend_of_environment();
  // An emulated GPU stands behind backend cuda (src/cuda/device/environment.hpp), and leaves the
  // CPU's as they are.
  if (find_emulated_gpu(wanted)) wanted = {};
  std::vector<Backend> backends;
  for (const KernelTable* table : tables)
    if (table->available() && (wanted.empty() || to_string(table->backend) == wanted))
      backends.push_back(table->backend);
  if (backends.empty())
    throw Error(ErrorCode::unsupported, "MICROSCALE_BACKEND=" + std::string(wanted) +
                                            ": this processor has no " + std::string(wanted) +
                                            "; unset it, or use reference");
  return backends;
}

const KernelTable& choose_backend(const QuantizeLines& call, const Context& context) {
  const bool as_tool = follows_tool(call.numerics, call.format);  // only the reference has those
  return choose(context, "quantize", [&](const KernelTable& t) {
    return (!as_tool || t.backend == Backend::reference) && t.supports_quantize(call);
  });
}

const KernelTable& choose_backend(const DequantizeLines& call, const Context& context) {
  return choose(context, "dequantize",
                [&](const KernelTable& t) { return t.supports_dequantize(call); });
}

const KernelTable& choose_backend(const MatmulProduct& call, const Context& context) {
  return choose(
      context, "matmul", [&](const KernelTable& t) { return t.matmul && t.matmul->supports(call); },
      "a in " + name_of(call.a) + " by weights in " + std::string(info(call.b_format).name));
}

std::string_view name_of(const MatmulKernels& kernels) {
  for (const KernelTable* table : tables)
    if (table->matmul == &kernels) return to_string(table->backend);
  return "unknown";
}

std::string_view name_of(const AttentionKernels& kernels) {
  for (const KernelTable* table : tables)
    if (table->attention == &kernels) return to_string(table->backend);
  return "unknown";
}

const KernelTable& choose_backend(const AttentionNeeds& call, const Context& context) {
  const bool exact = call.probabilities == ProbabilityRule::exact;
  return choose(
      context, "attention",
      [&](const KernelTable& t) { return t.attention && t.attention->supports(call); },
      "k in " + name_of(call.k) + " and v in " + name_of(call.v) +
          (exact ? "" : " with probabilities that are rounded"));
}

const KernelTable& choose_backend(const char* operation, const Context& context) {
  return choose(context, operation, [](const KernelTable&) { return true; });
}

}  // namespace microscale
