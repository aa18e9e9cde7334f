// SPDX-License-Identifier: Apache-2.0
// The provider `cuda_reference` compiled for the CPU.
#include "fk/plugin.h"

FK_PLUGIN("cuda_reference_emulated", "0.1.0");
