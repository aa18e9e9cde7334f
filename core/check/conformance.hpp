// SPDX-License-Identifier: Apache-2.0
// Rules beyond right values. A provider must leave the process as it was, return its memory, and
// end its work before it returns. It must work from any thread, beside other instances, and beside
// other sizes. Small cases are tested as written. Devices other than the host have the rules of
// device_conformance.hpp. All ranks test together. An exchange between ranks is tested for memory,
// threads and the calling thread only, because no rank can call alone.
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
  CaseFrames& frames;  // two sets of buffers with the same contents
  CaseFrames& others;
  const fk_need& need;
  Device& device;
  ChildChooser* children;
  const CheckOptions& options;
};

// True when any rank has `mine`; without ranks it returns `mine`. All ranks must call it.
bool any_rank(const ConformanceCase& c, bool mine);

// An instance with its memory.
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
  std::string rule, text;  // rule: empty when none is broken
};

// Finds the first broken rule. `call` runs an instance on frames and returns its outputs. `differ`
// tells that two answers differ more than a deterministic provider's may. Several threads call
// both. Exceptions of `call` pass through.
using ConformanceCall = std::function<CaseValues(Execution&, CaseFrames&)>;
using ConformanceDiffer = std::function<bool(const CaseValues&, const CaseValues&)>;
ConformanceFault fault(const ConformanceCase& c, const CaseValues& answer,
                       const ConformanceCall& call, const ConformanceDiffer& differ,
                       const std::function<void(const std::string&)>& step);

}  // namespace fk
