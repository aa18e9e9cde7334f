// SPDX-License-Identifier: Apache-2.0
// Job arrays of Slurm. The program `sbatch` starts them; its variables (SBATCH_PARTITION,
// SBATCH_ACCOUNT, SBATCH_GRES and others) choose partition, account and devices.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace fk {

struct SlurmArray {
  // Words of this program. A task gets `--part TASK/TASKS` behind them.
  std::vector<std::string> part;
  // Runs when all tasks have ended, however they ended.
  std::vector<std::string> last;
  int tasks = 1;
  std::filesystem::path folder;  // which all machines share; gets scripts and outputs
  std::string name;              // of the jobs
};

struct SlurmEnd {
  int code = 0;  // exit code of the last job
  std::filesystem::path output, errors;
};

// Submits both, and waits for the last job. HostError with the words of `sbatch` when it refuses.
// `on_begin` gets the number of the array as soon as Slurm has it.
SlurmEnd run_array(const SlurmArray& array,
                   const std::function<void(const std::string& number)>& on_begin);

}  // namespace fk
