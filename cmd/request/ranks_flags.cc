#include "request/ranks_flags.h"

#include <cstdlib>
#include <utility>

#include "app/ranked_run.h"
#include "line/command.h"
#include "line/environment.h"
#include "line/exit_status.h"

namespace dcp::cmd {

std::function<int()> by_rank_0(std::function<int()> run) {
  return [run = std::move(run)] {
    std::optional<Launch> launch;
    try {
      launch = launch_here();
    } catch (const Error&) {  // no rank is needed: variables that contradict each other are left to commands that work with ranks
    }
    return launch && launch->rank > 0 ? 0 : run();
  };
}

RankOptions RanksFlags::options(const Context& context) const {
  if (alone) return {};
  RankOptions options{.launch = launch_here()};
  if (!options.launch && requested)
    fail(ProblemId::usage, {}, transport != "auto" ? "--transport without several ranks" : "--gather without several ranks",
         "torchrun --no-python, mpirun or srun before dcpctl, which start them");
  if (!options.launch) return {};
  if (transport == "nccl" && gather == "none")
    fail(ProblemId::usage, {}, "--transport nccl with --gather none", "--gather rank0, or another transport");
  // LibTorch writes its own stack to stderr on failures; we report what matters of it.
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  using Transport = RankOptions::Transport;
  options.transport = transport == "nccl"   ? Transport::kNccl
                      : transport == "gloo" ? Transport::kGloo
                      : transport == "file" ? Transport::kFile
                                            : Transport::kAuto;
  options.all_write = gather == "none";
  options.timeout_s = timeout_s;
  options.program = "dcpctl " DCPCTL_VERSION;
  for (const std::string& word : context.words) options.command_line.append(1, '\0').append(word);
  options.command_line += '\0';
  options.module_folders = module_folders();
  return options;
}

void add_ranks(Command& c, RanksFlags& f, Gathers gathers) {
  const std::string group = "Several ranks";
  const auto take = [&f](std::string& target) {
    return [&f, &target](const std::string& text) { return f.requested = true, target = text, true; };
  };
  if (gathers == Gathers::kYes)
    c.option("--gather", take(f.gather), "WHERE",
             "Who writes: rank0 (default; the others send to it), or none: each rank writes its part of an OUT that all share")
        .one_of({"rank0", "none"})
        .in(group);
  c.option("--transport", take(f.transport), "NAME", "How ranks exchange bytes: auto, file (every rank can see every file), gloo or nccl")
      .one_of({"auto", "file", "gloo", "nccl"})
      .in(group);
  c.number("--timeout", f.timeout_s, {1.0, 86400.0}, "SECONDS", "Give up on a rank that has been silent for SECONDS (default 60)")
      .in(group);
  c.flag("--alone", f.alone, "Work alone, whatever a launcher's variables say").in(group);
}

void ranks_json(JsonWriter& out, const Context& context, const RankWork& alone) {
  const RankedRun* t = context.ranks.get();
  const std::vector<std::string> hosts = t ? t->group.hosts() : std::vector<std::string>();
  out.key("ranks").begin_array();
  for (const RankWork& w : t && !t->work.empty() ? t->work : std::vector<RankWork>{alone}) {
    out.begin_object().member("rank", uint64_t{w.rank}).member("bytes_read", w.bytes_read).member("bytes_written", w.bytes_written);
    out.member("seconds", static_cast<double>(w.nanoseconds) / 1e9);
    if (t)
      out.member("host", w.rank < hosts.size() ? hosts[w.rank] : "")
          .member("bytes_sent", w.bytes_sent)
          .member("files_seen", w.files_seen)
          .member("peak_memory_bytes", w.peak_bytes);
    out.end_object();
  }
  out.end_array();
  if (!t) return;
  out.member("transport", t->transport)
      .member("module_memory_bytes", t->module_bytes)
      .member("joining_seconds", static_cast<double>(t->joining_ns) / 1e9);
  if (!t->failure) return;
  out.key("first_failed")
      .begin_object()
      .member("rank", uint64_t{t->failure->rank})
      .member("host", t->failure->host)
      .member("code", static_cast<int>(exit_of(t->failure->problem.id)))
      .end_object();
}

}  // namespace dcp::cmd
