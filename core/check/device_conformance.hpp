// SPDX-License-Identifier: Apache-2.0
// Rules of conformance.hpp on a device other than the host. forward() must enqueue on its stream
// only, the device's memory must come back, and a replayed capture must read its inputs. Traces on
// the calling thread are found by Device::left_behind() (execute.cpp).
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/check/conformance.hpp"

namespace fk {

using DeviceParts = std::vector<std::span<const std::byte>>;

// Rule `stream`: work does not wait for its stream, or continues after its stream has ended. Rule
// `waits`: forward() did not return before the stream went on. `ready` prepares buffers for a call.
// `forward` calls; its code is loaded already. `memory` is what it may write. Makes at least three
// calls.
ConformanceFault stream_fault(Device& device, const DeviceParts& memory,
                              const std::function<void()>& ready,
                              const std::function<void()>& forward);

// Rule `leak`: each of several rounds of `cycle` reduces the device's free memory by at least 1
// MiB. Three rounds are enough if their losses are alike. Otherwise there are nine, because a
// library or another process may cause one loss. `any` tells whether any rank has a loss, if
// several test together.
using AnyRank = std::function<bool(bool mine)>;
ConformanceFault device_leak(Device& device, const std::function<void()>& cycle,
                             const std::string& what, const AnyRank& any = nullptr);

// stream_fault() of the case as written, after a first call. Other tests report failures of that
// call.
ConformanceFault stream_of_forward(const ConformanceCase& c);

// Rule `create`: create() takes device memory, at least 1 MiB in each of several instances. That
// belongs into prepare(), in memory from the host.
ConformanceFault create_fault(const ConformanceCase& c);

// Tests the other rules on a case as written. Error when the device fails.
ConformanceFault device_fault(const ConformanceCase& c, const ConformanceDiffer& differ,
                              const std::function<void(const std::string&)>& step);

// True when the provider claims that this case may be captured.
bool may_capture(const Provider& provider, const ResolvedCase& resolved, const CaseValues& values);

// The graph of one call of an instance that was called on these frames before. Error when the
// capture is impossible or fails.
std::shared_ptr<void> captured_call(const ConformanceCase& c, Execution& execution,
                                    const CaseFrames& frames);

// Replays a captured call on other contents over fresh poison, after another instance's graph was
// made and destroyed. Compares with an instance that saw only these contents. An op with a plan()
// is planned anew, as in a model before each launch. Returns the fault, or empty. Only for
// providers that claim to be deterministic, and that a capture is always possible.
std::string stale_graph(const ConformanceCase& c, const ConformanceDiffer& differ);

}  // namespace fk
