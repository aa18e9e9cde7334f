// SPDX-License-Identifier: Apache-2.0
// Tests a plugin's entry with hosts of other versions. The entry's name contains the major version,
// so another major finds no entry. Other minors and hellos of another length remain.
#pragma once
#include <functional>
#include <string>

#include "fk/plugin.h"

namespace fk {

// Empty, or the fault (rule `hello`) in the plugin's answers to these hellos:
//   the same hello again: a fault is another table, because the first must live as long as the
//   process;
//   a newer host, of the next or the last possible minor, with longer structs: a fault is no table,
//   or a table of another minor than before; an older host, if this one is not of the first minor:
//   a fault is a table that needs a newer minor, or no table and no reason; a hello that ends
//   behind its minor: its missing members must not be read. A page without access follows, so that
//   a read past the end crashes, in the step that `step` was told.
std::string handshake_fault(fk_plugin_entry entry,
                            const std::function<void(const std::string&)>& step);

}  // namespace fk
