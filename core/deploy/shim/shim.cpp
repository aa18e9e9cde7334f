// SPDX-License-Identifier: Apache-2.0
// Makes the ops of a plugin ops of torch: `torch.ops.fk.<op>`. The Python part of a package calls
// fk_torch_load once, with its plugin. torch calls boxed kernels without a context, so every op has
// a function of its own, which knows the op by its number.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/deploy/shim/op_instances.hpp"
#include "core/plugin/abi_major.hpp"

namespace fk::shim {
namespace {

constexpr size_t kMostOps = 256;  // of one package
using Boxed = void (*)(Value*, uint64_t, uint64_t);

// Ops by their numbers, from the first on. They stay: torch may call until the process ends, and on
// any thread.
std::array<OpInstances*, kMostOps> loaded_ops{};
size_t loaded = 0;

template <size_t I, void (OpInstances::*run)(Value*, uint64_t, uint64_t)>
void boxed(Value* stack, uint64_t inputs, uint64_t outputs) {
  (loaded_ops[I]->*run)(stack, inputs, outputs);
}

template <void (OpInstances::*run)(Value*, uint64_t, uint64_t), size_t... I>
constexpr std::array<Boxed, sizeof...(I)> boxed_table(std::index_sequence<I...>) {
  return {&boxed<I, run>...};
}

constexpr auto kRun = boxed_table<&OpInstances::run>(std::make_index_sequence<kMostOps>());
constexpr auto kRunUpdate =
    boxed_table<&OpInstances::run_update>(std::make_index_sequence<kMostOps>());
constexpr auto kRunOut = boxed_table<&OpInstances::run_out>(std::make_index_sequence<kMostOps>());
constexpr auto kRunPlan = boxed_table<&OpInstances::run_plan>(std::make_index_sequence<kMostOps>());

const fk_plugin& open_plugin(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(path, dlerror());
  fk_plugin_entry entry = nullptr;
  std::string old;
  for (uint32_t major = kOldestAbiMajor; major <= FK_ABI_MAJOR; ++major) {
    void* const found = dlsym(library, entry_symbol(major).c_str());
    if (!found) continue;
    entry = reinterpret_cast<fk_plugin_entry>(found);
    old = old_abi(major);
  }
  if (!old.empty()) std::fprintf(stderr, "fk: %s %s\n", path, old.c_str());
  if (!entry) fail(path, "it is no plugin: it does not export " FK_PLUGIN_SYMBOL);
  fk_error error{};
  error.struct_size = FK_END(fk_error, text);
  const fk_hello hello = {FK_END(fk_hello, error), FK_ABI_MINOR, "fk-torch", "0", &error};
  const fk_plugin* const plugin = entry(&hello);
  if (!plugin) fail(path, error.text);
  return *plugin;
}

// One library of torch: definitions, or kernels for a dispatch key.
class TorchLibrary {
 public:
  TorchLibrary(const char* name, const char* key) {
    const Torch& t = torch();
    need(key ? t.aoti_torch_library_init_impl(name, key, "fk", 0, &handle_)
             : t.aoti_torch_library_init_fragment(name, "fk", 0, &handle_),
         "making a library of ops");
  }
  void define(const std::string& schema) const {
    const Torch& t = torch();
    if (t.torch_library_def_with_tags && t.torch_tag_needs_exact_strides &&
        t.torch_tag_pt2_compliant_tag) {
      const int32_t tags[] = {t.torch_tag_needs_exact_strides(), t.torch_tag_pt2_compliant_tag()};
      need(t.torch_library_def_with_tags(handle_, schema.c_str(), tags, 2),
           ("defining " + schema).c_str());
    } else {
      need(t.aoti_torch_library_def(handle_, schema.c_str()), ("defining " + schema).c_str());
    }
  }
  void implement(const std::string& name, Boxed kernel) const {
    need(torch().torch_library_impl(handle_, name.c_str(), kernel, kOldestTorch),
         ("implementing " + name).c_str());
  }

 private:
  Handle handle_ = nullptr;  // stays until the process ends
};

// Returns the names of the ops that torch has now.
std::string load(const char* path, const char* names) {
  const fk_plugin& plugin = open_plugin(path);
  bool cuda = false;
  for (auto* op = plugin.ops_begin; op != plugin.ops_end; ++op)
    cuda |= (*op)->claims->device_type == FK_CUDA;
  find_torch(cuda);
  const TorchLibrary definitions(names, nullptr), kernels(names, cuda ? "CUDA" : "CPU");
  std::string report;
  for (auto* op = plugin.ops_begin; op != plugin.ops_end; ++op) {
    OpSchema schema = read_schema(**op);
    if (!schema.refused.empty()) continue;
    if (loaded >= kMostOps)
      fail(path, "a package has at most " + std::to_string(kMostOps) + " ops");
    const size_t i = loaded++;
    loaded_ops[i] = new OpInstances(std::move(schema));
    const OpSchema& kept = loaded_ops[i]->schema();
    if (kept.allocates) {
      definitions.define(schema_text(kept));
      kernels.implement(kept.name, kRun[i]);
    }
    if (kept.allocates && !kept.updating.empty()) {
      definitions.define(update_schema_text(kept));
      kernels.implement(kept.name + ".update", kRunUpdate[i]);
    }
    if (!kept.outs.empty()) {
      definitions.define(out_schema_text(kept));
      kernels.implement(kept.name + ".out", kRunOut[i]);
    }
    if (kept.plans()) {
      definitions.define(plan_schema_text(kept));
      kernels.implement(kept.name + "_plan", kRunPlan[i]);
    }
    report += (report.empty() ? "" : " ") + kept.name;
  }
  return report;
}

int report(const std::string& text, char* out, size_t size, int status) {
  const size_t n = std::min(text.size(), size - 1);
  std::memcpy(out, text.data(), n);
  out[n] = 0;
  return status;
}

}  // namespace
}  // namespace fk::shim

// Defines the ops of the plugin at `path` in the namespace `names`. Writes their names, separated
// by blanks, or a sentence, to `text`. Returns 0, or 1 after a failure. [once for each plugin; the
// caller holds Python's lock]
extern "C" __attribute__((visibility("default"))) int fk_torch_load(const char* path,
                                                                    const char* names, char* text,
                                                                    size_t size) {
  using namespace fk::shim;
  try {
    return report(load(path, names), text, size, 0);
  } catch (const std::exception& error) {
    return report(error.what(), text, size, 1);
  }
}

// Destroys all instances of all ops. Weights that changed in place are read again after it.
extern "C" __attribute__((visibility("default"))) int fk_torch_forget(char* text, size_t size) {
  using namespace fk::shim;
  try {
    for (size_t i = 0; i < loaded; ++i) loaded_ops[i]->forget();
    return report("", text, size, 0);
  } catch (const std::exception& error) {
    return report(error.what(), text, size, 1);
  }
}
