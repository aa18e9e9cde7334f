// SPDX-License-Identifier: Apache-2.0
// Verdicts from a process that keeps what a judgement needs (fk-host serve): processes that are
// started, contents and answers that are ready. It listens beside the verdicts' store, one socket
// for a device, and both ends talk to this user alone.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "core/cli/judged.hpp"
#include "core/judge/verdict/secret.hpp"
#include "core/store/key.hpp"

namespace fk {

// The verdict of the server of this device, with a secret of its own unless one is given. Nothing
// where there is no server, where it ends before it answers, or where it would judge otherwise than
// this process: another build, other folders, another sandbox. Error when the question is wrong.
// `progress` is told what the server says meanwhile.
std::optional<Verdict> ask_server(const Question& question, const Secret* secret,
                                  const JudgeProgress& progress);

// Keys of messages that come before the answer; each has a text.
inline constexpr const char *kStepKey = "step", *kEndedKey = "ended";

// ---- for the server ----

// In paths::data_dir(). Error when that is too long for a socket.
std::filesystem::path socket_path(const std::string& device);

struct Asked {
  Question question;
  std::optional<Secret> secret;
};
// From ask_server(). Error for anything else.
Asked asked_from(const Json& message);
// What else a verdict depends on, as this process sees it; differs where that differs.
Json surroundings(const std::string& device);

}  // namespace fk
