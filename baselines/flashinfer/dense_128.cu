// SPDX-License-Identifier: Apache-2.0
// Instances of dense.cuh. Together they take little longer to compile than one alone, of which nearly all is headers.
#include "dense.cuh"

template void fkf::dense<__nv_bfloat16, 128, true, false>(const Attention&, const Tiles&);
template void fkf::dense<__nv_bfloat16, 128, false, false>(const Attention&, const Tiles&);
template void fkf::dense<__nv_bfloat16, 128, true, true>(const Attention&, const Tiles&);
template void fkf::dense<__half, 128, true, false>(const Attention&, const Tiles&);
template void fkf::dense<__half, 128, false, false>(const Attention&, const Tiles&);
