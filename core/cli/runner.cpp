// SPDX-License-Identifier: Apache-2.0
// The hidden verb of a worker process; only the controller starts it.
#include "core/cli/verb.hpp"

#include <memory>

#include "core/worker/remote/link.hpp"
#include "core/worker/serve.hpp"

namespace fk {
namespace {

std::function<int()> add_runner(const Options& app) {
  auto parent = std::make_shared<int>(0);
  app.add_option("parent", *parent).required();
  return [parent]() -> int {
    take_from_environment(kLaunchKey);  // from a shell that exports it; hidden from plugins
    serve_runner(*parent);
  };
}

FK_VERB(__runner, "", add_runner);

}  // namespace
}  // namespace fk
