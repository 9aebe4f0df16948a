// The door of the store: the one port that rank 0 opens to the network.
//
// LibTorch's store is meant for a trusted network: after a few hundred connections that stay silent or send noise, it no longer answers the
// ranks. So the store listens on the loopback only, and a connection from outside is passed on to it once it has sent the greeting of a
// rank's LibTorch. Others are closed after a few seconds, and only a limited number may wait. This is not a lock: anyone who knows the
// greeting gets in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace dcp {

struct DoorOptions {
  uint32_t greeting_ms = 10'000;  // a connection without a greeting by then is closed
  size_t max_silent = 256;        // silent connections; one more closes the oldest
};

class Door {
 public:
  // Listens at `host`: on its addresses if they belong to this machine, else on all interfaces. Throws io_create if the port is taken.
  Door(const std::string& host, uint16_t port, DoorOptions options = {});
  ~Door();

  // A loopback socket for the store, already listening. The caller owns it from then on.
  int take_store_socket();
  uint16_t store_port() const;
  // The addresses that it listens at, or "all interfaces".
  const std::string& where() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The address of this machine from which `host` is reached, at which ranks listen for each other. "" if it is useless: unknown, or a
// loopback although `host` is not one for other machines.
std::string address_towards(const std::string& host);

}  // namespace dcp
