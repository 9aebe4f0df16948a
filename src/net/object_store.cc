#include "net/object_store.h"

#include <algorithm>
#include <tuple>

#include "base/file_names.h"
#include "base/text.h"
#include "net/answers.h"

namespace dcp::net {
namespace {

constexpr uint64_t kBlock = 64 << 10, kGap = 256 << 10, kLong = 128 << 10, kDirect = 512 << 10;
constexpr uint64_t kBlocks = 128;                 // the largest ones that fit: those under way, and those being read; or two an object
constexpr auto kFresh = std::chrono::seconds(2);  // a listing, which a process that waits for something asks for again

FileFacts file_facts(const ObjectFacts& o) { return {.bytes = o.bytes, .kind = FileKind::kRegular, .modified_ns = o.modified_ns}; }

[[noreturn]] void changed(const std::string& path, std::string got) { fail(ProblemId::net_changed, {.path = path}, std::move(got)); }

}  // namespace

std::string without_quotes(std::string version) {
  if (version.starts_with("W/")) version.erase(0, 2);
  std::erase(version, '"');
  return version;
}

ObjectFacts facts_of(const HttpAnswer& answer) {
  const std::string range = answer.header("content-range");
  const size_t slash = range.find('/');
  const auto bytes = decimal<uint64_t>(slash == range.npos ? answer.header("content-length") : range.substr(slash + 1));
  return {.bytes = bytes.value_or(0),
          .modified_ns = nanoseconds_of(answer.header("last-modified")),
          .version = without_quotes(answer.header("etag"))};
}

std::vector<std::string> range_headers(const ObjectFacts& facts, uint64_t first, uint64_t last) {
  std::vector<std::string> headers{"range: bytes=" + std::to_string(first) + "-" + std::to_string(last)};
  if (!facts.version.empty()) headers.push_back("if-match: \"" + facts.version + "\"");
  return headers;
}

// ---- what there is

void ObjectStore::ask(const std::string& folder, Listed& listed) {
  const auto become = [&](auto state) {
    listed.state = state;
    changed_.notify_all();
  };
  try {
    Listing whole = origin_->list(folder, [&](const Listing& first) {
      const std::lock_guard lock(mutex_);
      listed.first = first;
      listed.first.complete = false;
      become(Listed::kBegun);
    });
    const std::lock_guard lock(mutex_);
    listed.whole = std::move(whole);
    listed.when = Clock::now();
    become(Listed::kHere);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    listed.failure = std::current_exception();
    become(Listed::kFailed);
  }
}

// The listing of `folder`, or its first page, if that is enough.
std::shared_ptr<const Listing> ObjectStore::listed(const std::string& folder, const IsEnough& is_enough) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<Listed>& known = listings_[folder];
  if (!known || known->state == Listed::kFailed || (known->state == Listed::kHere && Clock::now() - known->when >= kFresh)) {
    const auto mine = std::make_shared<Listed>();
    mine->work = std::make_unique<SerialQueue>();
    mine->work->run([this, folder, at = mine.get()] { ask(folder, *at); });
    known = mine;
  }
  const std::shared_ptr<Listed> at = known;
  changed_.wait(lock, [&] { return at->state >= Listed::kHere || (at->state == Listed::kBegun && is_enough(at->first)); });
  if (at->state >= Listed::kHere) at->work.reset();
  if (at->state == Listed::kFailed) std::rethrow_exception(at->failure);
  return {at, at->state == Listed::kHere ? &at->whole : &at->first};
}

// The same if it is here, or on its way.
std::shared_ptr<const Listing> ObjectStore::known(const std::string& folder, const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = listings_.find(folder);
    if (at == listings_.end() || !at->second || at->second->state == Listed::kFailed) return nullptr;
    if (at->second->state == Listed::kHere && Clock::now() - at->second->when >= kFresh) return nullptr;
  }
  return listed(folder, [&](const Listing& first) { return first.objects.contains(name); });
}

std::optional<ObjectFacts> ObjectStore::find(const std::string& path) {
  const SplitPath split = split_path(path);
  if (const auto around = known(folder_around(path), split.name)) {
    const auto at = around->objects.find(split.name);
    if (at != around->objects.end()) return at->second;
    if (around->complete) return std::nullopt;
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = looked_.find(path); at != looked_.end() && Clock::now() - at->second.when < kFresh) return at->second.facts;
  }
  const std::optional<ObjectFacts> facts = origin_->look(path);
  const std::lock_guard lock(mutex_);
  looked_[path] = {.facts = facts, .when = Clock::now()};
  return facts;
}

std::optional<FileFacts> ObjectStore::facts(const std::string& path) {
  const FileFacts folder{.kind = FileKind::kDirectory};
  const std::string name = split_path(path).name;
  if (const auto around = known(folder_around(path), name)) {
    if (const auto at = around->objects.find(name); at != around->objects.end()) return file_facts(at->second);
    if (around->complete) return around->folders.contains(name) ? std::optional(folder) : std::nullopt;
  }
  const auto is_folder = [&] { return !listed(path, [](const Listing& first) { return !first.empty(); })->empty(); };
  if (origin_->lists() && is_folder()) return folder;
  if (const auto found = find(path)) return file_facts(*found);
  return !origin_->lists() && is_folder() ? std::optional(folder) : std::nullopt;
}

std::vector<DirEntry> ObjectStore::list(const std::string& folder) {
  const auto here = listed(folder, [](const Listing&) { return false; });
  std::vector<DirEntry> entries;
  for (const auto& [name, facts] : here->objects) entries.push_back({.name = name, .kind = FileKind::kRegular});
  for (const std::string& name : here->folders)
    if (!here->objects.contains(name)) entries.push_back({.name = name, .kind = FileKind::kDirectory});
  if (entries.empty()) fail(ProblemId::io_list, {.path = folder}, "no such folder");
  std::ranges::sort(entries, {}, &DirEntry::name);
  return entries;
}

// ---- open objects

Handle ObjectStore::handle_of(const std::string& path, const ObjectFacts& facts, bool is_inner) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Object>& known = objects_[path];
  const bool is_same = known && known->facts.bytes == facts.bytes && known->facts.version == facts.version;
  if (known && !is_same && is_inner) changed(path, "another object has its name now");  // of one checkpoint, read in parts
  if (known && !is_same)
    for (const auto& [first, block] : known->blocks)
      if (block->state == Block::kHere) held_bytes_ -= block->size;
  if (!is_same) known = std::make_shared<Object>(Object{.path = path, .facts = facts, .blocks = {}});
  if (closed_.empty()) {
    closed_.push_back(static_cast<Handle>(open_.size()));
    open_.emplace_back();
  }
  const Handle handle = closed_.back();
  closed_.pop_back();
  open_[static_cast<size_t>(handle)] = known;
  return handle;
}

Handle ObjectStore::open_read(const std::string& path) {
  const std::optional<ObjectFacts> facts = find(path);
  if (!facts) fail(ProblemId::io_open, {.path = path}, "no such object");
  return handle_of(path, *facts, false);
}

std::optional<Handle> ObjectStore::open_beneath(const std::string& root, std::string_view name, FollowLinks) {
  const std::string path = (root.ends_with('/') ? root : root + "/") + std::string(name);
  if (origin_->lists())  // one listing instead of a look at each object
    listed(folder_around(path), [&](const Listing& first) { return first.objects.contains(split_path(path).name); });
  const std::optional<ObjectFacts> facts = find(path);
  return facts ? std::optional(handle_of(path, *facts, true)) : std::nullopt;
}

std::shared_ptr<ObjectStore::Object> ObjectStore::object(Handle file) {
  const std::lock_guard lock(mutex_);
  return open_.at(static_cast<size_t>(file));
}

FileFacts ObjectStore::facts(Handle file) { return file_facts(object(file)->facts); }

std::string ObjectStore::name_of(Handle file) { return object(file)->path; }

void ObjectStore::close(Handle file) {
  const std::lock_guard lock(mutex_);
  open_.at(static_cast<size_t>(file)).reset();
  closed_.push_back(file);
}

// ---- reading

size_t ObjectStore::read(Handle file, uint64_t offset, MutableBytes buffer) {
  const std::shared_ptr<Object> o = object(file);
  if (offset >= o->facts.bytes || buffer.empty()) return 0;
  buffer = buffer.first(std::min<uint64_t>(buffer.size(), o->facts.bytes - offset));
  if (buffer.size() < kDirect) return read_block(*o, offset, buffer);
  fetch(*o, offset, buffer);
  return buffer.size();
}

// The block with the byte at `offset`, and where it begins. If there is none, one of at least `wanted` bytes that the caller has to fetch.
std::pair<uint64_t, std::shared_ptr<ObjectStore::Block>> ObjectStore::block_at(Object& o, uint64_t offset, uint64_t wanted, bool& is_mine) {
  auto next = o.blocks.upper_bound(offset);
  const auto before = next == o.blocks.begin() ? o.blocks.end() : std::prev(next);
  const uint64_t end_before = before == o.blocks.end() ? 0 : before->first + before->second->size;
  is_mine = before == o.blocks.end() || offset >= end_before;
  if (!is_mine) return {before->first, before->second};
  // Reading in order, if with small gaps, asks for more each time, a long read is the beginning of more, and what is near the end comes in
  // one piece with it.
  const uint64_t most = std::max(kBlock, http_->settings().cache_bytes / std::max(kBlocks, 2 * objects_.size()));
  const bool is_in_order = before != o.blocks.end() && offset - end_before <= kGap;
  uint64_t first = is_in_order ? end_before : offset / kBlock * kBlock;
  uint64_t size = std::min(is_in_order ? before->second->size * 2 : kBlock, most);
  if (wanted >= kLong) size = std::max(size, std::min(4 * wanted, most));
  if (o.facts.bytes - offset <= kBlock) first = std::max(end_before, o.facts.bytes - std::min(kBlock, o.facts.bytes));
  const uint64_t limit = next == o.blocks.end() ? o.facts.bytes : next->first;
  size = std::min(std::max(size, offset - first + wanted), limit - first);
  auto block = std::make_shared<Block>();
  block->size = size;
  o.blocks.emplace(first, block);
  held_bytes_ += size;
  return {first, block};
}

// Drops the blocks that were used the longest time ago, but never one that is on its way.
void ObjectStore::make_room(uint64_t bytes) {
  std::vector<std::tuple<uint64_t, Object*, uint64_t>> all;
  for (const auto& [path, o] : objects_)
    for (const auto& [first, block] : o->blocks)
      if (block->state == Block::kHere) all.emplace_back(block->used, o.get(), first);
  std::ranges::sort(all);
  for (const auto& [used, o, first] : all) {
    if (held_bytes_ + bytes <= http_->settings().cache_bytes / 4 * 3) return;
    held_bytes_ -= o->blocks.at(first)->size;
    o->blocks.erase(first);
  }
}

size_t ObjectStore::read_block(Object& o, uint64_t offset, MutableBytes buffer) {
  std::unique_lock lock(mutex_);
  if (held_bytes_ + kDirect > http_->settings().cache_bytes) make_room(kDirect);
  bool is_mine = false;
  const auto [first, block] = block_at(o, offset, buffer.size(), is_mine);
  if (is_mine) {
    lock.unlock();
    const auto end = [&](auto state) {
      lock.lock();
      block->state = state;
      changed_.notify_all();
    };
    try {
      block->bytes.resize(block->size);
      fetch(o, first, block->bytes);
    } catch (...) {
      end(Block::kFailed);
      held_bytes_ -= block->size;
      o.blocks.erase(first);
      throw;
    }
    end(Block::kHere);
  }
  changed_.wait(lock, [&] { return block->state != Block::kComing; });
  if (block->state == Block::kFailed) {  // its own reader has the error; this one tries for itself
    lock.unlock();
    fetch(o, offset, buffer);
    return buffer.size();
  }
  block->used = ++uses_;
  const size_t n = std::min<uint64_t>(buffer.size(), first + block->size - offset);
  std::copy_n(block->bytes.begin() + static_cast<ptrdiff_t>(offset - first), n, buffer.begin());
  return n;
}

// Whether the bytes of an answer are those of the object from `first` on.
void ObjectStore::check(const Object& o, uint64_t first, const HttpAnswer& answer) const {
  const std::string range = answer.header("content-range");
  if (range.empty() && first == 0 && answer.status == 200) {
    const auto length = decimal<uint64_t>(answer.header("content-length"));
    if (length && *length != o.facts.bytes) changed(o.path, grouped(*length) + " bytes, where there were " + grouped(o.facts.bytes));
  } else if (range.empty()) {
    fail(ProblemId::net_refused, {.path = o.path}, "the whole object instead of a part of it", "a store that answers ranges");
  } else {
    const size_t space = range.find(' '), dash = range.find('-'), slash = range.find('/');
    const std::string begin = space == range.npos || dash == range.npos ? "" : range.substr(space + 1, dash - space - 1);
    if (decimal<uint64_t>(begin) != first) fail(ProblemId::net_refused, {.path = o.path}, range, "bytes from " + std::to_string(first));
    const std::string total = slash == range.npos ? "" : range.substr(slash + 1);
    if (total != "*" && decimal<uint64_t>(total) != o.facts.bytes)
      changed(o.path, total + " bytes, where there were " + std::to_string(o.facts.bytes));
  }
  const std::string version = without_quotes(answer.header("etag"));
  if (!version.empty() && !o.facts.version.empty() && version != o.facts.version) changed(o.path, "another ETag");
}

void ObjectStore::fetch(const Object& o, uint64_t first, MutableBytes buffer) {
  const uint64_t last = first + buffer.size() - 1;
  for (bool has_renewed = false;; has_renewed = true) {
    const auto make = [&](uint64_t received) {
      HttpRequest request = origin_->get(o.path, o.facts, first + received, last);
      request.expected = buffer.size();
      return request;
    };
    const HttpAnswer answer =
        http_->send(o.path, make, buffer, [&](const HttpAnswer& a, uint64_t received) { check(o, first + received, a); });
    if (answer.ok()) return;
    if (answer.status == 412 || answer.status == 404 || answer.status == 416) changed(o.path, reason_of(answer));
    if (has_renewed || !origin_->renew(o.path, answer)) origin_->refuse(o.path, answer);
  }
}

ReadCapabilities ObjectStore::read_capabilities(const std::string& path) {
  ReadCapabilities can{.requests = 32, .request_bytes = 4 << 20, .network = true};
  can.files = http_->files();
  can.ports = http_->ports();
  for (std::string& file : origin_->files(path)) can.files.push_back(std::move(file));
  for (const uint16_t port : origin_->ports()) can.ports.push_back(port);
  can.ports.push_back(443);
  if (const auto url = parse_url(origin_->endpoint(path))) can.ports.push_back(url->port);
  return can;
}

}  // namespace dcp::net
