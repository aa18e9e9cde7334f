// SPDX-License-Identifier: Apache-2.0
#include "core/check/abort_reset.hpp"

#include <vector>

#include "core/base/error.hpp"
#include "core/check/device_conformance.hpp"

namespace fk {

namespace {

using Words = std::vector<uint32_t>;

Words persistent_words(const ConformanceCase& c, const Instance& instance) {
  Words out(static_cast<size_t>(instance.persistent_bytes()) / sizeof(uint32_t));
  if (out.empty()) return out;
  c.device.synchronize_all();
  c.device.download(out.data(), instance.persistent(),
                    static_cast<int64_t>(out.size() * sizeof(uint32_t)));
  return out;
}

void put_half_back(const ConformanceCase& c, const Instance& instance, const Words& before) {
  Words now = persistent_words(c, instance);
  bool back = true;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] == before[i]) continue;
    if (back) now[i] = before[i];
    back = !back;
  }
  if (now.empty()) return;
  c.device.upload(instance.persistent(), now.data(),
                  static_cast<int64_t>(now.size() * sizeof(uint32_t)));
  c.device.synchronize();
}

}  // namespace

ConformanceFault after_aborted_run(const ConformanceCase& c, const CaseValues& answer,
                                   const ConformanceCall& call, const ConformanceDiffer& differ) {
  Lone lone(c);
  Execution& execution = lone.execution;
  Instance& instance = execution.instance();
  call(execution, c.frames);
  const Words before = persistent_words(c, instance);
  call(execution, c.frames);
  put_half_back(c, instance, before);
  if (const std::string why = execution.plan(c.frames); !why.empty()) fail("forward", why);
  if (c.device.can_capture() && c.provider.op->claims->graph == FK_GRAPH_ALWAYS)
    (void)captured_call(c, execution, c.frames);
  if (instance.reset() != FK_OK) return {"reset", "reset() failed after an aborted run"};
  if (!differ(answer, call(execution, c.frames))) return {};
  return {"reset",
          "gives another result after an aborted run and reset(); reset() must restore all state "
          "that calls keep"};
}

}  // namespace fk
