// SPDX-License-Identifier: Apache-2.0
// Instances of split.cuh for trees of drafted tokens.
#include "split.cuh"

template void fkf::split<__nv_bfloat16, 128, 16, fkf::Mask::tree>(const Attention&, const Blocks&);
template void fkf::split<__nv_bfloat16, 128, 64, fkf::Mask::tree>(const Attention&, const Blocks&);
template void fkf::split<__nv_bfloat16, 64, 16, fkf::Mask::tree>(const Attention&, const Blocks&);
template void fkf::split<__nv_bfloat16, 64, 64, fkf::Mask::tree>(const Attention&, const Blocks&);
template void fkf::split<__half, 128, 16, fkf::Mask::tree>(const Attention&, const Blocks&);
template void fkf::split<__half, 128, 64, fkf::Mask::tree>(const Attention&, const Blocks&);
template void fkf::split<__half, 64, 16, fkf::Mask::tree>(const Attention&, const Blocks&);
template void fkf::split<__half, 64, 64, fkf::Mask::tree>(const Attention&, const Blocks&);
