// SPDX-License-Identifier: Apache-2.0
// A CUDA provider compiled for the CPU.
#include "fk/plugin.h"

FK_PLUGIN(PROVIDER, "0.1.0");
