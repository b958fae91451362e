// Long work of the library, which reports progress and can be stopped: by Ctrl-C, by what the
// caller's progress function does, and by the end of the interpreter.
#pragma once

#include <functional>

#include "call.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale::python {

/// Runs `work` on a thread of its own, and `progress` (None, or a function of bytes done, bytes in
/// all and what is at work) on the caller's, at most twenty times a second and once at the end. The
/// work stops where it raises or returns False, and at Ctrl-C; what it raised is raised again.
void run_interruptible(nb::handle progress,
                       const std::function<void(const ProgressCallback&)>& work);

void bind_models(nb::module_& module);
void bind_model_reports(nb::module_& module);
void bind_model_results(nb::module_& module);
void bind_checkpoint_file(nb::module_& module);
void bind_emulator(nb::module_& module);

}  // namespace microscale::python
