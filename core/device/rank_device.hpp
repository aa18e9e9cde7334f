// SPDX-License-Identifier: Apache-2.0
// Which device each of several ranks has, and which one of the machine's that is.
#pragma once
#include <string>
#include <vector>

namespace fk {

// What open_device() says where this build has no such kind of device or that is no name of one;
// asks no driver, so whether there is one with this number is not known afterwards.
void check_device_name(const std::string& name);
// The device of a rank where rank 0 has this one ("cuda", "cuda:2"): those of its kind in turn,
// from the first again after the last, so that ranks may share one. "cpu" is everybody's.
std::string device_of_rank(const std::string& name, int rank);
// Whether two of so many ranks have the same one. `name` may have the model behind it, as
// Device::name() does.
bool ranks_share_devices(const std::string& name, int ranks);
// Those of so many ranks; some may be there twice.
std::vector<std::string> devices_of_ranks(const std::string& name, int ranks);
// How the driver names a GPU ("cuda", "cuda:2"), whatever this process sees of the machine: by its
// number there ("2") or as CUDA_VISIBLE_DEVICES has it ("GPU-..."). Empty: it is not visible.
std::string name_on_machine(const std::string& device);

}  // namespace fk
