// dcpctl ranks: what each rank of a launcher sees. The thing to run first on a new cluster.

#include "app/ranked_run.h"
#include "app/resources.h"
#include "app/stages.h"
#include "base/json.h"
#include "base/text.h"
#include "line/commands.h"
#include "line/exit_status.h"
#include "request/ranks_flags.h"
#include "request/source.h"

namespace dcp::cmd {
namespace {

constexpr const char* kText =
    R"(Started on every rank, it prints one line per rank: its host, how it was started, which of CKPT's files it sees. If that works, so
will consolidate, reshard, cast, convert and verify, with the same command line on every rank, started by

  torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d \
    --rdzv-endpoint node0:29400 --no-python \
    dcpctl consolidate step-1000 model.pt
  mpirun -np 8 -x MASTER_ADDR=node0 -x MASTER_PORT=29500 \
    dcpctl consolidate step-1000 model.pt
  MASTER_ADDR=node0 MASTER_PORT=29500 srun dcpctl consolidate step-1000 model.pt
  RANK=0 WORLD_SIZE=2 MASTER_ADDR=node0 MASTER_PORT=29500 \
    dcpctl consolidate step-1000 model.pt                 # RANK=1 on the other host

Each rank reads the shards that it sees, on its own disk or a shared one; ranks find out by looking. A rank that does not need CKPT need not
have it. Without a launcher, the single process prints what it sees.)";

struct Options {
  SourceFlags source;
  RanksFlags ranks;
  std::string max_memory;
};

void print(const std::vector<RankView>& lines, const std::vector<std::string>& unseen, bool has_source, const Context& context) {
  if (context.common.json) {
    return context.print(json_document([&](JsonWriter& out) {
      out.member("schema", "dcpctl.ranks/1").member("world_size", uint64_t{lines.size()}).key("ranks").begin_array();
      for (const RankView& l : lines) {
        out.begin_object().member("rank", uint64_t{l.rank}).member("host", l.host).member("launcher", l.launcher);
        out.member("store", l.store).member("transport", l.transport);
        if (has_source) out.member("files", l.files).member("files_seen", l.files_seen);
        out.end_object();
      }
      out.end_array();
      if (has_source) out.member("unseen", unseen);
    }));
  }
  std::string text;
  for (const RankView& l : lines) {
    text += "rank " + std::to_string(l.rank) + " of " + std::to_string(lines.size()) + "  " + escaped(l.host) + "  launcher " + l.launcher +
            "  store " + l.store + "  transport " + l.transport;
    text += has_source ? "  sees " + grouped(l.files_seen) + " of " + grouped(l.files) + " files\n" : "\n";
  }
  for (const std::string& name : unseen) text += "seen by no rank: " + escaped(name) + "\n";
  context.print(text);
}

int run(const Options& o, Context& context) {
  join_ranks(o.ranks.options(context), context);
  std::vector<std::string> unseen;
  uint64_t files = 0, seen = 0;
  const bool has_source = !o.source.path.empty();
  if (has_source) {
    const uint64_t cap = take_memory_cap(reading_cap(o.max_memory), context);
    const FrozenCatalog opened = open_source(o.source.request(), context, memory_left(cap));
    const Catalog& catalog = opened->catalog;
    files = catalog.files.size();
    for (uint32_t f = 0; f < files; ++f) {
      seen += sees_file(context, catalog, f);
      if (!catalog.files[f].bytes) unseen.emplace_back(catalog.file_name(f));
    }
  }
  print(gather_views(context, files, seen), unseen, has_source, context);
  return end_ranks(context, unseen.empty() ? 0 : static_cast<int>(Exit::kAnswerNo));
}

}  // namespace

void add_ranks_command(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  c.details = kText;
  add_source(c, context, options->source);
  c.arguments.front().is_required(false);
  add_max_memory(c, options->max_memory, "Source");
  add_ranks(c, options->ranks, Gathers::kNo);
  add_common(c, context.common, false);
  c.run = [options, &context] {
    try {
      return run(*options, context);
    } catch (const std::exception& error) {
      return report_error(context, resolve_failure(context, error));
    }
  };
}

}  // namespace dcp::cmd
