// SPDX-License-Identifier: Apache-2.0
// The provider `cublas`: matrix products by cuBLASLt. The products of experts are not here: the grouped products of
// CUDA 13.0 (cublasGemmGroupedBatchedEx) take the number of rows of each expert from the host, and only the device
// knows it.
#include "fk/plugin.h"

FK_PLUGIN("cublas", "0.1.0");
