// SPDX-License-Identifier: Apache-2.0
// The provider `cudnn`: attention and convolutions by cuDNN's graphs.
#include "fk/plugin.h"

FK_PLUGIN("cudnn", "0.1.0");
