// A transport module as C++: the store and messages. A failure is the Error rank_lost, which names the other rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "modules/transport.h"
#include "ranks/door.h"
#include "ranks/launcher.h"

namespace dcp {

// All functions may be called from any thread.
class Link {
 public:
  // Connects to the store, which rank 0's process or torchrun's agent serves. A rank that serves the store does so behind `door`, if there
  // is one. Ranks listen for each other at `address`.
  Link(const DcpctlTransportTable& table, const Launch& launch, uint32_t timeout_ms, Door* door, const std::string& address);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // --- the store
  void set(DcpctlLane lane, const std::string& key, std::string_view value);
  bool look(DcpctlLane lane, const std::string& key);
  std::string get(DcpctlLane lane, const std::string& key);  // precondition: look(key) returned true
  int64_t add(DcpctlLane lane, const std::string& key, int64_t number);
  std::string set_first(DcpctlLane lane, const std::string& key, std::string_view value);

  // --- messages
  void connect(const std::string& name);
  // The buffer must outlive it; after a failed receive() it must live until the process ends, since bytes in flight may still arrive.
  // Destroying a Message that was not waited for means that an exception is unwinding; the destructor aborts the link first.
  class Message {
   public:
    Message() = default;
    Message(Link& link, uint32_t peer, DcpctlWork* work) : link_(&link), peer_(peer), work_(work) {}
    Message(Message&& other) noexcept : link_(other.link_), peer_(other.peer_), work_(std::exchange(other.work_, nullptr)) {}
    Message& operator=(Message&& other) noexcept {
      std::swap(link_, other.link_), std::swap(peer_, other.peer_), std::swap(work_, other.work_);
      return *this;
    }
    ~Message();
    void wait();

   private:
    Link* link_ = nullptr;
    uint32_t peer_ = 0;
    DcpctlWork* work_ = nullptr;
  };
  Message send(uint32_t to, uint32_t tag, Bytes bytes);
  Message receive(uint32_t from, uint32_t tag, MutableBytes into);
  // Waits for `bytes` bytes.
  std::vector<std::byte> receive_all(uint32_t from, uint32_t tag, uint64_t bytes);
  // Keeps the buffer of a failed message forever: bytes may still arrive in it, or be sent from it.
  static void abandon(std::vector<std::byte> buffer);
  bool in_order() const { return table_.in_order != 0; }  // transport.h
  // Makes every current and later wait fail.
  void abort();

 private:
  const DcpctlTransportTable& table_;
  DcpctlTransport* transport_ = nullptr;  // lives until the process ends: threads of the module's libraries may still use it
};

}  // namespace dcp
