// A Store over an Origin. A folder is listed once in a while, and the listing answers what is asked of the folder and what is in it; small
// reads come out of blocks, which grow while they are read in order; large ones go straight into the caller's buffer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/workers.h"
#include "net/origin.h"

namespace dcp::net {

class ObjectStore final : public Store {
 public:
  ObjectStore(std::shared_ptr<Http> http, std::unique_ptr<Origin> origin) : http_(std::move(http)), origin_(std::move(origin)) {}

  Handle open_read(const std::string& path) override;
  std::optional<Handle> open_beneath(const std::string& root, std::string_view name, FollowLinks links) override;
  size_t read(Handle file, uint64_t offset, MutableBytes buffer) override;
  FileFacts facts(Handle file) override;
  std::optional<FileFacts> facts(const std::string& path) override;
  std::vector<DirEntry> list(const std::string& folder) override;
  void close(Handle file) override;
  std::string name_of(Handle file) override;
  ReadCapabilities read_capabilities(const std::string& path) override;

  Origin& origin() { return *origin_; }

 private:
  using Clock = std::chrono::steady_clock;
  // Bytes that are here, or on their way.
  struct Block {
    std::vector<std::byte> bytes;
    enum { kComing, kHere, kFailed } state = kComing;
    uint64_t size = 0, used = 0;  // `used`: when, for evicting the oldest
  };
  struct Object {
    std::string path;
    ObjectFacts facts;
    std::map<uint64_t, std::shared_ptr<Block>> blocks;  // by their first byte; they do not overlap
  };
  // A listing, which a thread of its own asks for: what its first page has is read while others come.
  struct Listed {
    Listing first, whole;
    enum { kComing, kBegun, kHere, kFailed } state = kComing;
    Clock::time_point when{};
    std::unique_ptr<SerialQueue> work;
    std::exception_ptr failure;
  };

  struct Looked {
    std::optional<ObjectFacts> facts;
    Clock::time_point when;
  };

  using IsEnough = std::function<bool(const Listing&)>;
  std::shared_ptr<const Listing> listed(const std::string& folder, const IsEnough& is_enough);
  std::shared_ptr<const Listing> known(const std::string& folder, const std::string& name);
  void ask(const std::string& folder, Listed& listed);
  std::optional<ObjectFacts> find(const std::string& path);
  Handle handle_of(const std::string& path, const ObjectFacts& facts, bool is_inner);
  std::shared_ptr<Object> object(Handle file);
  size_t read_block(Object& object, uint64_t offset, MutableBytes buffer);
  std::pair<uint64_t, std::shared_ptr<Block>> block_at(Object& object, uint64_t offset, uint64_t wanted, bool& is_mine);
  void make_room(uint64_t bytes);
  void fetch(const Object& object, uint64_t first, MutableBytes buffer);
  void check(const Object& object, uint64_t first, const HttpAnswer& answer) const;

  std::shared_ptr<Http> http_;
  std::unique_ptr<Origin> origin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Listed>> listings_;
  std::map<std::string, Looked> looked_;                    // at objects that no listing has
  std::map<std::string, std::shared_ptr<Object>> objects_;  // all that have been opened, by path
  std::vector<std::shared_ptr<Object>> open_;               // by handle
  std::vector<Handle> closed_;
  uint64_t held_bytes_ = 0, uses_ = 0;
};

}  // namespace dcp::net
