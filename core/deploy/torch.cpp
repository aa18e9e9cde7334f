// SPDX-License-Identifier: Apache-2.0
// Target torch: a wheel whose import defines torch.ops.fk.<op>.
#include "core/deploy/target.hpp"

namespace fk {
namespace {

PackageFiles make_torch(PackagedPlugin& plugin) {
  const auto [name, wheel] = wheel_of(plugin, python_package(plugin, {}), {"torch>=2.10"}, "");
  return {{name, wheel}, {"README.md", deploy_text(plugin, "torch.md", name)}};
}

FK_DEPLOY_TARGET(torch, "a wheel with ops of torch, torch.ops.fk.<op>", make_torch);

}  // namespace
}  // namespace fk
