// SPDX-License-Identifier: Apache-2.0
// Results for an MLflow server. A result is first kept in a folder of its own, in the data folder.
// plugin_api/adapters/mlflow/send.py sends it by MLflow's REST API and deletes the folder. So a
// server that is down loses nothing, and `fk-host mlflow` sends the kept results later.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace fk {

// A plugin, or a folder of plugins and sources, of one part of a document: a candidate's or a
// submission's name. Without an owner it is a file of all parts, such as a trace.
struct MlflowFile {
  std::string owner;
  std::filesystem::path path;
};

// Error for a URI that is no address of a server.
void check_mlflow_uri(const std::string& uri);

// Keeps the document with its page, its files and its receipts, and sends it. A failure to send is
// a line on standard error with the next command, and no Error: the result is kept. The plugins of
// verdicts and runs are added to `files`.
void log_to_mlflow(const Json& document, const std::string& page, const std::string& uri,
                   std::vector<MlflowFile> files);

}  // namespace fk
