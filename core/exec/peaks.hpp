// SPDX-License-Identifier: Apache-2.0
// What a device could do at best, from registry/devices/<device>.yaml: the data sheet's figures,
// which no kernel reaches.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "core/tensor/dtype.hpp"

namespace fk {

struct Peaks {
  double bytes_per_s = 0;
  int64_t cache_bytes = 0;      // of the last cache
  double link_bytes_per_s = 0;  // from all other devices together; 0: not known
  std::map<DType, double> flops_per_s;
};

// Of the kind that a device's name has, as the driver tells it (core/device/device_files.hpp);
// nothing when no file has peaks for it.
std::optional<Peaks> peaks_of(const std::string& device_name);
// Reads all that there are now, so that peaks_of() needs no file from then on.
void read_peaks();

}  // namespace fk
