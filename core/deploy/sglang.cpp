// SPDX-License-Identifier: Apache-2.0
// Target sglang: the wheel of target torch, with an entry point that SGLang calls in each process.
#include "core/base/error.hpp"
#include "core/deploy/target.hpp"

namespace fk {
namespace {

constexpr const char* kSglang = "0.5.23";  // VERSION in plugin_api/adapters/deploy/sglang.py

PackageFiles make_sglang(PackagedPlugin& plugin) {
  if (plugin.device == "cpu")
    fail(plugin.plugin, "its kernels are for the CPU, and SGLang calls them on a GPU alone",
         "--for torch");
  keep_known_ops(plugin, {"rms_norm", "silu_and_mul", "rotary_embedding", "linear"},
                 std::string("SGLang ") + kSglang);
  const auto [name, wheel] =
      wheel_of(plugin, python_package(plugin, {"sglang.py"}), {std::string("sglang==") + kSglang},
               "[sglang.srt.plugins]\n" + plugin.name + " = " + plugin.name + ".sglang:register\n");
  return {{name, wheel}, {"README.md", deploy_text(plugin, "sglang.md", name)}};
}

FK_DEPLOY_TARGET(sglang, "a wheel for SGLang 0.5.23", make_sglang);

}  // namespace
}  // namespace fk
