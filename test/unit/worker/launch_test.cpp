// SPDX-License-Identifier: Apache-2.0
// Variables by which launchers describe the ranks which they have started.
#include "core/worker/launch.hpp"

#include "core/base/error.hpp"
#include "test/catch.hpp"

namespace {

using namespace fk;

std::optional<Launch> launch(const std::map<std::string, std::string>& environment) {
  return launch_from([&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

TEST_CASE("launchers are known by what they set") {
  CHECK_FALSE(launch({}));
  const auto open_mpi = launch({{"OMPI_COMM_WORLD_RANK", "2"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                {"PMIX_NAMESPACE", "job7"}});
  REQUIRE(open_mpi);
  CHECK((open_mpi->rank == 2 && open_mpi->size == 4 && open_mpi->one_machine()));
  CHECK(open_mpi->job == "/job7");
  const std::map<std::string, std::string> step = {{"SLURM_PROCID", "1"},
                                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                                   {"SLURM_STEP_NUM_NODES", "1"},
                                                   {"SLURM_JOB_ID", "31"},
                                                   {"SLURM_STEP_ID", "4"}};
  const auto slurm = launch(step);
  REQUIRE(slurm);
  CHECK((slurm->rank == 1 && slurm->size == 2 && slurm->one_machine() && slurm->job == "/31/4"));
  CHECK(launch({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}})->size == 3);
}

TEST_CASE("a launcher says which machine a rank is on, and which of its ranks it is") {
  std::map<std::string, std::string> step = {
      {"SLURM_PROCID", "5"},         {"SLURM_STEP_NUM_TASKS", "8"},
      {"SLURM_STEP_NUM_NODES", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "3,2(x2),1"},
      {"SLURM_NODEID", "2"},         {"SLURM_LOCALID", "0"}};
  const auto slurm = launch(step);
  REQUIRE(slurm);
  CHECK_FALSE(slurm->one_machine());
  CHECK((slurm->local_rank == 0 && slurm->local_size == 2 && slurm->node == "2"));
  step["SLURM_NODEID"] = "3";
  CHECK(launch(step)->local_size == 1);
  step["SLURM_NODEID"] = "0";
  CHECK(launch(step)->local_size == 3);
  step["SLURM_NODEID"] = "4";
  CHECK_THROWS_AS(launch(step), Error);
  step.erase("SLURM_STEP_TASKS_PER_NODE");
  CHECK_THROWS_AS(launch(step), Error);
  const auto open_mpi = launch({{"OMPI_COMM_WORLD_RANK", "3"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"PMIX_SERVER_TMPDIR", "/somewhere"}});
  CHECK((open_mpi->local_rank == 1 && open_mpi->local_size == 2 && !open_mpi->one_machine()));
  CHECK(open_mpi->node == "/somewhere");
  const auto mpich = launch(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}});
  CHECK((mpich->local_rank == 0 && mpich->local_size == 1));
}

TEST_CASE("one process is no launch") {
  CHECK_FALSE(launch({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  // A batch script of a job with tasks, outside of its steps.
  CHECK_FALSE(launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "31"}}));
}

TEST_CASE("a launcher's numbers have to make sense") {
  CHECK_THROWS_AS(launch({{"PMI_RANK", "3"}, {"PMI_SIZE", "3"}}), Error);
  CHECK_THROWS_AS(launch({{"PMI_RANK", "x"}, {"PMI_SIZE", "3"}}), Error);
  CHECK_THROWS_AS(launch({{"PMI_RANK", "0"}, {"PMI_SIZE", "65"}}), Error);
  // Rank 0 has to be the one to whom its machine's ranks come.
  CHECK_THROWS_AS(launch({{"PMI_RANK", "0"},
                          {"PMI_SIZE", "3"},
                          {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "2"}}),
                  Error);
}

}  // namespace
