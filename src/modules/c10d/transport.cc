// The table of a c10d module: the store, and messages by gloo.cc or nccl.cc. Every exception of LibTorch ends here, and becomes the first
// line of its text (the rest is a C++ stack).
#include "modules/transport.h"

#include <c10/util/Logging.h>
#include <torch/version.h>

#include <cstring>
#include <mutex>
#include <set>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "modules/c10d/messages.h"

using dcp::c10d_module::Message;
using dcp::c10d_module::Messages;

struct DcpctlWork {
  std::unique_ptr<Message> message;
};

struct DcpctlTransport {
  DcpctlJoin join{};
  std::string address;
  c10::intrusive_ptr<c10d::Store> lanes[2];
  std::unique_ptr<Messages> messages;
  std::mutex mutex;  // under_way, aborted
  std::set<DcpctlWork*> under_way;
  bool aborted = false;
};

namespace {

std::chrono::milliseconds ms(uint32_t count) { return std::chrono::milliseconds(count); }

void say(DcpctlReason* why, const char* text) {
  const size_t bytes = std::min(std::strcspn(text, "\n"), sizeof why->text - 1);
  std::memcpy(why->text, text, bytes);
  why->text[bytes] = 0;
}

template <class Body>
int guarded(DcpctlReason* why, const Body& body) {
  try {
    body();
    return 0;
  } catch (const dcp::c10d_module::Lacking& e) {
    say(why, e.what());
    return kDcpctlLacking;
  } catch (const std::exception& e) {
    say(why, e.what());
  } catch (...) {
    say(why, "an unknown exception");
  }
  return 1;
}

void copy_value(const std::vector<uint8_t>& from, void* value, uint64_t capacity, uint64_t* bytes) {
  if (from.size() > capacity) throw std::runtime_error("a value of " + std::to_string(from.size()) + " bytes in the store");
  std::memcpy(value, from.data(), from.size());
  *bytes = from.size();
}

std::vector<uint8_t> bytes_of(const void* value, uint64_t bytes) {
  const auto* p = static_cast<const uint8_t*>(value);
  return {p, p + bytes};
}

int join(const DcpctlJoin* how, DcpctlTransport** out, DcpctlReason* why) {
  c10::initLogging();  // applies TORCH_CPP_LOG_LEVEL, as Python does when it imports torch
  return guarded(why, [&] {
    auto transport = std::make_unique<DcpctlTransport>();
    transport->join = *how;
    for (int lane = 0; lane < 2; ++lane) {
      c10d::TCPStoreOptions options;
      options.port = how->port;
      options.isServer = how->serves != 0 && lane == 0;
      options.numWorkers = how->world_size;
      options.waitWorkers = false;
      options.timeout = ms(how->timeout_ms);
      options.multiTenant = true;
      if (options.isServer && how->listener >= 0) options.masterListenFd = how->listener;
      transport->lanes[lane] = c10::make_intrusive<c10d::TCPStore>(how->host, options);
    }
    transport->address = how->address;
    transport->join.host = transport->join.address = nullptr;  // the caller's
    *out = transport.release();
  });
}

int set(DcpctlTransport* t, DcpctlLane lane, const char* key, const void* value, uint64_t bytes, DcpctlReason* why) {
  return guarded(why, [&] { t->lanes[lane]->set(key, bytes_of(value, bytes)); });
}

int get(DcpctlTransport* t, DcpctlLane lane, const char* key, uint32_t timeout_ms, void* value, uint64_t capacity, uint64_t* bytes,
        DcpctlReason* why) {
  return guarded(why, [&] {
    t->lanes[lane]->wait({key}, ms(timeout_ms));
    copy_value(t->lanes[lane]->get(key), value, capacity, bytes);
  });
}

int look(DcpctlTransport* t, DcpctlLane lane, const char* key, int* there, DcpctlReason* why) {
  return guarded(why, [&] { *there = t->lanes[lane]->check({key}) ? 1 : 0; });
}

int add(DcpctlTransport* t, DcpctlLane lane, const char* key, int64_t number, int64_t* sum, DcpctlReason* why) {
  return guarded(why, [&] { *sum = t->lanes[lane]->add(key, number); });
}

int set_first(DcpctlTransport* t, DcpctlLane lane, const char* key, const void* value, uint64_t bytes, void* is, uint64_t capacity,
              uint64_t* is_bytes, DcpctlReason* why) {
  return guarded(
      why, [&] { copy_value(t->lanes[lane]->compareSet(key, std::vector<uint8_t>{}, bytes_of(value, bytes)), is, capacity, is_bytes); });
}

int connect(DcpctlTransport* t, const char* name, DcpctlReason* why) {
  return guarded(why, [&] {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, t->lanes[kDcpctlMain]);
    store->setTimeout(ms(t->join.timeout_ms));
    t->messages = dcp::c10d_module::make_messages({store, static_cast<int>(t->join.rank), static_cast<int>(t->join.world_size),
                                                   static_cast<int>(t->join.local_rank), ms(t->join.timeout_ms), t->address});
  });
}

template <class Start>
int start(DcpctlTransport* t, DcpctlWork** out, DcpctlReason* why, const Start& make) {
  return guarded(why, [&] {
    auto work = std::make_unique<DcpctlWork>();
    {
      const std::lock_guard lock(t->mutex);
      if (t->aborted) throw std::runtime_error("given up");
    }
    work->message = make();
    const std::lock_guard lock(t->mutex);
    t->under_way.insert(work.get());
    if (t->aborted) work->message->abort();
    *out = work.release();
  });
}

int send(DcpctlTransport* t, uint32_t to, uint32_t tag, const void* buffer, uint64_t bytes, DcpctlWork** out, DcpctlReason* why) {
  return start(t, out, why, [&] { return t->messages->send(static_cast<int>(to), static_cast<int>(tag), buffer, bytes); });
}

int receive(DcpctlTransport* t, uint32_t from, uint32_t tag, void* buffer, uint64_t bytes, DcpctlWork** out, DcpctlReason* why) {
  return start(t, out, why, [&] { return t->messages->receive(static_cast<int>(from), static_cast<int>(tag), buffer, bytes); });
}

int wait(DcpctlTransport* t, DcpctlWork* work, DcpctlReason* why) {
  const int code = guarded(why, [&] { work->message->wait(); });
  {
    const std::lock_guard lock(t->mutex);
    t->under_way.erase(work);
  }
  // The back end may still write to the buffers of a failed message, so the work is kept; the process is about to end.
  if (code == 0) delete work;
  return code;
}

void abort(DcpctlTransport* t) {
  const std::lock_guard lock(t->mutex);
  t->aborted = true;
  for (DcpctlWork* work : t->under_way) {
    DcpctlReason ignored;
    guarded(&ignored, [&] { work->message->abort(); });
  }
}

const DcpctlTransportTable kTable{
    .header = {.bytes = sizeof(DcpctlTransportTable), .abi = kDcpctlTransportAbi, .built_with = "torch " TORCH_VERSION},
    .in_order = dcp::c10d_module::kInOrder,
    .join = join,
    .set = set,
    .get = get,
    .look = look,
    .add = add,
    .set_first = set_first,
    .connect = connect,
    .send = send,
    .receive = receive,
    .wait = wait,
    .abort = abort};

}  // namespace

extern "C" __attribute__((visibility("default"))) const DcpctlTransportTable* dcpctl_transport() { return &kTable; }
