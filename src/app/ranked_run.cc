#include "app/ranked_run.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/sums.h"
#include "base/text.h"
#include "base/workers.h"
#include "modules/loader.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// The program's own bytes and the command line: ranks of two builds would read each other's messages wrongly, and those of two command
// lines would make two plans.
std::string identity(const RankOptions& options, const DcpctlModuleHeader& module) {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::vector<char> block(1 << 20);
  uint64_t raw = 0, bytes = 0;
  while (self.read(block.data(), static_cast<std::streamsize>(block.size())), self.gcount() > 0) {
    const auto n = static_cast<size_t>(self.gcount());
    raw = crc64_shift(raw, n) ^ crc64_raw(as_bytes(std::string_view(block.data(), n)));
    bytes += n;
  }
  return options.program + " (build " + hex(static_cast<uint32_t>(crc64_finish(raw, bytes)), 8) + "), command line " +
         hex(crc32(as_bytes(options.command_line)), 8) + ", " + module.built_with;
}

}  // namespace

RankedRun::RankedRun(std::unique_ptr<Door> the_door, const DcpctlTransportTable& table, const Launch& launch, const SessionOptions& options,
                     World& world)
    : door(std::move(the_door)), session(table, launch, options, world.io, world.stop), group(session) {}

void join_ranks(const RankOptions& options, World& world) {
  if (!options.launch) return;
  const Launch& launch = *options.launch;
  const bool nccl = options.transport == RankOptions::Transport::kNccl;
  world.prints = launch.rank == 0;
  const uint64_t before = peak_rss_bytes(), begin = world.io.now_ns();
  const DcpctlTransportTable& table = open_module(options.module_folders, nccl ? kNcclModule : kGlooModule);
  const auto give_up = [&world, rank = launch.rank](const RankFailure& f) {
    if (f.rank == 0 && rank != 0) world.prints = true;
    world.events.last_words(problem_of(f));
  };
  auto door = launch.serves_store ? std::make_unique<Door>(launch.host, launch.port) : nullptr;
  if (door) world.events.verbose("the ranks' store listens at " + door->where());
  const SessionOptions session{.timeout_ms = static_cast<uint32_t>(options.timeout_s * 1000),
                               .identity = identity(options, table.header),
                               .host = host_name(),
                               .door = door.get(),
                               .address = launch.names_interface ? "" : address_towards(launch.host),
                               .give_up = give_up};
  world.ranks = std::make_shared<RankedRun>(std::move(door), table, launch, session, world);
  world.ranks->transport = std::string(nccl ? "nccl" : "gloo") + ", " + table.header.built_with;
  world.ranks->module_bytes = peak_rss_bytes() - before;
  world.ranks->joining_ns = world.io.now_ns() - begin;
  world.events.verbose(std::to_string(launch.world_size) + " ranks by " + launch.by + ", " + world.ranks->transport);
}

ExecuteReport execute_together(World& world, Exchange& exchange, unsigned workers, Progress& progress,
                               const std::function<ExecuteReport()>& units) {
  const auto reported = [&](const std::function<void()>& part) {
    try {
      part();
    } catch (const std::exception& error) {  // at once: the other part waits for ranks that wait for this one
      resolve_failure(world, error);
      throw;
    }
  };
  ExecuteReport report;
  SerialQueue serving;  // a thread for certain: ranks that did one part after the other would wait for each other
  serving.run([&] { reported([&] { exchange.serve(workers, progress, world.stop); }); });
  reported([&] { report = units(); });
  serving.wait();
  return report;
}

void check_transport(const RankOptions& options, const World& world, const Catalog& catalog) {
  if (!world.ranks || options.transport != RankOptions::Transport::kFile) return;
  const FileVisibility& visibility = world.ranks->group.visibility();
  for (uint32_t r = 0; r < world.ranks->session.world_size(); ++r)
    for (uint32_t f = 0; f < catalog.files.size(); ++f)
      if (!visibility.sees(r, f))
        fail(ProblemId::usage, {.path = catalog.file_path(f), .setting = "transport"},
             "file, and rank " + std::to_string(r) + " does not see this file", "every rank sees every file");
}

Problem resolve_failure(World& world, const std::exception& error) {
  const Problem mine = world.events.worded(problem_of(error));
  if (!world.ranks) {
    // Before ranks have joined, each reports its own failure. Afterwards rank 0 reports what all see; if rank 0 is lost, all report that.
    const bool seen_by_all = mine.id == ProblemId::rank_lost || mine.id == ProblemId::rank_failed || mine.id == ProblemId::ranks_differ;
    if (!seen_by_all || (mine.id == ProblemId::rank_lost && mine.place.rank == 0u)) world.prints = true;
    return mine;
  }
  Session& session = world.ranks->session;
  const RankFailure first = session.fail_with(mine);
  world.ranks->failure = first;
  if (first.rank == 0 && session.rank() != 0) world.prints = first.problem.id == ProblemId::rank_lost;
  return problem_at(session.rank(), mine, first);
}

int end_ranks(World& world, int code) { return world.ranks ? world.ranks->group.end(code) : code; }

bool sees_file(const World& world, const Catalog& catalog, uint32_t file) {
  if (!world.ranks) return catalog.files[file].bytes.has_value();
  return world.ranks->group.visibility().sees(world.ranks->session.rank(), file);
}

namespace {

RankView this_rank(const World& world) {
  if (!world.ranks) return {.host = "this host", .launcher = "none", .store = "none", .transport = "file"};
  const Session& session = world.ranks->session;
  const Launch& launch = session.launch();
  return {.rank = launch.rank,
          .host = session.host(),
          .launcher = launch.by,
          .store = launch.host + ":" + std::to_string(launch.port),
          .transport = world.ranks->transport};
}

}  // namespace

std::vector<RankView> gather_views(World& world, uint64_t files, uint64_t files_seen) {
  std::vector<RankView> lines{this_rank(world)};
  lines.front().files = files;
  lines.front().files_seen = files_seen;
  if (!world.ranks) return lines;
  RankTree tree(world.ranks->session);
  tree.gather(
      [&](Bytes bytes) {
        WireReader in(bytes);
        for (auto count = in.number<uint64_t>(); count > 0; --count) {
          RankView l{.rank = in.number<uint32_t>()};
          l.files = in.number<uint64_t>();
          l.files_seen = in.number<uint64_t>();
          for (std::string* s : {&l.host, &l.launcher, &l.store, &l.transport}) *s = in.text();
          lines.push_back(std::move(l));
        }
      },
      [&] {
        WireWriter out;
        out.number<uint64_t>(lines.size());
        for (const RankView& l : lines) {
          out.number(l.rank);
          out.number(l.files);
          out.number(l.files_seen);
          for (const std::string* s : {&l.host, &l.launcher, &l.store, &l.transport}) out.text(*s);
        }
        return out.take();
      });
  std::ranges::sort(lines, {}, &RankView::rank);
  return lines;
}

}  // namespace dcp
