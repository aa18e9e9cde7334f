// SPDX-License-Identifier: Apache-2.0
// Reads the peaks from the files of registry/devices.
#include "core/exec/peaks.hpp"

#include <utility>
#include <vector>

#include "core/device/device_files.hpp"

namespace fk {

namespace {

using Named = std::pair<std::string, Peaks>;

std::vector<Named> find_all() {
  std::vector<Named> all;
  for (const Yaml& yaml : device_files()) {
    if (!yaml.has("memory_bandwidth")) continue;
    Peaks peaks;
    peaks.bytes_per_s = yaml.at("memory_bandwidth").number();
    if (yaml.has("link_bandwidth")) peaks.link_bytes_per_s = yaml.at("link_bandwidth").number();
    if (yaml.has("l2_bytes")) peaks.cache_bytes = yaml.at("l2_bytes").integer();
    for (const auto& [type, peak] : yaml.at("flops").entries())
      peaks.flops_per_s[dtype_from_name(type)] = peak.number();
    all.emplace_back(yaml.at("name").text(), std::move(peaks));
  }
  return all;
}

// The peaks kept by read_peaks(), for a process which can open no file later.
std::optional<std::vector<Named>> known_peaks;

}  // namespace

std::optional<Peaks> peaks_of(const std::string& device_name) {
  for (const auto& [name, peaks] : known_peaks ? *known_peaks : find_all())
    if (is_of_kind(device_name, name)) return peaks;
  return std::nullopt;
}

void read_peaks() { known_peaks = find_all(); }

}  // namespace fk
