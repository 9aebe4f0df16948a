// What Gloo itself gives: each rank but 0 sends BYTES to rank 0 in messages of 8 MiB, four under way; nothing is read or written.
//
//     bench_bare_gloo MODULE-FOLDER BYTES [TIMEOUT-MS]        with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "modules/loader.h"
#include "ranks/launcher.h"
#include "ranks/session.h"

using namespace dcp;

namespace {

constexpr uint64_t kMessage = 8 << 20;
constexpr size_t kUnderWay = 4;

// Messages of one pair of ranks, each buffer used again once its message has moved.
class Lane {
 public:
  Lane(Link& link, uint32_t peer, bool sends) : link_(link), peer_(peer), sends_(sends) {
    for (auto& b : buffers_) b.resize(kMessage, std::byte{1});
  }
  void step(uint64_t n) {
    messages_[n % kUnderWay].wait();
    auto& buffer = buffers_[n % kUnderWay];
    messages_[n % kUnderWay] = sends_ ? link_.send(peer_, 1, buffer) : link_.receive(peer_, 1, buffer);
  }
  void finish() {
    for (Link::Message& m : messages_) m.wait();
  }

 private:
  Link& link_;
  uint32_t peer_;
  bool sends_;
  std::array<std::vector<std::byte>, kUnderWay> buffers_;
  std::array<Link::Message, kUnderWay> messages_;
};

void move_bytes(Session& session, Io& io, uint64_t bytes) {
  RankTree(session).broadcast({});
  const uint64_t begin = io.now_ns();
  const uint64_t steps = bytes / kMessage;
  std::vector<Lane> lanes;
  lanes.reserve(session.world_size());
  if (session.rank() > 0) lanes.emplace_back(session.link(), 0, true);
  for (uint32_t r = 1; session.rank() == 0 && r < session.world_size(); ++r) lanes.emplace_back(session.link(), r, false);
  for (uint64_t n = 0; n < steps; ++n)
    for (Lane& lane : lanes) lane.step(n);
  for (Lane& lane : lanes) lane.finish();
  if (session.rank() == 0) std::printf("%.6f\n", static_cast<double>(io.now_ns() - begin) / 1e9);
  std::fflush(stdout);
  RankTree(session).broadcast({});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto launch = find_launch([](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
  if (!launch) return 2;
  const ModuleKind<DcpctlTransportTable> gloo{
      .name = "c10d", .symbol = "dcpctl_transport", .abi = kDcpctlTransportAbi, .needs = "LibTorch"};
  const auto io = make_posix_io();
  StopFlag stop{0};
  SessionOptions options{.identity = "bare", .host = ""};
  if (argc > 3) options.timeout_ms = static_cast<uint32_t>(std::atoi(argv[3]));
  Session session(open_module({argv[1]}, gloo), *launch, options, *io, stop);
  try {
    move_bytes(session, *io, std::strtoull(argv[2], nullptr, 10));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", to_line(problem_of(session.fail_with(error.problem()))).c_str());
    std::_Exit(6);
  }
  session.done();
  std::_Exit(0);
}
