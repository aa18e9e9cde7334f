// SPDX-License-Identifier: Apache-2.0
#include "core/worker/remote/messages.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr size_t kTextMax = 8192, kLogMax = size_t{80} << 10;

std::string clean_text(const Json& text, size_t bytes_max = kTextMax) {
  return printable(text.get<std::string>().substr(0, bytes_max), "\n\t");
}

// Empty if the file is unreadable; the worker then reports it.
std::string file_hash(const std::filesystem::path& path) {
  try {
    return sha256_file(path);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

Json to_json(const Runner::Options& o) {
  return {{"name", o.name},
          {"private_bytes_max", o.private_bytes_max},
          {"patience_s", o.patience_s},
          {"open_patience_s", o.open_patience_s},
          {"payload_bytes_max", o.payload_bytes_max},
          {"sends_fds", o.sends_fds},
          {"sandbox", o.sandbox},
          {"device", o.device},
          {"read", o.read},
          {"early_user", o.early_user}};
}

Runner::Options runner_options_from(const Json& json) {
  Runner::Options o;
  o.name = json.at("name");
  o.private_bytes_max = json.at("private_bytes_max");
  o.patience_s = json.at("patience_s");
  o.open_patience_s = json.at("open_patience_s");
  o.payload_bytes_max = json.at("payload_bytes_max");
  o.sends_fds = json.at("sends_fds");
  o.sandbox = json.at("sandbox");
  o.device = json.at("device");
  o.read = json.at("read").get<std::vector<std::string>>();
  o.early_user = json.at("early_user");
  return o;
}

Json to_json(const RunnerFailure& f) {
  return {{"kind", f.kind}, {"where", f.where}, {"text", f.text}, {"log", f.log}, {"next", f.next}};
}

std::string clean_log(const Json& text) { return clean_text(text, kLogMax); }

RunnerFailure runner_failure_from(const Json& json) {
  static const std::vector<std::string> kKinds = {
      "refused", "op_failed", "threw",       "crashed",  "exited", "hang",   "memory",
      "busy",    "forbidden", "environment", "protocol", "lost",   "stopped"};
  RunnerFailure out{clean_text(json.at("kind")), clean_text(json.at("where")),
                    clean_text(json.at("text")), clean_log(json.at("log")),
                    clean_text(json.at("next"))};
  if (std::find(kKinds.begin(), kKinds.end(), out.kind) == kKinds.end()) out.kind = "protocol";
  return out;
}

Json to_json(const std::vector<PluginFile>& plugins) {
  Json all = Json::array();
  for (const PluginFile& p : plugins)
    all.push_back({{"path", std::filesystem::absolute(p.path).string()},
                   {"candidate", p.trust == Trust::candidate},
                   {"sha256", file_hash(p.path)}});
  return all;
}

std::vector<PluginFile> plugin_files_from(const Json& json) {
  std::vector<PluginFile> files;
  for (const Json& entry : json) {
    PluginFile file{entry.at("path").get<std::string>(),
                    entry.at("candidate").get<bool>() ? Trust::candidate : Trust::baseline};
    const auto wanted = entry.at("sha256").get<std::string>();
    const std::string here = file_hash(file.path);
    if (here.empty() && !wanted.empty())
      fail(file.path.string(), "is not on this machine", "it has to be the same on all machines");
    if (here != wanted)
      fail(file.path.string(), "is another file on this machine than on that of rank 0",
           "it has to be the same on all machines");
    files.push_back(std::move(file));
  }
  return files;
}

Json to_json(const RankRunner::Loaded& loaded) {
  Json refused = Json::array();
  for (const auto& r : loaded.refused) refused.push_back({r.plugin, r.op, r.why});
  return {{"errors", loaded.errors}, {"refused", std::move(refused)}};
}

RankRunner::Loaded loaded_from(const Json& json) {
  RankRunner::Loaded out;
  for (const Json& text : json.at("errors")) out.errors.push_back(clean_text(text));
  for (const Json& r : json.at("refused"))
    out.refused.push_back({clean_text(r.at(0)), clean_text(r.at(1)), clean_text(r.at(2))});
  return out;
}

}  // namespace fk
