// One key of a checkpoint: slices against a model that takes one element after the other, what is read for them, and statistics.
#include "app/extract.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "app/stats.h"
#include "app/write.h"
#include "base/error_line.h"
#include "base/fake_io.h"
#include "exec/counting_io.h"
#include "exec/synthetic.h"
#include "format/npy.h"

using namespace dcp;
using namespace dcp::test;
using Ints = std::vector<int64_t>;

namespace {

// Two tensors of one shape, over three ranks.
struct Checkpoint {
  explicit Checkpoint(SyntheticSpec::Layout layout, uint64_t bytes = 24'000, DType dtype = DType::float32) : dtype_(dtype) {
    write_synthetic(fake, "/ckpt", {.bytes = bytes, .world_size = 3, .layout = layout, .tensors = 2, .dtype = dtype, .seed = 5},
                    {.sync = false}, stop);
    io.reset();
  }
  ExtractRequest request(const std::string& slice, unsigned threads = 2) const {
    return {.read = {.source = {.path = "/ckpt"}, .max_memory = kGiB, .threads = threads},
            .key = "model.layers.1.weight",
            .slice = slice.empty() ? std::nullopt : std::optional(Subscript::parse(slice)),
            .dtypes = {}};
  }
  StatsRequest stats_request(unsigned threads) const { return {.read = request("", threads).read, .select = {}, .slice = {}}; }
  // All elements of the tensor.
  std::string elements(const Ints& shape) const {
    std::string all(volume(shape) * bytes_of(dtype_), '\0');
    synthetic_values({reinterpret_cast<std::byte*>(all.data()), all.size()}, dtype_, 5, 1, 0);
    return all;
  }
  std::string extracted(const std::string& slice) {
    Extraction found(request(slice), world);
    std::string all;
    found.each_piece([&](Bytes bytes) { all += as_text(bytes); });
    CHECK(all.size() == found.bytes());
    return all;
  }
  Ints shape() {
    Extraction found(request(""), world);
    return found.shape();
  }

  DType dtype_;
  FakeIo fake;
  CountingIo io{fake};
  StopFlag stop{0};
  Events nobody;
  World world{io, stop, nobody};
};

// Of all elements of a tensor of two dims those that the axes take.
std::string taken(const std::string& all, const Ints& shape, const std::vector<SliceAxis>& axes, uint64_t each) {
  std::string out;
  for (int64_t i = 0; i < axes[0].count; ++i)
    for (int64_t j = 0; j < axes[1].count; ++j)
      out +=
          all.substr(static_cast<uint64_t>((axes[0].start + i * axes[0].step) * shape[1] + axes[1].start + j * axes[1].step) * each, each);
  return out;
}

std::string refused(const std::string& text, const Ints& dims) {
  return error_id([&] { Subscript::parse(text).of(dims); });
}

}  // namespace

TEST_CASE("a slice takes what numpy takes") {
  const Ints dims{10, 0, 7};
  const auto axes = [&](const std::string& text) { return Subscript::parse(text).of(dims); };
  const SliceAxis ten{.count = 10}, none{.count = 0}, seven{.count = 7};
  using Axes = std::vector<SliceAxis>;
  CHECK(axes("...") == Axes{ten, none, seven});
  CHECK(axes(":") == Axes{ten, none, seven});
  CHECK(axes("[ 3 , ... ]") == Axes{{.start = 3, .count = 1, .kept = false}, none, seven});
  CHECK(axes("-1,:,-7") == Axes{{.start = 9, .count = 1, .kept = false}, none, {.start = 0, .count = 1, .kept = false}});
  CHECK(axes("..., 2:5") == Axes{ten, none, {.start = 2, .count = 3}});
  CHECK(axes("1::3,...,:-1:2") == Axes{{.start = 1, .step = 3, .count = 3}, none, {.start = 0, .step = 2, .count = 3}});
  CHECK(axes("-100:100") == Axes{ten, none, seven});
  CHECK(axes("8:2")[0].count == 0);
  CHECK(axes("100:")[0] == SliceAxis{.start = 10, .count = 0});
  CHECK(axes("2:9:9223372036854775807")[0].count == 1);
  CHECK(axes("-9223372036854775808:9223372036854775807")[0].count == 10);
  CHECK(shape_of(axes("3, :, 1:4")) == Ints{0, 3});
  for (const char* text : {"", "[]", ",", "1,,2", "a", "1.5", "None", "1:2:3:4", "::0", "::-1", "..., ...", "0 1", "--1", "+-1", "[1",
                           "0x1", "99999999999999999999"})
    CHECK(refused(text, dims) == "usage");
  for (const char* text : {"10", "-11", ":,0", "0,:,7", ":,:,:,:", "0,:,0,0", ":,:,:,:,..."}) CHECK(refused(text, dims) == "usage");
  CHECK(Subscript::parse("...").of({}).empty());
  CHECK(refused(":", {}) == "usage");
}

TEST_CASE("random slices of a sharded tensor give its elements, in pieces and as files") {
  for (const auto layout : {SyntheticSpec::Layout::kShard0, SyntheticSpec::Layout::kShard1, SyntheticSpec::Layout::kWhole}) {
    Checkpoint c(layout);
    const Ints shape = c.shape();
    REQUIRE(shape.size() == 2);
    const std::string all = c.elements(shape);
    std::mt19937_64 rng(11);
    const auto term = [&](int64_t size) {
      const auto number = [&] { return std::to_string(static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * size)) - size); };
      if (rng() % 4 == 0) return number();
      return (rng() % 3 ? number() : "") + ":" + (rng() % 3 ? number() : "") + (rng() % 2 ? ":" + std::to_string(1 + rng() % 5) : "");
    };
    for (int n = 0; n < 60; ++n) {
      const std::string slice = term(shape[0]) + "," + term(shape[1]);
      CAPTURE(slice);
      const std::vector<SliceAxis> axes = Subscript::parse(slice).of(shape);
      const std::string expected = taken(all, shape, axes, 4);
      REQUIRE((c.extracted(slice) == expected));
      if (n % 6 != 0) continue;
      const ExtractRequest r = c.request(slice);
      for (const auto kind : {OutputRequest::Kind::kRaw, OutputRequest::Kind::kNpy}) {
        WriteResult result;
        write({.read = r.read,
               .select = {.rules = {{KeyRule::Kind::kKey, r.key}}},
               .slice = r.slice,
               .output = {.path = "/out", .kind = kind, .one_value = true, .check_crcs = false},
               .replace = Replace::kYes,
               .sync = false},
              c.world, result, [] {});
        const std::string head = kind == OutputRequest::Kind::kNpy ? npy_header(DType::float32, shape_of(axes)) : "";
        REQUIRE((c.fake.text_of("/out") == head + expected));
      }
    }
  }
}

TEST_CASE("a torch.save file comes as a stream, byte for byte what is written") {
  for (const auto layout : {SyntheticSpec::Layout::kShard0, SyntheticSpec::Layout::kShard1}) {
    Checkpoint c(layout, 12 << 20);
    for (const char* slice : {"", "1:9, ::2", "0", "0:0", "..., 3"}) {
      CAPTURE(slice);
      const ExtractRequest r = c.request(slice, 3);
      std::string all;
      Extraction(r, c.world).stream(OutputRequest::Kind::kTorch, [&](Bytes bytes) { all += as_text(bytes); });
      WriteResult result;
      write({.read = r.read,
             .select = {.rules = {{KeyRule::Kind::kKey, r.key}}},
             .slice = r.slice,
             .output = {.path = "/out.pt", .one_value = true, .check_crcs = !r.slice},
             .replace = Replace::kYes,
             .sync = false},
            c.world, result, [] {});
      CHECK((c.fake.text_of("/out.pt") == all));
    }
  }
}

TEST_CASE("a glance at a large tensor is the ends of its dims") {
  Checkpoint c(SyntheticSpec::Layout::kShard0);
  const Ints shape = c.shape();
  const std::string all = c.elements(shape);
  Extraction found(c.request(""), c.world);
  const Glance whole = found.glance(volume(shape));
  CHECK(whole.is_whole());
  CHECK((as_text(whole.elements) == all));
  const Glance ends = found.glance(10);
  CHECK_FALSE(ends.is_whole());
  REQUIRE(ends.head == Ints{3, 3});
  REQUIRE(ends.tail == Ints{3, 3});
  std::string expected;
  for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{2}, shape[0] - 3, shape[0] - 2, shape[0] - 1})
    for (const int64_t j : {int64_t{0}, int64_t{1}, int64_t{2}, shape[1] - 3, shape[1] - 2, shape[1] - 1})
      expected += all.substr(static_cast<uint64_t>(i * shape[1] + j) * 4, 4);
  CHECK((as_text(ends.elements) == expected));
}

TEST_CASE("a slice of some rows reads these rows, and of the items that hold none of them nothing") {
  Checkpoint c(SyntheticSpec::Layout::kShard0, 24 << 20);
  const Ints shape = c.shape();
  const int64_t rows = (shape[0] + 2) / 3;  // of the first rank
  c.io.reset();
  const std::string slice = std::to_string(rows + 1) + ":" + std::to_string(rows + 3);
  CHECK(c.extracted(slice).size() == 2 * static_cast<uint64_t>(shape[1]) * 4);
  const auto read = [&](const std::string& file) {
    uint64_t bytes = 0;
    const std::string path = "/ckpt/" + file;
    for (uint64_t at = 0, end = c.fake.text_of(path).size(); at < end; ++at) bytes += c.io.times(path, at, 1).second;
    return bytes;
  };
  CHECK(read("__0_0.distcp") == 0);
  CHECK(read("__2_0.distcp") == 0);
  const uint64_t wanted = 2 * static_cast<uint64_t>(shape[1]) * 4;
  CHECK(read("__1_0.distcp") >= wanted);
  CHECK(read("__1_0.distcp") <= wanted + 64 * kKiB);  // and the ends of the item, for where its elements begin
}

TEST_CASE("the CRC of a whole tensor is checked before it is handed out") {
  Checkpoint c(SyntheticSpec::Layout::kShard0);
  std::string bytes = c.fake.text_of("/ckpt/__1_0.distcp");
  const std::string all = c.elements(c.shape());
  const size_t at = bytes.find(all.substr(all.size() / 2, 64));
  REQUIRE(at != bytes.npos);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  c.fake.put("/ckpt/__1_0.distcp", bytes);
  Extraction found(c.request(""), c.world);
  CHECK(error_id([&] { found.check(); }) == "crc_mismatch");
  StatsResult result;
  stats(c.stats_request(1), c.world, result);
  REQUIRE(result.tensors.size() == 2);
  CHECK_FALSE(result.tensors[0].fault.has_value());
  REQUIRE(result.tensors[1].fault.has_value());
  CHECK(id_name(result.tensors[1].fault->id) == "crc_mismatch");
}

TEST_CASE("statistics are those of the elements, and bit for bit the same with any number of workers") {
  for (const auto layout : {SyntheticSpec::Layout::kShard0, SyntheticSpec::Layout::kShard1}) {
    Checkpoint c(layout, 12 << 20);
    StatsResult one, many;
    stats(c.stats_request(1), c.world, one);
    stats(c.stats_request(16), c.world, many);
    REQUIRE(one.tensors.size() == 2);
    for (size_t t = 0; t < 2; ++t) {
      const TensorStats &a = one.tensors[t].stats, &b = many.tensors[t].stats;
      CHECK(a.values == volume(one.tensors[t].shape));
      CHECK(a.mean == b.mean);
      CHECK(a.deviations == b.deviations);
      CHECK((a.min == b.min && a.max == b.max));
      CHECK(a.decades == b.decades);
      CHECK((a.is_settled && a.quantiles == b.quantiles && a.steps == b.steps));
    }
    const TensorStats& s = one.tensors[1].stats;
    const std::string all = c.elements(one.tensors[1].shape);
    std::vector<float> values(all.size() / 4);
    std::memcpy(values.data(), all.data(), all.size());
    long double sum = 0, squares = 0;
    for (const float v : values) sum += v;
    const long double mean = sum / static_cast<long double>(values.size());
    for (const float v : values) squares += (v - mean) * (v - mean);
    CHECK(std::abs(s.mean - static_cast<double>(mean)) < 1e-12);
    CHECK(std::abs(s.std() - std::sqrt(static_cast<double>(squares / static_cast<long double>(values.size() - 1)))) < 1e-12);
    CHECK(s.decades[16] == values.size());  // from 1 to 2
  }
}

TEST_CASE("what is no number is counted, and not part of the bounds") {
  const float inf = INFINITY;
  const std::vector<float> values{1, -3, 0, NAN, inf, -inf, -0.0F, 1000, 1e-30F};
  const Bytes bytes{reinterpret_cast<const std::byte*>(values.data()), values.size() * 4};
  const TensorStats s = stats_of(DType::float32, bytes);
  CHECK(s.values == 9);
  CHECK(s.nan == 1);
  CHECK(s.infinite == 2);
  CHECK(s.zero == 2);
  CHECK(s.finite() == 6);
  CHECK((s.min == -3 && s.max == 1000));
  CHECK(s.decades[0] == 1);   // all that is smaller
  CHECK(s.decades[16] == 2);  // 1 and -3
  CHECK(s.decades[19] == 1);  // 1000 and up
  const std::vector<int64_t> large{INT64_MAX, INT64_MIN, INT64_MAX - 1};
  const TensorStats exact = stats_of(DType::int64, {reinterpret_cast<const std::byte*>(large.data()), 24});
  CHECK((exact.min == static_cast<long double>(INT64_MIN) && exact.max == static_cast<long double>(INT64_MAX)));
  const std::vector<float> nothing{NAN};
  CHECK(stats_of(DType::float32, {reinterpret_cast<const std::byte*>(nothing.data()), 4}).finite() == 0);
  CHECK(std::isnan(stats_of(DType::float32, bytes.first(4)).std()));
  CHECK_FALSE(has_numbers(DType::bits8));
  CHECK(stats_of(DType::complex64, bytes.first(16)).values == 4);
}

TEST_CASE("quantiles and steps of values, to one part in a hundred, whatever their order") {
  std::vector<double> values;
  for (int n = -1000; n <= 3000; ++n) values.push_back(n * 0.01);  // -10 to 30
  const auto bytes_of_values = [](const std::vector<double>& v) {
    return Bytes(reinterpret_cast<const std::byte*>(v.data()), 8 * v.size());
  };
  TensorStats s = stats_of(DType::float64, bytes_of_values(values));
  std::ranges::reverse(values);
  TensorStats other = stats_of(DType::float64, bytes_of_values({values.begin(), values.begin() + 1500}));
  other += stats_of(DType::float64, bytes_of_values({values.begin() + 1500, values.end()}));
  s.settle();
  other.settle();
  CHECK(s.quantiles == other.quantiles);
  for (size_t n = 0; n < s.quantiles.size(); ++n) {
    const double wanted = -10 + 40 * TensorStats::kPercents[n] / 100.0;
    CHECK(std::abs(s.quantiles[n] - wanted) <= 0.01 * std::abs(wanted) + 0.01);
  }
  for (const uint64_t n : s.steps) CHECK((n > 430 && n < 570));  // of 4,001 an eighth, but for the values of parts that a border cuts
  CHECK(s.parts.empty());

  const std::vector<double> alike(5, 0.3), mixed{0, 0, std::nan(""), INFINITY, -2};
  TensorStats one = stats_of(DType::float64, bytes_of_values(alike)), few = stats_of(DType::float64, bytes_of_values(mixed));
  one.settle();
  few.settle();
  CHECK((one.quantiles.front() == 0.3 && one.quantiles.back() == 0.3 && one.steps[0] == 5));
  CHECK((few.quantiles.front() == -2 && few.quantiles[3] == 0 && few.steps[0] == 1 && few.steps[7] == 2));

  const double largest = std::numeric_limits<double>::max();
  TensorStats wide = stats_of(DType::float64, bytes_of_values({-largest, 1, largest}));
  wide.settle();
  CHECK((wide.steps[0] == 1 && wide.steps[4] == 1 && wide.steps[7] == 1));
}

TEST_CASE("a tensor without elements has no statistics, and no pieces") {
  CHECK(stats_of(DType::float32, {}).values == 0);
  Checkpoint c(SyntheticSpec::Layout::kShard0);
  CHECK(c.extracted("0:0").empty());
  CHECK(Extraction(c.request("0:0"), c.world).glance(1000).elements.empty());
}

TEST_CASE("headers of numpy") {
  const std::string header = npy_header(DType::bfloat16, Ints{3});
  CHECK(header.size() == 128);
  CHECK(header.substr(10, 60).starts_with("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }"));
  CHECK(header.back() == '\n');
  CHECK(npy_header(DType::float64, Ints{}).find("'shape': ()") != std::string::npos);
  CHECK(npy_header(DType::float64, Ints(64, INT64_MAX)).size() % 64 == 0);
}
