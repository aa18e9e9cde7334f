// SPDX-License-Identifier: Apache-2.0
// What a plugin's entry says to hosts of other days. The major is in the entry's name, so another
// one finds no entry; here is what is left: other minors, and a hello of another length.
#pragma once
#include <functional>
#include <string>

#include "fk/plugin.h"

namespace fk {

// Empty, or what is wrong (rule `hello`) with its answers to
//   the same hello again: another table, which has to live as long as the process;
//   a younger host, of the next minor or of the last that there can be, whose structs are longer:
//   no table, or one of another minor than before;
//   an older host, where this one is not of the first minor: a table that needs a younger minor
//   than the host has, or none without a reason;
//   a hello that ends behind its minor: what it does not have may not be read. Behind it lies a
//   page without access, so that who reads on crashes, in the step that `step` was told of.
std::string handshake_fault(fk_plugin_entry entry,
                            const std::function<void(const std::string&)>& step);

}  // namespace fk
