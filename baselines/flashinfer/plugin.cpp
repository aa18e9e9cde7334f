// SPDX-License-Identifier: Apache-2.0
// The provider `flashinfer`: attention and small ops by the templates of FlashInfer's headers.
#include "fk/plugin.h"

FK_PLUGIN("flashinfer", "0.1.0");
