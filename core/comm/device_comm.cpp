// SPDX-License-Identifier: Apache-2.0
// The list of communicators by kind of device, filled before main().
#include "core/comm/device_comm.hpp"

#include <map>

#include "core/base/error.hpp"

namespace fk {

namespace {
std::map<std::string, MakeCommunicator>& makers() {
  static auto* map = new std::map<std::string, MakeCommunicator>;
  return *map;
}
std::string kind_of(const std::string& device) { return device.substr(0, device.find(':')); }
}  // namespace

CommunicatorRegistration::CommunicatorRegistration(const char* kind, MakeCommunicator make) {
  makers()[kind] = make;
}

std::unique_ptr<Communicator> make_communicator(Device& device, const CommGround& ground) {
  const std::string kind = kind_of(device.name());
  need_communicator(ground.host.size(), kind);
  return makers().at(kind)(device, ground);
}

void need_communicator(int64_t ranks, const std::string& device) {
  if (ranks > 1 && device != "cpu" && makers().count(kind_of(device)) == 0)
    fail("--tp, --ep", "there is no communicator for " + device + " in this host", "--device cpu");
}

}  // namespace fk
