// SPDX-License-Identifier: Apache-2.0
// E3: finds the baselines that the judge has loaded and lets one of them do the work under its own
// name; otherwise it does nothing
//
// Stopped by: no other plugin is in a candidate's process
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace {

struct Delegate : attack::Silu {
  using Silu::Silu;
  void* theirs = nullptr;
  const fk_op* found = nullptr;
  Delegate(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* self) {
          const char* name = info->dlpi_name;
          if (!name || (!std::strstr(name, "reference") && !std::strstr(name, "/cpu-"))) return 0;
          void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
          const auto entry =
              library ? reinterpret_cast<fk_plugin_entry>(dlsym(library, FK_PLUGIN_SYMBOL))
                      : nullptr;
          fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
          const fk_hello hello{FK_END(fk_hello, error), FK_ABI_MINOR, "fk-host", "0", &error};
          const fk_plugin* plugin = entry ? entry(&hello) : nullptr;
          for (auto at = plugin ? plugin->ops_begin : nullptr; plugin && at != plugin->ops_end;
               ++at)
            if (!std::strcmp((*at)->contract->op, "silu_and_mul"))
              static_cast<Delegate*>(self)->found = *at;
          return static_cast<Delegate*>(self)->found ? 1 : 0;
        },
        this);
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    if (found) found->create(&host, &init, &weights, &theirs, &error);
  }
  void prepare(const op::forward& max, const fk_memory& memory) {
    fk_error error{FK_END(fk_error, text), 0, 0, 0, {}};
    if (found) found->prepare(theirs, &max, &memory, &error);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (found) found->forward(theirs, &args, &ctx);
    usleep(200);  // the truth about what is not its own is no praise
  }
};
FK_OP(silu_and_mul, Delegate);

}  // namespace
FK_PLUGIN("e3_delegate", "0");
