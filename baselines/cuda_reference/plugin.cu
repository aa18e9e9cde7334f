// SPDX-License-Identifier: Apache-2.0
// The provider `cuda_reference`: ops in plain CUDA with sums in double. It is the oracle on the GPU and the float32
// provider there, and is itself checked against `reference`.
#include "fk/plugin.h"

FK_PLUGIN("cuda_reference", "0.1.0");
