// SPDX-License-Identifier: Apache-2.0
// Finding, checking and loading of device backends. The file is checked as data before its code
// runs: the loader would crash on a truncated file.
#include "core/device/backends.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/base/elf.hpp"
#include "core/base/error.hpp"
#include "core/base/float_modes.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

// A member of the table that is a function or a text. Members of a group are all null, or none is.
struct Member {
  const char* name;
  size_t at;
  const char* group;  // null: required; "": optional alone
};
#define FK_MEMBER(NAME, GROUP) \
  { #NAME, offsetof(fk_backend, NAME), GROUP }
constexpr Member kMembers[] = {
    FK_MEMBER(kind, nullptr),
    FK_MEMBER(version, nullptr),
    FK_MEMBER(type_words, nullptr),
    FK_MEMBER(count, nullptr),
    FK_MEMBER(describe, nullptr),
    FK_MEMBER(open, nullptr),
    FK_MEMBER(close, nullptr),
    FK_MEMBER(allocate, nullptr),
    FK_MEMBER(release, nullptr),
    FK_MEMBER(allocate_host, nullptr),
    FK_MEMBER(release_host, nullptr),
    FK_MEMBER(upload, nullptr),
    FK_MEMBER(upload_later, nullptr),
    FK_MEMBER(uploads_enqueued, nullptr),
    FK_MEMBER(wait_for_uploads, nullptr),
    FK_MEMBER(download, nullptr),
    FK_MEMBER(download_later, nullptr),
    FK_MEMBER(copy, nullptr),
    FK_MEMBER(fill, nullptr),
    FK_MEMBER(share_or_null, "sharing"),
    FK_MEMBER(open_shared_or_null, "sharing"),
    FK_MEMBER(close_shared_or_null, "sharing"),
    FK_MEMBER(accept_mapping_or_null, "mapping"),
    FK_MEMBER(drop_mapping_or_null, "mapping"),
    FK_MEMBER(stream, nullptr),
    FK_MEMBER(synchronize, nullptr),
    FK_MEMBER(synchronize_all, nullptr),
    FK_MEMBER(hold_or_null, "hold"),
    FK_MEMBER(let_go_or_null, "hold"),
    FK_MEMBER(peek_or_null, "hold"),
    FK_MEMBER(begin_capture_or_null, "capture"),
    FK_MEMBER(capture_is_whole_or_null, "capture"),
    FK_MEMBER(mark_capture_or_null, "capture"),
    FK_MEMBER(separate_calls_or_null, "capture"),
    FK_MEMBER(end_capture_or_null, "capture"),
    FK_MEMBER(launch_or_null, "capture"),
    FK_MEMBER(free_graph_or_null, "capture"),
    FK_MEMBER(watch_open, nullptr),
    FK_MEMBER(watch_close, nullptr),
    FK_MEMBER(watch_flush, nullptr),
    FK_MEMBER(watch_start, nullptr),
    FK_MEMBER(watch_stop, nullptr),
    FK_MEMBER(watch_seconds, nullptr),
    FK_MEMBER(sense_open_or_null, "senses"),
    FK_MEMBER(sense_close_or_null, "senses"),
    FK_MEMBER(sense_look_or_null, "senses"),
};
#undef FK_MEMBER

bool has(const fk_backend& table, const Member& member) {
  const void* value = nullptr;
  std::memcpy(&value, reinterpret_cast<const char*>(&table) + member.at, sizeof value);
  return value != nullptr;
}

void check_members(const fk_backend& table, const std::string& where) {
  for (const Member& member : kMembers) {
    if (has(table, member)) continue;
    if (!member.group) fail(where, std::string("its table has a null `") + member.name + "`");
    for (const Member& other : kMembers)
      if (other.group && std::strcmp(other.group, member.group) == 0 && has(table, other))
        fail(where, std::string("its table has `") + other.name + "` and a null `" + member.name +
                        "`; the group `" + member.group + "` is complete or absent");
  }
  if (!table.share_or_null && !table.accept_mapping_or_null)
    fail(where, "its table has neither `share_or_null` nor `accept_mapping_or_null`",
         "processes must be able to share memory");
}

template <size_t N>
std::string text_in(const char (&text)[N]) {
  return {text, strnlen(text, N)};
}

bool is_kind(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void read_note(const fs::path& file, Backend& out) {
  const Elf elf(file);
  const auto notes = elf.notes();
  const auto ours = std::find_if(notes.begin(), notes.end(),
                                 [](const auto& note) { return note.type == FK_NOTE_BACKEND; });
  if (ours == notes.end())
    elf.fail("is no device backend: it has no note of FK_BACKEND",
             notes.empty() ? "" : "a plugin belongs into a folder of FK_PLUGIN_PATH");
  uint32_t major = 0;  // every version of the note begins with it
  if (ours->desc.size() >= 4) std::memcpy(&major, ours->desc.data(), 4);
  if (ours->desc.size() < 4 || major != FK_BACKEND_MAJOR)
    elf.fail("was built for fk_backend_v" + std::to_string(major) + ", this host speaks v" +
                 std::to_string(FK_BACKEND_MAJOR),
             "rebuild it with this host's headers");
  fk_note_backend note{};
  constexpr size_t kHead = 16;
  if (ours->desc.size() != sizeof note - kHead)
    elf.fail("has a garbled note: " + std::to_string(ours->desc.size()) + " bytes instead of " +
             std::to_string(sizeof note - kHead));
  std::memcpy(reinterpret_cast<char*>(&note) + kHead, ours->desc.data(), ours->desc.size());
  out.kind = text_in(note.kind);
  out.version = text_in(note.version);
  out.compiler = text_in(note.compiler);
  if (!is_kind(out.kind))
    elf.fail("has a garbled note: `" + excerpt(out.kind) + "` is no name of a kind",
             "small letters, digits and _ make a name");
  if (out.kind == "cpu" || out.kind == "cuda")
    elf.fail("brings the kind `" + out.kind + "`, which is a part of the host",
             "give FK_BACKEND another name");
}

// A candidate may write into its folder, and no candidate may bring a backend.
void check_folder(const fs::path& file) {
  std::error_code gone;
  const fs::path real = fs::weakly_canonical(file, gone);
  const fs::path candidates = fs::weakly_canonical(paths::candidates_dir(), gone);
  if (candidates.empty()) return;
  const auto apart = std::mismatch(candidates.begin(), candidates.end(), real.begin(), real.end());
  if (apart.first == candidates.end())
    fail(file.string(), "lies in the folder of candidates, and a backend is trusted code",
         "move it into a folder that only the operator writes");
}

const fk_backend& table_of(fk_backend_entry entry, const std::string& where) {
  fk_error error = backend_error_struct();
  const fk_hello hello{FK_END(fk_hello, error), FK_BACKEND_MINOR, "fk-host", FK_VERSION, &error};
  const fk_backend* const table = entry(&hello);
  if (!table)
    fail(where, error.text[0] ? error.text : "the backend refused this host without a reason");
  if (table->struct_size < FK_END(fk_backend, sense_look_or_null))
    fail(where, "its table has " + std::to_string(table->struct_size) + " bytes, at least " +
                    std::to_string(FK_END(fk_backend, sense_look_or_null)) + " are needed");
  if (table->minor > FK_BACKEND_MINOR)
    fail(where, "it needs minor " + std::to_string(table->minor) + " of fk_backend_v" +
                    std::to_string(FK_BACKEND_MAJOR) + ", this host has " +
                    std::to_string(FK_BACKEND_MINOR));
  return *table;
}

void load(Backend& out) {
  const std::string where = out.path.string();
  check_folder(out.path);
  read_note(out.path, out);
  const KeptModes modes;  // a static constructor may change the floating-point modes
  void* const library = ::dlopen(out.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const std::string why = dlerror(), its = where + ": ";
    fail(where, "cannot be loaded: " + (starts_with(why, its) ? why.substr(its.size()) : why));
  }
  const auto entry = reinterpret_cast<fk_backend_entry>(::dlsym(library, FK_BACKEND_SYMBOL));
  if (!entry) fail(where, std::string("it does not export ") + FK_BACKEND_SYMBOL);
  const fk_backend& table = table_of(entry, where);
  if (const std::string changed = modes.changed(); !changed.empty())
    fail(where, "when it was loaded, " + changed, "link without -ffast-math and -Ofast");
  check_members(table, where);
  if (out.kind != table.kind || out.version != table.version)
    fail(where, std::string("its table says `") + table.kind + " " + table.version +
                    "`, its note `" + out.kind + " " + out.version + "`");
  if (table.device_type == FK_CPU || table.device_type == FK_CUDA || table.device_type <= 0)
    fail(where, "its table has device_type " + std::to_string(table.device_type),
         "a type of DLPack that the host does not have itself");
  std::memcpy(&out.table, &table, std::min<size_t>(table.struct_size, sizeof out.table));
}

std::vector<fs::path> files_of(const fs::path& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) return {place};
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(place, error))
    if (entry.path().extension() == ".so") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<Backend> load_all() {
  std::vector<fs::path> places;
  for (const auto& plugins : paths::own_plugin_dirs())
    if (std::error_code none; fs::is_directory(plugins.parent_path() / "backends", none))
      places.push_back(plugins.parent_path() / "backends");
  for (const auto& part : split(environment("FK_BACKENDS"), ':'))
    if (!part.empty()) places.emplace_back(fs::absolute(part));
  std::vector<Backend> out;
  std::vector<fs::path> seen;
  for (const auto& place : places)
    for (const auto& file : files_of(place)) {
      std::error_code gone;
      const fs::path real = fs::weakly_canonical(file, gone);
      if (std::find(seen.begin(), seen.end(), real) != seen.end()) continue;
      seen.push_back(real);
      Backend backend = load_backend(file);
      for (const Backend& other : out)
        if (backend.usable() && other.usable() &&
            (other.kind == backend.kind || other.table.device_type == backend.table.device_type))
          backend.error = Error(file.string(), "another backend has this kind or device_type: " +
                                                   other.path.string())
                              .what();
      out.push_back(std::move(backend));
    }
  return out;
}

}  // namespace

Backend load_backend(const fs::path& file) {
  Backend out;
  out.path = file;
  try {
    load(out);
  } catch (const Error& e) {
    out.error = e.what();
    out.table = {};
  }
  return out;
}

const std::vector<Backend>& backends() {
  static const auto* const all =
      new std::vector<Backend>(load_all());  // lives until the process ends
  return *all;
}

const Backend* backend_of(const std::string& device) {
  const std::string kind = device.substr(0, device.find(':'));
  if (kind == "cpu" || kind == "cuda") return nullptr;
  for (const Backend& backend : backends())
    if (backend.usable() && backend.kind == kind) return &backend;
  return nullptr;
}

std::string backend_error(const std::string& kind) {
  for (const Backend& backend : backends())
    if (!backend.usable() && (backend.kind == kind || backend.path.stem() == kind))
      return backend.error;
  return "";
}

fk_error backend_error_struct() {
  fk_error error{};
  error.struct_size = FK_END(fk_error, text);
  return error;
}

std::string text_of(const fk_error& error, int32_t status) {
  const std::string text = text_in(error.text);
  return text.empty() ? "status " + std::to_string(status) + " without a reason" : text;
}

std::vector<std::string> names_of(const Backend& backend, std::string* why) {
  fk_error error = backend_error_struct();
  int32_t count = 0;
  const int32_t status = backend.table.count(&count, &error);
  std::vector<std::string> out;
  constexpr int32_t kMost = 1024;
  if (status == FK_OK)
    for (int32_t i = 0; i < std::min(count, kMost); ++i)
      out.push_back(backend.kind + ":" + std::to_string(i));
  if (out.empty() && why)
    *why = status == FK_OK && !error.text[0] ? "the backend finds none" : text_of(error, status);
  return out;
}

fk_device_info info_of(const Backend& backend, int32_t index) {
  fk_device_info info{};
  info.struct_size = FK_END(fk_device_info, driver);
  fk_error error = backend_error_struct();
  const int32_t status = backend.table.describe(index, &info, &error);
  const std::string name = backend.kind + ":" + std::to_string(index);
  if (status != FK_OK) fail(name, text_of(error, status));
  for (char* last : {std::end(info.name), std::end(info.identity), std::end(info.driver)})
    last[-1] = '\0';
  return info;
}

}  // namespace fk
