// SPDX-License-Identifier: Apache-2.0
// The plugin: fast CPU implementations of the L1 ops. Ops register themselves from their own files.
#include "fk/plugin.h"

FK_PLUGIN("cpu", "0.1.0");
