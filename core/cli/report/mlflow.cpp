// SPDX-License-Identifier: Apache-2.0
#include "core/cli/report/mlflow.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cli/verb.hpp"
#include "core/report/document_values.hpp"
#include "core/store/store.hpp"
#include "core/worker/process.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

fs::path mlflow_folder() { return paths::data_dir() / "mlflow"; }

// Files of a plugin's folder that say what it is: binaries, sources, manifests.
bool is_kept(const fs::path& file) {
  static const std::vector<std::string> kinds = {".so",  ".c",  ".cc", ".cpp",  ".cu", ".cuh", ".h",
                                                 ".hpp", ".py", ".rs", ".yaml", ".md", ".txt"};
  constexpr uintmax_t kBytesMax = uintmax_t{256} << 20;
  std::error_code none;
  return contains(kinds, file.extension().string()) && fs::is_regular_file(file, none) &&
         fs::file_size(file, none) <= kBytesMax;
}

void keep_files(const MlflowFile& from, const fs::path& to) {
  std::error_code none;
  if (from.path.empty() || !fs::exists(from.path, none)) return;
  fs::create_directories(to);
  if (fs::is_directory(from.path, none)) {
    for (const auto& entry : fs::recursive_directory_iterator(from.path, none)) {
      if (!is_kept(entry.path())) continue;
      const fs::path target = to / entry.path().lexically_relative(from.path);
      fs::create_directories(target.parent_path());
      fs::copy_file(entry.path(), target, fs::copy_options::overwrite_existing);
    }
    return;
  }
  fs::copy_file(from.path, to / from.path.filename(), fs::copy_options::overwrite_existing);
  if (from.owner.empty()) return;
  // The folder of a candidate has the sources of its plugin.
  const fs::path folder = from.path.parent_path();
  if (!fs::exists(folder / "candidate.yaml", none) && folder.filename() != from.path.stem()) return;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (is_kept(entry.path()) && entry.path().extension() != ".so")
      fs::copy_file(entry.path(), to / entry.path().filename(),
                    fs::copy_options::overwrite_existing);
}

// Plugins and receipts that a document of `bench` or `run` names.
void add_own_files(const Json& document, const fs::path& folder, std::vector<MlflowFile>& files) {
  for (const char* key : {"verdicts", "reports"})
    for (const Json& one : list_at(document, key)) add_own_files(one, folder, files);
  for (const Json& side : list_at(document, "candidates"))
    files.push_back({text_at(side, "name"), text_at(side, "path")});
  if (kind_of_document(document) != "fk-host.verdict") return;
  const Json& candidate = at_key(document, "candidate");
  const std::string name = text_at(candidate, "name"), id = text_at(document, "receipt");
  files.push_back({name, text_at(candidate, "path")});
  if (id.empty()) return;
  try {
    const fs::path receipt = folder / "receipts" / (id + ".json");
    write_file_atomic(receipt, Store::open_default().receipt(id).dump(1));
    files.push_back({name, receipt});
  } catch (const Error&) {
    // It was judged on another machine, or is no longer stored.
  }
}

struct Sent {
  bool all = false;
  std::string words;
};

// Sends the kept results of these folders, or of all.
Sent send_kept(const std::vector<std::string>& arguments) {
  fs::path script;
  for (const char* place : {"plugin_api/adapters", "adapters"}) {  // the tree's, the installed
    const fs::path file = paths::home() / place / "mlflow/send.py";
    if (script.empty() && fs::exists(file)) script = file;
  }
  if (script.empty()) return {false, "there is no mlflow/send.py in " + paths::home().string()};
  std::vector<std::string> words = {"python3", script.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return {false, "/dev/null cannot be opened"};
  constexpr double kPatience = 1800;
  Sent out;
  try {
    ChildProcess process("/usr/bin/env", words, nothing, nullptr, Environment::all);
    const auto status = process.wait(kPatience);
    process.read_log();
    out = {status && *status == 0, std::string(trim(process.log()))};
    if (!status) process.kill();
  } catch (const Error& error) {
    out.words = error.what();
  }
  ::close(nothing);
  return out;
}

}  // namespace

void check_mlflow_uri(const std::string& uri) {
  if (!starts_with(uri, "http://") && !starts_with(uri, "https://"))
    fail("--mlflow", "`" + excerpt(uri) + "` is no address of a server",
         "http://127.0.0.1:5000, where `mlflow server` listens");
}

void log_to_mlflow(const Json& document, const std::string& page, const std::string& uri,
                   std::vector<MlflowFile> files) {
  std::string name = now_text();
  std::erase(name, ':');
  const fs::path folder = mlflow_folder() / (name + "." + std::to_string(::getpid()));
  add_own_files(document, folder, files);
  Json index = Json::array();
  try {
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string part = "files/" + std::to_string(i);
      keep_files(files[i], folder / part);
      index.push_back({{"owner", files[i].owner}, {"folder", part}});
    }
  } catch (const fs::filesystem_error& error) {
    fail(folder.string(), "results cannot be kept: " + error.code().message());
  }
  const auto dump = [](const Json& json) {
    return json.dump(1, ' ', false, Json::error_handler_t::replace);
  };
  write_file_atomic(folder / "document.json", dump(document));
  write_file_atomic(folder / "report.html", page);
  // The last file: a folder without it is not complete, and is not sent.
  write_file_atomic(folder / "send.json", dump({{"uri", uri}, {"files", index}}));
  const Sent sent = send_kept({folder.string()});
  if (sent.all)
    std::fprintf(stderr, "fk-host: MLflow: %s\n", excerpt(sent.words, 2000).c_str());
  else
    std::fprintf(
        stderr,
        "fk-host: MLflow: not sent: %s\nfk-host: the result is kept in %s; `fk-host mlflow` "
        "sends it later\n",
        excerpt(sent.words, 1000).c_str(), folder.c_str());
}

namespace {

std::function<int()> add_mlflow(const Options& app) {
  auto uri = std::make_shared<std::string>();
  app.add_option("--uri", *uri, "of the server; default: the one that each result was meant for");
  return [uri] {
    if (!uri->empty()) check_mlflow_uri(*uri);
    std::vector<std::string> arguments = {"--all", mlflow_folder().string()};
    if (!uri->empty()) arguments.insert(arguments.end(), {"--uri", *uri});
    const Sent sent = send_kept(arguments);
    std::fprintf(sent.all ? stdout : stderr, "%s\n", sent.words.c_str());
    return sent.all ? kExitOk : kExitEnvironment;
  };
}

FK_VERB(mlflow, "send the results that an MLflow server did not take", add_mlflow);

}  // namespace
}  // namespace fk
