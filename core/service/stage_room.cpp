// SPDX-License-Identifier: Apache-2.0
#include "core/service/stage_room.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fields.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace fs = std::filesystem;

std::string log_text(const fs::path& file, size_t most) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};  // there is no output yet
  const auto size = static_cast<std::streamoff>(in.tellg());
  in.seekg(std::max<std::streamoff>(0, size - static_cast<std::streamoff>(most)));
  std::string text(most, '\0');
  in.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<size_t>(in.gcount()));
  return printable(text, "\n\t");
}

std::string StageEnd::status() const {
  if (!end.why.empty()) return {};
  const auto found = end.document.find("status");
  return found != end.document.end() && found->is_string() ? found->get<std::string>() : "";
}

StageRoom::StageRoom(fs::path folder, std::string device, const SourceLanguages& languages,
                     bool authors)
    : folder_(std::move(folder)),
      device_(std::move(device)),
      languages_(languages),
      authors_(authors) {}

StageEnd StageRoom::run(const StageTask& task, const fs::path& built,
                        const std::function<bool()>& stop) {
  StageEnd out;
  out.timed = task.stage == JobStage::time;
  JobRequest request;
  try {
    request = from_fields<JobRequest>(parse_json(task.request, "job"), "job", {});
  } catch (const Error& error) {
    out.end.why = error.what();
    return out;
  }
  // The request is right, so an error is one of files, folders and processes.
  const auto hosts = [&](const std::exception& error) {
    out.hosts = true, out.end.why = error.what();
  };
  try {
    EvalJob job;
    job.candidates = candidates();
    job.cache = folder_ / "cache";
    fs::create_directories(job.cache);
    // Values are all that the first stage asks for.
    if (!out.timed) out.timed = std::exchange(request.seconds, 0) == 0;
    const bool is_built = !built.empty() && fs::exists(built);
    if (is_built) fs::rename(built, job.candidates);
    job.words = unpack(request, languages_, job.candidates, authors_ ? task.client : "");
    const fs::path plugin = job.candidates / request.name / (request.name + ".so");
    if (is_built && fs::exists(plugin)) job.words[1] = plugin.string();
    out.end = run_job(job, device_, folder_ / "verdict.json", log(), stop);
  } catch (const Error& error) {
    hosts(error);
  } catch (const std::system_error& error) {
    hosts(error);
  } catch (const std::exception& error) {
    out.end.why = error.what();
  }
  return out;
}

void StageRoom::clear() {
  std::error_code none;
  for (const auto& part : {candidates(), log()}) fs::remove_all(part, none);
  // A process that was ended leaves copies of plugins.
  for (const auto& entry : fs::directory_iterator(folder_ / "cache", none))
    if (entry.path().filename() != "headers") fs::remove_all(entry.path(), none);
}

}  // namespace fk
