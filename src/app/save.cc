#include "app/save.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "app/resources.h"
#include "base/members.h"
#include "base/stores.h"
#include "catalog/box.h"
#include "catalog/cover.h"
#include "catalog/data_files.h"
#include "catalog/placements.h"
#include "exec/dcp_folder.h"
#include "files/output_free.h"
#include "ranks/blocks.h"
#include "ranks/wire.h"

namespace dcp {
namespace {

// What all ranks know of a shard.
struct SavedBox {
  std::string key;
  std::vector<std::string> path;
  DType dtype{};
  bool requires_grad = false;
  std::vector<int64_t> shape, offsets, sizes;
};
DCP_MEMBERS(SavedBox, key, path, dtype, requires_grad, shape, offsets, sizes);

// And of an object.
struct SavedObject {
  std::string key;
  std::vector<std::string> path;
  uint64_t bytes = 0;
};
DCP_MEMBERS(SavedObject, key, path, bytes);

struct Saved {
  std::vector<SavedBox> boxes;
  std::vector<SavedObject> objects;
};
DCP_MEMBERS(Saved, boxes, objects);

template <class T>
std::string as_wire(const T& value) {
  WireWriter out;
  out(value);
  return std::string(as_text(out.take()));
}
template <class T>
T from_wire(const std::string& text) {
  T value;
  WireReader{as_bytes(text)}(value);
  return value;
}

// What a rank says in a round: its text, or why it has none.
struct RankText {
  std::optional<Problem> failure;
  std::string text;
};
DCP_MEMBERS(RankText, failure, text);

// The steps of a save, which all ranks take together.
class Rounds {
 public:
  explicit Rounds(const SaveRequest& request) : request_(request) {}

  // Takes the step here and gives the texts of all ranks. What it throws on any rank is thrown on all.
  std::vector<std::string> operator()(const std::function<std::string()>& step) const {
    if (request_.world_size == 1) return {step()};
    RankText mine;
    try {
      mine.text = step();
    } catch (const std::exception& error) {
      mine.failure = problem_of(error);
      mine.failure->place.rank = request_.rank;
    }
    std::vector<std::string> texts;
    for (const std::string& text : gather(as_wire(mine))) {
      RankText s = from_wire<RankText>(text);
      if (s.failure) throw Error(std::move(*s.failure));
      texts.push_back(std::move(s.text));
    }
    return texts;
  }

 private:
  std::vector<std::string> gather(const std::string& mine) const {
    std::vector<std::string> all;
    try {
      all = request_.all_gather(mine);
    } catch (const std::exception& error) {
      fail(ProblemId::rank_lost, {.path = request_.path}, error.what());
    }
    if (all.size() != request_.world_size)
      fail(ProblemId::rank_lost, {.path = request_.path}, "texts of " + std::to_string(all.size()) + " ranks",
           std::to_string(request_.world_size));
    return all;
  }
  const SaveRequest& request_;
};

// A box, and who gave it: rank, and number among that rank's shards.
struct Given {
  const SavedBox* box = nullptr;
  uint32_t rank = 0;
  size_t number = 0;
};

[[noreturn]] void refuse(const SavedBox& box, std::string got, std::string expected) {
  fail(ProblemId::usage, {.tensor = box.key}, std::move(got), std::move(expected));
}

// Of one tensor, sorted by offsets: they cover it, and no two cross.
void check_tiles(const std::vector<Given>& boxes) {
  const SavedBox& first = *boxes.front().box;
  const std::vector<int64_t>& shape = first.shape;
  std::vector<int64_t> reach(shape.size()), at(shape.size()), sizes(shape.size());
  uint64_t covered = 0;
  for (const Given& g : boxes) {
    for (size_t d = 0; d < reach.size(); ++d) reach[d] = std::max(reach[d], g.box->sizes[d]);
    covered += volume(g.box->sizes);
  }
  const auto offsets_of = [&](uint32_t n) -> const std::vector<int64_t>& { return boxes[n].box->offsets; };
  for (uint32_t n = 0; n < boxes.size(); ++n) {
    const BoxView box{boxes[n].box->offsets, boxes[n].box->sizes};
    const SortedBoxes<decltype(offsets_of)> later{n + 1, static_cast<uint32_t>(boxes.size()), reach.data(), offsets_of};
    visit_overlaps(later, box, [&](uint32_t m) {
      if (intersect(box, {boxes[m].box->offsets, boxes[m].box->sizes}, at.data(), sizes.data()))
        refuse(first, "two boxes that both have " + slice_text(at, sizes), "boxes that do not cross");
    });
  }
  if (covered != volume(shape))
    refuse(first, "boxes with " + std::to_string(covered) + " of " + std::to_string(volume(shape)) + " elements", "all of the tensor");
}

// A dict that holds a key cannot hold another under the same.
void check_tree(const std::vector<std::vector<Given>>& by_tensor, const std::vector<FolderObject>& objects) {
  struct Named {
    const std::string* key;
    const std::vector<std::string>* path;
    const char* what;
  };
  std::vector<Named> all;
  for (const std::vector<Given>& boxes : by_tensor) all.push_back({&boxes.front().box->key, &boxes.front().box->path, "tensor"});
  for (const FolderObject& o : objects) all.push_back({&o.key, &o.path, "object"});
  std::ranges::sort(all, {}, [](const Named& n) -> const auto& { return *n.path; });  // what is below a path follows it
  for (size_t n = 1; n < all.size(); ++n) {
    const Named &above = all[n - 1], &below = all[n];
    if (std::ranges::mismatch(*above.path, *below.path).in1 == above.path->end())
      fail(ProblemId::usage, {.tensor = *below.key}, std::string("a path below that of the ") + above.what + " '" + *above.key + "'",
           "one beside it");
  }
}

// Which rank writes which box: a function of what all have, the same on every rank.
class SaveLayout {
 public:
  explicit SaveLayout(const std::vector<Saved>& ranks) : load_(ranks.size()) {
    for (uint32_t r = 0; r < ranks.size(); ++r) {
      for (size_t n = 0; n < ranks[r].boxes.size(); ++n) add({&ranks[r].boxes[n], r, n});
      for (size_t n = 0; n < ranks[r].objects.size(); ++n) add(ranks[r].objects[n], r, n);
    }
    for (const FolderObject& o : objects)
      if (number_of_.contains(o.key)) fail(ProblemId::usage, {.tensor = o.key}, "an object and a tensor under one key", "two keys");
    check_tree(by_tensor_, objects);
    for (std::vector<Given>& boxes : by_tensor_) place(boxes);
  }

  std::vector<FolderTensor> tensors;
  std::vector<FolderChunk> chunks;
  std::vector<size_t> numbers;  // by chunk: of its shard on its rank
  std::vector<FolderObject> objects;
  std::vector<size_t> object_numbers;  // by object: the same

 private:
  void add(const SavedObject& object, uint32_t rank, size_t number) {
    if (!object_keys_.insert(object.key).second) return;
    objects.push_back({.key = object.key, .path = object.path, .rank = rank, .bytes = object.bytes});
    object_numbers.push_back(number);
    load_[rank] += object.bytes;
  }

  void add(const Given& given) {
    const SavedBox& box = *given.box;
    const auto [known, is_new] = number_of_.try_emplace(box.key, by_tensor_.size());
    if (is_new) by_tensor_.emplace_back();
    std::vector<Given>& others = by_tensor_[known->second];
    if (!others.empty()) {
      const SavedBox& first = *others.front().box;
      if (std::tie(first.path, first.dtype, first.shape) != std::tie(box.path, box.dtype, box.shape))
        refuse(box, "another dtype, shape or path on rank " + std::to_string(given.rank),
               "what rank " + std::to_string(others.front().rank) + " says");
    }
    others.push_back(given);
  }

  void place(std::vector<Given>& boxes) {
    const SavedBox& tensor = *boxes.front().box;
    std::ranges::stable_sort(boxes, {}, [](const Given& g) { return std::tie(g.box->offsets, g.box->sizes); });
    // A tensor without elements is one box without any.
    if (volume(tensor.shape) > 0) std::erase_if(boxes, [](const Given& g) { return volume(g.box->sizes) == 0; });
    if (boxes.empty()) refuse(tensor, "boxes without elements", "all of the tensor");
    std::vector<Given> once;
    for (auto at = boxes.begin(); at != boxes.end();) {
      const auto is_same = [&](const Given& g) { return g.box->offsets == at->box->offsets && g.box->sizes == at->box->sizes; };
      const auto end = volume(tensor.shape) == 0 ? boxes.end() : std::find_if_not(at, boxes.end(), is_same);
      for (auto g = at + 1; g != end; ++g)
        if (g->rank == (g - 1)->rank && volume(tensor.shape) > 0) refuse(tensor, "one box twice", "once");
      once.push_back(*std::min_element(at, end, [&](const Given& a, const Given& b) { return load_[a.rank] < load_[b.rank]; }));
      load_[once.back().rank] += volume(once.back().box->sizes) * bytes_of(tensor.dtype);
      at = end;
    }
    check_tiles(once);
    for (const Given& g : once) {
      chunks.push_back({.tensor = static_cast<uint32_t>(tensors.size()), .rank = g.rank, .offsets = g.box->offsets, .sizes = g.box->sizes});
      numbers.push_back(g.number);
    }
    tensors.push_back({tensor.key, tensor.dtype, tensor.shape, tensor.requires_grad, tensor.path});
  }

  std::vector<uint64_t> load_;  // bytes, by rank
  std::map<std::string_view, size_t> number_of_;
  std::set<std::string_view> object_keys_;
  std::vector<std::vector<Given>> by_tensor_;
};

std::vector<SavedBox> boxes_of(const std::vector<CheckedShard>& shards) {
  std::vector<SavedBox> boxes;
  for (const CheckedShard& c : shards)
    boxes.push_back({c.shard.key, c.shard.path, c.dtype, c.shard.requires_grad, c.shard.shape, c.shard.offsets, c.shard.sizes});
  return boxes;
}

std::vector<SavedObject> objects_of(std::span<const MemoryObject> objects) {
  std::vector<SavedObject> out;
  for (const MemoryObject& o : objects) {
    MemoryObject c = checked(o);
    out.push_back({.key = std::move(c.key), .path = std::move(c.path), .bytes = c.bytes.size()});
  }
  return out;
}

// Counts what is written, and stops between two blocks of an item.
class CountedSink final : public PassingSink {
 public:
  CountedSink(Sink& to, Progress& progress, const World& world) : to_(to), progress_(progress), world_(world) {}
  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    world_.check_stop();
    to_.write(file, offset, bytes);
    progress_.bytes_written += bytes.size();
  }

 private:
  Sink& to_;
  Progress& progress_;
  const World& world_;
};

void check_group(const SaveRequest& request) {
  if (request.rank >= request.world_size)
    fail(ProblemId::usage, {.path = request.path}, "rank " + std::to_string(request.rank) + " of " + std::to_string(request.world_size),
         "a rank below the number of ranks");
  if (request.world_size > kMaxRanks)
    fail(ProblemId::usage, {.path = request.path}, std::to_string(request.world_size) + " ranks", std::to_string(kMaxRanks) + " at most");
  if (request.world_size > 1 && !request.all_gather)
    fail(ProblemId::usage, {.path = request.path}, "no all_gather", "the function by which ranks exchange texts");
}

}  // namespace

// The one file of a rank that is not rank 0. Not of the namespace without a name, since a member of StepSave::Files is one.
class OwnFile final : public PassingSink {
 public:
  // `shared`: what FileSet::shared() said on rank 0: the folders, then the files.
  OwnFile(Io& io, const std::vector<std::string>& shared, uint32_t rank, uint64_t bytes, bool sync)
      : file_(io, own_of(shared, rank), {bytes}, sync) {}
  void write(uint32_t, uint64_t offset, Bytes bytes) override { file_.write(0, offset, bytes); }
  void finish() override { file_.finish(); }
  void finish(const std::function<void()>& between) { file_.finish(between); }

 private:
  static std::vector<std::string> own_of(const std::vector<std::string>& shared, uint32_t rank) {
    if (shared.size() < 6 + 2 * size_t{rank}) WireReader::wrong();
    std::vector<std::string> own(shared.begin(), shared.begin() + 4);
    own.insert(own.end(), {shared[4 + 2 * rank], shared[5 + 2 * rank]});
    return own;
  }
  SharedFiles file_;
};

SaveResult save(const SaveRequest& request, World& world) {
  check_group(request);
  const uint64_t begin = world.io.now_ns();
  const Rounds round(request);
  std::vector<CheckedShard> shards;
  std::vector<Saved> ranks;
  const std::vector<std::string> all = round([&] {
    if (request.failure) throw Error(*request.failure);
    world.check_stop();
    for (const MemoryShard& s : request.shards) shards.push_back(checked(s));
    check_on_disk(world.store, request.path);
    if (request.rank == 0) check_output_free(world.io, request.path, true, request.replace);
    return as_wire(Saved{boxes_of(shards), objects_of(request.objects)});
  });
  for (const std::string& saved : all) ranks.push_back(from_wire<Saved>(saved));
  SaveLayout layout(ranks);
  if (layout.tensors.empty()) fail(ProblemId::usage, {.path = request.path}, "no tensors", "one or more");
  const DcpFolder folder(std::move(layout.tensors), std::move(layout.chunks), request.world_size, layout.objects);
  const DcpFolder::Payload payload = [&](size_t chunk, const DcpFolder::Emit& emit) {
    each_block(shards[layout.numbers[chunk]], 4 * kMiB, emit);
  };

  const std::vector<FileSpec> files = folder.files();
  std::optional<FileSet> output;
  const std::vector<std::string> made = round([&] {
    world.check_stop();
    if (request.rank != 0) return std::string();
    output.emplace(world.io, request.path, files, FileSetOptions{.folder = true, .replace = request.replace, .sync = request.sync});
    return as_wire(output->shared());
  });
  round([&] {
    world.check_stop();
    std::optional<OwnFile> own;
    if (!output)
      own.emplace(world.io, from_wire<std::vector<std::string>>(made.front()), request.rank, files[request.rank].bytes, request.sync);
    Progress progress;
    const auto display = world.events.show(progress, progress.bytes_written, files[request.rank].bytes);
    CountedSink sink(output ? static_cast<Sink&>(*output) : *own, progress, world);
    folder.write_items(request.rank, sink, wanted_workers(request.threads, request.world_size > 1), world.stop, payload);
    for (size_t o = 0; o < layout.objects.size(); ++o)
      if (layout.objects[o].rank == request.rank) folder.write_object(o, sink, request.objects[layout.object_numbers[o]].bytes);
    if (own) own->finish([&] { world.check_stop(); });
    return std::string();
  });
  round([&] {
    if (!output) return std::string();
    folder.write_metadata(*output);
    output->finish([&] { world.check_stop(); });
    world.check_stop();
    output->commit();
    return std::string();
  });
  return {.tensor_bytes = folder.tensor_bytes(), .file_bytes = folder.file_bytes(), .nanoseconds = world.io.now_ns() - begin};
}

// --- in steps

struct StepSave::Files {
  std::optional<FileSet> all;  // on rank 0
  std::optional<OwnFile> own;  // elsewhere
  Sink& sink() { return all ? static_cast<Sink&>(*all) : *own; }
};

StepSave::StepSave(const SaveRequest& request, World& world)
    : rank_(request.rank),
      world_size_(request.world_size),
      threads_(wanted_workers(request.threads, request.world_size > 1)),
      path_(request.path),
      name_(file_of_rank(request.rank)),
      files_(std::make_unique<Files>()) {
  check_group(request);
  const std::vector<std::string> made = Rounds(request)([&] {
    world.check_stop();
    check_on_disk(world.store, path_);
    if (rank_ != 0) return std::string();
    check_output_free(world.io, path_, true, request.replace);
    std::vector<FileSpec> files;
    for (uint32_t r = 0; r < world_size_; ++r) files.push_back({file_of_rank(r), FileSpec::kGrows});
    files.push_back({".metadata", FileSpec::kGrows});
    files_->all.emplace(world.io, path_, files, FileSetOptions{.folder = true, .replace = request.replace, .sync = request.sync});
    return as_wire(files_->all->shared());
  });
  if (rank_ != 0) files_->own.emplace(world.io, from_wire<std::vector<std::string>>(made.front()), rank_, 0, request.sync);
}

StepSave::~StepSave() = default;

std::vector<StepSave::Place> StepSave::append(std::span<const Item> items, World& world) {
  std::vector<CheckedShard> shards(items.size());
  std::vector<Place> places(items.size());
  uint64_t bytes = 0;
  for (size_t n = 0; n < items.size(); ++n) {
    if (items[n].shard != nullptr) shards[n] = checked(*items[n].shard);
    places[n] = {.offset = bytes,
                 .length = items[n].shard != nullptr ? tensor_item_bytes(shards[n].dtype, shards[n].shard.sizes)
                                                     : checked(*items[n].object).bytes.size()};
    bytes += places[n].length;
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_complete_) fail(ProblemId::usage, {.path = path_}, "an item for a file that is complete", "one before");
    for (Place& p : places) p.offset += end_;
    end_ += bytes;
    ++appending_;
  }
  const auto end = [&](bool has_failed) {
    const std::lock_guard lock(mutex_);
    --appending_;
    has_failed_ = has_failed_ || has_failed;
  };
  try {
    Progress progress;
    const auto display = world.events.show(progress, progress.bytes_written, bytes);
    CountedSink sink(files_->sink(), progress, world);
    const uint32_t file = files_->all ? rank_ : 0;
    parallel_for(threads_, items.size(), world.stop, [&](unsigned, uint64_t n) {
      if (items[n].shard == nullptr) return sink.write(file, places[n].offset, items[n].object->bytes);
      write_tensor_item({.sink = sink, .file = file, .offset = places[n].offset, .name = path_ + "/" + name_}, shards[n].dtype,
                        shards[n].shard.sizes, [&](const std::function<void(Bytes)>& emit) { each_block(shards[n], 4 * kMiB, emit); });
    });
  } catch (...) {
    end(true);
    throw;
  }
  end(false);
  return places;
}

void StepSave::complete(World& world) {
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) fail(ProblemId::usage, {.path = path_}, "a file that could not be written", "one that is whole");
    if (appending_ > 0) fail(ProblemId::usage, {.path = path_}, "a file to which items are being appended", "one that is whole");
    if (std::exchange(is_complete_, true)) return;
  }
  try {
    if (files_->own) files_->own->finish([&] { world.check_stop(); });
  } catch (...) {
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
    throw;
  }
}

void StepSave::finish(std::string_view metadata, World& world) {
  if (!files_->all) fail(ProblemId::usage, {.path = path_}, "rank " + std::to_string(rank_), "rank 0, which gives the folder its name");
  complete(world);
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_finished_, true)) fail(ProblemId::usage, {.path = path_}, "a folder that is finished", "one that is not");
  }
  files_->all->write(world_size_, 0, as_bytes(metadata));
  files_->all->finish([&] { world.check_stop(); });
  world.check_stop();
  files_->all->commit();
}

SyntheticReport make_synthetic(World& world, const std::string& path, const SyntheticSpec& spec, unsigned threads, Replace replace) {
  return write_synthetic(world.io, path, spec, {.replace = replace, .sync = false, .workers = threads > 0 ? threads : default_workers()},
                         world.stop);
}

}  // namespace dcp
