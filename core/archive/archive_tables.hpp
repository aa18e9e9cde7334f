// SPDX-License-Identifier: Apache-2.0
// The tables of the archive and their versions. Only in hosts built with SQLite.
#pragma once
#include <string>

#include "core/store/database.hpp"

namespace fk {

// Brings an open database to Archive::kVersion: makes the tables, or changes those of an older
// version, all or nothing. Error for a newer version and for a file with other tables.
void prepare_archive(Database& database, const std::string& where);

}  // namespace fk
