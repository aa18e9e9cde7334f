// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "../tvm_ffi/launcher.hpp"
