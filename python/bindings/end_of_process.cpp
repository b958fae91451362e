// The end of the process and calls that threads have begun. They run without the GIL, so that the
// interpreter can end while they work, on memory and threads that exit() takes down: the process
// waits for them. And before Python 3.14 a thread that asks for the GIL of an interpreter that has
// ended is unwound by force, through our frames: so no thread asks any more.
#include <pthread.h>
#include <time.h>

#include <atomic>

#include "call.hpp"

namespace microscale::python {
namespace {

std::atomic<int> calls{0};           // without the GIL
std::atomic<int> returning{0};       // asking for it
std::atomic<bool> closing{false};    // no thread asks any more,
std::atomic<pthread_t> last_thread;  // but the one that ends the interpreter

void pause() {
  const timespec moment{0, 1'000'000};
  nanosleep(&moment, nullptr);
}

// By the atexit module: with the GIL, before the interpreter begins to end.
void close_interpreter() {
  last_thread = pthread_self();
  closing = true;
  PyThreadState* const state = PyEval_SaveThread();
  while (returning.load() > 0) pause();
  PyEval_RestoreThread(state);
}

// At the very end of the interpreter.
void wait_for_calls() {
  while (calls.load() > 0) pause();
}

}  // namespace

WithoutGil::WithoutGil() {
  calls.fetch_add(1);
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  returning.fetch_add(1);  // before the look at `closing`, which is set before the look at this
  calls.fetch_sub(1);
  if (closing.load() && !pthread_equal(last_thread.load(), pthread_self())) {
    returning.fetch_sub(1);
    for (;;) pause();  // the process ends under it
  }
  PyEval_RestoreThread(state_);
  returning.fetch_sub(1);
}

bool interpreter_is_ending() { return closing.load(); }

void watch_end_of_process() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(close_interpreter));
  Py_AtExit(wait_for_calls);
  // The threads of the parent, and their calls, are not in a child.
  pthread_atfork(nullptr, nullptr, [] { calls = returning = 0; });
}

}  // namespace microscale::python
