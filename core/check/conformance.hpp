// SPDX-License-Identifier: Apache-2.0
// What a provider does besides computing the right values: does it leave the process as it found
// it, give back what it took, end its work when it returns, and work from any thread, beside other
// instances and other sizes? Small cases are asked as they are written. A device that is not the
// host has the rules of device_conformance.hpp. All ranks ask together. An exchange between ranks
// is asked about its memory, its threads and the calling thread: no rank makes a call of its own.
#pragma once
#include <functional>
#include <string>

#include "core/cases/execute.hpp"
#include "core/check/check.hpp"

namespace fk {

struct ConformanceCase {
  const Provider& provider;
  const Case& source;
  const CaseFrames& max;
  CaseFrames& frames;  // two sets of buffers for the same contents
  CaseFrames& others;
  const fk_need& need;
  Device& device;
  ChildChooser* children;
  const CheckOptions& options;
};

// Whether any rank says so; of an op without ranks what it says itself. All of them ask.
bool any_rank(const ConformanceCase& c, bool mine);

// An instance with the memory that it needs.
struct Lone {
  explicit Lone(const ConformanceCase& c) : Lone(c, c.max, c.need) {}
  Lone(const ConformanceCase& c, const CaseFrames& max, const fk_need& need)
      : device(c.device, 0, c.options.threads),
        execution(c.provider, max, need, device, packed, c.children) {}
  GuardDevice device;
  PackedCache packed;
  Execution execution;
};

struct ConformanceFault {
  std::string rule, text;  // rule is empty when there is none
};

// `call` runs an instance on frames and returns what it wrote; `differ` tells whether two answers
// are not what a deterministic provider gives. Both are called from several threads. What `call`
// throws comes through.
using ConformanceCall = std::function<CaseValues(Execution&, CaseFrames&)>;
using ConformanceDiffer = std::function<bool(const CaseValues&, const CaseValues&)>;
ConformanceFault fault(const ConformanceCase& c, const CaseValues& answer,
                       const ConformanceCall& call, const ConformanceDiffer& differ,
                       const std::function<void(const std::string&)>& step);

}  // namespace fk
