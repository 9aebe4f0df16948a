// Several processes that run one command together: joining, knowing that all are alive, and ending together when one is not.
//
// Every rank beats: twice a second and more it increments its own key in the store, reads that of the rank before it, and looks whether
// somebody has failed: three small operations a beat, whatever the number of ranks. A rank whose count stands still for the timeout is
// gone, and the first to say so (or to fail itself) writes the one key `failed` that all others see within a beat. A store that does not
// answer for the timeout is rank 0's fault. Waiting for bytes has no timeout of its own: a slow disk is no failure.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/io.h"
#include "base/workers.h"
#include "ranks/link.h"

namespace dcp {

struct RankFailure {
  uint32_t rank = 0;  // whose fault it is
  int code = 0;       // its exit code, where it could say it; else that of rank_lost
  std::string host;   // where it runs, where it could say it
  Problem problem;
};

struct SessionOptions {
  uint32_t timeout_ms = 60000;
  std::string identity;  // what must be the same on all ranks: build, modules, command line
  std::string host;      // of this rank, for messages
  Door* door = nullptr;  // before the store, where this rank serves it
  std::string address;   // address_towards()
  // Called from a thread of the session's when this rank does not come to its end by itself after a failure; ends the process.
  std::function<void(const RankFailure&)> give_up;
};

class Session {
 public:
  // Waits for all ranks and connects them. `stop` is raised when some rank has failed, so that workers end; the Io gives the time. Throws
  // rank_lost, ranks_differ, rank_failed.
  Session(const DcpctlTransportTable& table, Launch launch, SessionOptions options, Io& io, StopFlag& stop);
  ~Session();

  uint32_t rank() const { return launch_.rank; }
  uint32_t world_size() const { return launch_.world_size; }
  const std::string& host() const { return options_.host; }
  const Launch& launch() const { return launch_; }
  Link& link() { return *link_; }

  // This rank has failed with `problem`, or has met a rank that is gone. Returns what failed first, wherever that was.
  RankFailure fail_with(const Problem& problem, int code);
  std::optional<RankFailure> failure() const;
  // Throws rank_failed if some rank has failed.
  void check() const;
  // All ranks are done: what happens to others from now on is no failure. Messages that are still under way are given the timeout.
  void done();

  static constexpr int kStopped = 255;  // what `stop` holds after a failure of another rank

 private:
  enum class Phase : uint8_t {
    kReaching,    // the store has not answered yet
    kGathering,   // until all ranks are there
    kConnecting,  // all are there, and are being connected for messages
    kRunning,
    kClosing,  // what happens to others is no failure any more
  };
  struct State {
    Phase phase = Phase::kReaching;
    uint64_t entered_ns = 0;  // when the phase began
    uint64_t beaten_ns = 0;   // when the store last answered
    uint64_t refused_ns = 0;  // since when it refuses; 0: it does not
    uint64_t failed_ns = 0;   // when `failure` was heard of
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
  Watch watch_;                           // of the beat alone
  std::unique_ptr<Ticker> guard_, beat_;  // the guard goes last: a beat may hang in a store that answers no more
};

// "rank 2 on node7"
std::string rank_words(const RankFailure& failure);
// What the other ranks say of it: rank_failed, with the failing rank's own line.
Problem problem_of(const RankFailure& failure);
// What a rank that has failed with `mine` says and exits with: what all ranks find, such as a hole in the checkpoint, is each one's own.
Problem problem_at(uint32_t rank, const Problem& mine, const RankFailure& first);

}  // namespace dcp
