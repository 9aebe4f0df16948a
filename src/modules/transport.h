// The table of modules that connect ranks: libdcpctl_c10d.so (TCPStore and Gloo); one with NCCL would fill it as well.
//
// A *store* is a small table of keys that all ranks see, a *message* is bytes between two ranks. Both sides of a message name its size; it
// moves only when both have asked for it, so nothing is buffered in between: who receives decides how much is under way.
#pragma once

#include "modules/table.h"

extern "C" {

enum { kDcpctlTransportAbi = 3 };

struct DcpctlJoin {
  const char* host;  // of the store
  uint16_t port;
  uint8_t serves;       // this rank runs the store; else it connects to it
  int listener;         // who serves: a socket that listens at host and port already; -1: there is none
  const char* address;  // of this machine: where it waits for messages of other ranks. "": the library knows better
  uint32_t rank, world_size;
  uint32_t local_rank;  // on its host: which GPU is its own
  uint32_t timeout_ms;
};

// The store is served on two connections, so that a question that has to wait on one keeps nobody from the other.
enum DcpctlLane { kDcpctlMain = 0, kDcpctlBeat = 1 };

// Beside 0 and 1, what a function returns: what it needs is not on this machine.
constexpr int kDcpctlLacking = 2;

struct DcpctlTransport;
struct DcpctlWork;

struct DcpctlTransportTable {
  DcpctlModuleHeader header;
  // 1: messages between two ranks go in the order in which they are sent, so every message that is asked for must have somebody who waits
  // for it.
  int in_order;

  // Connects to the store. Fails when nobody serves it within the timeout (up to three times that: the client tries again).
  int (*join)(const DcpctlJoin* join, DcpctlTransport** out, DcpctlReason* why);

  // --- the store. Keys and values are bytes; `capacity` is that of `value`, a longer value is a failure.
  int (*set)(DcpctlTransport*, DcpctlLane, const char* key, const void* value, uint64_t bytes, DcpctlReason* why);
  // Waits until the key is there.
  int (*get)(DcpctlTransport*, DcpctlLane, const char* key, uint32_t timeout_ms, void* value, uint64_t capacity, uint64_t* bytes,
             DcpctlReason* why);
  // Does not wait. *there: 1 or 0.
  int (*look)(DcpctlTransport*, DcpctlLane, const char* key, int* there, DcpctlReason* why);
  // To a number that begins with 0; *sum is what it is then.
  int (*add)(DcpctlTransport*, DcpctlLane, const char* key, int64_t number, int64_t* sum, DcpctlReason* why);
  // Sets the key where it is not there yet; gives what it is then.
  int (*set_first)(DcpctlTransport*, DcpctlLane, const char* key, const void* value, uint64_t bytes, void* is, uint64_t capacity,
                   uint64_t* is_bytes, DcpctlReason* why);

  // --- messages. connect() is called once by all ranks, and may return kDcpctlLacking; the others after it.
  int (*connect)(DcpctlTransport*, const char* name, DcpctlReason* why);
  // Messages with one (sender, receiver, tag) arrive in order. The buffer stays as it is until wait(), which also ends *out.
  int (*send)(DcpctlTransport*, uint32_t to, uint32_t tag, const void* buffer, uint64_t bytes, DcpctlWork** out, DcpctlReason* why);
  int (*receive)(DcpctlTransport*, uint32_t from, uint32_t tag, void* buffer, uint64_t bytes, DcpctlWork** out, DcpctlReason* why);
  // Without an end of its own: the other side may be slow. It fails when the other side is gone, and after abort().
  int (*wait)(DcpctlTransport*, DcpctlWork*, DcpctlReason* why);
  // Every wait() that is going on or comes later fails.
  void (*abort)(DcpctlTransport*);
};

}  // extern "C"
