// The door of the store: the one port that rank 0 opens to the network.
//
// LibTorch's store is meant for a network of friends: a few hundred connections that say nothing, or noise, and it hears the ranks no more.
// So it is served on the loopback alone, and a connection from outside is let through to it once it has greeted as a rank's LibTorch does.
// Others get a few seconds, and only so many wait at once. What this is not: a lock. Who knows the greeting comes in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace dcp {

struct DoorOptions {
  uint32_t greeting_ms = 10'000;  // a connection that has not greeted by then is closed
  size_t max_silent = 256;        // of which the oldest is closed when one more comes
};

class Door {
 public:
  // Listens at `host`: on its addresses where they are this machine's, else on all interfaces. Throws io_create where the port is taken.
  Door(const std::string& host, uint16_t port, DoorOptions options = {});
  ~Door();

  // For the store: a socket of the loopback that listens already, and its port. The socket is the caller's from then on.
  int take_store_socket();
  uint16_t store_port() const;
  // The addresses that are listened at, or "all interfaces".
  const std::string& where() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The address of this machine from which `host` is reached, for what ranks listen at for each other. "" where that says nothing: it is not
// known, or it is a loopback that `host` is not for others.
std::string address_towards(const std::string& host);

}  // namespace dcp
