// SPDX-License-Identifier: Apache-2.0
// The provider `fla`: linear attention by the Triton kernels of flash-linear-attention, compiled
// ahead of time.
#include "fk/plugin.h"

FK_PLUGIN("fla", "0.6.0");
