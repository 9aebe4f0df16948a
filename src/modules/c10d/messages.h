// What differs between the two modules: how bytes move between ranks once the store is connected.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dcp::c10d_module {

// Thrown if something that messages need is missing on this machine.
struct Lacking : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A message in flight. Throws std::exception.
class Message {
 public:
  virtual ~Message() = default;
  virtual void wait() = 0;
  virtual void abort() = 0;  // from another thread: wait() fails
};

class Messages {
 public:
  virtual ~Messages() = default;
  virtual std::unique_ptr<Message> send(int to, int tag, const void* buffer, uint64_t bytes) = 0;
  virtual std::unique_ptr<Message> receive(int from, int tag, void* buffer, uint64_t bytes) = 0;
};

extern const bool kInOrder;  // transport.h: in_order

struct Connecting {
  c10::intrusive_ptr<::c10d::Store> store;
  int rank, world_size, local_rank;
  std::chrono::milliseconds timeout;
  std::string address;  // DcpctlJoin
};
// Connects all ranks. Defined in gloo_only.cc or nccl.cc, whichever the module contains.
std::unique_ptr<Messages> make_messages(const Connecting& how);
std::unique_ptr<Messages> make_gloo_messages(const Connecting& how);

}  // namespace dcp::c10d_module
