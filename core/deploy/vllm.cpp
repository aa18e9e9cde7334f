// SPDX-License-Identifier: Apache-2.0
// Target vllm: the wheel of target torch, with an entry point that vLLM calls in each process.
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/deploy/target.hpp"

namespace fk {
namespace {

constexpr const char* kVllm = "0.26.0";  // VERSION in plugin_api/adapters/deploy/vllm.py

PackageFiles make_vllm(PackagedPlugin& plugin) {
  keep_known_ops(plugin,
                 {"rms_norm", "silu_and_mul", "rotary_embedding", "linear", "paged_attention",
                  "kv_cache_append", "fused_moe"},
                 std::string("vLLM ") + kVllm);
  if (plugin.device == "cpu")
    refuse_ops(plugin, {"paged_attention", "kv_cache_append"},
               "vLLM's attention on a CPU has another cache layout");
  if (!contains(plugin.ops, "paged_attention"))
    refuse_ops(plugin, {"kv_cache_append"}, "vLLM calls it in an attention backend alone");
  const auto [name, wheel] =
      wheel_of(plugin, python_package(plugin, {"vllm.py", "vllm_attention.py"}),
               {std::string("vllm==") + kVllm},
               "[vllm.general_plugins]\n" + plugin.name + " = " + plugin.name + ".vllm:register\n");
  return {{name, wheel}, {"README.md", deploy_text(plugin, "vllm.md", name)}};
}

FK_DEPLOY_TARGET(vllm, "a wheel for vLLM 0.26.0", make_vllm);

}  // namespace
}  // namespace fk
