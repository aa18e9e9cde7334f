// SPDX-License-Identifier: Apache-2.0
// The same as conformance.hpp asked on a device that is not the host: does forward() enqueue on its
// stream and nothing else, is the device's memory given back, and does a captured call look at its
// inputs when it is replayed? What it leaves on the thread is Device::left_behind()'s
// (execute.cpp).
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/check/conformance.hpp"

namespace fk {

using DeviceParts = std::vector<std::span<const std::byte>>;

// Rule `stream`: work that does not wait for what its stream waits for, or that goes on when the
// stream has come to its end. Rule `waits`: forward() returned only when the stream went on.
// `ready` makes buffers ready for a call and `forward` is the call, which has loaded its code
// before; `memory` is what it may write. Three calls at least.
ConformanceFault stream_fault(Device& device, const DeviceParts& memory,
                              const std::function<void()>& ready,
                              const std::function<void()>& forward);

// Rule `leak`: the device has less free memory after each of several rounds of `cycle`, by a
// mebibyte and more: three where it is as much each time, or nine, because one round can be a
// library's and others another process's.
// `any` tells whether any rank says so, where several do it together.
using AnyRank = std::function<bool(bool mine)>;
ConformanceFault device_leak(Device& device, const std::function<void()>& cycle,
                             const std::string& what, const AnyRank& any = nullptr);

// stream_fault() of the case as it is written, after a first call whose failures are told
// elsewhere.
ConformanceFault stream_of_forward(const ConformanceCase& c);

// Rule `create`: create() takes memory of the device, which is for prepare(), and that from the
// host: each of several instances as much as a mebibyte.
ConformanceFault create_fault(const ConformanceCase& c);

// The rest of it, of a case as it is written. Error where the device fails.
ConformanceFault device_fault(const ConformanceCase& c, const ConformanceDiffer& differ,
                              const std::function<void(const std::string&)>& step);

// Whether the provider claims that this very case may be captured.
bool may_capture(const Provider& provider, const ResolvedCase& resolved, const CaseValues& values);

// The graph of one call of an instance that has been called on these frames before. Error where it
// cannot be captured or fails.
std::shared_ptr<void> captured_call(const ConformanceCase& c, Execution& execution,
                                    const CaseFrames& frames);

// A call that was captured, replayed on other contents over freshly poisoned outputs, when another
// instance's graph has come and gone, beside an instance that has seen nothing else. What has a
// plan() is planned anew for them, as in a model before each launch. Empty, or what is wrong. For
// who claims to be deterministic and that it may always be captured.
std::string stale_graph(const ConformanceCase& c, const ConformanceDiffer& differ);

}  // namespace fk
