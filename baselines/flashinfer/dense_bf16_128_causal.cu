// SPDX-License-Identifier: Apache-2.0
// An instance of dense.cuh.
#include "dense.cuh"

template void fkf::dense<__nv_bfloat16, 128, true, false>(const Attention&, const Tiles&);
