#include "ranks/launcher.h"

#include <catch2/catch_test_macros.hpp>
#include <map>

#include "base/error_line.h"

namespace dcp {
namespace {

using Environment = std::map<std::string, std::string>;

std::optional<Launch> launch(const Environment& environment) {
  return find_launch([&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional(it->second);
  });
}

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Environment kStore{{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};

}  // namespace

TEST_CASE("What launchers say") {
  struct Row {
    const char* name;
    Environment variables;
    const char* by;
    uint32_t rank, world_size;
    bool serves;
  };
  const std::vector<Row> rows{
      {"by hand", {{"RANK", "1"}, {"WORLD_SIZE", "3"}}, "the environment", 1, 3, false},
      {"by hand, rank 0 serves", {{"RANK", "0"}, {"WORLD_SIZE", "3"}}, "the environment", 0, 3, true},
      {"torchrun, whose agent serves",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
       "torchrun",
       0,
       2,
       false},
      {"torchrun without its agent's store",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}},
       "torchrun",
       0,
       2,
       true},
      {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, "Open MPI", 2, 4, false},
      {"MPICH", {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}, "MPICH or PMI", 3, 4, false},
      {"srun", {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}}, "Slurm", 5, 8, false},
      {"srun of a part of the job",
       {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "1"}},
       "Slurm",
       1,
       2,
       false},
      {"srun, told again by hand",
       {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"RANK", "5"}, {"WORLD_SIZE", "8"}},
       "the environment",
       5,
       8,
       false},
      {"torchrun under srun",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_ID", "77"},
        {"SLURM_STEP_ID", "0"},
        {"RANK", "9"},
        {"WORLD_SIZE", "16"},
        {"TORCHELASTIC_RUN_ID", "x"}},
       "torchrun",
       9,
       16,
       false},
      {"mpirun in a job of Slurm's",
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       "Open MPI",
       2,
       4,
       false}};
  for (const Row& row : rows) {
    INFO(row.name);
    const auto got = launch(with(kStore, row.variables));
    REQUIRE(got.has_value());
    CHECK(got->by == row.by);
    CHECK(got->rank == row.rank);
    CHECK(got->world_size == row.world_size);
    CHECK(got->serves_store == row.serves);
    CHECK(got->host == "node0");
    CHECK(got->port == 29500);
  }
}

TEST_CASE("No launcher, or one rank only") {
  CHECK_FALSE(launch({}));
  CHECK_FALSE(launch(kStore));
  CHECK_FALSE(launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  CHECK_FALSE(launch({{"RANK", "0"}}));  // somebody else's variable
  CHECK_FALSE(launch({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "8"}}));
  CHECK_FALSE(launch({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));  // a batch script
}

TEST_CASE("What does not fit together is an error that lists it") {
  const auto said = [](const Environment& variables) { return test::error_line([&] { launch(variables); }); };
  CHECK(
      said(with(kStore, {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}})) ==
      "the launcher's variables about ranks contradict each other (got RANK=0 WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2, "
      "expected the same rank and world size from each)");
  CHECK(said(with(kStore, {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})) ==
        "the launcher's variables about ranks contradict each other (got RANK=0 WORLD_SIZE=4, SLURM_PROCID=0 SLURM_NTASKS=8, expected the "
        "same rank and world size from each)");
  CHECK(said({{"RANK", "2"}, {"WORLD_SIZE", "2"}}) ==
        "the launcher's variables about ranks contradict each other (got RANK=2 WORLD_SIZE=2, expected a rank below the world size)");
  CHECK(said({{"RANK", "x"}, {"WORLD_SIZE", "2"}}) ==
        "the launcher's variables about ranks contradict each other (got RANK='x', expected a number)");
  CHECK(
      said({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}) ==
      "the launcher's variables about ranks contradict each other (got PMI_RANK=0 PMI_SIZE=2 without MASTER_ADDR, expected MASTER_ADDR and "
      "MASTER_PORT: a host and a free port of rank 0's)");
  CHECK(said({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "0"}}) ==
        "the launcher's variables about ranks contradict each other (got MASTER_PORT=0, expected 1 to 65535)");
}

}  // namespace dcp
