// SPDX-License-Identifier: Apache-2.0
// The provider `reference`: every op as plain code with double accumulation, the oracle on the CPU.
// Ops register themselves from their own files.
#include "fk/plugin.h"

FK_PLUGIN("reference", "0.1.0");
