// SPDX-License-Identifier: Apache-2.0
// The plugin `reference`: every op as plain code with sums in double. It is the oracle on the CPU,
// whose results other plugins are compared with. Each op registers itself in its own file (FK_OP).
#include "fk/plugin.h"

FK_PLUGIN("reference", "0.1.0");
