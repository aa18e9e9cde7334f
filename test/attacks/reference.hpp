// SPDX-License-Identifier: Apache-2.0
// An op's class of the reference without its registration, for attacks that are right but for one
// thing; FK_REFERENCE is its source.
#pragma once
#include "fk/cpp/plugin.hpp"

#pragma push_macro("FK_OP")
#undef FK_OP
#define FK_OP(OP, CLASS) static_assert(true)
#include FK_REFERENCE
#pragma pop_macro("FK_OP")
