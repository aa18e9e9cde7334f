// SPDX-License-Identifier: Apache-2.0
// Wheels: zip archives with a list of digests. Files are stored without compression, so that an
// installed kernel has the same bytes as the judged one and no library is needed here.
#include <array>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/deploy/target.hpp"

namespace fk {
namespace {

uint32_t crc32_of(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0xedb88320U : 0);
      out[i] = c;
    }
    return out;
  }();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// The fields that the two headers of an entry share, from "version needed" to the name's length.
std::string entry_fields(const std::string& name, const std::string& content) {
  constexpr uint64_t kVersion = 20, kFirstOf1980 = 0x21;
  std::string out;
  put(out, kVersion, 2);
  put(out, 0, 4);  // no flags, stored
  put(out, 0, 2);  // time
  put(out, kFirstOf1980, 2);
  put(out, crc32_of(content), 4);
  put(out, content.size(), 4);
  put(out, content.size(), 4);
  put(out, name.size(), 2);
  put(out, 0, 2);  // no extra field
  return out;
}

std::string zip_of(const PackageFiles& files) {
  std::string out, directory;
  for (const auto& [name, content] : files) {
    const uint64_t at = out.size();
    if (at + content.size() > UINT32_MAX) fail(name, "a wheel has at most 4 GiB");
    const std::string fields = entry_fields(name, content);
    put(out, 0x04034b50, 4);
    out += fields + name + content;
    put(directory, 0x02014b50, 4);
    put(directory, 0x0314, 2);  // made on Unix
    directory += fields;
    put(directory, 0, 2 + 2 + 2);  // no comment, disk 0, binary
    put(directory, uint64_t{0100644} << 16, 4);
    put(directory, at, 4);
    directory += name;
  }
  const uint64_t begin = out.size();
  out += directory;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, files.size(), 2);
  put(out, files.size(), 2);
  put(out, directory.size(), 4);
  put(out, begin, 4);
  put(out, 0, 2);
  return out;
}

std::string record_line(const std::string& name, const std::string& content) {
  return name + ",sha256=" + base64_sha256(content, true) + "," + std::to_string(content.size()) +
         "\n";
}

}  // namespace

std::string base64_sha256(const std::string& content, bool for_urls) {
  Sha256 hash;
  hash.update(content);
  std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  letters += for_urls ? "-_" : "+/";
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const uint8_t byte : hash.finish()) {
    bits = bits << 8 | byte;
    for (held += 8; held >= 6; held -= 6) out += letters[bits >> (held - 6) & 63];
  }
  out += letters[bits << (6 - held) & 63];  // 256 bits leave 4
  return for_urls ? out : out + "=";
}

std::pair<std::string, std::string> wheel_of(const PackagedPlugin& plugin,
                                             const PackageFiles& files,
                                             const std::vector<std::string>& requirements,
                                             const std::string& entry_points) {
#if defined(__aarch64__)
  const std::string platform = "linux_aarch64";
#else
  const std::string platform = "linux_x86_64";
#endif
  const std::string info = plugin.name + "-" + plugin.version + ".dist-info/";
  const std::string tag = "py3-none-" + platform;
  PackageFiles all = files;
  std::string metadata = "Metadata-Version: 2.1\nName: " + plugin.name +
                         "\nVersion: " + plugin.version + "\nSummary: ops of the plugin " +
                         plugin.plugin + ": " + join(plugin.ops, ", ") +
                         "\nRequires-Python: >=3.10\n";
  for (const auto& one : requirements) metadata += "Requires-Dist: " + one + "\n";
  all[info + "METADATA"] = metadata;
  all[info + "WHEEL"] =
      "Wheel-Version: 1.0\nGenerator: fk-host\nRoot-Is-Purelib: false\nTag: " + tag + "\n";
  if (!entry_points.empty()) all[info + "entry_points.txt"] = entry_points;
  std::string record;
  for (const auto& [name, content] : all) record += record_line(name, content);
  all[info + "RECORD"] = record + info + "RECORD,,\n";
  return {plugin.name + "-" + plugin.version + "-" + tag + ".whl", zip_of(all)};
}

}  // namespace fk
