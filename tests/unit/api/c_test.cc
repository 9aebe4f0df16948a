// dcpctl/c.h: structs of other sizes, jobs, and what the functions for C++ say of the same checkpoint.
#include <dcpctl/c.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <thread>

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
    CHECK(l.later == 1);
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
  // Two ranks, of which one never answers.
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
  CHECK(failed(waiting).starts_with("interrupted"));
  CHECK(!std::filesystem::exists(dir / "out"));
}

TEST_CASE("C: two ranks save one checkpoint by the texts that they exchange") {
  const TempDir dir;
  const std::string path = dir / "ckpt";
  const std::vector<float> values = counted(24);
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
  for (const Job& job : ranks) done(job);
  CHECK(read(path, "x") == values);
}
