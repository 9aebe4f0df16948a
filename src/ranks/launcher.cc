#include "ranks/launcher.h"

#include <vector>

#include "base/problem.h"
#include "base/text.h"

namespace dcp {
namespace {

struct LauncherVariables {
  const char* by;
  const char* rank;
  std::vector<const char*> sizes;  // the first that is set counts
};

struct Claim {
  const LauncherVariables* source;
  uint32_t rank, world_size;
  std::string words;  // "RANK=0 WORLD_SIZE=2"
};

[[noreturn]] void refuse(const std::string& got, const std::string& expected) { fail(ProblemId::launch_unclear, {}, got, expected); }

uint32_t number(const char* name, const std::string& text) {
  const auto value = decimal<uint32_t>(text);
  if (!value) refuse(std::string(name) + "='" + text + "'", "a number");
  return *value;
}

const std::vector<LauncherVariables>& sources() {
  static const std::vector<LauncherVariables> all{{"the environment", "RANK", {"WORLD_SIZE"}},
                                                  {"Open MPI", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}},
                                                  {"MPICH or PMI", "PMI_RANK", {"PMI_SIZE"}},
                                                  {"Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}}};
  return all;
}

std::optional<Claim> claim_of(const LauncherVariables& source, const Variables& variables) {
  const auto rank = variables(source.rank);
  if (!rank) return std::nullopt;
  for (const char* name : source.sizes) {
    const auto size = variables(name);
    if (!size) continue;
    const std::string words = std::string(source.rank) + "=" + *rank + " " + name + "=" + *size;
    const Claim claim{&source, number(source.rank, *rank), number(name, *size), words};
    if (claim.rank >= claim.world_size) refuse(words, "a rank below the world size");
    return claim;
  }
  return std::nullopt;
}

// The launchers whose variables are about this process, not about one that contains it.
std::vector<Claim> claims(const Variables& variables, bool torchrun) {
  std::vector<Claim> found;
  for (const LauncherVariables& source : sources()) {
    const bool slurm = std::string_view(source.by) == "Slurm";
    if (slurm && !found.empty() && std::string_view(found.front().source->by) != "the environment") continue;
    if (slurm && variables("SLURM_JOB_ID") && !variables("SLURM_STEP_ID")) continue;
    if (auto claim = claim_of(source, variables)) found.push_back(std::move(*claim));
    if (torchrun && !found.empty()) break;
  }
  return found;
}

}  // namespace

std::optional<Launch> find_launch(const Variables& variables) {
  const bool torchrun = variables("TORCHELASTIC_RUN_ID").has_value();
  const std::vector<Claim> found = claims(variables, torchrun);
  if (found.empty()) return std::nullopt;
  const Claim& first = found.front();
  for (const Claim& other : found)
    if (other.rank != first.rank || other.world_size != first.world_size)
      refuse(joined(found, ", ", &Claim::words), "the same rank and world size from each");
  if (first.world_size == 1) return std::nullopt;
  Launch launch{.by = torchrun ? "torchrun" : first.source->by, .rank = first.rank, .world_size = first.world_size};
  const auto host = variables("MASTER_ADDR"), port = variables("MASTER_PORT");
  if (!host || host->empty() || !port)
    refuse(first.words + " without " + (!host || host->empty() ? "MASTER_ADDR" : "MASTER_PORT"),
           "MASTER_ADDR and MASTER_PORT: a host and a free port of rank 0's");
  launch.host = *host;
  const uint32_t number_of_port = number("MASTER_PORT", *port);
  if (number_of_port == 0 || number_of_port > 65535) refuse("MASTER_PORT=" + *port, "1 to 65535");
  launch.port = static_cast<uint16_t>(number_of_port);
  launch.serves_store = launch.rank == 0 && variables("TORCHELASTIC_USE_AGENT_STORE").value_or("") != "True";
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const auto local = variables(name)) {
      launch.local_rank = number(name, *local);
      break;
    }
  launch.names_interface = variables("GLOO_SOCKET_IFNAME").has_value();
  launch.attempt = variables("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return launch;
}

}  // namespace dcp
