// SPDX-License-Identifier: Apache-2.0
// Contracts as they were promised (contracts.v0.txt: every slot's hashed text) against those in
// registry/. Slots may be appended, and ops added; anything else is an incompatible change, and
// this test names it. To accept appended slots and new ops: FK_UPDATE_CONTRACTS=1 ctest -R
// contracts_keep
#include <algorithm>
#include <cstdlib>

#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"
#include "test/catch.hpp"

namespace {

using Lines =
    std::map<std::string, std::vector<std::string>>;  // "rms_norm@1" -> hashed slots in order

Lines promised(const std::string& file) {
  Lines out;
  std::string op;
  for (const auto& line : fk::split(fk::read_file(file), '\n')) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ')
      out[op = line];
    else
      out[op].push_back(std::string(fk::trim(line)));
  }
  return out;
}

}  // namespace

TEST_CASE("contracts_keep_what_they_promised") {
  const std::string file = std::string(FK_ABI_DIR) + "/contracts.v0.txt";
  const fk::Catalog catalog({std::filesystem::path(FK_SOURCE_DIR) / "registry"});
  Lines now;
  for (const auto& op : catalog.ops()) {
    const fk::Contract& c = catalog.at(op);
    auto& lines = now[op + "@" + std::to_string(c.revision)];
    for (const auto& section : c.sections)
      for (const auto& slot : section) lines.push_back(slot.hashed());
  }
  const Lines old = std::filesystem::exists(file) ? promised(file) : Lines{};
  int changed = 0;
  for (const auto& [op, slots] : old) {
    const auto it = now.find(op);
    if (it == now.end()) {
      ++changed;
      FAIL_CHECK("the contract " << op << " is gone or has another revision");
      continue;
    }
    for (const auto& slot : slots) {
      // Order within a section is part of each hash; a slot that moved shows as missing at its
      // place.
      if (std::find(it->second.begin(), it->second.end(), slot) != it->second.end()) continue;
      ++changed;
      FAIL_CHECK("the contract " << op << " no longer has the slot `" << slot << "`");
    }
    std::vector<std::string> kept;
    for (const auto& slot : it->second)
      if (std::find(slots.begin(), slots.end(), slot) != slots.end()) kept.push_back(slot);
    if (kept.size() == slots.size() && kept != slots) {
      ++changed;
      FAIL_CHECK("the slots of " << op << " changed their order");
    }
  }
  if (std::getenv("FK_UPDATE_CONTRACTS") && changed == 0) {
    std::string text =
        "# The hashed text of every slot of every contract, by op and revision. See "
        "contracts_test.cpp.\n";
    for (const auto& [op, slots] : now) {
      text += op + "\n";
      for (const auto& slot : slots) text += "  " + slot + "\n";
    }
    fk::write_file_atomic(file, text);
  } else {
    for (const auto& [op, slots] : now) {
      INFO("new ops and slots are added with FK_UPDATE_CONTRACTS=1");
      INFO(op);
      CHECK((old.count(op) && old.at(op).size() == slots.size()));
    }
  }
}
