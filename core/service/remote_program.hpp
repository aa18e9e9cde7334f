// SPDX-License-Identifier: Apache-2.0
// The program which judges. A server and its workers have the same one, so the verdict of a job
// does not depend on its worker.
#pragma once
#include <string>

#include "core/base/fields.hpp"

namespace fk {

struct RemoteProgram {
  std::string version, build;  // build: own_build_id()
  std::string registry;        // SHA-256 of names and contents of ops, models and configurations
  std::string baselines;       // the same of the plugins which are raced
};
template <class Visitor>
void fields(Visitor& v, RemoteProgram& p) {
  v("version", p.version);
  v("build", p.build);
  v("registry", p.registry);
  v("baselines", p.baselines);
}

// Reads the whole registry and all plugins. Error when a file cannot be read.
RemoteProgram own_remote_program();

// The difference of a worker's program, as the end of a sentence; empty: there is none.
std::string difference_of(const RemoteProgram& worker, const RemoteProgram& server);

}  // namespace fk
