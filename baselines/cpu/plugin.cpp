// SPDX-License-Identifier: Apache-2.0
// The plugin `cpu`: fast CPU implementations of ops of level 1. Each op registers itself in its own
// file (FK_OP).
#include "fk/plugin.h"

FK_PLUGIN("cpu", "0.1.0");
