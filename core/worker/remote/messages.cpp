// SPDX-License-Identifier: Apache-2.0
// Reads and writes the parts of messages between machines that need more than a list of fields.
#include "core/worker/remote/messages.hpp"

#include <algorithm>
#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

// SHA-256 of a file; empty if it is unreadable, which the worker then reports.
std::string file_hash(const std::filesystem::path& path) {
  try {
    return sha256_file(path);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

RunnerFailure runner_failure_from(const Json& json) {
  static const std::vector<std::string> kKinds = {
      "refused", "op_failed", "threw",       "crashed",  "exited", "hang",   "memory",
      "busy",    "forbidden", "environment", "protocol", "lost",   "stopped"};
  auto out = from_fields<RunnerFailure>(json, "a failure", kForeignLog);
  for (std::string* text : {&out.kind, &out.where, &out.text, &out.next})
    text->resize(std::min(text->size(), kForeignMessage.text_bytes_max));
  if (!contains(kKinds, out.kind)) out.kind = "protocol";
  return out;
}

messages::LoadFiles messages::load_files(const std::vector<PluginFile>& plugins) {
  LoadFiles out;
  for (const PluginFile& p : plugins)
    out.plugins.push_back({std::filesystem::absolute(p.path).string(), file_hash(p.path), p.trust});
  return out;
}

std::vector<PluginFile> plugin_files_from(const messages::LoadFiles& message) {
  std::vector<PluginFile> files;
  for (const messages::FileOnAll& file : message.plugins) {
    const std::string here = file_hash(file.path);
    if (here.empty() && !file.sha256.empty())
      fail(file.path, "is not on this machine", "it has to be the same on all machines");
    if (here != file.sha256)
      fail(file.path, "is another file on this machine than on that of rank 0",
           "it has to be the same on all machines");
    files.push_back({file.path, file.trust});
  }
  return files;
}

}  // namespace fk
