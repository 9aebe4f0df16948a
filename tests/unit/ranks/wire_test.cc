#include "ranks/wire.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "base/error_line.h"
#include "base/io.h"
#include "inputs/open.h"
#include "ranks/catalog_wire.h"

namespace dcp {

TEST_CASE("Numbers, arrays, texts and problems come back as they were") {
  WireWriter out;
  out.number<int>(-7);
  out.array(std::vector<uint16_t>{1, 2, 3});
  out.text(std::string_view("a\0b", 3));
  Problem problem = make_problem(
      ProblemId::short_file, {.path = "p", .member = "m", .tensor = "t", .object = true, .offset = 5, .length = {}, .line = 2, .column = 3},
      "got", "expected");
  problem.quote = "a text";
  problem.names = {"one", ""};
  out.problem(problem);
  const std::vector<std::byte> bytes = out.take();
  WireReader in(bytes);
  CHECK(in.number<int>() == -7);
  CHECK(in.array<uint16_t>() == std::vector<uint16_t>{1, 2, 3});
  CHECK(in.text() == std::string("a\0b", 3));
  const Problem back = in.problem();
  CHECK(to_line(back) == to_line(problem));
  CHECK(back.hint == problem.hint);
  CHECK(back.quote == problem.quote);
  CHECK(back.names == problem.names);
  CHECK(back.place.offset == 5u);
  CHECK_FALSE(back.place.length);
  CHECK(test::error_id([&] { in.number<char>(); }) == "internal");
}

TEST_CASE("A problem that there is not is refused, whatever its number") {
  WireWriter out;
  out.problem(make_problem(ProblemId::short_file, {.path = "p"}));
  for (const auto& [at, value] : {std::pair<size_t, int>{1, 0x7F}, {1, 0xFF}, {2, 4}, {2, 0xFF}}) {  // of the id, and the severity
    std::vector<std::byte> bytes = WireWriter(out).take();
    bytes[at] = static_cast<std::byte>(value);
    CHECK(test::error_line([&] { WireReader(bytes).problem(); }) == "internal error: a message between ranks that says what cannot be");
  }
}

TEST_CASE("Every cut of a message is noticed") {
  WireWriter out;
  out.text("some text");
  out.array(std::vector<uint64_t>{1, 2});
  const std::vector<std::byte> bytes = out.take();
  for (size_t n = 0; n < bytes.size(); ++n) {
    WireReader in(Bytes(bytes).first(n));
    CHECK(test::error_id([&] { in.text(), in.array<uint64_t>(); }) == "internal");
  }
}

TEST_CASE("What no rank of this build says is refused") {
  const auto refused = [](const auto& write, const auto& read) {
    WireWriter out;
    write(out);
    const std::vector<std::byte> bytes = out.take();
    return test::error_line([&] {
      WireReader in(bytes);
      read(in);
    });
  };
  const std::string cut = to_line(make_problem(ProblemId::internal, {}, "a message between ranks that ends too early"));
  const std::string wrong = to_line(make_problem(ProblemId::internal, {}, "a message between ranks that says what cannot be"));
  CHECK(refused([](WireWriter& out) { out.number(uint64_t{1} << 60); }, [](WireReader& in) { in.count(); }) == cut);
  CHECK(refused([](WireWriter& out) { out.number<uint8_t>(4); }, [](WireReader& in) { in.one_of<Severity>(4); }) == wrong);
  CHECK(refused([](WireWriter& out) { out.array(std::vector<uint32_t>{1, 2}); }, [](WireReader& in) { in.array_of<uint32_t>(3); }) ==
        to_line(make_problem(ProblemId::internal, {}, "a message between ranks of 2 values", "3")));
  CHECK(refused([](WireWriter& out) { out.number<uint8_t>(7); }, [](WireReader& in) { CHECK(in.number<bool>()); }) == "no error");

  const auto io = make_posix_io();
  const OpenedCatalog whole = read_checkpoint(*io, std::string(DCPCTL_TEST_DATA) + "/tp_2x2/ckpt", {});
  const auto with = [&](const auto& change) {
    OpenedCatalog c = catalog_from_wire(catalog_to_wire(whole));
    change(c.catalog);
    const std::vector<std::byte> bytes = catalog_to_wire(c);
    return test::error_line([&] { catalog_from_wire(bytes); });
  };
  CHECK(with([](Catalog&) {}) == "no error");
  CHECK(with([](Catalog& c) { c.tensors[0].key = static_cast<StringId>(c.strings.size()); }) == wrong);
  CHECK(with([](Catalog& c) { c.tensors[0].boxes_at = c.numbers.size(); }) == wrong);
  CHECK(with([](Catalog& c) { c.tensors[0].rank = 65; }) == wrong);
  CHECK(with([](Catalog& c) { c.tensors.back().first_chunk = c.chunk_total; }) == wrong);
  CHECK(with([](Catalog& c) { c.items[0].file = static_cast<uint32_t>(c.files.size()); }) == wrong);
  CHECK(with([](Catalog& c) { c.order[0] = KeyRef::tensor_at(c.tensors.size()); }) == wrong);
  CHECK(with([](Catalog& c) { c.named_twice.push_back(static_cast<ItemId>(c.items.size())); }) == wrong);
}

TEST_CASE("A catalog is the same after its way to another rank") {
  const auto io = make_posix_io();
  for (const char* name : {"fsdp2_ws4", "titan_like", "zstd", "torch113", "quantized", "megatron_like"}) {
    INFO(name);
    const OpenedCatalog opened = read_checkpoint(*io, std::string(DCPCTL_TEST_DATA) + "/" + name + "/ckpt", {});
    const std::vector<std::byte> bytes = catalog_to_wire(opened);
    const OpenedCatalog received = catalog_from_wire(bytes);
    CHECK(catalog_to_wire(received) == bytes);
    const Catalog &there = opened.catalog, &here = received.catalog;
    REQUIRE(here.tensors.size() == there.tensors.size());
    for (size_t t = 0; t < here.tensors.size(); ++t) {
      CHECK(here.key(here.tensors[t]) == there.key(there.tensors[t]));
      CHECK(std::ranges::equal(here.dims(here.tensors[t]), there.dims(there.tensors[t])));
    }
    CHECK(here.items == there.items);
    CHECK(here.provenance.attributes == there.provenance.attributes);
    CHECK(here.strings.find(here.key(here.tensors[0])) == there.strings.find(there.key(there.tensors[0])));
  }
}

}  // namespace dcp
