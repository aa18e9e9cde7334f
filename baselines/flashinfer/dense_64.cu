// SPDX-License-Identifier: Apache-2.0
// Instances of dense.cuh. They take little longer to compile together than one alone, as headers
// take nearly all the time.
#include "dense.cuh"

template void fkf::dense<__nv_bfloat16, 64, true, false>(const Attention&, const Tiles&);
template void fkf::dense<__nv_bfloat16, 64, false, false>(const Attention&, const Tiles&);
template void fkf::dense<__half, 64, true, false>(const Attention&, const Tiles&);
template void fkf::dense<__half, 64, false, false>(const Attention&, const Tiles&);
