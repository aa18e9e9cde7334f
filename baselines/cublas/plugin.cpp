// SPDX-License-Identifier: Apache-2.0
// The provider `cublas`: matrix products by cuBLASLt. It has no products of experts. The grouped
// products of CUDA 13.0 (cublasGemmGroupedBatchedEx) take the rows of each expert from the host,
// but only the device knows them.
#include "fk/plugin.h"

FK_PLUGIN("cublas", "0.1.0");
