// SPDX-License-Identifier: Apache-2.0
// The device of each rank, and the machine's name for a device.
#pragma once
#include <string>
#include <vector>

namespace fk {

// Throws open_device()'s error if this build lacks the kind of device, or if the name is invalid.
// It asks no driver, so a device with this number may still be absent.
void check_device_name(const std::string& name);
// The device of a rank if rank 0 has `name` ("cuda", "cuda:2"). Ranks get the devices of the kind
// in turn. After the last device comes the first again, so ranks may share one. All ranks share
// "cpu".
std::string device_of_rank(const std::string& name, int rank);
// True if at least two of these ranks share a device. `name` may have the model behind it, as in
// Device::name().
bool ranks_share_devices(const std::string& name, int ranks);
// The devices of all ranks, in order; repeated where ranks share one.
std::vector<std::string> devices_of_ranks(const std::string& name, int ranks);
// The driver's name for a GPU ("cuda", "cuda:2") on the whole machine: its number there ("2"), or
// its entry in CUDA_VISIBLE_DEVICES ("GPU-..."). For a device of a backend: its identity. Empty: it
// is not visible, or has no identity.
std::string name_on_machine(const std::string& device);

}  // namespace fk
