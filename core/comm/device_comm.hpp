// SPDX-License-Identifier: Apache-2.0
// Communicators for devices other than the CPU. A kind registers itself in the translation unit
// that is built for it: FK_COMMUNICATOR_KIND(cuda, make).
#pragma once
#include <memory>
#include <string>

#include "core/comm/communicator.hpp"
#include "core/comm/peers.hpp"
#include "core/device/device.hpp"

namespace fk {

// Seconds for which kernels wait for another rank before they end their context. It holds for
// communicators, which wait no longer than hosts do, and for baselines.
inline constexpr double kDeviceWaitS = 15;

// Resources of the ranks before they have a device; all of them must outlive the communicator.
struct CommGround {
  Communicator& host;  // the CPU's; the new one shares its meeting
  const Peers& peers;
  bool libraries;  // vendors' libraries are allowed; not in a sealed process
};

using MakeCommunicator = std::unique_ptr<Communicator> (*)(Device& device,
                                                           const CommGround& ground);
struct CommunicatorRegistration {
  CommunicatorRegistration(const char* kind, MakeCommunicator make);
};
#define FK_COMMUNICATOR_KIND(kind, make) \
  static const ::fk::CommunicatorRegistration fk_communicator_##kind(#kind, make)

// All ranks call it together, each for its device, which must outlive the result. Error if one rank
// fails.
std::unique_ptr<Communicator> make_communicator(Device& device, const CommGround& ground);
// Error when this number of ranks cannot communicate on this device ("cuda:0").
void need_communicator(int64_t ranks, const std::string& device);

}  // namespace fk
