#include "ranks/session.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "ranks/wire.h"

namespace dcp {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kMaxBeatMs = 500;
constexpr uint64_t kGraceMs = 1500;   // an ending rank closes its connections first: its reason may still be under way
constexpr uint64_t kGiveUpMs = 3000;  // for removing what is half-written

void pause(uint64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

uint64_t beat_ms(uint32_t timeout_ms) { return std::clamp<uint64_t>(timeout_ms / 10, 20, kMaxBeatMs); }

std::string packed(const RankFailure& f) {
  WireWriter out;
  out.number(f.rank);
  out.text(f.host);
  out.problem(f.problem);
  return std::string(as_text(out.take()));
}

std::string seconds_text(uint32_t ms) {
  return std::to_string(ms / 1000) + (ms % 1000 ? "." + std::to_string(ms % 1000 / 100) : "") + " s";
}

RankFailure lost_rank(uint32_t rank, std::string why) {
  return {.rank = rank, .host = {}, .problem = make_problem(ProblemId::rank_lost, {.rank = rank}, std::move(why))};
}

// Other programs can reach the store: a text that is not a rank's failure counts as a failure of the store.
RankFailure unpacked(std::string_view text, uint32_t world_size) {
  try {
    WireReader in(as_bytes(text));
    RankFailure f{.rank = in.number<uint32_t>(), .host = in.text(), .problem = {}};
    f.problem = in.problem();
    if (f.rank < world_size) return f;
  } catch (const Error&) {
  }
  return lost_rank(0, "the store holds a failure that no rank has written");
}

constexpr uint32_t kTag = 0;  // of all messages of trees: one thread sends them, so they arrive in order
constexpr uint64_t kAtOnce = 64 << 20;

}  // namespace

std::string rank_words(const RankFailure& f) { return "rank " + std::to_string(f.rank) + (f.host.empty() ? "" : " on " + f.host); }

Problem problem_of(const RankFailure& f) {
  if (f.problem.id == ProblemId::rank_lost || f.problem.id == ProblemId::ranks_differ) return f.problem;
  Problem p = make_problem(ProblemId::rank_failed, {.path = rank_words(f)}, to_line(f.problem));
  p.hint = f.problem.hint;
  p.remedy = f.problem.remedy;
  p.enough_bytes = f.problem.enough_bytes;
  return p;
}

Problem problem_at(uint32_t rank, const Problem& mine, const RankFailure& first) {
  const bool own = first.rank == rank || to_line(first.problem) == to_line(mine);
  return own && first.problem.id != ProblemId::rank_lost ? mine : problem_of(first);
}

Session::Session(const DcpctlTransportTable& table, Launch launch, SessionOptions options, Io& io, StopFlag& stop)
    : launch_(std::move(launch)), options_(std::move(options)), io_(io), stop_(stop) {
  state_.beaten_ns = io_.now_ns();
  guard_ = std::make_unique<Ticker>(beat_ms(options_.timeout_ms), [this] { guard(); });
  link_ = std::make_unique<Link>(table, launch_, options_.timeout_ms, options_.door, options_.address);
  // A script may run several commands under one launcher, and torchrun's store outlives them: the n-th command of each rank meets the n-th
  // of the others.
  const std::string base = "dcpctl/" + launch_.attempt + "/";
  prefix_ = base + std::to_string(link_->add(kDcpctlMain, base + "runs/" + std::to_string(launch_.rank), 1)) + "/";
  enter(Phase::kGathering);
  beat_ = std::make_unique<Ticker>(beat_ms(options_.timeout_ms), [this] { beat(); });
  try {
    join();
  } catch (const Error& error) {
    const RankFailure first = fail_with(error.problem());
    enter(Phase::kClosing);
    throw Error(problem_at(launch_.rank, error.problem(), first));
  }
}

Session::~Session() {
  enter(Phase::kClosing);
  beat_.reset();
  guard_.reset();
}

Session::State Session::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Session::enter(Phase phase) {
  const std::lock_guard lock(mutex_);
  if (state_.phase == phase) return;
  state_.phase = phase;
  state_.entered_ns = io_.now_ns();
  if (phase == Phase::kGathering) state_.beaten_ns = state_.entered_ns;  // the store has answered
}

void Session::join() {
  const std::string mine = std::to_string(launch_.world_size) + " ranks, " + options_.identity;
  const std::string theirs = link_->set_first(kDcpctlMain, key("who"), mine);
  if (theirs != mine) fail(ProblemId::ranks_differ, {.rank = launch_.rank}, mine, theirs + ", as another rank says");
  link_->set(kDcpctlMain, key("here/" + std::to_string(launch_.rank)), options_.host);
  if (link_->add(kDcpctlMain, key("here"), 1) == launch_.world_size) link_->set(kDcpctlMain, key("all"), "1");
  wait_for_all();
  enter(Phase::kConnecting);
  link_->connect(key("messages"));
  enter(Phase::kRunning);
  check();
}

void Session::wait_for_all() {
  const uint64_t begin = io_.now_ns();
  for (uint64_t pause_ms = 5; !link_->look(kDcpctlMain, key("all")); pause_ms = std::min<uint64_t>(pause_ms * 2, 250)) {
    check();
    if (stop_ != 0) fail(ProblemId::terminated, {});
    if (io_.now_ns() - begin > options_.timeout_ms * kMs) fail_missing();
    pause(pause_ms);
  }
}

void Session::fail_missing() {
  for (uint32_t r = 0; r < launch_.world_size; ++r)
    if (!link_->look(kDcpctlMain, key("here/" + std::to_string(r))))
      fail(ProblemId::rank_lost, {.rank = r}, "not started within " + seconds_text(options_.timeout_ms));
  fail(ProblemId::rank_lost, {.path = "the ranks"}, "not complete within " + seconds_text(options_.timeout_ms));
}

void Session::beat() {
  const Phase phase = state().phase;
  if (phase == Phase::kClosing) return;
  try {
    link_->add(kDcpctlBeat, key("beat/" + std::to_string(launch_.rank)), 1);
    if (link_->look(kDcpctlBeat, key("failed"))) note(unpacked(link_->get(kDcpctlBeat, key("failed")), launch_.world_size));
    if (phase >= Phase::kConnecting) watch_before();
    watch_connecting();
    const std::lock_guard lock(mutex_);
    state_.beaten_ns = io_.now_ns();
    state_.refused_ns = 0;
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    if (state_.refused_ns == 0) state_.refused_ns = io_.now_ns();
  }
}

void Session::watch_before() {
  const uint32_t before = (launch_.rank + launch_.world_size - 1) % launch_.world_size;
  const int64_t count = link_->add(kDcpctlBeat, key("beat/" + std::to_string(before)), 0);
  const uint64_t now = io_.now_ns();
  if (count != watch_.count) watch_ = {.count = count, .since_ns = now};
  else if (now - watch_.since_ns > options_.timeout_ms * kMs && state().phase != Phase::kClosing)
    first_failure(lost_rank(before, "no sign of life for " + seconds_text(options_.timeout_ms)), true);
}

// ProcessGroupGloo (torch 2.11) never returns if it cannot start a thread: it destroys what its other threads wait on. The other ranks are
// connected by then, and see this rank's beats.
void Session::watch_connecting() {
  const State s = state();
  if (s.phase == Phase::kConnecting && io_.now_ns() - s.entered_ns > (options_.timeout_ms + kGraceMs) * kMs)
    first_failure(lost_rank(launch_.rank, "stuck while connecting to the others, for lack of memory or threads"), true);
}

// Uses only the clock, so that it never waits for another rank.
void Session::guard() {
  const State s = state();
  const uint64_t now = io_.now_ns();
  if (s.phase == Phase::kReaching) {
    // A stopped process still accepts connections, and LibTorch waits for its answer forever. The limit is three timeouts, because LibTorch
    // tries to connect three times.
    if (now - s.beaten_ns > (3 * uint64_t{options_.timeout_ms} + kGraceMs) * kMs)
      options_.give_up(lost_rank(0, "the store has not answered for " + seconds_text(3 * options_.timeout_ms)));
    return;
  }
  if (s.failure) {
    if (now - s.failed_ns > kGiveUpMs * kMs) options_.give_up(*s.failure);
    return;
  }
  if (s.phase == Phase::kClosing) {
    if (now - s.entered_ns > options_.timeout_ms * kMs) link_->abort();
    return;
  }
  if (s.refused_ns != 0 && now - s.refused_ns > kGraceMs * kMs) first_failure(lost_rank(0, "the store has closed its connection"), false);
  else if (now - s.beaten_ns > options_.timeout_ms * kMs)
    first_failure(lost_rank(0, "the store has not answered for " + seconds_text(options_.timeout_ms)), false);
}

void Session::first_failure(RankFailure failure, bool publish) {
  if (publish) failure = unpacked(link_->set_first(kDcpctlBeat, key("failed"), packed(failure)), launch_.world_size);
  note(std::move(failure));
}

void Session::note(RankFailure failure) {
  bool is_connected = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_.failure || state_.phase == Phase::kClosing) return;
    state_.failure = std::move(failure);
    state_.failed_ns = io_.now_ns();
    is_connected = state_.phase == Phase::kRunning;
  }
  int running = 0;
  stop_.compare_exchange_strong(running, kStopped);
  if (is_connected) link_->abort();
}

std::optional<RankFailure> Session::failure() const { return state().failure; }

void Session::done() { enter(Phase::kClosing); }

void Session::check() const {
  if (const auto f = failure()) throw Error(problem_of(*f));
}

RankFailure Session::fail_with(const Problem& problem) {
  RankFailure mine{.rank = launch_.rank, .host = options_.host, .problem = problem};
  const bool lost = problem.id == ProblemId::rank_lost;
  if (lost) {
    // The lost rank may have given its reason, or another rank may know better which one it was.
    for (const uint64_t begin = io_.now_ns(); !failure() && io_.now_ns() - begin < kGraceMs * kMs;) pause(20);
    mine.host.clear();
    mine.rank = problem.place.rank.value_or(mine.rank);
  }
  if (!failure()) publish(mine);
  // The store ends with this process: give the others time to read the reason from it.
  if (launch_.serves_store) pause(3 * beat_ms(options_.timeout_ms));
  return failure().value_or(mine);
}

void Session::publish(RankFailure mine) {
  try {
    mine = unpacked(link_->set_first(kDcpctlMain, key("failed"), packed(mine)), launch_.world_size);
  } catch (const Error&) {  // the store is gone, too
  }
  note(std::move(mine));
}

void RankTree::send(uint32_t to, Bytes bytes) {
  const uint64_t count = bytes.size();
  session_.link().send(to, kTag, {reinterpret_cast<const std::byte*>(&count), sizeof count}).wait();
  for (uint64_t at = 0; at < count; at += kAtOnce) session_.link().send(to, kTag, bytes.subspan(at, std::min(kAtOnce, count - at))).wait();
}

std::vector<std::byte> RankTree::receive(uint32_t from) {
  const auto count = load_le<uint64_t>(session_.link().receive_all(from, kTag, sizeof(uint64_t)).data());
  std::vector<std::byte> bytes;
  bytes.reserve(std::min(count, kAtOnce));  // the announced count may be wrong
  for (uint64_t at = 0; at < count; at += kAtOnce) {
    const std::vector<std::byte> part = session_.link().receive_all(from, kTag, std::min(kAtOnce, count - at));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

// Rank r receives from r without its highest bit, and sends to r + 2^k for all 2^k above that bit.
std::vector<std::byte> RankTree::broadcast(std::vector<std::byte> bytes, const std::function<void(Bytes)>& has) {
  const uint32_t rank = session_.rank(), world = session_.world_size();
  uint32_t step = 1;
  while (step <= rank) step *= 2;
  if (rank > 0) bytes = receive(rank - step / 2);
  if (has) has(bytes);
  for (; step < world; step *= 2)
    if (rank + step < world) send(rank + step, bytes);
  return bytes;
}

// Rank r receives from r + 2^k for all 2^k below its lowest bit, and sends to r without that bit.
void RankTree::gather(const std::function<void(Bytes)>& merge, const std::function<std::vector<std::byte>()>& take) {
  const uint32_t rank = session_.rank(), world = session_.world_size();
  for (uint32_t step = 1; step < world; step *= 2) {
    if (rank & step) return send(rank - step, take());
    if (rank + step < world) merge(receive(rank + step));
  }
}

}  // namespace dcp
