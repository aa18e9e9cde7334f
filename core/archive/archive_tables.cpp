// SPDX-License-Identifier: Apache-2.0
#if defined(FK_SQLITE)
#include "core/archive/archive_tables.hpp"

#include <iterator>

#include "core/archive/archive.hpp"
#include "core/base/error.hpp"

namespace fk {

namespace {

// Entry i makes version i + 1 of version i. Entries never change: files of their versions exist.
constexpr const char* kArchiveVersions[] = {
    R"(
CREATE TABLE sources(sha256 TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE programs(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  op TEXT NOT NULL, family TEXT NOT NULL, kind TEXT NOT NULL, language TEXT NOT NULL,
  name TEXT NOT NULL, author TEXT NOT NULL, created TEXT NOT NULL, normal TEXT NOT NULL,
  binary TEXT NOT NULL, same_as TEXT NOT NULL, features TEXT NOT NULL, verdict INTEGER);
CREATE INDEX programs_by_normal ON programs(op, kind, normal);
CREATE INDEX programs_by_binary ON programs(op, kind, binary);
CREATE TABLE files(program TEXT NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL,
  sha256 TEXT NOT NULL, PRIMARY KEY(program, place)) WITHOUT ROWID;
CREATE TABLE parents(program TEXT NOT NULL, place INTEGER NOT NULL, parent TEXT NOT NULL,
  PRIMARY KEY(program, place)) WITHOUT ROWID;
CREATE INDEX parents_by_parent ON parents(parent);
CREATE TABLE verdicts(number INTEGER PRIMARY KEY AUTOINCREMENT, program TEXT NOT NULL,
  time TEXT NOT NULL, receipt TEXT NOT NULL, status TEXT NOT NULL, speed REAL, low REAL, high REAL,
  document TEXT NOT NULL);
CREATE INDEX verdicts_by_program ON verdicts(program, number);
)",
    // The author's words, for memory and islands.
    R"(
ALTER TABLE programs ADD COLUMN strategy TEXT NOT NULL DEFAULT '';
ALTER TABLE programs ADD COLUMN stage TEXT NOT NULL DEFAULT '';
ALTER TABLE programs ADD COLUMN predicted REAL;
ALTER TABLE programs ADD COLUMN tag TEXT NOT NULL DEFAULT '';
ALTER TABLE programs ADD COLUMN license TEXT NOT NULL DEFAULT '';
ALTER TABLE programs ADD COLUMN island INTEGER NOT NULL DEFAULT 0;
CREATE INDEX programs_by_strategy ON programs(family, kind, strategy);
)"};
static_assert(std::size(kArchiveVersions) == Archive::kVersion);

int64_t archive_version(const Database& database) {
  Statement pragma(database, "PRAGMA user_version");
  return pragma.step() ? pragma.number(0) : 0;
}

}  // namespace

void prepare_archive(Database& database, const std::string& where) {
  database.run("PRAGMA synchronous=NORMAL");
  if (archive_version(database) == Archive::kVersion) return;
  // The transaction is a writer's: processes that open the same file wait here.
  Transaction change(database);
  const int64_t found = archive_version(database);
  if (found > Archive::kVersion)
    fail(where,
         "is an archive of version " + std::to_string(found) +
             ", made by a newer fk-host; this "
             "one reads up to " +
             std::to_string(Archive::kVersion),
         "--archive names another file");
  if (found == 0 && Statement(database, "SELECT name FROM sqlite_master LIMIT 1").step())
    fail(where, "is a database of another program", "--archive names another file");
  for (int64_t i = found; i < Archive::kVersion; ++i) database.run(kArchiveVersions[i]);
  database.run("PRAGMA user_version=" + std::to_string(Archive::kVersion));
  change.commit();
}

}  // namespace fk
#endif
