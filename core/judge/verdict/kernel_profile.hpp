// SPDX-License-Identifier: Apache-2.0
// A profiler's figures of one kernel of a candidate.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fk {

// A share of the cycles in which a warp waited.
struct KernelStall {
  std::string reason;  // as the profiler names it: long_scoreboard, barrier ...
  double share = 0;

  template <class Visitor>
  friend void fields(Visitor& v, KernelStall& s) {
    v("reason", s.reason, "as Nsight Compute names it: long_scoreboard, barrier, ...");
    v("share", s.share, "of the cycles of a warp between two instructions, 0 to 1");
  }
};

struct KernelLine {
  std::string place;  // bytes from the kernel's start
  std::string code;
  double share = 0;
  std::string stall;  // the most frequent reason here

  template <class Visitor>
  friend void fields(Visitor& v, KernelLine& l) {
    v("place", l.place,
      "of an instruction: bytes from the kernel's start, as `cuobjdump -sass` counts them");
    v("code", l.code, "the instruction");
    v("share", l.share, "of the samples of the kernel, 0 to 1");
    v("stall", l.stall, "the most frequent reason of its samples");
  }
};

// Shares are of the device's peak, 0 to 1.
struct KernelProfile {
  std::string kernel;
  double seconds = 0;
  double compute = 0, memory = 0, dram = 0, l2 = 0, l1 = 0, tensor = 0;
  double occupancy = 0, occupancy_possible = 0;
  std::string occupancy_limit;
  int64_t registers = 0, shared_bytes = 0;
  double waves = 0;
  double bank_conflicts = 0, excess_sectors = 0;
  std::vector<KernelStall> stalls;
  std::vector<KernelLine> lines;
  std::vector<std::string> hints;

  template <class Visitor>
  friend void fields(Visitor& v, KernelProfile& k) {
    v("kernel", k.kernel, "name with its template arguments");
    v("seconds", k.seconds, "of one launch under the profiler, which fixes lower clocks");
    v("compute", k.compute, "busiest part of the multiprocessors, of its peak");
    v("memory", k.memory, "busiest part of caches and memory, of its peak");
    v("dram", k.dram, "memory of the device, of its peak");
    v("l2", k.l2, "L2 cache, of its peak");
    v("l1", k.l1, "L1 cache and shared memory, of their peak");
    v("tensor", k.tensor, "tensor cores, share of active cycles");
    v("occupancy", k.occupancy, "mean number of active warps, of the maximum");
    v("occupancy_possible", k.occupancy_possible,
      "the same, as registers, shared memory and sizes allow");
    v("occupancy_limit", k.occupancy_limit,
      "what limits it: registers, shared memory, warps, blocks or barriers");
    v("registers", k.registers, "of a thread");
    v("shared_bytes", k.shared_bytes, "of a block");
    v("waves", k.waves, "blocks of the grid over the blocks which the device holds at a time");
    v("bank_conflicts", k.bank_conflicts,
      "accesses to shared memory which conflicts add, of all of them");
    v("excess_sectors", k.excess_sectors,
      "sectors of 32 bytes which scattered accesses to global memory add, of all of them");
    v("stalls", k.stalls, "reasons to wait, the most frequent first");
    v("lines", k.lines, "places with most samples");
    v("hints", k.hints, "next steps, the most promising first");
  }
};

}  // namespace fk
