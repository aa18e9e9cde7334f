// SPDX-License-Identifier: Apache-2.0
#include "core/endpoint/traffic_recorder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRequests = "requests.jsonl";
constexpr const char* kSizes = "model.json";
constexpr unsigned kOwner = 0600;

std::string quoted(const std::string& text) { return Json(text).dump(); }

// JSON is YAML too. A tiny model has its sizes once more, because the profile would change them.
std::string scenario_text(const Scenario& s) {
  const Limits& l = s.limits;
  const bool tiny = s.profile == "tiny" && s.weights.empty();
  std::string out = "scenario: traffic\nsummary: " + quoted("requests of clients of " + s.name) +
                    "\nmodel: " + s.arch + "\nconfig: " + kSizes +
                    "\nseed: " + std::to_string(s.seed) + "\n";
  if (!s.weights.empty()) out += "weights: " + quoted(fs::absolute(s.weights).string()) + "\n";
  out += "dtype: " + std::string(name(l.dtype)) +
         "\ncache_dtype: " + std::string(name(l.cache_dtype)) + "\n";
  const Json limits = {{"max_batch", l.max_batch},
                       {"max_context", l.max_context},
                       {"chunk_tokens", l.chunk_tokens},
                       {"page_size", l.page_size},
                       {"pages", l.pages},
                       {"overlap", l.parallel.overlap}};
  out += "limits: " + limits.dump() + "\n";
  if (!s.providers.empty()) out += "providers: " + Json(s.providers).dump() + "\n";
  const Json profile = tiny ? Json{{"change", s.config.json()}} : Json::object();
  return out + "workloads: traffic\nrun: [traffic]\nprofiles: " +
         Json{{tiny ? "tiny" : "full", profile}}.dump() + "\n";
}

}  // namespace

TrafficRecorder::TrafficRecorder(const Scenario& scenario, const fs::path& folder,
                                 int64_t bytes_max, Say say)
    : folder_(folder), bytes_max_(bytes_max), say_(std::move(say)), begun_s_(now_seconds()) {
  try {
    if (fs::create_directories(folder_)) fs::permissions(folder_, fs::perms::owner_all);
  } catch (const fs::filesystem_error& error) {
    fail("--record", "`" + folder_.string() + "` cannot be made: " + error.code().message());
  }
  ::signal(SIGXFSZ, SIG_IGN);  // a limit of the file's size is an error of write()
  const fs::path file = folder_ / kRequests;
  file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kOwner);
  if (file_ < 0) fail("--record", "`" + file.string() + "` cannot be made: " + errno_text());
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 || ::lseek(file_, 0, SEEK_END) != 0) {
    ::close(file_);
    fail("--record", "`" + folder_.string() + "` has a recording already", "name another folder");
  }
  write_file_atomic(folder_ / kSizes, scenario.config.json().dump(1) + "\n", kOwner);
  write_file_atomic(folder_ / "workloads" / "traffic.yaml",
                    "workloads:\n  traffic:\n    summary: as they arrived\n    kind: replay\n"
                    "    recorded: ../requests.jsonl\n",
                    kOwner);
  write_file_atomic(folder_ / kTrafficScenario, scenario_text(scenario), kOwner);
}

TrafficRecorder::~TrafficRecorder() {
  ::close(file_);
  say_(std::to_string(kept_) + " requests are in " + folder_.string() +
       (lost_ > 0 ? ", and " + std::to_string(lost_) + " are lost" : ""));
}

// False with errno: the file is as before.
bool TrafficRecorder::append(const std::string& line) {
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(file_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = n < 0 ? errno : ENOSPC;
      (void)!::ftruncate(file_, bytes_);
      errno = why;
      return false;
    }
    done += static_cast<size_t>(n);
  }
  bytes_ += static_cast<int64_t>(line.size());
  return true;
}

void TrafficRecorder::add(const RecordedRequest& request) {
  const std::string line = to_fields(request).dump() + "\n";
  const std::lock_guard lock(mutex_);
  if (full_ || bytes_ + static_cast<int64_t>(line.size()) > bytes_max_) {
    if (!std::exchange(full_, true)) say_("--record-gib is used up; later requests are not kept");
    ++lost_;
  } else if (!append(line)) {
    if (!std::exchange(failing_, true))
      say_("a request is not kept: " + errno_text() + "; later ones are tried again");
    ++lost_;
  } else {
    if (std::exchange(failing_, false)) say_("requests are kept again");
    ++kept_;
  }
}

}  // namespace fk
