// The table of modules that connect ranks: libdcpctl_c10d.so (TCPStore and Gloo) and libdcpctl_c10d_nccl.so (with NCCL).
//
// A *store* is a small table of keys that all ranks see; a *message* is bytes between two ranks. Both sides of a message state its size; it
// moves only when both have asked for it, so nothing is buffered in between: the receiver decides how much is in flight.
#pragma once

#include "modules/table.h"

extern "C" {

enum { kDcpctlTransportAbi = 3 };

struct DcpctlJoin {
  const char* host;  // of the store
  uint16_t port;
  uint8_t serves;       // this rank runs the store; else it connects to it
  int listener;         // for the server: a socket already listening at host and port; -1: none
  const char* address;  // of this machine, for messages from other ranks. "": the library chooses
  uint32_t rank, world_size;
  uint32_t local_rank;  // on its host: which GPU is its own
  uint32_t timeout_ms;
};

// The store is reached over two connections, so that a blocking request on one does not hold up the other.
enum DcpctlLane { kDcpctlMain = 0, kDcpctlBeat = 1 };

// Return value beside 0 and 1: something the function needs is missing on this machine.
constexpr int kDcpctlLacking = 2;

struct DcpctlTransport;
struct DcpctlWork;

struct DcpctlTransportTable {
  DcpctlModuleHeader header;
  // 1: messages between two ranks arrive in the order in which they are sent, so every requested message must have a waiter.
  int in_order;

  // Connects to the store. Fails if nobody serves it within the timeout (up to three times that, since the client retries).
  int (*join)(const DcpctlJoin* join, DcpctlTransport** out, DcpctlReason* why);

  // --- the store. Keys and values are bytes; `capacity` is that of `value`, a longer value makes the call fail.
  int (*set)(DcpctlTransport*, DcpctlLane, const char* key, const void* value, uint64_t bytes, DcpctlReason* why);
  // Waits until the key exists.
  int (*get)(DcpctlTransport*, DcpctlLane, const char* key, uint32_t timeout_ms, void* value, uint64_t capacity, uint64_t* bytes,
             DcpctlReason* why);
  // Does not wait. *there: 1 or 0.
  int (*look)(DcpctlTransport*, DcpctlLane, const char* key, int* there, DcpctlReason* why);
  // Adds to a number that starts at 0; *sum is the result.
  int (*add)(DcpctlTransport*, DcpctlLane, const char* key, int64_t number, int64_t* sum, DcpctlReason* why);
  // Sets the key unless it exists; returns its value.
  int (*set_first)(DcpctlTransport*, DcpctlLane, const char* key, const void* value, uint64_t bytes, void* is, uint64_t capacity,
                   uint64_t* is_bytes, DcpctlReason* why);

  // --- messages. connect() is called once by all ranks, and may return kDcpctlLacking; the others after it.
  int (*connect)(DcpctlTransport*, const char* name, DcpctlReason* why);
  // Messages with one (sender, receiver, tag) arrive in order. The buffer must not change until wait(), which also frees *out.
  int (*send)(DcpctlTransport*, uint32_t to, uint32_t tag, const void* buffer, uint64_t bytes, DcpctlWork** out, DcpctlReason* why);
  int (*receive)(DcpctlTransport*, uint32_t from, uint32_t tag, void* buffer, uint64_t bytes, DcpctlWork** out, DcpctlReason* why);
  // Has no timeout: the other side may be slow. Fails when the other side is gone, and after abort().
  int (*wait)(DcpctlTransport*, DcpctlWork*, DcpctlReason* why);
  // Makes every current and later wait() fail.
  void (*abort)(DcpctlTransport*);
};

}  // extern "C"
