// SPDX-License-Identifier: Apache-2.0
// bench --remote: the verdict of a server (docs/service.md) on a file of this machine.
#pragma once
#include "core/cli/bench/bench_arguments.hpp"

namespace fk {

// Submits the one candidate, waits, prints its verdict as `bench` does, and returns its exit code.
int bench_remote(const BenchArguments& arguments);

}  // namespace fk
