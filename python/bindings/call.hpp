// What every call does around the library's function: where it runs, on which stream, without the
// GIL, and so that the interpreter does not end under it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "arrays.hpp"
#include "microscale/context.hpp"

namespace microscale::python {

/// Keywords that all operations take; None means the thread's default (microscale.context).
struct RunWords {
  nb::handle backend, threads, stream;
};

/// A thread's defaults.
struct RunDefaults {
  Backend backend = Backend::automatic;
  int threads = 0;
  std::optional<void*> stream{};
};
RunDefaults& defaults_of_thread();

/// Arguments that are no arrays; TypeError names one that is of another kind.
std::string_view word_of(nb::handle object, const char* name);
float number_of(nb::handle object, const char* name);

Backend backend_from(std::string_view name);
int threads_from(nb::handle object);
/// A stream: an integer, or an object with __cuda_stream__(), cuda_stream (torch) or ptr (cupy).
void* stream_from(nb::handle object);

/// While it lives the calling thread is without the GIL, and the end of the process waits for it
/// (end_of_process.cpp).
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};
/// Whether the interpreter is about to end, so that a long call should stop.
bool interpreter_is_ending();
void watch_end_of_process();

/// One call: `first` decides the framework of results, the GPU and the stream.
class Call {
 public:
  Call(const Array& first, const RunWords& words);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Error where `array` is not in the memory, or on the GPU, of the first.
  void require_here(const Array& array) const;
  const Array& first() const { return first_; }
  Memory memory() const { return first_.memory; }
  Context& context() { return context_; }

  /// A result of the first array's framework.
  nb::object make(DlType type, std::span<const std::int64_t> shape, Array& made) const {
    return make_array(first_, type, shape, made);
  }
  /// Zeros into memory of a result, before the work: for rows that it leaves alone.
  void set_zero(std::span<std::uint8_t> bytes) const;
  /// Memory that the call works in, for as long as this is.
  void give_workspace(std::int64_t bytes);

  /// `work(context)` without the GIL.
  template <class Work>
  auto run(Work&& work) {
    const WithoutGil released;
    return work(static_cast<const Context&>(context_));
  }

 private:
  const Array& first_;
  Context context_;
  int gpu_before_ = -1;  // to be selected again
  nb::object workspace_;
};

}  // namespace microscale::python
