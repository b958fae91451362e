// Order between grids (PTX ISA, "griddepcontrol"; sm_90 and later): a grid may be put onto the
// device while the one before it in its stream still runs, if it was launched so and that one
// agrees.
#pragma once

namespace microscale::ptx {

/// The next grid may be put onto the device when all blocks of this one have said so or are done.
__device__ inline void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;");
}

/// Returns when the grids before this one are done and what they wrote can be read.
__device__ inline void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace microscale::ptx
