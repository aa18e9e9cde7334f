// SPDX-License-Identifier: Apache-2.0
// The provider `mamba`: state space models by the Triton kernels of Mamba, as vLLM has them,
// compiled ahead of time.
#include "fk/plugin.h"

FK_PLUGIN("mamba", "0.26.0");
