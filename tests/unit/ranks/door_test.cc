#include "ranks/door.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error_line.h"
#include "base/posix_calls.h"

namespace dcp {
namespace {

using posix::Fd;

const std::string kGreeting("\x00\xCE\xF7\x85\x3C", 5);

sockaddr_in at_loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

uint16_t free_port() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = at_loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

Fd connected(uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = at_loopback(port);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

void say(const Fd& fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

// What comes within `ms`: up to `bytes` of it, less if the other side ends.
std::string heard(const Fd& fd, size_t bytes, int ms = 10'000) {
  std::string text;
  for (pollfd p{.fd = fd.get(), .events = POLLIN, .revents = 0}; text.size() < bytes && ::poll(&p, 1, ms) > 0;) {
    char block[65536];
    const ssize_t n = ::recv(fd.get(), block, std::min(sizeof block, bytes - text.size()), 0);
    if (n <= 0) break;
    text.append(block, static_cast<size_t>(n));
  }
  return text;
}

bool is_closed(const Fd& fd, int ms) {
  pollfd p{.fd = fd.get(), .events = POLLIN, .revents = 0};
  char c;
  return ::poll(&p, 1, ms) > 0 && ::recv(fd.get(), &c, 1, 0) <= 0;
}

struct House {
  uint16_t port = free_port();
  Door door;
  Fd store;
  explicit House(DoorOptions options = {}) : door("127.0.0.1", port, options), store(door.take_store_socket()) {}
  // Whoever was let in next.
  Fd guest(int ms = 10'000) {
    pollfd p{.fd = store.get(), .events = POLLIN, .revents = 0};
    return Fd(::poll(&p, 1, ms) > 0 ? ::accept4(store.get(), nullptr, nullptr, SOCK_CLOEXEC) : -1);
  }
};

TEST_CASE("Who greets is let in, and is heard and answered word for word") {
  House house;
  CHECK(house.door.where() == "127.0.0.1");
  const Fd rank = connected(house.port);
  say(rank, kGreeting.substr(0, 2));
  CHECK_FALSE(house.guest(100));
  say(rank, kGreeting.substr(2) + "hello");
  const Fd guest = house.guest();
  REQUIRE(guest);
  CHECK(heard(guest, 10) == kGreeting + "hello");

  // More than any buffer on the way holds, both ways at once, read late.
  std::string noise(24 << 20, '\0');
  std::mt19937 random(1);
  for (char& c : noise) c = static_cast<char>(random());
  std::string there, back;
  {
    const std::jthread a([&] { say(rank, noise); }), b([&] { say(guest, noise); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::jthread c([&] { there = heard(guest, noise.size()); });
    back = heard(rank, noise.size());
  }
  CHECK(there == noise);
  CHECK(back == noise);

  // One end says no more, and still hears.
  ::shutdown(rank.get(), SHUT_WR);
  CHECK(is_closed(guest, 10'000));
  say(guest, "last word");
  CHECK(heard(rank, 9) == "last word");
}

TEST_CASE("Noise is closed at once and silence after a while; ranks come through at any time") {
  House house({.greeting_ms = 500, .max_silent = 10'000});
  std::vector<Fd> silent;
  for (int i = 0; i < 400; ++i) {
    silent.push_back(connected(house.port));
    const Fd noise = connected(house.port);
    say(noise, i % 3 == 0 ? "GET / HTTP/1.1\r\n\r\n" : i % 3 == 1 ? kGreeting.substr(0, 4) + "\x3D" : std::string(4096, '\0'));
    if (i % 50 == 0) CHECK(is_closed(noise, 10'000));
  }
  for (int i = 0; i < 3; ++i) {
    const Fd rank = connected(house.port);
    say(rank, kGreeting);
    const Fd guest = house.guest();
    REQUIRE(guest);
    say(guest, "welcome");
    CHECK(heard(rank, 7) == "welcome");
  }
  for (const Fd& fd : silent) CHECK(is_closed(fd, 10'000));
  CHECK_FALSE(house.guest(50));
}

TEST_CASE("Only so many may be silent at once: the oldest go, and who has greeted stays") {
  House house({.greeting_ms = 600'000, .max_silent = 20});
  const Fd rank = connected(house.port);
  say(rank, kGreeting);
  const Fd guest = house.guest();
  REQUIRE(guest);
  std::vector<Fd> silent;
  for (int i = 0; i < 60; ++i) silent.push_back(connected(house.port));
  for (int i = 0; i < 40; ++i) CHECK(is_closed(silent[static_cast<size_t>(i)], 10'000));
  for (size_t i = 40; i < 60; ++i) CHECK_FALSE(is_closed(silent[i], 0));
  say(rank, "still here");
  CHECK(heard(guest, 15) == kGreeting + "still here");
}

TEST_CASE("The door listens at the address it is given, and says so where it cannot") {
  const uint16_t port = free_port();
  CHECK(Door("localhost", port).where().find("127.0.0.1") != std::string::npos);
  CHECK(Door("192.0.2.1", port).where() == "all interfaces");  // nobody's (RFC 5737)
  CHECK(Door("no-such-host.invalid", port).where() == "all interfaces");
  const Door first("127.0.0.1", port);
  CHECK(test::error_line([&] { Door("127.0.0.1", port); }) ==
        "127.0.0.1:" + std::to_string(port) + ": cannot be created (got address already in use)");
  CHECK(address_towards("127.0.0.1") == "127.0.0.1");
  CHECK(address_towards("no-such-host.invalid").empty());
}

}  // namespace
}  // namespace dcp
