// SPDX-License-Identifier: Apache-2.0
// E3: reads other candidates' files: it opens the first plugin below candidates/ and build/plugins
// and uses it
//
// Stopped by: files outside its own folder cannot be opened
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

#include <dlfcn.h>
#include <unistd.h>
#include <string>

namespace {

struct Files : attack::Silu {
  using Silu::Silu;
  const fk_op* found = nullptr;
  void* theirs = nullptr;
  Files(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    char self[4096] = {};
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return;
    const std::string build = std::string(self).substr(0, std::string(self).rfind('/'));
    for (const std::string& path : {build + "/plugins/cpu.so", build + "/plugins/reference.so"}) {
      void* library = found ? nullptr : dlopen(path.c_str(), RTLD_NOW);
      const auto entry =
          library ? reinterpret_cast<fk_plugin_entry>(dlsym(library, FK_PLUGIN_SYMBOL)) : nullptr;
      fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
      const fk_hello hello{FK_END(fk_hello, error), FK_ABI_MINOR, "fk-host", "0", &error};
      const fk_plugin* plugin = entry ? entry(&hello) : nullptr;
      for (auto at = plugin ? plugin->ops_begin : nullptr; plugin && at != plugin->ops_end; ++at)
        if (!std::strcmp((*at)->contract->op, "silu_and_mul")) found = *at;
    }
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    if (found) found->create(&host, &init, &weights, &theirs, &error);
  }
  void prepare(const op::forward& max, const fk_memory& memory) {
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    if (found) found->prepare(theirs, &max, &memory, &error);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (found) found->forward(theirs, &args, &ctx);
  }
};
FK_OP(silu_and_mul, Files);

}  // namespace
FK_PLUGIN("e3_files", "0");
