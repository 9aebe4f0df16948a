// Which rank this process is, and of how many, from launchers' environment variables. A pure function, so that every launcher can be tested
// without it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace dcp {

struct Launch {
  std::string by;  // "torchrun", "Open MPI", "MPICH or PMI", "Slurm", "the environment"
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;  // on its host
  std::string host;         // of the store
  uint16_t port = 0;
  bool serves_store = false;     // rank 0 runs the store, unless torchrun's agent does
  std::string attempt = "0";     // torchrun's count of restarts
  bool names_interface = false;  // GLOO_SOCKET_IFNAME
};

using Variables = std::function<std::optional<std::string>(const char* name)>;

// Returns nullopt for a process that no launcher started, or that is the only rank. Looks at these pairs of rank and world size:
//   RANK, WORLD_SIZE                                torchrun, or by hand
//   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE      Open MPI
//   PMI_RANK, PMI_SIZE                              MPICH, Intel MPI, PMI
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS    srun
// One launcher inside another leaves the outer one's variables standing: torchrun's own mark makes RANK count, and an mpirun counts against
// the Slurm job that it runs in. Any other two that differ are an error (launch_unclear) that lists them. A batch script of Slurm has
// SLURM_PROCID as well but no step: it is no rank. MASTER_ADDR and MASTER_PORT say where the store is; torchrun sets them.
std::optional<Launch> find_launch(const Variables& variables);

}  // namespace dcp
