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

// How long kernels wait for another rank, in seconds, before they end their context: those of
// communicators, which wait no longer than hosts do, and those of baselines.
inline constexpr double kDeviceWaitS = 15;

// What the ranks have before they have a device: all of it outlives the communicator.
struct CommGround {
  Communicator& host;  // of the CPU; the new one shares its meeting
  const Peers& peers;
  bool libraries;  // vendors' libraries may be asked; not in a sealed process
};

using MakeCommunicator = std::unique_ptr<Communicator> (*)(Device& device,
                                                           const CommGround& ground);
struct CommunicatorRegistration {
  CommunicatorRegistration(const char* kind, MakeCommunicator make);
};
#define FK_COMMUNICATOR_KIND(kind, make) \
  static const ::fk::CommunicatorRegistration fk_communicator_##kind(#kind, make)

// All ranks call it together, each for its device, which outlives what is made. Error where one of
// them cannot.
std::unique_ptr<Communicator> make_communicator(Device& device, const CommGround& ground);
// Error when so many ranks cannot talk on this device ("cuda:0").
void need_communicator(int64_t ranks, const std::string& device);

}  // namespace fk
