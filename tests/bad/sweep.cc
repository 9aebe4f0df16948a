// Small real checkpoints, cut at every length and with every byte changed in three ways, through all that `consolidate` does: it ends well
// or in an Error, never in anything else; and a changed byte of a record with a CRC is always found. Then random bits through `verify`.
//
//   sweep DATA FIXTURE...   fixtures are folders of tests/data
//
// Metadata above kWhole bytes, and the data of fixtures above kWhole bytes in all, are sampled by a fixed step.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "catalog/structure.h"
#include "exec/execute.h"
#include "inputs/open.h"
#include "items/item_source.h"
#include "items/resolve.h"
#include "plan/layout.h"
#include "select/select.h"
#include "unit/base/fake_io.h"
#include "unit/exec/verified.h"

#if defined(__SANITIZE_ADDRESS__)
#define SWEEP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SWEEP_SANITIZED 1
#endif
#endif

namespace dcp {
namespace {

constexpr const char* kFolder = "ckpt";
#ifdef SWEEP_SANITIZED
constexpr uint64_t kWhole = 1500, kFlips = 1000;
#else
constexpr uint64_t kWhole = 12000, kFlips = 10000;
#endif

char g_running[512] = "";  // for the signal handler: which change a crash belongs to

extern "C" void on_crash(int number) {
  (void)!write(STDERR_FILENO, g_running, std::strlen(g_running));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// Holds nothing: plans of changed metadata may be of any size. What is written must lie inside the planned files.
class BoundsSink : public Sink {
 public:
  explicit BoundsSink(const Plan& plan) : plan_(plan) {}
  void write(uint32_t file, uint64_t offset, Bytes bytes) override {
    const uint64_t size = plan_.files.at(file).bytes;
    if (offset > size || bytes.size() > size - offset) throw std::logic_error("a write outside of the planned file");
  }
  void finish() override {}
  void commit() override {}
  void abort() noexcept override {}

 private:
  const Plan& plan_;
};

using Contents = std::map<std::string, std::string>;  // of the files of a checkpoint, by path

void put(test::FakeIo& io, const Contents& contents) {
  for (const auto& [path, text] : contents) io.put(path, text);
}

struct Opened {
  FrozenCatalog opened;

  const Catalog& catalog() const { return opened->catalog; }
  Selection selection;
  Resolved resolved;
};

// open -> select -> check -> resolve, as consolidate does for a .pt file.
Opened open_all(Io& io, const StopFlag& stop) {
  Opened o;
  o.opened = open_checkpoint(io, kFolder, {});
  o.selection = select_keys(o.catalog(), {});
  std::vector<TensorId> tensors;
  std::vector<BlobId> blobs;
  for (const Entry& e : o.selection.entries) {
    if (e.is_blob()) {
      check_item(o.catalog(), o.catalog().item_of(e.blob()), o.catalog().key(e.ref), "");
      blobs.push_back(e.blob());
    } else {
      const Tensor& t = o.catalog().tensors[e.tensor()];
      if (!t.dtype_known) fail(ProblemId::dtype_unknown, {.path = kFolder, .tensor = std::string(o.catalog().key(t))});
      check_whole(o.catalog(), t);
      tensors.push_back(e.tensor());
    }
  }
  DataFiles files(io, o.catalog(), FollowLinks::kCacheOnly);
  o.resolved = resolve(files, tensors, blobs, {}, stop);
  return o;
}

// False: damage was found.
bool run(Io& io) {
  const StopFlag stop{0};
  const Opened o = open_all(io, stop);
  const Plan plan = plan_torch({o.catalog(), o.resolved}, o.selection, {});
  DataFiles files(io, o.catalog(), FollowLinks::kCacheOnly);
  BoundsSink sink(plan);
  Progress progress;
  return execute(plan, {o.catalog(), o.resolved, files}, sink, {}, {progress, stop}).damage.empty();
}

// For each byte of `file` whether it lies in a record whose CRC says what it must be. Zstd streams have none.
template <class IsRead>
std::vector<bool> covered_bytes(const Contents& contents, const std::string& file, const IsRead& is_read) {
  const std::string& content = contents.at(file);
  test::FakeIo io;
  put(io, contents);
  const StopFlag stop{0};
  const Opened o = open_all(io, stop);
  std::vector<bool> covered(content.size(), false);
  for (ItemId i = 0; i < o.catalog().items.size(); ++i) {
    const Item& item = o.catalog().items[i];
    if (!o.resolved.items[i].resolved || item.transforms != 0 || o.catalog().file_path(item.file) != file) continue;
    MemorySource source(as_bytes(content).subspan(item.offset, item.length));
    const ZipDirectory directory = read_zip_directory(source, {}, {});
    for (const ZipRecord& r : directory.records) {
      if (r.crc == 0 || !is_read(r.name)) continue;
      const uint64_t at = item.offset + payload_of(source, directory, r, {});
      std::fill_n(covered.begin() + static_cast<int64_t>(at), r.size, true);
    }
  }
  return covered;
}

Contents contents_of(const std::filesystem::path& folder) {
  Contents contents;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto io = make_posix_io();
    const std::vector<std::byte> bytes = read_file(*io, entry.path(), kGiB);
    contents[std::string(kFolder) + "/" + entry.path().filename().string()] = as_text(bytes);
  }
  return contents;
}

// What consolidate reads of an archive.
bool is_content(std::string_view record) { return record == "data.pkl" || record.starts_with("data/"); }

class Sweep {
 public:
  void fixture(const std::filesystem::path& folder) {
    const Contents contents = contents_of(folder);
    uint64_t total = 0;
    for (const auto& [path, text] : contents) total += text.size();
    for (const auto& [path, text] : contents) {
      const bool is_metadata = path.ends_with(".metadata");
      const std::vector<bool> covered = is_metadata ? std::vector<bool>(text.size(), false) : covered_bytes(contents, path, is_content);
      const uint64_t step = (is_metadata ? text.size() : total) / kWhole + 1;
      for (uint64_t at = 0; at < text.size(); at += step) {
        change(contents, folder, {path, text.substr(0, at), at, "cut"});
        for (const int mask : {0x01, 0x80, 0xff}) {
          std::string changed = text;
          changed[at] = static_cast<char>(changed[at] ^ mask);
          const bool found = !change(contents, folder,
                                     {path, changed, at,
                                      mask == 1      ? "xor 0x01"
                                      : mask == 0x80 ? "xor 0x80"
                                                     : "xor 0xff"});
          if (covered[at]) {
            ++covered_;
            if (!found) fault("the CRC should have told");
          }
        }
      }
    }
  }

  // Random single bits inside records with a CRC, small ones too: verify finds each of them. Of data files, fixtures by turns.
  void flips(const std::vector<std::filesystem::path>& folders, uint64_t count) {
    std::vector<Flippable> fixtures;
    for (const auto& folder : folders) fixtures.push_back(flippable(folder));
    std::erase_if(fixtures, [](const Flippable& f) { return f.bytes.empty(); });
    std::mt19937_64 random(20);
    for (uint64_t i = 0; i < count && !fixtures.empty(); ++i) {
      const Flippable& f = fixtures[i % fixtures.size()];
      const auto& [path, at] = f.bytes[random() % f.bytes.size()];
      std::string changed = f.contents.at(path);
      const unsigned bit = random() % 8;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      std::snprintf(g_running, sizeof g_running, "%s %s at %llu, bit %u", f.name.c_str(), path.c_str(), n(at), bit);
      test::FakeIo io;
      put(io, f.contents);
      io.put(path, changed);
      ++flips_;
      if (test::Verified(io).damage() == 0) fault("verify should have told");
    }
  }

  int report() const {
    std::printf("%llu changes: %llu ended well, %llu in an error; %llu of them in a record with a CRC; %llu bits for verify; %llu faults\n",
                n(runs_), n(runs_ - errors_), n(errors_), n(covered_), n(flips_), n(faults_));
    // A sweep that changed nothing, or in which nothing or everything failed, has tested nothing.
    return faults_ == 0 && covered_ > 0 && flips_ > 0 && errors_ > 0 && errors_ < runs_ ? 0 : 1;
  }

 private:
  struct Flippable {
    std::string name;
    Contents contents;
    std::vector<std::pair<std::string, uint64_t>> bytes;  // file and position, of every byte in a record with a CRC
  };
  static Flippable flippable(const std::filesystem::path& folder) {
    Flippable f{.name = folder.parent_path().filename(), .contents = contents_of(folder), .bytes = {}};
    for (const auto& [path, text] : f.contents) {
      if (path.ends_with(".metadata")) continue;
      const std::vector<bool> covered = covered_bytes(f.contents, path, [](std::string_view) { return true; });
      for (uint64_t at = 0; at < covered.size(); ++at)
        if (covered[at]) f.bytes.emplace_back(path, at);
    }
    return f;
  }

  static unsigned long long n(uint64_t number) { return number; }

  void fault(const char* what) {
    if (++faults_ <= 20) std::printf("%s: %s\n", g_running, what);
  }

  // False: it ended in an error, or damage was found.
  struct Change {
    const std::string& path;
    const std::string& text;
    uint64_t at = 0;
    const char* how = "";
  };
  bool change(const Contents& contents, const std::filesystem::path& folder, const Change& c) {
    std::snprintf(g_running, sizeof g_running, "%s %s at %llu, %s", folder.parent_path().filename().c_str(), c.path.c_str(), n(c.at),
                  c.how);
    ++runs_;
    test::FakeIo io;
    put(io, contents);
    io.put(c.path, c.text);
    bool good = false;
    try {
      good = run(io);
    } catch (const Error& e) {
      if (e.problem().id == ProblemId::internal) fault(e.what());
    } catch (const std::exception& e) {
      fault(e.what());
    }
    if (io.open_handles() != 0) fault("a file stays open");
    errors_ += !good;
    return good;
  }

  uint64_t runs_ = 0, errors_ = 0, covered_ = 0, flips_ = 0, faults_ = 0;
};

}  // namespace
}  // namespace dcp

int main(int argc, char** argv) {
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(number, dcp::on_crash);
#ifndef SWEEP_SANITIZED
  const rlimit two_gib{2ull << 30, 2ull << 30};
  setrlimit(RLIMIT_AS, &two_gib);  // an allocation that a changed byte asks for becomes std::bad_alloc, a fault
#endif
  dcp::Sweep sweep;
  std::vector<std::filesystem::path> folders;
  for (int i = 2; i < argc; ++i) folders.push_back(std::filesystem::path(argv[1]) / argv[i] / "ckpt");
  for (const auto& folder : folders) sweep.fixture(folder);
  sweep.flips(folders, dcp::kFlips);
  return sweep.report();
}
