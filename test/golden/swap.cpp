// SPDX-License-Identifier: Apache-2.0
// The note and table of a candidate that is made of the reference provider's ops of one level.
#include "fk/plugin.h"

FK_PLUGIN(FK_SWAP_NAME, "1");
