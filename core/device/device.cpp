// SPDX-License-Identifier: Apache-2.0
// The kinds of device. The CPU is always present. CUDA registers itself where it was built. All
// others come from backend libraries (backends.hpp).
#include "core/device/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/backends.hpp"
#include "core/device/checksum.hpp"
#include "core/device/rank_device.hpp"

namespace fk {

DeviceKind cpu_device_kind();  // cpu.cpp

namespace {
// Kinds which are a part of the program.
std::map<std::string, DeviceKind>& built_in() {
  static auto* map = new std::map<std::string, DeviceKind>{{"cpu", cpu_device_kind()}};
  return *map;
}

std::string device_kind_in(const std::string& name) { return name.substr(0, name.find(':')); }

// The devices of a kind. `missing` gets the reason where there are none; null: nobody asks.
std::vector<std::string> names_of_kind(const std::string& kind, std::string* missing = nullptr) {
  if (const auto it = built_in().find(kind); it != built_in().end()) {
    auto names = it->second.names();
    if (names.empty() && missing) *missing = it->second.missing();
    return names;
  }
  const Backend* const backend = backend_of(kind);
  return backend ? names_of(*backend, missing) : std::vector<std::string>();
}
}  // namespace

SharedMapping::~SharedMapping() {
  if (shared_.fd >= 0) ::close(shared_.fd);
  if (device_ && shared_.data) device_->close_shared(shared_.data, bytes_);
}

void* Device::allocate_parts(int64_t, std::span<const HeldPart>, const std::string& purpose) {
  fail("device", name() + " has no addresses without memory for " + purpose);
}

uint64_t Device::checksum(const void* data, int64_t bytes) {
  if (!host_memory()) fail("device", name() + " has no checksum");
  return checksum_of({static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
}

std::vector<uint64_t> Device::checksums(std::span<const std::span<const std::byte>> parts) {
  std::vector<uint64_t> sums;
  for (const auto& part : parts)
    sums.push_back(checksum(part.data(), static_cast<int64_t>(part.size())));
  return sums;
}

// Sums SplitMix64 hashes of all words of 8 bytes, each with its position.
uint64_t checksum_of(std::span<const std::byte> memory) { return checksum_from(memory, 0); }

uint64_t checksum_from(std::span<const std::byte> piece, uint64_t first) {
  uint64_t sum = 0;
  for (size_t at = 0, i = first + 1; at < piece.size(); at += 8, ++i) {
    uint64_t z = 0;
    std::memcpy(&z, piece.data() + at, std::min<size_t>(8, piece.size() - at));
    z += 0x9E3779B97F4A7C15u * i;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    sum += z ^ (z >> 31);
  }
  return sum;
}

DeviceRegistration::DeviceRegistration(const char* kind, DeviceKind functions) {
  built_in()[kind] = functions;
}

void Device::copy_rows(void* to, int64_t to_step, const void* from, int64_t from_step,
                       int64_t bytes, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row)
    copy(static_cast<std::byte*>(to) + row * to_step,
         static_cast<const std::byte*>(from) + row * from_step, bytes);
}

void Device::copy_tokens(int64_t* to, const int64_t* from, int64_t count, int64_t vocab_size) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int64_t));
  download(tokens.data(), from, bytes);
  for (int64_t& token : tokens)
    if (token < 0 || token >= vocab_size) token = 0;
  upload(to, tokens.data(), bytes);
}

bool has_device_kind(const std::string& kind) {
  return built_in().count(kind) > 0 || backend_of(kind);
}

std::vector<std::string> device_names() {
  std::vector<std::string> all;
  std::vector<std::string> kinds;
  for (const auto& [kind, functions] : built_in()) kinds.push_back(kind);
  for (const Backend& backend : backends())
    if (backend.usable()) kinds.push_back(backend.kind);
  std::sort(kinds.begin(), kinds.end());
  for (const auto& kind : kinds)
    for (auto& name : names_of_kind(kind)) all.push_back(std::move(name));
  return all;
}

std::string device_of_rank(const std::string& name, int rank) {
  const std::string kind = device_kind_in(name);
  if (kind == "cpu" || !has_device_kind(kind)) return name;
  const auto names = names_of_kind(kind);
  const auto first = name == kind ? names.begin() : std::find(names.begin(), names.end(), name);
  if (first == names.end()) return name;  // open_device() reports the reason
  return names[static_cast<size_t>(first - names.begin() + rank) % names.size()];
}

bool ranks_share_devices(const std::string& name, int ranks) {
  const std::string first = device_of_rank(name.substr(0, name.find(' ')), 0);
  for (int r = 1; r < ranks; ++r)
    if (device_of_rank(first, r) == first) return true;
  return false;
}

std::vector<std::string> devices_of_ranks(const std::string& name, int ranks) {
  std::vector<std::string> out;
  for (int r = 0; r < ranks; ++r) out.push_back(device_of_rank(name, r));
  return out;
}

std::string name_on_machine(const std::string& device) {
  const size_t colon = device.find(':');
  const int number = colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1);
  if (const Backend* const backend = backend_of(device)) {
    if (static_cast<size_t>(number) >= names_of(*backend).size()) return "";
    return info_of(*backend, number).identity;
  }
  if (device_kind_in(device) != "cuda") return "";  // it has no name but its own
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible || !*visible) return std::to_string(number);
  const auto names = split(visible, ',');
  if (static_cast<size_t>(number) >= names.size()) return "";
  return std::string(trim(names[static_cast<size_t>(number)]));
}

void check_device_name(const std::string& name) {
  const std::string kind = device_kind_in(name);
  if (!has_device_kind(kind)) {
    if (kind == "cuda")
      fail("device", "this build has no devices of the kind `cuda`",
           "it was configured without CUDA");
    if (const std::string why = backend_error(kind); !why.empty()) fail("device", why);
    fail("device", "no backend here brings devices of the kind `" + kind + "`",
         did_you_mean(name, device_names()));
  }
  if (name == kind) return;
  const std::string number = name.substr(kind.size() + 1);
  if (kind == "cpu" || number.empty() ||
      number.find_first_not_of("0123456789") != std::string::npos) {
    fail("device", "there is no device `" + name + "`", did_you_mean(name, device_names()));
  }
}

std::unique_ptr<Device> open_device(const std::string& name) {
  check_device_name(name);
  const std::string kind = device_kind_in(name);
  std::string missing;
  const auto names = names_of_kind(kind, &missing);
  if (names.empty()) fail_host("device", "there is no " + kind + " device here: " + missing);
  const std::string full = name == kind ? names.front() : name;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != full) continue;
    if (const Backend* const backend = backend_of(kind))
      return open_backend_device(*backend, static_cast<int32_t>(i));
    return built_in().at(kind).open(full);
  }
  fail("device", "there is no device `" + name + "`", did_you_mean(name, device_names()));
}

}  // namespace fk
