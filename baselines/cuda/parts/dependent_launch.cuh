// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: a kernel may start while the kernel before it ends.
#pragma once
#include "target.cuh"

namespace fkc {

#ifdef __CUDACC__
// The next kernel may start.
__device__ inline void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }
// Returns when the kernels before this one have ended and their writes are visible.
__device__ inline void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Reads a word from the kernel before the previous one, without a wait. The previous kernel waited
// before it let this one start, so the write has ended. The emulation refuses the read if the
// previous kernel let this one start sooner. The load skips L1, which may hold an older value.
__device__ inline int32_t read_early(const int32_t* at) { return __ldcg(at); }
#endif

// Every kernel here is launched for a dependent start. It must not touch memory which other kernels
// write before it has called this function. The next kernel may start at once.
__device__ inline void wait_for_inputs() {
  launch_dependents();
  grid_dependency_wait();
}
// The same if the next kernel calls read_early().
__device__ inline void inputs_then_next() {
  grid_dependency_wait();
  launch_dependents();
}

}  // namespace fkc
