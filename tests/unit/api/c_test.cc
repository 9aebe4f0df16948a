// dcpctl/c.h: structs of other sizes, jobs, and what the functions for C++ say of the same checkpoint.
#include <dcpctl/c.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include "api/tensors.h"
#include "base/temp_dir.h"

using namespace dcpctl::test;
using dcp::test::TempDir;

namespace {

const std::string kSharded = DCPCTL_TEST_DATA "/fsdp2_ws4/ckpt";

std::string str(dcpctl_text text) { return std::string(text.data, text.bytes); }

template <class T>
T sized() {
  T value{};
  value.size = sizeof value;
  return value;
}

struct JobDeleter {
  void operator()(dcpctl_job* job) const { dcpctl_job_free(job); }
};
using Job = std::unique_ptr<dcpctl_job, JobDeleter>;
struct CheckpointDeleter {
  void operator()(dcpctl_checkpoint* checkpoint) const { dcpctl_checkpoint_free(checkpoint); }
};
using Opened = std::unique_ptr<dcpctl_checkpoint, CheckpointDeleter>;

dcpctl_result done(const Job& job) {
  REQUIRE(job != nullptr);
  const int32_t state = dcpctl_job_wait(job.get(), -1);
  if (const dcpctl_problem* p = dcpctl_job_problem(job.get())) FAIL_CHECK(str(p->line));
  REQUIRE(state == DCPCTL_DONE);
  dcpctl_result result = sized<dcpctl_result>();
  dcpctl_job_result(job.get(), &result);
  return result;
}

std::string failed(dcpctl_job* job) {
  const Job holder(job);
  REQUIRE(dcpctl_job_wait(job, -1) == DCPCTL_FAILED);
  const dcpctl_problem* p = dcpctl_job_problem(job);
  REQUIRE(p != nullptr);
  CHECK(p->size == sizeof *p);
  CHECK(std::strlen(p->line.data) == p->line.bytes);
  return str(p->id) + ": " + str(p->got) + ", " + str(p->expected);
}

Opened opened(const std::string& path, const dcpctl_open_options* options = nullptr) {
  const Job job(dcpctl_open(path.c_str(), options));
  return Opened(done(job).checkpoint);
}

// A matrix of 6 x 4 in two boxes, and a vector, under keys of a nested state dict.
std::string made_in_c(const TempDir& dir) {
  const std::vector<float> matrix = counted(24), vector = counted(5, 100);
  const std::string path = dir / "run/step-7";
  std::filesystem::create_directory(dir / "run");
  const int64_t shape[] = {6, 4}, first[] = {2, 4}, rest[] = {4, 4}, at[] = {2, 0}, five[] = {5};
  const dcpctl_text names[] = {{"m", 1}, {"matrix", 6}};
  std::vector<dcpctl_shard> shards(3, sized<dcpctl_shard>());
  shards[0].key = shards[1].key = {"m.matrix", 8};
  shards[2].key = {"vector", 6};
  for (dcpctl_shard& s : shards) s.dtype = "float32", s.rank = 2, s.shape = shape, s.path = names, s.path_parts = 2;
  shards[0].sizes = first, shards[0].data = matrix.data();
  shards[1].sizes = rest, shards[1].offsets = at, shards[1].data = &matrix[8];
  shards[2].rank = 1, shards[2].shape = five, shards[2].data = vector.data(), shards[2].path = nullptr, shards[2].path_parts = 0;
  const Job job(dcpctl_save(path.c_str(), shards.data(), shards.size(), nullptr));
  CHECK(done(job).bytes_written > 0);
  return path;
}

dcpctl_part part(uint64_t entry, void* to) {
  dcpctl_part p = sized<dcpctl_part>();
  p.entry = entry;
  p.to = to;
  return p;
}

// Until a job ends.
void exchange(const std::vector<Job>& ranks) {
  for (bool over = false; !over;) {
    std::vector<std::string> texts;
    std::vector<dcpctl_text> views;
    for (const Job& job : ranks) {
      const int32_t state = dcpctl_job_wait(job.get(), -1);
      over = over || state != DCPCTL_EXCHANGE;
      texts.push_back(str(dcpctl_job_text(job.get())));
    }
    for (const std::string& t : texts) views.push_back({t.data(), t.size()});
    for (const Job& job : ranks) dcpctl_job_give(job.get(), views.data(), views.size());
  }
}

}  // namespace

TEST_CASE("C: a checkpoint says what it is, and what is in it") {
  const TempDir dir;
  const Opened checkpoint = opened(made_in_c(dir));
  dcpctl_facts facts = sized<dcpctl_facts>();
  dcpctl_checkpoint_facts(checkpoint.get(), &facts);
  CHECK(str(facts.path) == dir / "run/step-7");
  CHECK(str(facts.kind) == "dcp");
  REQUIRE(facts.step != nullptr);
  CHECK(*facts.step == 7);
  CHECK(facts.entries == 2);
  CHECK(facts.tensors == 2);
  CHECK(facts.objects == 0);
  CHECK(facts.chunks == 3);
  CHECK(facts.ranks == 2);
  CHECK(facts.has_map == 0);

  const uint64_t n = dcpctl_find(checkpoint.get(), "m.matrix", 8);
  CHECK(dcpctl_find(checkpoint.get(), "m.matri", 7) == UINT64_MAX);
  dcpctl_entry entry = sized<dcpctl_entry>();
  REQUIRE(dcpctl_entries(checkpoint.get(), n, 1, &entry) == 1);
  CHECK(str(entry.key) == "m.matrix");
  CHECK(str(entry.dtype) == "float32");
  CHECK(Ints(entry.shape, entry.shape + entry.rank) == Ints{6, 4});
  CHECK(entry.bytes == 96);
  CHECK(entry.chunks == 2);
  CHECK(entry.path_parts == 2);
  std::vector<dcpctl_path_part> path(3, sized<dcpctl_path_part>());
  REQUIRE(dcpctl_path(checkpoint.get(), n, 0, 3, path.data()) == 2);
  CHECK(str(path[1].name) == "matrix");
  CHECK(path[1].position == -1);
  std::vector<dcpctl_chunk> chunks(3, sized<dcpctl_chunk>());
  REQUIRE(dcpctl_chunks(checkpoint.get(), n, 0, 3, chunks.data()) == 2);
  CHECK(Ints(chunks[1].offsets, chunks[1].offsets + 2) == Ints{2, 0});
  CHECK(Ints(chunks[1].sizes, chunks[1].sizes + 2) == Ints{4, 4});
  CHECK(str(chunks[1].file) == "__0_0.distcp");
  CHECK(chunks[1].offset == chunks[0].offset + chunks[0].length);
  CHECK(dcpctl_entries(checkpoint.get(), 2, 1, &entry) == 0);
  CHECK(dcpctl_path(checkpoint.get(), 2, 0, 1, path.data()) == 0);
  CHECK(dcpctl_chunks(checkpoint.get(), 2, 0, 1, chunks.data()) == 0);
}

TEST_CASE("C: parts of tensors, with steps, strides and another dtype, in one job") {
  const TempDir dir;
  const Opened checkpoint = opened(made_in_c(dir));
  const uint64_t matrix = dcpctl_find(checkpoint.get(), "m.matrix", 8), vector = dcpctl_find(checkpoint.get(), "vector", 6);
  std::vector<float> whole(24), columns(8, -1), odd(2);
  std::vector<double> wide(5);
  const int64_t starts[] = {1, 1}, counts[] = {4, 2}, down[] = {4, 16};  // bytes: column-major
  const int64_t first[] = {1}, two[] = {2}, every[] = {2};
  std::vector<dcpctl_part> parts{part(matrix, whole.data()), part(matrix, columns.data()), part(vector, wide.data()),
                                 part(vector, odd.data())};
  parts[1].starts = starts, parts[1].counts = counts, parts[1].strides = down;
  parts[2].dtype = "float64";
  parts[3].starts = first, parts[3].counts = two, parts[3].steps = every;
  const Job job(dcpctl_read(checkpoint.get(), parts.data(), parts.size(), nullptr));
  const dcpctl_result result = done(job);
  CHECK(whole == counted(24));
  CHECK(columns == std::vector<float>{5, 9, 13, 17, 6, 10, 14, 18});
  CHECK(wide == std::vector<double>{100, 101, 102, 103, 104});
  CHECK(odd == std::vector<float>{101, 103});
  CHECK(result.bytes_read > 0);
  CHECK(result.records_compared == 3);
  dcpctl_progress progress = sized<dcpctl_progress>();
  dcpctl_job_progress(job.get(), &progress);
  CHECK(progress.bytes_done > 0);
  CHECK(progress.bytes_done == progress.bytes_total);
}

TEST_CASE("C: structs of a caller that knows fewer members, or more") {
  const TempDir dir;
  const Opened checkpoint = opened(made_in_c(dir));
  struct Longer {
    dcpctl_entry known;
    uint64_t later;
  };
  Longer longer[2]{};
  for (Longer& l : longer) l.known.size = sizeof(Longer), l.later = 1;
  REQUIRE(dcpctl_entries(checkpoint.get(), 0, 2, &longer[0].known) == 2);
  for (const Longer& l : longer) {
    CHECK(l.known.size == sizeof(Longer));
    CHECK(l.known.rank > 0);
    CHECK(l.later == 0);
  }
  struct Shorter {
    size_t size;
    dcpctl_text key;
    uint64_t mine;
  };
  Shorter shorter[2]{};
  for (Shorter& s : shorter) s.size = sizeof(Shorter) - sizeof(uint64_t);
  shorter[0].mine = 5;
  REQUIRE(dcpctl_entries(checkpoint.get(), 0, 1, reinterpret_cast<dcpctl_entry*>(&shorter[0])) == 1);
  CHECK(str(shorter[0].key) == str(longer[0].known.key));
  CHECK(shorter[0].mine == 5);
}

TEST_CASE("C: what is wrong with a call is a problem of its job") {
  const TempDir dir;
  const Opened checkpoint = opened(made_in_c(dir));
  CHECK(failed(dcpctl_open((dir / "nothing").c_str(), nullptr)).starts_with("no_such_path"));
  dcpctl_open_options options = sized<dcpctl_open_options>();
  options.dtype = "float33";
  CHECK(failed(dcpctl_open((dir / "run/step-7").c_str(), &options)).starts_with("usage: dtype 'float33'"));
  float values[24];
  dcpctl_part p = part(9, values);
  CHECK(failed(dcpctl_read(checkpoint.get(), &p, 1, nullptr)) == "usage: entry 9, one of 2");
  p = part(0, nullptr);
  CHECK(failed(dcpctl_read(checkpoint.get(), &p, 1, nullptr)).starts_with("usage: no memory"));
  p = part(0, values);
  const int64_t beyond[] = {7, 0};
  p.starts = beyond;
  CHECK(failed(dcpctl_read(checkpoint.get(), &p, 1, nullptr)) == "usage: index 7 along dim 0, 0 to 6");
  const uint64_t entry = 0;
  CHECK(failed(dcpctl_objects(checkpoint.get(), &entry, 1)) == "usage: a tensor, an object");
  dcpctl_shard odd = sized<dcpctl_shard>();
  const int64_t shape[] = {2}, stride[] = {6};
  odd.key = {"x", 1}, odd.dtype = "float32", odd.rank = 1, odd.shape = shape, odd.strides = stride, odd.data = values;
  CHECK(failed(dcpctl_save((dir / "out").c_str(), &odd, 1, nullptr)) == "usage: a stride of 6 bytes, a multiple of 4");
  odd.shape = nullptr, odd.strides = nullptr;
  CHECK(failed(dcpctl_save((dir / "out").c_str(), &odd, 1, nullptr)) == "usage: shape [-1], sizes of 0 or more");
  dcpctl_save_options many = sized<dcpctl_save_options>();
  many.world_size = UINT32_MAX;
  CHECK(failed(dcpctl_begin((dir / "out").c_str(), &many)) == "usage: 4294967295 ranks, 65536 at most");
}

TEST_CASE("C: numbers of any size") {
  const TempDir dir;
  dcpctl_open_options options = sized<dcpctl_open_options>();
  options.max_memory = UINT64_MAX;
  const Opened checkpoint = opened(made_in_c(dir), &options);
  float values[24];
  const dcpctl_part p = part(0, values);
  const Job job(dcpctl_read(checkpoint.get(), &p, 1, nullptr));
  CHECK(dcpctl_job_wait(job.get(), INT64_MAX) == DCPCTL_DONE);
}

TEST_CASE("C: an object that is none is refused, and nothing is left") {
  const TempDir dir;
  const std::string file = "PK";
  const float value = 1;
  const dcpctl_text together[] = {{"a.b", 3}}, apart[] = {{"a", 1}, {"b", 1}};
  std::vector<dcpctl_shard> shards(2, sized<dcpctl_shard>());
  shards[0].key = {"a.b", 3}, shards[0].dtype = "float32", shards[0].data = &value, shards[0].path = together, shards[0].path_parts = 1;
  const auto refused = [&](const std::function<void(dcpctl_shard&)>& change) {
    shards[1] = sized<dcpctl_shard>();
    shards[1].key = {"o", 1}, shards[1].data = file.data(), shards[1].bytes = file.size();
    change(shards[1]);
    return failed(dcpctl_save((dir / "out").c_str(), shards.data(), 2, nullptr));
  };
  CHECK(refused([&](dcpctl_shard& o) { o.key = {"a.b", 3}, o.path = apart, o.path_parts = 2; }) ==
        "usage: an object and a tensor under one key, two keys");
  CHECK(refused([&](dcpctl_shard& o) { o.path = apart, o.path_parts = 2; }) == "usage: path 'a.b', one that joined with dots is the key");
  CHECK(refused([](dcpctl_shard& o) { o.key = {"\xff", 1}; }) == "usage: a key that is not UTF-8, a name");
  CHECK(refused([](dcpctl_shard& o) { o.key = {}; }) == "usage: no key, a name");
  CHECK(refused([](dcpctl_shard& o) { o.bytes = 0; }) == "usage: no data, a file of torch.save");
  CHECK(refused([](dcpctl_shard& o) { o.data = nullptr; }) == "usage: no data, a file of torch.save");
  CHECK(std::filesystem::is_empty(std::string(dir / "")));
  const Job begun(dcpctl_begin((dir / "out").c_str(), nullptr));
  const std::unique_ptr<dcpctl_saving, void (*)(dcpctl_saving*)> steps(done(begun).saving, dcpctl_saving_free);
  shards[1].data = nullptr;
  CHECK(failed(dcpctl_append(steps.get(), &shards[1], 1)) == "usage: no data, a file of torch.save");
}

TEST_CASE("C: an open takes the names, keys and dtypes that its options give") {
  const char *exclude[] = {"*.norm.weight", nullptr}, *rename[] = {"^=>x.", nullptr};
  dcpctl_open_options options = sized<dcpctl_open_options>();
  options.model_only = 1;
  options.exclude = exclude;
  options.rename = rename;
  options.dtype = "bfloat16";
  const Opened checkpoint = opened(kSharded, &options);
  dcpctl_entry entry = sized<dcpctl_entry>();
  uint64_t tensors = 0;
  for (uint64_t n = 0; dcpctl_entries(checkpoint.get(), n, 1, &entry) == 1; ++n) {
    const std::string key = str(entry.key);
    INFO(key);
    CHECK(key.starts_with("x."));
    CHECK(!key.ends_with(".norm.weight"));
    if (entry.is_object) continue;
    ++tensors;
    if (str(entry.dtype) != "bfloat16") continue;
    std::vector<uint16_t> half(entry.bytes / 2);
    std::vector<float> all(entry.bytes / 2);
    const dcpctl_part p = part(n, half.data());
    done(Job(dcpctl_read(checkpoint.get(), &p, 1, nullptr)));
    dcpctl_part wide = part(n, all.data());
    wide.dtype = "float32";
    CHECK(failed(dcpctl_read(checkpoint.get(), &wide, 1, nullptr)).starts_with("usage: bfloat16, chosen when it was opened, to float32"));
  }
  CHECK(tensors > 0);
}

TEST_CASE("C: objects are described without being loaded, and given as files of torch.save") {
  const Opened checkpoint = opened(kSharded);
  std::vector<uint64_t> objects;
  dcpctl_entry entry = sized<dcpctl_entry>();
  for (uint64_t n = 0; dcpctl_entries(checkpoint.get(), n, 1, &entry) == 1; ++n)
    if (entry.is_object) objects.push_back(n);
  REQUIRE(!objects.empty());
  const Job described(dcpctl_describe(checkpoint.get(), objects.data(), objects.size()));
  const dcpctl_result texts = done(described);
  REQUIRE(texts.text_count == objects.size());
  for (size_t n = 0; n < texts.text_count; ++n) CHECK(str(texts.texts[n]).starts_with("{\"value\":"));
  const Job files(dcpctl_objects(checkpoint.get(), objects.data(), objects.size()));
  const dcpctl_result archives = done(files);
  REQUIRE(archives.text_count == objects.size());
  for (size_t n = 0; n < archives.text_count; ++n) CHECK(str(archives.texts[n]).starts_with("PK"));
}

TEST_CASE("C: a cancelled job ends with a problem, and a job may outlive its checkpoint") {
  const TempDir dir;
  const std::string path = made_in_c(dir);
  Opened checkpoint = opened(path);
  std::vector<float> whole(24);
  const dcpctl_part p = part(dcpctl_find(checkpoint.get(), "m.matrix", 8), whole.data());
  const Job job(dcpctl_read(checkpoint.get(), &p, 1, nullptr));
  checkpoint.reset();
  done(job);
  CHECK(whole == counted(24));
  // Two ranks, of which one is cancelled and the other never answers.
  dcpctl_save_options options = sized<dcpctl_save_options>();
  options.world_size = 2;
  const int64_t shape[] = {24};
  dcpctl_shard shard = sized<dcpctl_shard>();
  shard.key = {"x", 1}, shard.dtype = "float32", shard.rank = 1, shard.shape = shape, shard.data = whole.data();
  dcpctl_job* waiting = dcpctl_save((dir / "out").c_str(), &shard, 1, &options);
  REQUIRE(dcpctl_job_wait(waiting, -1) == DCPCTL_EXCHANGE);
  CHECK(dcpctl_job_text(waiting).bytes > 0);
  CHECK(dcpctl_job_problem(waiting) == nullptr);
  dcpctl_job_cancel(waiting);
  CHECK(dcpctl_job_wait(waiting, 50) == DCPCTL_EXCHANGE);  // the other must hear of it
  dcpctl_job_free(waiting);
  CHECK(!std::filesystem::exists(dir / "out"));
}

TEST_CASE("C: two ranks save one checkpoint by the texts that they exchange, and hear of a cancel by them") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(24);
  const auto started = [&] {
    std::vector<Job> ranks;
    for (uint32_t r = 0; r < 2; ++r) {
      const int64_t shape[] = {24}, sizes[] = {12}, offsets[] = {12 * int64_t{r}};
      dcpctl_shard shard = sized<dcpctl_shard>();
      shard.key = {"x", 1}, shard.dtype = "float32", shard.rank = 1, shard.shape = shape, shard.sizes = sizes, shard.offsets = offsets;
      shard.data = &values[12 * r];
      dcpctl_save_options options = sized<dcpctl_save_options>();
      options.rank = r, options.world_size = 2;
      ranks.emplace_back(dcpctl_save(path.c_str(), &shard, 1, &options));
    }
    return ranks;
  };
  std::vector<Job> cancelled = started();
  REQUIRE(dcpctl_job_wait(cancelled[1].get(), -1) == DCPCTL_EXCHANGE);
  dcpctl_job_cancel(cancelled[1].get());
  exchange(cancelled);
  for (Job& job : cancelled) CHECK(failed(job.release()).starts_with("interrupted"));
  CHECK(std::filesystem::is_empty(std::string(dir / "")));
  const std::vector<Job> ranks = started();
  exchange(ranks);
  for (const Job& job : ranks) done(job);
  CHECK(read(path, "x") == values);
}

TEST_CASE("C: objects are saved beside tensors, and a folder by steps is what torch would have written") {
  const TempDir dir;
  const Opened source = opened(kSharded);
  // An object of another checkpoint, as a file of torch.save.
  dcpctl_entry entry = sized<dcpctl_entry>();
  uint64_t object = 0;
  while (dcpctl_entries(source.get(), object, 1, &entry) == 1 && !entry.is_object) ++object;
  REQUIRE(entry.is_object);
  const Job files(dcpctl_objects(source.get(), &object, 1));
  const std::string bytes = str(done(files).texts[0]);
  const std::vector<float> values = counted(24);
  const int64_t shape[] = {6, 4}, sizes[] = {3, 4}, below[] = {3, 0};
  std::vector<dcpctl_shard> shards(3, sized<dcpctl_shard>());
  shards[0].key = shards[1].key = {"m", 1};
  for (size_t n = 0; n < 2; ++n) shards[n].dtype = "float32", shards[n].rank = 2, shards[n].shape = shape, shards[n].sizes = sizes;
  shards[0].data = values.data();
  shards[1].data = &values[12], shards[1].offsets = below;
  shards[2].key = {"o", 1}, shards[2].data = bytes.data(), shards[2].bytes = bytes.size();
  const std::string whole = dir / "whole", stepwise = dir / "stepwise";
  const Job saving(dcpctl_save(whole.c_str(), shards.data(), shards.size(), nullptr));
  done(saving);
  dcpctl_progress progress = sized<dcpctl_progress>();
  dcpctl_job_progress(saving.get(), &progress);
  CHECK(progress.bytes_done == progress.bytes_total);
  const Opened saved = opened(whole);
  const uint64_t o = dcpctl_find(saved.get(), "o", 1);
  const Job again(dcpctl_objects(saved.get(), &o, 1));
  CHECK(str(done(again).texts[0]) == bytes);

  const Job begun(dcpctl_begin(stepwise.c_str(), nullptr));
  const std::unique_ptr<dcpctl_saving, void (*)(dcpctl_saving*)> steps(done(begun).saving, dcpctl_saving_free);
  REQUIRE(steps != nullptr);
  CHECK(!std::filesystem::exists(stepwise));
  const Job first(dcpctl_append(steps.get(), shards.data(), 1));
  const dcpctl_result one = done(first);
  const Job rest(dcpctl_append(steps.get(), &shards[1], 2));
  const dcpctl_result two = done(rest);
  REQUIRE(one.place_count == 1);
  REQUIRE(two.place_count == 2);
  CHECK(str(two.places[1].file) == "__0_0.distcp");
  CHECK(two.places[1].length == bytes.size());
  CHECK(two.places[1].offset == two.places[0].offset + two.places[0].length);
  dcpctl_job_progress(rest.get(), &progress);
  CHECK(progress.bytes_total == bytes.size());  // of the objects, which come last
  done(Job(dcpctl_complete(steps.get())));
  CHECK(failed(dcpctl_append(steps.get(), shards.data(), 1)).starts_with("usage: an item for a file that is complete"));
  std::ifstream file(whole + "/.metadata", std::ios::binary);
  const std::string metadata{std::istreambuf_iterator<char>(file), {}};
  done(Job(dcpctl_finish(steps.get(), metadata.data(), metadata.size())));
  CHECK(std::filesystem::file_size(stepwise + "/__0_0.distcp") == std::filesystem::file_size(whole + "/__0_0.distcp"));
  CHECK(read(stepwise, "m") == values);
  CHECK(failed(dcpctl_finish(steps.get(), "", 0)).starts_with("usage: a folder that is finished"));
}

TEST_CASE("C: a folder that is not finished is dropped, and not made over another") {
  const TempDir dir;
  const std::string path = made_in_c(dir), fresh = dir / "fresh";
  CHECK(failed(dcpctl_begin(path.c_str(), nullptr)).starts_with("output_exists"));
  const Job begun(dcpctl_begin(fresh.c_str(), nullptr));
  dcpctl_saving* steps = done(begun).saving;
  CHECK(failed(dcpctl_begin(fresh.c_str(), nullptr)).starts_with("output_busy"));
  float value = 1;
  dcpctl_shard shard = sized<dcpctl_shard>();
  shard.key = {"x", 1}, shard.dtype = "float32", shard.data = &value;
  done(Job(dcpctl_append(steps, &shard, 1)));
  dcpctl_saving_free(steps);
  for (const auto& left : std::filesystem::directory_iterator(std::string(dir / ""))) CHECK(left.path().filename() == "run");
}

TEST_CASE("C: two ranks save in steps") {
  const TempDir dir;
  const std::string path = dir / "ckpt", one = dir / "one";
  const std::vector<float> values = counted(24);
  std::vector<Job> begins;
  std::vector<std::unique_ptr<dcpctl_saving, void (*)(dcpctl_saving*)>> ranks;
  dcpctl_save_options options = sized<dcpctl_save_options>();
  options.world_size = 2;
  for (; options.rank < 2; ++options.rank) begins.emplace_back(dcpctl_begin(path.c_str(), &options));
  std::vector<std::string> texts;
  std::vector<dcpctl_text> views;
  for (const Job& job : begins) {
    REQUIRE(dcpctl_job_wait(job.get(), -1) == DCPCTL_EXCHANGE);
    texts.push_back(str(dcpctl_job_text(job.get())));
  }
  for (const std::string& t : texts) views.push_back({t.data(), t.size()});
  for (const Job& job : begins) dcpctl_job_give(job.get(), views.data(), views.size());
  for (const Job& job : begins) ranks.emplace_back(done(job).saving, dcpctl_saving_free);
  const int64_t shape[] = {24}, sizes[] = {12}, offsets[] = {12};
  std::vector<dcpctl_shard> shards(2, sized<dcpctl_shard>());
  for (dcpctl_shard& s : shards) s.key = {"x", 1}, s.dtype = "float32", s.rank = 1, s.shape = shape, s.sizes = sizes;
  shards[0].data = values.data(), shards[1].data = &values[12], shards[1].offsets = offsets;
  for (size_t r = 0; r < 2; ++r) {
    const Job job(dcpctl_append(ranks[r].get(), &shards[r], 1));
    const dcpctl_result result = done(job);
    CHECK(str(result.places[0].file) == "__" + std::to_string(r) + "_0.distcp");
    CHECK(result.places[0].offset == 0);
    done(Job(dcpctl_complete(ranks[r].get())));
  }
  CHECK(failed(dcpctl_finish(ranks[1].get(), "", 0)).starts_with("usage: rank 1"));
  CHECK(!std::filesystem::exists(path));
  done(Job(dcpctl_finish(ranks[0].get(), "x", 1)));
  CHECK(std::filesystem::exists(path + "/__1_0.distcp"));
}
