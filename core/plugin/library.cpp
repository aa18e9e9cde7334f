// SPDX-License-Identifier: Apache-2.0
// Loading: copy under the content hash, dlopen through Boost.DLL, negotiate, match every op.
#include "core/plugin/library.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

// Otherwise Boost.DLL would need Boost.Filesystem, which is not header-only.
#define BOOST_DLL_USE_STD_FS
#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/float_modes.hpp"
#include "core/base/io.hpp"
#include "core/base/log.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/plugin/abi_major.hpp"
#include "core/plugin/device_code.hpp"
#include "core/device/device_type.hpp"

namespace fk {

namespace {

std::string null_member(const fk_op& op) {
  if (!op.contract || !op.contract->op) return "contract";
  if (!op.claims) return "claims";
  if (!op.supports) return "supports";
  if (!op.create) return "create";
  if (!op.prepare) return "prepare";
  if (!op.forward) return "forward";
  if (!op.destroy) return "destroy";
  return "";
}

// The fault of the claims, or an empty text.
std::string odd_claim(const fk_claims& claims) {
  const auto within = [](int32_t value, int32_t low, int32_t high) {
    return value >= low && value <= high;
  };
  if (claims.struct_size < FK_END(fk_claims, sm)) return "is too short";
  if (devices_of_type(claims.device_type).empty())
    return "has device_type " + std::to_string(claims.device_type);
  if (!within(claims.graph, FK_GRAPH_NEVER, FK_GRAPH_ALWAYS))
    return "has graph " + std::to_string(claims.graph);
  if (!within(claims.deterministic, 0, 1) || !within(claims.batch_invariant, 0, 1))
    return "has a flag that is neither 0 nor 1";
  if (!within(claims.accumulate, FK_ACCUMULATE_F32, FK_ACCUMULATE_REDUCED))
    return "has accumulate " + std::to_string(claims.accumulate);
  if (!within(claims.side_streams, 0, 1 << 10))
    return "has side_streams " + std::to_string(claims.side_streams);
  if (!within(claims.sm_count, 0, 1 << 10) || (claims.sm_count && !claims.sm))
    return "has an impossible list of compute capabilities";
  return "";
}

// Processes that did not load the file relied on its note, so the table must agree.
void check_note(const fk_plugin& table, const PluginNote& note, const std::string& where) {
  std::set<int32_t> claimed;
  std::set<std::string> once;
  if (note.name != table.name)
    fail(where, std::string("its table says `") + table.name + "`, its note `" + note.name + "`");
  for (const fk_op* const* at = table.ops_begin; at != table.ops_end; ++at) {
    const fk_op* op = *at;
    if (!op || op->struct_size < FK_END(fk_op, destroy)) fail(where, "an op table is too short");
    if (const std::string member = null_member(*op); !member.empty())
      fail(where, "an op table has a null `" + member + "`");
    if (op->reserved != 0)
      fail(where, std::string(op->contract->op) + ": `reserved` of its table is " +
                      std::to_string(op->reserved) + ", and must be 0");
    if (op->contract->struct_size < FK_END(fk_contract, plan))
      fail(where, std::string(op->contract->op) + ": the table of its contract is too short");
    if (!once.insert(op->contract->op).second)
      fail(where, std::string("its table has the op `") + op->contract->op + "` twice");
    if (const std::string odd = odd_claim(*op->claims); !odd.empty())
      fail(where, std::string(op->contract->op) + ": the table of its claims " + odd);
    const auto noted = [&](const OpNote& n) { return n.op == op->contract->op; };
    if (std::none_of(note.ops.begin(), note.ops.end(), noted))
      fail(where, std::string("its table has the op `") + op->contract->op +
                      "`, which its notes do not list");
    if (op->claims->device_type == FK_CUDA)
      claimed.insert(op->claims->sm, op->claims->sm + op->claims->sm_count);
  }
  const std::vector<int32_t> sm(claimed.begin(), claimed.end());
  if (sm.empty()) return;
  if (const std::string missing = missing_device_code(note.path, sm); !missing.empty())
    fail(where, "it " + missing);
}

const fk_plugin& negotiate(fk_plugin_entry entry, const std::string& where) {
  fk_error error{};
  error.struct_size = FK_END(fk_error, text);
  const fk_hello hello = hello_of(error);
  const fk_plugin* table = entry(&hello);
  if (!table)
    fail(where, error.text[0] ? error.text : "the plugin refused this host without saying why");
  if (table->struct_size < FK_END(fk_plugin, ops_end) || !table->name || !table->version) {
    fail(where, "the plugin's table is incomplete");
  }
  if (table->minor > FK_ABI_MINOR) {
    fail(where, "the plugin needs ABI minor " + std::to_string(table->minor) + ", this host has " +
                    std::to_string(FK_ABI_MINOR));
  }
  if (!table->ops_begin || table->ops_end <= table->ops_begin) fail(where, "the plugin has no ops");
  return *table;
}

}  // namespace

fk_hello hello_of(fk_error& error, uint32_t minor) {
  return {FK_END(fk_hello, error), minor, "fk-host", FK_VERSION, &error};
}

std::string stem_of_copy(const std::filesystem::path& file) {
  constexpr size_t kMost = 100;  // with the hash below the limit of any file system
  std::string stem = file.stem().string().substr(0, kMost);
  for (char& c : stem) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '.' && c != '-') c = '_';
  }
  return stem;
}

namespace {

// A candidate is its author's secret: only its owner may read the copy. If sealed workers run as
// another user, their group may read it too; no user belongs to that group. The calls fail without
// effect if another user owns the files, because this process did not make them.
void keep_private(const std::filesystem::path& dir, const std::filesystem::path& copy) {
  const bool others = ::geteuid() == 0;
  if (others) {
    (void)!::chown(dir.c_str(), static_cast<uid_t>(-1), group_of_runners());
    (void)!::chown(copy.c_str(), static_cast<uid_t>(-1), group_of_runners());
  }
  ::chmod(dir.c_str(), others ? 0710 : 0700);
  ::chmod(copy.c_str(), others ? 0640 : 0600);
}

}  // namespace

std::filesystem::path loadable_copy(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  if (!fs::exists(file)) fail(file.string(), "there is no such file");
  const auto dir = fs::absolute(paths::cache_dir() / "plugins").lexically_normal();
  if (fs::absolute(file).lexically_normal().parent_path() == dir) return file;
  // The file is read once: a writer must not place other contents under this name meanwhile. The
  // name decides the loaded code, so its hash must resist forgery.
  constexpr size_t kDigits = 32;
  const std::string contents = read_file(file, kHashedBytesMax);
  const auto copy = dir / (stem_of_copy(file) + "-" + sha256(contents).substr(0, kDigits) + ".so");
  if (!fs::exists(copy)) {
    const char* const hint = "FK_CACHE names the folder of copies, which must be writable";
    std::error_code why;
    fs::create_directories(dir, why);
    if (why) fail_host(dir.string(), "cannot be made: " + why.message(), hint);
    try {
      write_file_atomic(copy, contents, 0600);
    } catch (const Error& e) {
      fail_host(e.where(), e.what_text(), hint);
    }
  }
  keep_private(dir, copy);
  return copy;
}

void Plugins::load(const std::filesystem::path& file, Trust trust,
                   const std::filesystem::path& given) {
  const std::string where = file.string();
  const auto copy = given.empty() ? loadable_copy(file) : given;
  // A static constructor may change the floating-point modes: start-up code of -ffast-math does.
  const KeptModes modes;
  // Boost.DLL closes its handle. This first handle pins the library until the process ends, and its
  // error message for missing symbols is clearer.
  if (!dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    const std::string why = dlerror(), its = copy.string() + ": ";
    fail(where, "cannot be loaded: " + (starts_with(why, its) ? why.substr(its.size()) : why),
         why.find("cannot open shared object file") == why.npos
             ? ""
             : "LD_LIBRARY_PATH names the folders of libraries");
  }
  boost::dll::shared_library library;
  try {
    library.load(copy.string(),
                 boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  } catch (const std::exception& e) {
    fail(where, std::string("cannot be loaded: ") + e.what());
  }
  const PluginNote note = read_notes(copy);
  std::vector<uint32_t> entries;
  for (uint32_t major = kOldestAbiMajor; major <= FK_ABI_MAJOR; ++major)
    if (library.has(entry_symbol(major))) entries.push_back(major);
  if (const std::string wrong = wrong_entry(entries, note.abi_major); !wrong.empty())
    fail(where, "it " + wrong);
  const auto entry =
      reinterpret_cast<fk_plugin_entry>(&library.get<void()>(entry_symbol(note.abi_major)));
  const fk_plugin& table = negotiate(entry, where);
  if (const std::string changed = modes.changed(); !changed.empty())
    fail(where, "when it was loaded, " + changed,
         "link without -ffast-math and -Ofast; compiling with them is fine");
  check_note(table, note, where);
  // With two plugins of one name, a request by name could reach the wrong one.
  const auto [known, fresh] = entries_.try_emplace(table.name, entry);
  if (!fresh && known->second != entry)
    fail(where, std::string("another plugin is named `") + table.name + "`, too");
  names_.emplace_back(table.name);
  for (const fk_op* const* at = table.ops_begin; at != table.ops_end; ++at) {
    const fk_op& op = **at;
    const std::string name = op.contract->op;
    const Contract* contract = catalog_.find(name);
    if (!contract) {
      refused_.push_back(
          {table.name, name,
           "this host has no contract `" + name + "`; " + did_you_mean(name, catalog_.ops())});
      continue;
    }
    Match m = match(*contract, *op.contract);
    if (!m.ok) {
      refused_.push_back({table.name, name, m.why});
      continue;
    }
    providers_.push_back({table.name, trust, &op, contract, std::move(m), file});
    by_op_[name].push_back(&providers_.back());
  }
}

const std::vector<const Provider*>& Plugins::of(const std::string& op) const {
  static const std::vector<const Provider*> none;
  const auto it = by_op_.find(op);
  return it == by_op_.end() ? none : it->second;
}

std::vector<std::string> Plugins::plugin_names() const { return names_; }

}  // namespace fk
