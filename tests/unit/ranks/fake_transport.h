// Ranks without processes: a transport table whose ranks are threads of one program. A store of maps, messages that move when both sides
// have asked, and counts of what each rank did.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "modules/transport.h"

struct DcpctlWork {
  bool done = false;
  void* buffer = nullptr;
  uint64_t bytes = 0;
};

namespace dcp::test {

struct World {
  explicit World(uint32_t size) : store_operations(size), bytes_sent(size), messages(size) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> store;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::deque<DcpctlWork*>> sends, receives;  // by from, to, tag
  std::vector<uint64_t> store_operations, bytes_sent, messages;
  std::optional<uint32_t> stuck;             // the rank that does not come back from connecting
  std::optional<uint32_t> refuses;           // the rank from which nothing can be received
  std::vector<std::shared_ptr<void>> given;  // to ranks: nobody gives back what ends with the process
};
inline World* g_world = nullptr;  // the one that ranks join

}  // namespace dcp::test

struct DcpctlTransport {
  dcp::test::World* world;
  uint32_t rank;
  bool aborted = false;
};

namespace dcp::test {

inline int refuse(DcpctlReason* why, const char* text) {
  std::strcpy(why->text, text);
  return 1;
}

// Every store operation goes through here.
template <class Body>
int in_store(DcpctlTransport* t, const Body& body) {
  const std::lock_guard lock(t->world->mutex);
  ++t->world->store_operations[t->rank];
  body(t->world->store);
  t->world->changed.notify_all();
  return 0;
}

inline void put(const std::string& value, void* into, uint64_t* bytes) {
  std::memcpy(into, value.data(), value.size());
  *bytes = value.size();
}

inline int start(DcpctlTransport* t, uint32_t from, uint32_t to, uint32_t tag, bool sends, void* buffer, uint64_t bytes, DcpctlWork** out) {
  World& w = *t->world;
  const std::lock_guard lock(w.mutex);
  const auto owned = std::make_shared<DcpctlWork>(DcpctlWork{false, buffer, bytes});
  DcpctlWork* const work = owned.get();
  w.given.push_back(owned);
  *out = work;
  if (sends) w.bytes_sent[t->rank] += bytes, ++w.messages[t->rank];
  auto& others = (sends ? w.receives : w.sends)[{from, to, tag}];
  if (others.empty()) {
    (sends ? w.sends : w.receives)[{from, to, tag}].push_back(work);
    return 0;
  }
  DcpctlWork* other = others.front();
  others.pop_front();
  std::memcpy(sends ? other->buffer : buffer, sends ? buffer : other->buffer, bytes);
  work->done = other->done = true;
  w.changed.notify_all();
  return 0;
}

inline const DcpctlTransportTable& fake_transport() {
  static const DcpctlTransportTable table{
      .header = {.bytes = sizeof(DcpctlTransportTable), .abi = kDcpctlTransportAbi, .built_with = "a fake"},
      .in_order = 0,
      .join =
          [](const DcpctlJoin* join, DcpctlTransport** out, DcpctlReason*) {
            const auto owned = std::make_shared<DcpctlTransport>(DcpctlTransport{g_world, join->rank});
            const std::lock_guard lock(g_world->mutex);
            g_world->given.push_back(owned);
            *out = owned.get();
            return 0;
          },
      .set =
          [](DcpctlTransport* t, DcpctlLane, const char* key, const void* value, uint64_t bytes, DcpctlReason*) {
            return in_store(t, [&](auto& store) { store[key] = std::string(static_cast<const char*>(value), bytes); });
          },
      .get = [](DcpctlTransport* t, DcpctlLane, const char* key, uint32_t, void* value, uint64_t, uint64_t* bytes,
                DcpctlReason*) { return in_store(t, [&](auto& store) { put(store[key], value, bytes); }); },
      .look = [](DcpctlTransport* t, DcpctlLane, const char* key, int* there,
                 DcpctlReason*) { return in_store(t, [&](auto& store) { *there = store.contains(key); }); },
      .add =
          [](DcpctlTransport* t, DcpctlLane, const char* key, int64_t number, int64_t* sum, DcpctlReason*) {
            return in_store(t, [&](auto& store) {
              *sum = (store.contains(key) ? std::stoll(store[key]) : 0) + number;
              store[key] = std::to_string(*sum);
            });
          },
      .set_first =
          [](DcpctlTransport* t, DcpctlLane, const char* key, const void* value, uint64_t bytes, void* is, uint64_t, uint64_t* is_bytes,
             DcpctlReason*) {
            return in_store(
                t, [&](auto& store) { put(store.try_emplace(key, static_cast<const char*>(value), bytes).first->second, is, is_bytes); });
          },
      .connect =
          [](DcpctlTransport* t, const char*, DcpctlReason*) {
            std::unique_lock lock(t->world->mutex);
            t->world->changed.wait(lock, [&] { return t->world->stuck != t->rank; });
            return 0;
          },
      .send = [](DcpctlTransport* t, uint32_t to, uint32_t tag, const void* buffer, uint64_t bytes, DcpctlWork** out,
                 DcpctlReason*) { return start(t, t->rank, to, tag, true, const_cast<void*>(buffer), bytes, out); },
      .receive =
          [](DcpctlTransport* t, uint32_t from, uint32_t tag, void* buffer, uint64_t bytes, DcpctlWork** out, DcpctlReason* why) {
            return t->world->refuses == from ? refuse(why, "gone") : start(t, from, t->rank, tag, false, buffer, bytes, out);
          },
      .wait =
          [](DcpctlTransport* t, DcpctlWork* work, DcpctlReason* why) {
            std::unique_lock lock(t->world->mutex);
            t->world->changed.wait(lock, [&] { return work->done || t->aborted; });
            if (!work->done) return refuse(why, "given up");
            return 0;
          },
      .abort =
          [](DcpctlTransport* t) {
            const std::lock_guard lock(t->world->mutex);
            t->aborted = true;
            t->world->changed.notify_all();
          }};
  return table;
}

}  // namespace dcp::test
