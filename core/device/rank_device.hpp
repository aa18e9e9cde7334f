// SPDX-License-Identifier: Apache-2.0
// Which device each of several ranks has.
#pragma once
#include <string>

namespace fk {

// The device of a rank where rank 0 has this one ("cuda", "cuda:2"): those of its kind in turn,
// from the first again after the last, so that ranks may share one. "cpu" is everybody's.
std::string device_of_rank(const std::string& name, int rank);
// Whether two of so many ranks have the same one. `name` may have the model behind it, as
// Device::name() does.
bool ranks_share_devices(const std::string& name, int ranks);

}  // namespace fk
