// SPDX-License-Identifier: Apache-2.0
#include "core/cli/server.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/worker/channel.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

constexpr double kSendSeconds = 10, kLookSeconds = 3600;

// A connected descriptor, or -1.
int connect_to(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      peer_of(fd))
    return fd;
  ::close(fd);
  return -1;
}

// A question is sent as a verdict without a result.
Json message_of(const Question& question, const Secret* secret) {
  Verdict asked;
  asked.candidate.path = fs::absolute(question.candidate).string();
  const std::string& known = question.candidate_hash;
  asked.candidate.sha256 = known.empty() ? sha256_file(question.candidate) : known;
  asked.policy = question.policy;
  asked.device = question.device;
  return {{"question", to_json(asked)},
          {"secret", secret ? secret->hex() : ""},
          {"surroundings", surroundings(question.device)}};
}

// True for a progress message, which goes to `progress`; false for an answer.
bool tell(const Json& message, const JudgeProgress& progress) {
  for (const auto& [key, listener] :
       {std::pair(kStepKey, &progress.step), std::pair(kEndedKey, &progress.ended)}) {
    const auto text = message.find(key);
    if (text == message.end() || !text->is_string()) continue;
    if (*listener) (*listener)(text->get<std::string>());
    return true;
  }
  return false;
}

}  // namespace

fs::path socket_path(const std::string& device, bool checks) {
  std::string name = device;
  for (char& c : name)
    if (c == ':' || c == '/') c = '-';
  const fs::path path =
      fs::absolute(paths::data_dir()) / ("serve-" + name + (checks ? "-checks" : "") + ".socket");
  if (path.string().size() >= sizeof sockaddr_un{}.sun_path)
    fail(path.string(), "the path is too long for a socket", "set FK_DATA to a shorter one");
  return path;
}

Json surroundings(const std::string& device) {
  const DeviceIdentity identity = device_identity(device);
  Json out = {{"build", own_build_id()},
              {"device", identity.device},
              {"driver", identity.driver},
              {"registry", Json::array()},
              {"plugins", Json::array()}};
  std::error_code none;
  for (const auto& dir : paths::registry_dirs())
    out["registry"].push_back(fs::canonical(dir, none).string());
  for (const auto& dir : paths::plugin_dirs())
    out["plugins"].push_back(fs::canonical(dir, none).string());
  return out;
}

Asked asked_from(const Json& message) {
  if (!message.contains("question") || !message.contains("secret") ||
      !message["secret"].is_string())
    fail("a question", "is none");
  const Verdict asked = verdict_from(message["question"], "a question");
  Asked out;
  out.question.candidate = asked.candidate.path;
  out.question.candidate_hash = asked.candidate.sha256;
  out.question.policy = asked.policy;
  out.question.device = asked.device;
  if (const auto hex = message["secret"].get<std::string>(); !hex.empty())
    out.secret = Secret::from_hex(hex, "a question");
  return out;
}

std::optional<Verdict> ask_server(const Question& question, const Secret* secret,
                                  const JudgeProgress& progress) {
  if (!question.policy.sandbox || !question.also.empty()) return std::nullopt;
  int fd = -1;
  try {
    if (question.policy.seconds == 0) fd = connect_to(socket_path(question.device, true));
    if (fd < 0) fd = connect_to(socket_path(question.device, false));
  } catch (const Error&) {  // no server has such a path
  }
  if (fd < 0) return std::nullopt;
  Channel channel(fd, false);
  if (!channel.send(message_of(question, secret), {}, kSendSeconds)) return std::nullopt;
  for (;;) {
    if (const auto answer = channel.receive()) {
      if (const auto error = answer->find("error"); error != answer->end())
        fail(error->at("where"), error->at("what"), error->at("hint"));
      if (tell(*answer, progress)) continue;
      const auto verdict = answer->find("verdict");
      if (verdict == answer->end()) return std::nullopt;
      return verdict_from(*verdict, "the server's verdict");
    }
    if (channel.closed()) return std::nullopt;
    wait_readable(fd, kLookSeconds);
  }
}

}  // namespace fk
