// SPDX-License-Identifier: Apache-2.0
#include "core/cli/conformance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/store/signed.hpp"
#include "core/store/store.hpp"

namespace fk {

namespace fs = std::filesystem;

void write_conformance(const fs::path& file, const FoundPlugin& found, const CheckDocument& check,
                       const std::string& verdict) {
  const PluginNote& note = found.note;
  ConformanceReport report{.plugin = note.name,
                           .version = note.version,
                           .sha256 = sha256_file(found.path),
                           .build = note.build,
                           .abi = fmt::format("{}.{}", note.abi_major, note.abi_minor),
                           .compiler = note.compiler,
                           .ops = {},
                           .host = FK_VERSION,
                           .made = now_text(),
                           .verdict = verdict,
                           .check = check,
                           .signed_by = {},
                           .unsigned_because = {},
                           .signature = {}};
  for (const OpNote& op : note.ops) {
    if (std::ranges::none_of(check.rows, [&](const CheckRow& row) { return row.op == op.op; }))
      continue;
    report.ops.push_back({op.op,
                          fmt::format("{:016x} {:016x} {:016x} {:016x}", op.hash[0], op.hash[1],
                                      op.hash[2], op.hash[3]),
                          op.revision});
  }
  const Store keys = Store::open_default(/*database=*/false);
  Json out = with_signer(document(report), keys.signer(), keys.unsigned_because());
  sign(out, keys.signer());
  write_file_atomic(file, out.dump(2) + "\n");
}

std::string verified_conformance(const fs::path& file, const FoundPlugin& found) {
  const std::string name = file.string();
  const Json json = parse_json(read_file(file), name);
  if (!json.is_object() || text_at(json, "schema", name) != ConformanceReport::kSchema)
    fail(name, "is no report of a check",
         std::string("its schema should be ") + ConformanceReport::kSchema);
  std::string unverified;
  const std::string by = check_signature(json, name, unverified);
  const auto report = from_fields<ConformanceReport>(json, name, kForeignText);
  if (const std::string now = sha256_file(found.path); report.sha256 != now)
    fail(name, "is about another file of plugin `" + excerpt(report.plugin) + "`: its SHA-256 is " +
                   excerpt(report.sha256) + ", that of " + found.path.string() + " is " + now);
  std::vector<std::string> ops;
  for (const ConformanceOp& op : report.ops) ops.push_back(op.op);
  const bool some = report.check.quick || !report.check.cases.empty() ||
                    !report.check.families.empty() || !report.check.captured.empty();
  return fmt::format("{} {} with {}: {}\nchecked by fk-host {} on {}, {} cases{}, at {}\n{}\n",
                     report.plugin, report.version, join(ops, ", "), report.verdict, report.host,
                     report.check.device, report.check.size, some ? " (not all of them)" : "",
                     report.made,
                     by.empty()            ? "not signed: " + unverified
                     : !unverified.empty() ? "signed by " + by + ", not verified: " + unverified
                                           : "signed by " + by + ", and unchanged");
}

FK_DOCUMENT(conformance, ConformanceReport);

}  // namespace fk
