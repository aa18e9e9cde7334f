// SPDX-License-Identifier: Apache-2.0
// Finds code for GPUs in a plugin's file by the headers of its fat binaries.
#include "core/plugin/device_code.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/text.hpp"
#include "core/base/elf.hpp"

namespace fk {

namespace {

// The format of fatbinary since CUDA 4. Headers contain their own length.
constexpr uint32_t kMagic = 0xba55ed50;
struct BinaryHead {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // length of all parts
};
struct PartHead {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, options;
  uint16_t minor, major;  // version of the format
  uint32_t sm;
};
static_assert(sizeof(BinaryHead) == 16 && sizeof(PartHead) == 32);
enum { kPtx = 1, kCubin = 2 };  // values of PartHead::kind

struct Code {
  bool ptx;
  int32_t sm;
  bool runs_on(int32_t wanted) const { return sm <= wanted && (ptx || sm / 10 == wanted / 10); }
};

template <class T>
T read_head(const Elf& elf, uint64_t at) {
  T out;
  std::memcpy(&out, elf.read(at, sizeof out).data(), sizeof out);
  return out;
}

std::vector<Code> code_of(const Elf& elf, const Elf::Section& section) {
  std::vector<Code> out;
  const uint64_t end = section.offset + section.bytes;
  for (uint64_t at = section.offset; at + sizeof(BinaryHead) <= end;) {
    const auto head = read_head<BinaryHead>(elf, at);
    if (head.magic != kMagic || head.header_bytes < sizeof head || head.bytes > end - at) {
      at += 8;  // padding before the next binary
      continue;
    }
    uint64_t part = at + head.header_bytes;
    const uint64_t parts_end = std::min(end, part + head.bytes);
    while (part + sizeof(PartHead) <= parts_end) {
      const auto entry = read_head<PartHead>(elf, part);
      if (entry.header_bytes < sizeof entry || entry.bytes > parts_end - part) break;
      if (entry.kind == kPtx || entry.kind == kCubin)
        out.push_back({entry.kind == kPtx, static_cast<int32_t>(entry.sm)});
      part += entry.header_bytes + entry.bytes;
    }
    at = parts_end;
  }
  return out;
}

}  // namespace

std::string missing_device_code(const std::filesystem::path& file, std::span<const int32_t> sm) {
  const Elf elf(file);
  const auto section = elf.section(".nv_fatbin");
  if (!section) return "";
  const auto code = code_of(elf, *section);
  if (code.empty()) return "";
  for (const int32_t wanted : sm) {
    const auto runs = [&](const Code& c) { return c.runs_on(wanted); };
    if (std::any_of(code.begin(), code.end(), runs)) continue;
    std::vector<std::string> has;
    for (const Code& c : code) {
      const std::string one = (c.ptx ? "PTX for " : "") + std::to_string(c.sm);
      if (std::find(has.begin(), has.end(), one) == has.end()) has.push_back(one);
    }
    return "claims compute capability " + std::to_string(wanted) + " and has code for " +
           join(has, ", ") + " alone";
  }
  return "";
}

}  // namespace fk
