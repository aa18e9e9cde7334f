// SPDX-License-Identifier: Apache-2.0
// The provider `cublas`: matrix products by cuBLASLt.
#include "fk/plugin.h"

FK_PLUGIN("cublas", "0.1.0");
