// SPDX-License-Identifier: Apache-2.0
// The provider `cuda`: this project's own kernels for sm_90, in bfloat16 and float16.
#include "fk/plugin.h"

FK_PLUGIN("cuda", "0.1.0");
