// SPDX-License-Identifier: Apache-2.0
// Device backends: shared libraries that bring a kind of device (fk/device.h, docs/backends.md).
// They are trusted code of the machine's operator. They come from the folders `backends` beside
// those of the host's own providers, and from FK_BACKENDS. A library of another folder is never
// loaded.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "fk/device.h"

namespace fk {

struct Backend {
  std::filesystem::path path;
  std::string kind, version, compiler;  // of the note; empty where the file has none
  std::string error;                    // why the library is unusable; empty: it is loaded
  // Members which the library does not know are null. `struct_size` is 0 where it is not loaded.
  fk_backend table{};
  bool usable() const { return error.empty(); }
};

// Checks a file and loads it into this process until the process ends. It never throws for a fault
// of the file: see Backend::error.
Backend load_backend(const std::filesystem::path& file);

// All files of the folders, by name. The first call loads them, and later calls give the same list.
// The first of two libraries for one kind is usable, the second is not. [any thread]
const std::vector<Backend>& backends();
// The usable backend of "opencl" or "opencl:0"; null: none. Built-in kinds have none, and are not
// looked up, so that a process on the CPU loads no library.
const Backend* backend_of(const std::string& device);
// Why a library that should bring this kind is unusable; empty: there is no such library.
std::string backend_error(const std::string& kind);

// An error struct for a call of a backend.
fk_error backend_error_struct();
// The text of a failed call.
std::string text_of(const fk_error& error, int32_t status);

// The devices of a backend: "opencl:0", "opencl:1". Empty: none; `why` gets the reason.
std::vector<std::string> names_of(const Backend& backend, std::string* why = nullptr);
// Error with the backend's words.
fk_device_info info_of(const Backend& backend, int32_t index);
// The device behind the host's interface.
std::unique_ptr<Device> open_backend_device(const Backend& backend, int32_t index);

}  // namespace fk
