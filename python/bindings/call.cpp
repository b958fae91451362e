#include "call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "core/backend_name.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"

namespace microscale::python {
namespace {

/// Kernels are loaded before the first call on a GPU, so that a capture never meets one that is
/// not. The emulator loads each when it is launched first.
void load_kernels_once(int ordinal, void* stream) {
  static std::atomic<std::uint64_t> loaded{0};
  const std::uint64_t bit = std::uint64_t{1} << (ordinal % 64);
  if (loaded.load(std::memory_order_relaxed) & bit) return;
  if (backend_of_environment().starts_with("emulator-")) return;
  if (cuda::is_capturing(stream))
    throw Error(ErrorCode::unsupported,
                "the stream is being captured and the kernels are not loaded yet; call "
                "microscale.cuda.load_kernels() before the capture");
  {
    const WithoutGil released;
    cuda::load_kernels();
  }
  loaded.fetch_or(bit);
}

void* pointer_from(nb::handle object) {
  std::uintptr_t address = 0;
  if (!nb::try_cast(object, address))
    throw nb::type_error(fmt::format("stream: expected the address of a stream, got {}",
                                     nb::cast<std::string>(nb::repr(object)))
                             .c_str());
  return reinterpret_cast<void*>(address);
}

}  // namespace

RunDefaults& defaults_of_thread() {
  thread_local RunDefaults defaults;
  return defaults;
}

std::string_view word_of(nb::handle object, const char* name) {
  if (!nb::isinstance<nb::str>(object))
    throw nb::type_error(
        fmt::format("{}: expected a string, got {}", name, nb::type_name(object.type()).c_str())
            .c_str());
  return nb::borrow<nb::str>(object).c_str();
}

float number_of(nb::handle object, const char* name) {
  float number = 0;
  if (!nb::try_cast(object, number))
    throw nb::type_error(
        fmt::format("{}: expected a number, got {}", name, nb::type_name(object.type()).c_str())
            .c_str());
  return number;
}

Backend backend_from(std::string_view name) {
  if (name == "auto") return Backend::automatic;
  std::string known = "auto";
  for (int i = 1; i <= static_cast<int>(Backend::cuda); ++i) {
    const auto backend = static_cast<Backend>(i);
    if (name == to_string(backend)) return backend;
    known += fmt::format(", {}", to_string(backend));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("backend: there is no '{}'; choose one of {}", name, known));
}

int threads_from(nb::handle object) {
  int threads = 0;
  const std::string_view wanted = "1 or more, or 0 for one per core";
  if (nb::try_cast(object, threads, false) && threads >= 0) return threads;
  const std::string got = nb::cast<std::string>(nb::repr(object));
  if (PyIndex_Check(object.ptr()))
    throw Error(ErrorCode::invalid_argument, fmt::format("threads: {}; pass {}", got, wanted));
  throw nb::type_error(
      fmt::format("threads: expected a whole number, {}; got {}", wanted, got).c_str());
}

void* stream_from(nb::handle object) {
  if (nb::isinstance<nb::int_>(object)) return pointer_from(object);
  if (nb::hasattr(object, "__cuda_stream__"))
    return pointer_from(nb::cast<nb::tuple>(object.attr("__cuda_stream__")())[1]);
  for (const char* attribute : {"cuda_stream", "ptr"})
    if (nb::hasattr(object, attribute)) return pointer_from(object.attr(attribute));
  throw nb::type_error(fmt::format("stream: expected an integer or an object with "
                                   "__cuda_stream__(), cuda_stream or ptr, got {}",
                                   nb::type_name(object.type()).c_str())
                           .c_str());
}

Call::Call(const Array& first, const RunWords& words) : first_(first) {
  const RunDefaults& defaults = defaults_of_thread();
  context_.backend =
      words.backend.is_none() ? defaults.backend : backend_from(word_of(words.backend, "backend"));
  context_.threads = words.threads.is_none() ? defaults.threads : threads_from(words.threads);
  if (!first.on_device()) return;
  context_.stream = !words.stream.is_none() ? stream_from(words.stream)
                    : defaults.stream       ? *defaults.stream
                                            : current_stream(first);
  const int current = cuda::current_device();
  if (current != first.ordinal) {
    cuda::select_device(first.ordinal);
    gpu_before_ = current;
  }
  try {
    load_kernels_once(first.ordinal, context_.stream);
  } catch (...) {
    if (gpu_before_ >= 0) cuda::select_device(gpu_before_);
    throw;
  }
}

Call::~Call() {
  if (gpu_before_ < 0) return;
  try {
    cuda::select_device(gpu_before_);
  } catch (const Error&) {  // it was current before
  }
}

void Call::require_here(const Array& array) const {
  if (array.memory == first_.memory && (!array.on_device() || array.ordinal == first_.ordinal))
    return;
  const auto place = [](const Array& a) {
    return a.on_device() ? fmt::format("GPU {}", a.ordinal) : std::string("the CPU");
  };
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the array is on {}, {} is on {}; move one of them", array.name,
                          place(array), first_.name, place(first_)));
}

void Call::set_zero(std::span<std::uint8_t> bytes) const {
  if (first_.on_device())
    cuda::set_zero(bytes, context_.stream);
  else
    std::ranges::fill(bytes, std::uint8_t{0});
}

void Call::give_workspace(std::int64_t bytes) {
  if (bytes == 0) return;
  Array made;
  workspace_ = make_bytes(first_, bytes, made);
  if (reinterpret_cast<std::uintptr_t>(made.data) % 256 != 0)
    throw Error(ErrorCode::unsupported,
                "workspace: the framework's allocator gave memory that does not begin at a "
                "multiple of 256");
  context_.workspace = bytes_of(made);
  // Kernels copy the gaps of what they put there, which the emulator takes for a fault.
  if (first_.on_device() && backend_of_environment().starts_with("emulator-"))
    set_zero(context_.workspace);
}

}  // namespace microscale::python
