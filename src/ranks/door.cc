#include "ranks/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "base/posix_calls.h"
#include "base/problem.h"
#include "base/workers.h"

namespace dcp {
namespace {

using posix::Fd;
using posix::retry;

// Every client of a TCPStore begins with this (torch 2.11 to 2.15): VALIDATE, and a number.
constexpr std::array<unsigned char, 5> kGreeting{0x00, 0xCE, 0xF7, 0x85, 0x3C};
constexpr size_t kBlock = 64 << 10;
constexpr int kBacklog = 4096;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  bool operator==(const Address& o) const { return size == o.size && std::memcmp(&bytes, &o.bytes, size) == 0; }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  int family() const { return bytes.ss_family; }
  std::string text() const {
    char host[NI_MAXHOST];
    return ::getnameinfo(get(), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0 ? host : "?";
  }
  bool is_loopback() const {
    if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr);
    return family() == AF_INET && ntohl(reinterpret_cast<const sockaddr_in&>(bytes).sin_addr.s_addr) >> 24 == 127;
  }
};

std::vector<Address> resolved(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  std::vector<Address> all;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Address address;
    if ((a->ai_family != AF_INET && a->ai_family != AF_INET6) || a->ai_addrlen > sizeof address.bytes) continue;
    std::memcpy(&address.bytes, a->ai_addr, a->ai_addrlen);
    address.size = a->ai_addrlen;
    if (std::ranges::find(all, address) == all.end()) all.push_back(address);
  }
  ::freeaddrinfo(found);
  return all;
}

// This host's name may mean its loopback here (Debian: 127.0.1.1), but its address on other hosts.
bool means_loopback(const std::string& host) {
  unsigned char ignored[sizeof(in6_addr)];
  return host == "localhost" || ::inet_pton(AF_INET, host.c_str(), ignored) == 1 || ::inet_pton(AF_INET6, host.c_str(), ignored) == 1;
}

Fd listening(const Address& address, bool both_families) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  const int yes = 1, only_6 = both_families ? 0 : 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.family() == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_6, sizeof only_6);
  if (::bind(fd.get(), address.get(), address.size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    fd = Fd();
    errno = error;
  }
  return fd;
}

Address any(int family, uint16_t port) {
  Address address;
  address.bytes.ss_family = static_cast<sa_family_t>(family);
  address.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address.bytes).sin6_port = htons(port);
  else reinterpret_cast<sockaddr_in&>(address.bytes).sin_port = htons(port);
  return address;
}

Address loopback(uint16_t port) {
  Address address = any(AF_INET, port);
  reinterpret_cast<sockaddr_in&>(address.bytes).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? ntohs(address.sin_port) : 0;
}

// A rank takes three descriptors here for each of its two connections.
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bytes under way from one end to the other.
struct Half {
  std::vector<char> waiting;  // not yet accepted by the other end
  bool ended = false;         // there will be no more
};

struct Connection {
  Fd ends[2];      // outside, the store; the store's once it has greeted
  Half halves[2];  // from outside, from the store
  size_t greeted = 0;
  int64_t since_ms = 0;
};

}  // namespace

struct Door::State {
  DoorOptions options;
  std::string where;
  std::vector<Fd> listeners;
  Fd store, events, wake;
  uint16_t store_port = 0;
  std::list<Connection> connections;  // those that have not greeted are at the end, in order of arrival
  std::unordered_map<int, std::pair<std::list<Connection>::iterator, int>> by_fd;  // with the end that the descriptor is
  size_t silent = 0;
  SerialQueue thread;  // last: it uses all of the above

  void watch(int fd, uint32_t what, int how) {
    epoll_event event{.events = what, .data = {.fd = fd}};
    ::epoll_ctl(events.get(), how, fd, &event);
  }
  void run();
  void accept_from(int listener);
  void act(std::list<Connection>::iterator c, int end);
  bool greet(Connection& c);
  bool let_in(std::list<Connection>::iterator c);  // false: it stays outside
  bool move(Connection& c, int from);
  void rearm(Connection& c);
  void close(std::list<Connection>::iterator c);
  void close_silent(int64_t until_ms, size_t max);
};

Door::Door(const std::string& host, uint16_t port, DoorOptions options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = options;
  allow_many_descriptors();
  const auto refuse = [&] { fail(ProblemId::io_create, {.path = host + ":" + std::to_string(port)}, posix::reason_of(errno)); };
  const std::vector<Address> addresses = resolved(host, port);
  const bool usable = !addresses.empty() && (means_loopback(host) || std::ranges::none_of(addresses, &Address::is_loopback));
  for (const Address& a : addresses) {
    if (!usable) break;
    Fd fd = listening(a, false);
    if (!fd && errno == EADDRINUSE) refuse();
    if (!fd && !means_loopback(host)) {  // the address of something in between: listen on all interfaces
      s.listeners.clear();
      break;
    }
    if (!fd) continue;  // localhost, with an address family that is switched off
    s.listeners.push_back(std::move(fd));
    s.where += (s.where.empty() ? "" : ", ") + a.text();
  }
  if (s.listeners.empty()) {
    s.where = "all interfaces";
    Fd fd = listening(any(AF_INET6, port), true);
    if (!fd && errno != EADDRINUSE) fd = listening(any(AF_INET, port), false);
    if (!fd) refuse();
    s.listeners.push_back(std::move(fd));
  }
  s.store = listening(loopback(0), false);
  s.events = Fd(::epoll_create1(EPOLL_CLOEXEC));
  s.wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!s.store || !s.events || !s.wake) refuse();
  s.store_port = port_of(s.store.get());
  for (const Fd& fd : s.listeners) s.watch(fd.get(), EPOLLIN, EPOLL_CTL_ADD);
  s.watch(s.wake.get(), EPOLLIN, EPOLL_CTL_ADD);
  s.thread.run([&s] { s.run(); });
}

Door::~Door() {
  const uint64_t one = 1;
  (void)!::write(state_->wake.get(), &one, sizeof one);
}

int Door::take_store_socket() { return state_->store.release(); }
uint16_t Door::store_port() const { return state_->store_port; }
const std::string& Door::where() const { return state_->where; }

void Door::State::run() {
  std::array<epoll_event, 256> ready;
  for (;;) {
    const int n = retry([&] { return ::epoll_wait(events.get(), ready.data(), static_cast<int>(ready.size()), silent > 0 ? 200 : -1); });
    for (int i = 0; i < n; ++i) {
      const int fd = ready[static_cast<size_t>(i)].data.fd;
      if (fd == wake.get()) return;
      if (const auto it = by_fd.find(fd); it != by_fd.end()) act(it->second.first, it->second.second);
      else if (std::ranges::any_of(listeners, [&](const Fd& l) { return l.get() == fd; })) accept_from(fd);
    }
    close_silent(now_ms() - options.greeting_ms, options.max_silent);
  }
}

void Door::State::accept_from(int listener) {
  constexpr int kAtOnce = 64;  // so that a flood leaves time for accepted connections
  for (int i = 0; i < kAtOnce; ++i) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE) close_silent(now_ms() + 1, silent / 2);
      return;
    }
    const int yes = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const int number = fd.get();
    connections.emplace_back();
    const auto c = std::prev(connections.end());
    c->ends[0] = std::move(fd);
    c->since_ms = now_ms();
    by_fd[number] = {c, 0};
    ++silent;
    watch(number, EPOLLIN, EPOLL_CTL_ADD);
  }
}

void Door::State::act(std::list<Connection>::iterator c, int end) {
  if (!c->ends[1]) {
    const bool stays = greet(*c) && (c->greeted < kGreeting.size() || let_in(c));
    return stays ? void() : close(c);
  }
  // Whichever end is ready, move what it sends and what waits for it.
  if (!move(*c, end) || !move(*c, 1 - end) || (c->halves[0].ended && c->halves[1].ended)) return close(c);
  rearm(*c);
}

// Returns false if the client is not one of ours.
bool Door::State::greet(Connection& c) {
  std::array<unsigned char, kGreeting.size()> received;
  const ssize_t n = ::recv(c.ends[0].get(), received.data(), kGreeting.size() - c.greeted, 0);
  if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
  if (!std::equal(received.begin(), received.begin() + n, kGreeting.begin() + static_cast<ptrdiff_t>(c.greeted))) return false;
  c.greeted += static_cast<size_t>(n);
  return true;
}

bool Door::State::let_in(std::list<Connection>::iterator c) {
  --silent;
  connections.splice(connections.begin(), connections, c);  // connections at the front have greeted
  const Address store_address = loopback(store_port);
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || (::connect(fd.get(), store_address.get(), store_address.size) != 0 && errno != EINPROGRESS)) return false;
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const int number = fd.get();
  c->ends[1] = std::move(fd);
  c->halves[0].waiting.assign(kGreeting.begin(), kGreeting.end());
  by_fd[number] = {c, 1};
  watch(number, EPOLLIN, EPOLL_CTL_ADD);
  act(c, 0);
  return true;
}

// Moves what end `from` has sent to the other end. Returns false if an end is gone.
bool Door::State::move(Connection& c, int from) {
  Half& half = c.halves[from];
  const int out = c.ends[1 - from].get();
  std::array<char, kBlock> block;
  for (;;) {
    while (!half.waiting.empty()) {
      const ssize_t n = retry([&] { return ::send(out, half.waiting.data(), half.waiting.size(), MSG_NOSIGNAL); });
      if (n < 0) return errno == EAGAIN;
      half.waiting.erase(half.waiting.begin(), half.waiting.begin() + n);
    }
    if (half.ended) return true;
    const ssize_t n = retry([&] { return ::recv(c.ends[from].get(), block.data(), block.size(), 0); });
    if (n < 0) return errno == EAGAIN;
    if (n == 0) {
      half.ended = true;
      ::shutdown(out, SHUT_WR);
      return true;
    }
    half.waiting.assign(block.begin(), block.begin() + n);
  }
}

// An end is read only once its previous bytes have been accepted.
void Door::State::rearm(Connection& c) {
  for (const int end : {0, 1}) {
    const uint32_t in = c.halves[end].waiting.empty() && !c.halves[end].ended ? static_cast<uint32_t>(EPOLLIN) : 0;
    const uint32_t out = c.halves[1 - end].waiting.empty() ? 0 : static_cast<uint32_t>(EPOLLOUT);
    watch(c.ends[end].get(), in | out, EPOLL_CTL_MOD);
  }
}

void Door::State::close(std::list<Connection>::iterator c) {
  if (c->greeted < kGreeting.size()) --silent;
  for (const Fd& fd : c->ends)
    if (fd) by_fd.erase(fd.get());
  connections.erase(c);
}

void Door::State::close_silent(int64_t until_ms, size_t max) {
  // Those that have not greeted are at the end of the list, oldest first.
  for (auto c = std::prev(connections.end(), static_cast<ptrdiff_t>(silent));
       c != connections.end() && (c->since_ms <= until_ms || silent > max);)
    close(c++);
}

std::string address_towards(const std::string& host) {
  for (const Address& a : resolved(host, 9)) {  // nothing is sent, so any port works
    const Fd fd(::socket(a.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), a.get(), a.size) != 0) continue;
    Address mine;
    mine.size = sizeof mine.bytes;
    if (::getsockname(fd.get(), mine.get(), &mine.size) != 0) continue;
    return mine.is_loopback() && !means_loopback(host) ? "" : mine.text();
  }
  return {};
}

}  // namespace dcp
