// Several processes that run one command together: joining, checking that all are alive, and ending together when one is not.
//
// Every rank has a heartbeat: at least twice a second it increments its own key in the store, reads that of the rank before it, and checks
// whether a rank has failed: three small operations per beat, whatever the number of ranks. A rank whose count does not change for the
// timeout is gone, and the first rank to notice (or to fail itself) writes the key `failed`, which all others see within a beat. If the
// store does not answer for the timeout, rank 0 has failed. Waiting for bytes has no timeout: a slow disk is not a failure.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/workers.h"
#include "ranks/link.h"

namespace dcp {

struct RankFailure {
  uint32_t rank = 0;  // whose fault it is
  std::string host;   // its host, if it could report it
  Problem problem;
};

struct SessionOptions {
  uint32_t timeout_ms = 60000;
  std::string identity;  // what must be the same on all ranks: build, modules, command line
  std::string host;      // of this rank, for messages
  Door* door = nullptr;  // in front of the store, if this rank serves it
  std::string address;   // address_towards()
  // Called from a thread of the session if this rank does not finish by itself after a failure; ends the process.
  std::function<void(const RankFailure&)> give_up;
};

class Session {
 public:
  // Waits for all ranks and connects them. Sets `stop` when some rank has failed, so that workers end; `io` is the clock. Throws rank_lost,
  // ranks_differ, rank_failed.
  Session(const DcpctlTransportTable& table, Launch launch, SessionOptions options, Io& io, StopFlag& stop);
  ~Session();

  uint32_t rank() const { return launch_.rank; }
  uint32_t world_size() const { return launch_.world_size; }
  const std::string& host() const { return options_.host; }
  const Launch& launch() const { return launch_; }
  Link& link() { return *link_; }

  // Reports that this rank has failed with `problem`, or has found a rank gone. Returns the first failure of any rank.
  RankFailure fail_with(const Problem& problem);
  std::optional<RankFailure> failure() const;
  // Throws rank_failed if some rank has failed.
  void check() const;
  // Call once all ranks are done: from then on, nothing that happens to other ranks is a failure. Messages in flight get the timeout to
  // finish.
  void done();

  static constexpr int kStopped = 255;  // the value of `stop` after another rank has failed

 private:
  enum class Phase : uint8_t {
    kReaching,    // the store has not answered yet
    kGathering,   // until all ranks have joined
    kConnecting,  // all have joined, and are being connected for messages
    kRunning,
    kClosing,  // other ranks may end without failure
  };
  struct State {
    Phase phase = Phase::kReaching;
    uint64_t entered_ns = 0;  // when the phase began
    uint64_t beaten_ns = 0;   // when the store last answered
    uint64_t refused_ns = 0;  // since when it refuses connections; 0: it does not
    uint64_t failed_ns = 0;   // when `failure` became known
    std::optional<RankFailure> failure;
  };
  struct Watch {  // of the rank before this one
    int64_t count = -1;
    uint64_t since_ns = 0;
  };
  State state() const;
  void enter(Phase phase);
  std::string key(const std::string& name) const { return prefix_ + name; }
  void join();
  void wait_for_all();
  [[noreturn]] void fail_missing();
  void beat();
  void watch_before();
  void watch_connecting();
  void guard();
  void publish(RankFailure mine);
  void first_failure(RankFailure failure, bool publish);
  void note(RankFailure failure);

  Launch launch_;
  SessionOptions options_;
  Io& io_;
  StopFlag& stop_;
  std::string prefix_;
  std::unique_ptr<Link> link_;
  mutable std::mutex mutex_;  // state_
  State state_;
  Watch watch_;                           // used by the beat only
  std::unique_ptr<Ticker> guard_, beat_;  // the guard is destroyed last: a beat may hang in a store that no longer answers
};

// "rank 2 on node7"
std::string rank_words(const RankFailure& failure);
// The problem that other ranks report: rank_failed, with the failing rank's own line.
Problem problem_of(const RankFailure& failure);
// The problem that a rank which failed with `mine` reports and exits with. A fault that every rank finds, such as a hole in the checkpoint,
// is reported as each rank's own.
Problem problem_at(uint32_t rank, const Problem& mine, const RankFailure& first);

// Broadcast from rank 0 to all, and gather from all to rank 0, along a binomial tree. No rank talks to more than log2(world size) others,
// so a broadcast of B bytes costs each rank at most log2(world size) times B, and time grows with log2 of the world size.

// Every rank must make every call, in the same order, from one thread.
class RankTree {
 public:
  explicit RankTree(Session& session) : session_(session) {}
  // Returns rank 0's bytes; the arguments of other ranks are ignored. `has` is called with the bytes before they are passed on.
  std::vector<std::byte> broadcast(std::vector<std::byte> bytes, const std::function<void(Bytes)>& has = {});
  // Calls merge() with the bytes of each rank below this one, then take() for the combined bytes to pass on. take() is not called at rank
  // 0.
  void gather(const std::function<void(Bytes)>& merge, const std::function<std::vector<std::byte>()>& take);

 private:
  void send(uint32_t to, Bytes bytes);
  std::vector<std::byte> receive(uint32_t from);
  Session& session_;
};

}  // namespace dcp
