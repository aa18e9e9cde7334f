// SPDX-License-Identifier: Apache-2.0
// A conformance report: the signed result of `check`, which a vendor ships beside a plugin. It
// names the plugin's file by its SHA-256, and the contracts by their hashes.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/report/check_documents.hpp"

namespace fk {

struct ConformanceOp {
  std::string op, contract;
  uint32_t revision = 0;
};
template <class Visitor>
void fields(Visitor& v, ConformanceOp& o) {
  v("op", o.op, "the op");
  v("revision", o.revision, "the revision of the contract that the plugin was compiled with");
  v("contract", o.contract, "hashes of init, weights, forward and plan, as in the plugin's note");
}

struct ConformanceReport {
  static constexpr const char* kSchema = "fk-host.conformance/1";
  static constexpr const char* kTitle = "A signed report of `fk-host check PLUGIN --report FILE`";
  std::string plugin, version, sha256, build, abi, compiler;
  std::vector<ConformanceOp> ops;
  std::string host, made, verdict;
  CheckDocument check;
  std::string signed_by, unsigned_because, signature;
};
template <class Visitor>
void fields(Visitor& v, ConformanceReport& r) {
  v("plugin", r.plugin, "the name of the plugin");
  v("version", r.version, "its version");
  v("sha256", r.sha256, "the SHA-256 of its file");
  v("build", r.build, "the hash of its sources; empty: the build did not name one");
  v("abi", r.abi, "the ABI's major and minor");
  v("compiler", r.compiler, "the compiler");
  v("ops", r.ops, "its checked ops");
  v("host", r.host, "the version of fk-host");
  v("made", r.made, "the time of the report in UTC");
  v("verdict", r.verdict, "PASS, or FAIL or UNJUDGED with the reason");
  v("check", r.check, "the whole check");
  v("signed_by", r.signed_by, "the public key; empty: not signed");
  v("unsigned", r.unsigned_because, "why it is not signed; empty: it is");
  v("signature", r.signature, "Ed25519 over the canonical text of all other fields");
}

// Signs with this host's key, and writes. The report says why it could not be signed.
void write_conformance(const std::filesystem::path& file, const FoundPlugin& found,
                       const CheckDocument& check, const std::string& verdict);

// Compares a report with the plugin's file. Error with the fault: no report, a changed report, or a
// report about another file. Returns lines for a reader.
std::string verified_conformance(const std::filesystem::path& file, const FoundPlugin& found);

}  // namespace fk
