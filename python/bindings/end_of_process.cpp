// The end of the process waits for calls that threads have begun: they run without the GIL, so the
// interpreter can end while they work on memory and threads that exit() would take down.
#include <pthread.h>
#include <time.h>

#include <atomic>

#include "call.hpp"

namespace microscale::python {
namespace {

std::atomic<int> calls{0};
std::atomic<bool> ended{false};

// Run by the interpreter at its very end, when no thread can begin another call.
void wait_for_calls() {
  ended = true;
  const timespec pause{0, 1'000'000};
  while (calls.load() > 0) nanosleep(&pause, nullptr);
}

}  // namespace

// Counted before the GIL is let go of, and until just before it is asked for again: that never
// returns once the interpreter has ended.
WithoutGil::WithoutGil() {
  calls.fetch_add(1);
  state_ = PyEval_SaveThread();
}
WithoutGil::~WithoutGil() {
  calls.fetch_sub(1);
  PyEval_RestoreThread(state_);
}

bool interpreter_has_ended() { return ended.load(); }

void watch_end_of_process() {
  Py_AtExit(wait_for_calls);
  // The threads of the parent, and their calls, are not in a child.
  pthread_atfork(nullptr, nullptr, [] { calls = 0; });
}

}  // namespace microscale::python
