#include "ranks/link.h"

#include <deque>
#include <mutex>

namespace dcp {
namespace {

constexpr size_t kMaxValue = 64 << 10;

[[noreturn]] void lost(uint32_t rank, const DcpctlReason& why, const std::string& where = {}) {
  fail(ProblemId::rank_lost, {.path = where, .rank = rank}, why.text);
}

}  // namespace

Link::Link(const DcpctlTransportTable& table, const Launch& launch, uint32_t timeout_ms, Door* door, const std::string& address)
    : table_(table) {
  const bool behind = launch.serves_store && door;
  const DcpctlJoin join{.host = behind ? "127.0.0.1" : launch.host.c_str(),
                        .port = behind ? door->store_port() : launch.port,
                        .serves = launch.serves_store,
                        .listener = behind ? door->take_store_socket() : -1,
                        .address = address.c_str(),
                        .rank = launch.rank,
                        .world_size = launch.world_size,
                        .local_rank = launch.local_rank,
                        .timeout_ms = timeout_ms};
  DcpctlReason why{};
  if (table_.join(&join, &transport_, &why) == 0) return;
  const std::string where = launch.host + ":" + std::to_string(launch.port);
  if (launch.serves_store) fail(ProblemId::io_create, {.path = where}, why.text);
  lost(0, why, where);
}

// A failure counts as rank 0's: the store lives in its process, or in torchrun's agent on its host.
void Link::set(DcpctlLane lane, const std::string& key, std::string_view value) {
  DcpctlReason why{};
  if (table_.set(transport_, lane, key.c_str(), value.data(), value.size(), &why) != 0) lost(0, why);
}

bool Link::look(DcpctlLane lane, const std::string& key) {
  DcpctlReason why{};
  int there = 0;
  if (table_.look(transport_, lane, key.c_str(), &there, &why) != 0) lost(0, why);
  return there != 0;
}

std::string Link::get(DcpctlLane lane, const std::string& key) {
  constexpr uint32_t kAtOnce = 10000;
  DcpctlReason why{};
  std::string value(kMaxValue, '\0');
  uint64_t bytes = 0;
  if (table_.get(transport_, lane, key.c_str(), kAtOnce, value.data(), value.size(), &bytes, &why) != 0) lost(0, why);
  value.resize(bytes);
  return value;
}

int64_t Link::add(DcpctlLane lane, const std::string& key, int64_t number) {
  DcpctlReason why{};
  int64_t sum = 0;
  if (table_.add(transport_, lane, key.c_str(), number, &sum, &why) != 0) lost(0, why);
  return sum;
}

std::string Link::set_first(DcpctlLane lane, const std::string& key, std::string_view value) {
  DcpctlReason why{};
  std::string is(kMaxValue, '\0');
  uint64_t bytes = 0;
  if (table_.set_first(transport_, lane, key.c_str(), value.data(), value.size(), is.data(), is.size(), &bytes, &why) != 0) lost(0, why);
  is.resize(bytes);
  return is;
}

void Link::connect(const std::string& name) {
  DcpctlReason why{};
  const int failed = table_.connect(transport_, name.c_str(), &why);
  if (failed == kDcpctlLacking) {
    throw Error(with_remedy(make_problem(ProblemId::device_missing, {}, why.text), Remedy::kOtherTransport));
  }
  if (failed != 0) fail(ProblemId::rank_lost, {.path = "the ranks"}, why.text);
}

Link::Message::~Message() {
  DcpctlReason ignored{};
  if (!work_) return;
  link_->abort();
  link_->table_.wait(link_->transport_, work_, &ignored);
}

void Link::Message::wait() {
  DcpctlReason why{};
  DcpctlWork* const work = std::exchange(work_, nullptr);
  if (work && link_->table_.wait(link_->transport_, work, &why) != 0) lost(peer_, why);
}

Link::Message Link::send(uint32_t to, uint32_t tag, Bytes bytes) {
  DcpctlReason why{};
  DcpctlWork* work = nullptr;
  if (table_.send(transport_, to, tag, bytes.data(), bytes.size(), &work, &why) != 0) lost(to, why);
  return {*this, to, work};
}

Link::Message Link::receive(uint32_t from, uint32_t tag, MutableBytes into) {
  DcpctlReason why{};
  DcpctlWork* work = nullptr;
  if (table_.receive(transport_, from, tag, into.data(), into.size(), &work, &why) != 0) lost(from, why);
  return {*this, from, work};
}

std::vector<std::byte> Link::receive_all(uint32_t from, uint32_t tag, uint64_t bytes) {
  std::vector<std::byte> buffer(bytes);
  try {
    receive(from, tag, buffer).wait();
  } catch (...) {
    abandon(std::move(buffer));
    throw;
  }
  return buffer;
}

void Link::abandon(std::vector<std::byte> buffer) {
  static std::mutex mutex;
  static auto& abandoned = *new std::deque<std::vector<std::byte>>;  // never destroyed: threads of LibTorch outlive main()
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(buffer));
}

void Link::abort() { table_.abort(transport_); }

}  // namespace dcp
