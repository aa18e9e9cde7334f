// SPDX-License-Identifier: Apache-2.0
// Libraries which the host must refuse when it loads them: FAULT chooses one.
#include "device.hpp"

namespace {
[[maybe_unused]] fk_backend changed() {
  fk_backend table = fk::detail::backend<vendor::Device>::table;
#if defined(FAULT_missing)
  table.fill = nullptr;
#elif defined(FAULT_group)
  table.launch_or_null = nullptr;
#elif defined(FAULT_size)
  table.struct_size = 64;
#elif defined(FAULT_minor)
  table.minor = 7;
#elif defined(FAULT_name)
  table.kind = "other";
#elif defined(FAULT_type)
  table.device_type = 1;
#endif
  return table;
}
[[maybe_unused]] const fk_backend table = changed();
}  // namespace

#if defined(FAULT_major)
#undef FK_BACKEND_MAJOR
#define FK_BACKEND_MAJOR 7
#elif defined(FAULT_unresolved)
extern "C" int missing_in_every_library();
namespace {
[[maybe_unused]] const int used = missing_in_every_library();
}
#elif defined(FAULT_null)
// An entry without a table.
static const fk_note_backend fk_backend_note FK_NOTE_SECTION = {
    FK_NOTE_BEGIN(fk_note_backend, FK_NOTE_BACKEND), 0, 0, "queue", "1.0", "", ""};
extern "C" __attribute__((visibility("default"))) const fk_backend* fk_backend_v0(
    const fk_hello* hello) {
  fk_fail(hello->error, FK_FAILED, "this machine has no driver for it");
  return nullptr;
}
#endif
#if !defined(FAULT_null)
FK_BACKEND("queue", "1.0", table);
#endif
