#include "together.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/serial_queue.h"
#include "base/sums.h"
#include "command.h"
#include "module_folders.h"
#include "modules/loader.h"

namespace dcp::cmd {
namespace {

const ModuleKind<DcpctlTransportTable> kGloo{.name = "c10d",
                                             .symbol = "dcpctl_transport",
                                             .abi = kDcpctlTransportAbi,
                                             .needs = "a build with LibTorch (cmake -DDCPCTL_WITH_TORCH=ON)"};
const ModuleKind<DcpctlTransportTable> kNccl{
    .name = "c10d_nccl",
    .symbol = "dcpctl_transport",
    .abi = kDcpctlTransportAbi,
    .needs = "a build with a LibTorch that has CUDA, and the CUDA toolkit (cmake -DDCPCTL_WITH_TORCH=ON)"};

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// The program's own bytes and the command line: ranks of two builds would read each other's messages wrongly, and those of two command
// lines would make two plans.
std::string identity(const DcpctlModuleHeader& module) {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::vector<char> block(1 << 20);
  uint64_t raw = 0, bytes = 0;
  while (self.read(block.data(), static_cast<std::streamsize>(block.size())), self.gcount() > 0) {
    const auto n = static_cast<size_t>(self.gcount());
    raw = crc64_shift(raw, n) ^ crc64_raw(as_bytes(std::string_view(block.data(), n)));
    bytes += n;
  }
  std::ifstream line("/proc/self/cmdline", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(line)), {});
  const std::string words = all.substr(std::min(all.find('\0'), all.size()));  // by which path the program was found may differ
  char text[128];
  std::snprintf(text, sizeof text, "dcpctl %s (build %08x), command line %08x, ", DCPCTL_VERSION,
                static_cast<unsigned>(crc64_finish(raw, bytes)), static_cast<unsigned>(crc32(as_bytes(words))));
  return std::string(text) + module.built_with;
}

}  // namespace

void add_ranks(Command& c, RanksFlags& f, Gathers gathers) {
  const std::string group = "Several ranks";
  if (gathers == Gathers::kYes)
    c.option("--gather", f.gather, "WHERE",
             "Who writes: rank0 (default), to which the others send, or none: each rank its part of an OUT that all share")
        .one_of({"rank0", "none"})
        .in(group);
  c.option("--transport", f.transport, "NAME", "How bytes get from rank to rank: auto, file (every rank sees every file), gloo or nccl")
      .one_of({"auto", "file", "gloo", "nccl"})
      .in(group);
  c.number("--timeout", f.timeout_s, 1.0, 86400.0, "SECONDS", "Seconds without a sign of life after which a rank is given up (default 60)")
      .in(group);
  c.flag("--alone", f.alone, "Work by itself, whatever a launcher's variables say").in(group);
}

Together::Together(std::unique_ptr<Door> the_door, const DcpctlTransportTable& table, const Launch& launch, const SessionOptions& options,
                   Context& context, Session::GiveUp give_up)
    : door(std::move(the_door)), session(table, launch, options, context.io, context.stop, std::move(give_up)), crew(session) {}

void join_ranks(const RanksFlags& flags, Context& context) {
  if (flags.alone) return;
  const auto launch = find_launch(variable);
  if (!launch) return;
  if (flags.transport == "nccl" && flags.gather == "none")
    fail(ProblemId::usage, {}, "--transport nccl with --gather none", "--gather rank0, or another transport");
  context.speaks = launch->rank == 0;
  const uint64_t before = peak_rss_bytes(), begin = context.io.now_ns();
  // LibTorch writes its own stack to stderr where something fails; what matters of it is said by us.
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  const std::vector<std::string> folders = module_folders();
  const DcpctlTransportTable& table = open_module(folders, flags.transport == "nccl" ? kNccl : kGloo);
  const auto give_up = [&context, rank = launch->rank](const RankFailure& f) {
    if (f.rank == 0 && rank != 0) context.speaks = true;
    report_error(context, problem_of(f));
    std::_Exit(static_cast<int>(Exit::kRank));
  };
  auto door = launch->serves_store ? std::make_unique<Door>(launch->host, launch->port) : nullptr;
  if (door) context.detail("the ranks' store listens at " + door->where());
  const SessionOptions options{.timeout_ms = static_cast<uint32_t>(flags.timeout_s * 1000),
                               .identity = identity(table.header),
                               .host = host_name(),
                               .door = door.get(),
                               .address = launch->names_interface ? "" : address_towards(launch->host)};
  context.joined = true;
  context.together = std::make_shared<Together>(std::move(door), table, *launch, options, context, give_up);
  context.together->transport = std::string(flags.transport == "nccl" ? "nccl" : "gloo") + ", " + table.header.built_with;
  context.together->module_bytes = peak_rss_bytes() - before;
  context.together->joining_ns = context.io.now_ns() - begin;
  context.detail(std::to_string(launch->world_size) + " ranks by " + launch->by + ", " + context.together->transport);
}

uint64_t memory_cap(const std::string& max_memory, const Context& context) {
  return parse_size(max_memory) + (context.together ? context.together->module_bytes : 0);
}

Resolved resolve_together(const Context& context, DataFiles& files, const Catalog& catalog, std::span<const TensorId> tensors,
                          std::span<const BlobId> blobs, const ResolveOptions& options) {
  if (context.together) return context.together->crew.resolve(files, catalog, tensors, blobs, options, context.stop);
  return resolve(files, catalog, tensors, blobs, options, context.stop);
}

ContentOf contents_together(const Context& context, DataFiles& files, const Catalog& catalog, const Resolved& resolved,
                            const Limits& limits) {
  return context.together ? context.together->crew.gather_contents(files, catalog, resolved, limits) : contents_of(files, catalog, limits);
}

ExecuteReport execute_together(Context& context, Exchange& exchange, unsigned workers, Progress& progress,
                               const std::function<ExecuteReport()>& units) {
  const auto told = [&](const std::function<void()>& part) {
    try {
      part();
    } catch (const std::exception& error) {  // at once: the other part waits for ranks that wait for this one
      settle(context, error);
      throw;
    }
  };
  ExecuteReport report;
  SerialQueue serving;  // a thread for certain: ranks that did one part after the other would wait for each other
  serving.run([&] { told([&] { exchange.serve(workers, progress, context.stop); }); });
  told([&] { report = units(); });
  serving.wait();
  return report;
}

void check_transport(const RanksFlags& flags, const Context& context, const Catalog& catalog) {
  if (!context.together || flags.transport != "file") return;
  const Sight& sight = context.together->crew.sight();
  for (uint32_t r = 0; r < context.together->session.world_size(); ++r)
    for (uint32_t f = 0; f < catalog.files.size(); ++f)
      if (!sight.sees(r, f))
        fail(ProblemId::usage, {.path = catalog.file_path(f)},
             "--transport file, and rank " + std::to_string(r) + " does not see this file", "every rank sees every file");
}

Problem settle(Context& context, const std::exception& error) {
  const Problem mine = problem_of(error);
  if (!context.together) {
    // Ranks that have not met: each speaks for itself. What all of them hear rank 0 tells; that rank 0 is lost, everybody.
    const bool heard = mine.id == ProblemId::rank_lost || mine.id == ProblemId::rank_failed || mine.id == ProblemId::ranks_differ;
    if (!heard || (mine.id == ProblemId::rank_lost && mine.place.path.starts_with("rank 0"))) context.speaks = true;
    return mine;
  }
  Session& session = context.together->session;
  const RankFailure first = session.fail_with(mine, static_cast<int>(exit_of(mine.id)));
  context.together->failure = first;
  if (first.rank == 0 && session.rank() != 0) context.speaks = first.problem.id == ProblemId::rank_lost;
  return problem_at(session.rank(), mine, first);
}

void ranks_json(JsonWriter& out, const Context& context, const RankWork& alone) {
  const Together* t = context.together.get();
  const std::vector<std::string> hosts = t ? t->crew.hosts() : std::vector<std::string>();
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
      .member("code", t->failure->code)
      .end_object();
}

int end_ranks(Context& context, int code) { return context.together ? context.together->crew.end(code) : code; }

}  // namespace dcp::cmd
