// Paths belong to the store that their scheme names.
#include "base/stores.h"

#include <catch2/catch_test_macros.hpp>

#include "app/object_store.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "base/file_names.h"

using namespace dcp;
using namespace dcp::test;

namespace {

struct Three {
  Three() : stores(disk, named()) {
    disk.put("/a/b", "disk");
    of[0]->put("mem://a/b", "memory");
    of[1]->put("s3://a/b", "bucket");
  }
  NamedStores named() {
    NamedStores all;
    all["mem"].reset(of[0] = new ObjectStore);
    all["s3"].reset(of[1] = new ObjectStore);
    return all;
  }
  std::string text(const std::string& path) {
    const std::vector<std::byte> bytes = read_file(stores, path, 100);
    return std::string(as_text(bytes));
  }
  FakeIo disk;
  ObjectStore* of[2]{};
  Stores stores;
};

}  // namespace

TEST_CASE("a file is read from the store of its path, and its handle knows which that is") {
  Three t;
  CHECK(t.text("/a/b") == "disk");
  CHECK(t.text("mem://a/b") == "memory");
  CHECK(t.text("s3:///a//b/") == "bucket");
  std::vector<OpenFile> open;
  for (int i = 0; i < 3; ++i)
    for (const char* folder : {"/a", "mem://a", "s3://a/"})
      open.emplace_back(t.stores, *t.stores.open_beneath(folder, "b", FollowLinks::kAll));
  for (size_t i = 0; i < open.size(); ++i) {
    CHECK(t.stores.name_of(open[i].get()) == (i % 3 == 0 ? "/a/b" : i % 3 == 1 ? "mem://a/b" : "s3://a/b"));
    CHECK(t.stores.facts(open[i].get()).bytes == (i % 3 == 0 ? 4 : 6));
  }
  CHECK(t.disk.name_of(open[0].get()) == "/a/b");  // the disk's handles are its own
  open.clear();
  for (const ObjectStore* store : t.of) CHECK(store->open_handles() == 0);
  CHECK(t.stores.list("mem://").front().name == "a");
  CHECK(t.stores.read_capabilities("mem://a").requests == 3);
  CHECK_FALSE(t.stores.open_beneath("s3://a", "c", FollowLinks::kAll));
}

TEST_CASE("no store, and no disk") {
  Three t;
  CHECK(error_id([&] { t.stores.facts("gs://a/b"); }) == "store_unknown");
  CHECK(error_id([&] { check_on_disk(t.stores, "gs://a/b"); }) == "store_unknown");
  CHECK(error_id([&] { check_on_disk(t.stores, "mem://a/c"); }) == "store_read_only");
  check_on_disk(t.stores, "/a/c");
}

TEST_CASE("a scheme is a part of the path that stays") {
  for (const char* path : {"a/b", "://a", "1a://b", "a:/b", "a b://c", "./mem://a", ""}) CHECK(scheme_of(path).empty());
  CHECK(scheme_of("S3+x.y-z://") == "S3+x.y-z");
  CHECK(without_trailing_slashes("mem://a//") == "mem://a");
  CHECK(without_trailing_slashes("mem:///") == "mem://");
  CHECK(folder_around("mem://a/b") == "mem://a");
  CHECK(folder_around("mem://a") == "mem://");
  CHECK(without_trailing_slashes("//") == "/");
}
