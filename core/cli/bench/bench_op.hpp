// SPDX-License-Identifier: Apache-2.0
// bench of ops: all providers of an op, their values and times.
#pragma once
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/cli/bench/bench_arguments.hpp"
#include "core/contract/contract.hpp"

namespace fk {

// Races the providers of the `named` ops, or of all ops of level 1, with a process per op. Prints,
// and returns the exit code.
int bench_ops(const BenchArguments& a, const std::vector<std::string>& named,
              const Catalog& catalog, const PluginSet& plugin_set);

}  // namespace fk
