// SPDX-License-Identifier: Apache-2.0
// Agents as programs. A file NAME.py in plugin_api/agents is the agent NAME; there is no list.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace fk {

// The words of an agent's command: a script of plugin_api/agents by its name, or a command line.
// Error for one word that is neither a script nor a program.
std::vector<std::string> agent_command(const std::string& agent);
// Runs it with the folder of a step as the last argument. Its output goes to agent.log there. It is
// ended after `seconds`. Returns why it failed; empty: exit code 0. It has the rights of this user.
std::string run_agent(const std::vector<std::string>& command, const std::filesystem::path& folder,
                      double seconds);

}  // namespace fk
