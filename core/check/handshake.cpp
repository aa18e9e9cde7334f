// SPDX-License-Identifier: Apache-2.0
#include "core/check/handshake.hpp"

#include <cstring>
#include <optional>

#include "core/cases/guarded.hpp"
#include "core/device/device.hpp"
#include "core/plugin/library.hpp"

namespace fk {

namespace {

struct Longer {
  fk_hello known;
  unsigned char unknown[256];  // members of a later version
};

struct Answer {
  const fk_plugin* table = nullptr;
  std::string why;  // reason for a missing table
};

Answer say(fk_plugin_entry entry, uint32_t minor, bool longer) {
  fk_error error{};
  error.struct_size = FK_END(fk_error, text);
  Longer hello{};
  std::memset(hello.unknown, 0xff, sizeof hello.unknown);
  hello.known = hello_of(error, minor);
  if (longer) hello.known.struct_size = sizeof hello;
  Answer out;
  out.table = entry(&hello.known);
  if (!out.table) out.why.assign(error.text, strnlen(error.text, sizeof error.text));
  return out;
}

// Tests a host of this minor. `known` is the table for the real host.
std::string other_minor(fk_plugin_entry entry, uint32_t minor, const fk_plugin& known) {
  const std::string who = "a host of minor " + std::to_string(minor);
  const bool longer = minor > FK_ABI_MINOR;
  const Answer answer = say(entry, minor, longer);
  if (answer.table && answer.table->minor > minor)
    return "it gives " + who + " a table that needs minor " + std::to_string(answer.table->minor);
  if (answer.table) return "";
  if (known.minor <= minor)
    return "it refuses " + who + (longer ? ", whose hello is longer," : "") +
           " and takes an older one" + (answer.why.empty() ? "" : ": " + answer.why);
  return answer.why.empty() ? "it refuses " + who + " without saying why" : "";
}

}  // namespace

std::string handshake_fault(fk_plugin_entry entry,
                            const std::function<void(const std::string&)>& step) {
  step("the same hello again");
  const Answer first = say(entry, FK_ABI_MINOR, false), again = say(entry, FK_ABI_MINOR, false);
  if (!first.table || first.table != again.table)
    return "the entry returns different tables; the first must be valid until the process ends";
  for (const uint32_t minor : {FK_ABI_MINOR + 1u, UINT32_MAX}) {
    step("a younger host");
    if (std::string why = other_minor(entry, minor, *first.table); !why.empty()) return why;
  }
  for (uint32_t minor = 0; minor != FK_ABI_MINOR; ++minor) {
    step("an older host");
    if (std::string why = other_minor(entry, minor, *first.table); !why.empty()) return why;
  }
  step("a hello that ends behind its minor; is more read than struct_size says?");
  const auto cpu = open_device("cpu");
  constexpr uint32_t kShort = FK_END(fk_hello, minor);
  GuardedBuffer page(*cpu, 256, 0, true);
  std::byte* const at = page.data() + 256 - kShort;
  const uint32_t words[] = {kShort, FK_ABI_MINOR};
  std::memcpy(at, words, sizeof words);
  (void)entry(reinterpret_cast<const fk_hello*>(at));
  return "";
}

}  // namespace fk
