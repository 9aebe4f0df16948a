#include <catch2/catch_test_macros.hpp>

#include "base/fake_io.h"
#include "catalog/made_blobs.h"
#include "plan/dcp_layout.h"
#include "plan/opened.h"
#include "plan/plan.h"
#include "plan/plan_metadata.h"

using namespace dcp;
using namespace dcp::test;

namespace {

// Changes every number, flag and text of a struct, one at a time, also those of structs in it, and calls fn() after each change.
template <class T, class Fn>
void change_each(T& x, const Fn& fn) {
  if constexpr (std::is_same_v<T, bool>) {
    x = !x, fn(), x = !x;
  } else if constexpr (std::is_integral_v<T>) {
    x ^= 1, fn(), x ^= 1;
  } else if constexpr (std::is_enum_v<T>) {
    const T was = std::exchange(x, static_cast<T>(static_cast<int>(x) ^ 1));
    fn();
    x = was;
  } else if constexpr (HasMembers<T>) {
    for_each_member(x, [&](auto& member) { change_each(member, fn); });
  } else if constexpr (std::is_same_v<T, std::string>) {
    x += '.', fn(), x.pop_back();
  } else if constexpr (requires { x.first; }) {
    change_each(x.first, fn);
    change_each(x.second, fn);
  } else if constexpr (requires { x.has_value(); }) {
    if (x) change_each(*x, fn);
    T was = std::exchange(x, std::nullopt);
    if (was) fn();
    x = std::move(was);
  } else {
    if (!x.empty()) change_each(x.front(), fn);
    x.emplace_back(), fn(), x.pop_back();
  }
}

struct Folder {
  Folder() {
    Rng rng(5);
    made.blobs = {nested_blob(rng, "optim", {5, 300}), number_blob("epoch", 3)};
    made.tensors = {whole_tensor("w", DType::float32, {100, 4})};
    made.put(io, "ckpt");
  }
  Plan plan(uint32_t world_size) {
    Opened opened(io);
    return plan_dcp({opened.catalog, opened.resolved}, opened.selection,
                    {.limits = {}, .units = {}, .world_size = world_size, .mesh = {}, .rules = {}});
  }
  MadeCheckpoint made;
  FakeIo io;
};

std::string metadata_of(const Plan& plan, const Catalog& catalog) {
  std::string text;
  write_plan_metadata(plan, catalog, [&](std::string_view block) { text += block; });
  return text;
}

}  // namespace

TEST_CASE("Plans are compared and summed up with all that they hold") {
  Folder folder;
  Opened opened(folder.io);
  for (const Plan& plan : {folder.plan(2), opened.torch()}) {
    Plan other = plan;
    CHECK(other == plan);
    CHECK(digest_of(other) == digest_of(plan));
    uint64_t changes = 0;
    change_each(other, [&] {
      ++changes;
      REQUIRE_FALSE(other == plan);
      REQUIRE(digest_of(other) != digest_of(plan));
    });
    CHECK(changes > 70);
    CHECK(other == plan);
  }
}

TEST_CASE("A plan outlives the catalog and the selection that it was made of") {
  Folder folder;
  const Plan first = folder.plan(2);
  Plan copy = first;
  Opened again(folder.io);
  CHECK(copy == folder.plan(2));
  CHECK(metadata_of(copy, again.catalog) == metadata_of(folder.plan(2), again.catalog));
  CHECK_FALSE(copy == folder.plan(3));
}
