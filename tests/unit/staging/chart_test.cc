// Pictures hold what they are given, and nothing that a browser would run or fetch.
#include "staging/chart.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

using namespace dcp;

namespace {

size_t count(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a curve has a line a series, a dashed limit and an axis of sizes") {
  const std::string svg =
      curve_svg({{"pageable", {{1024, 0.5}, {1 << 20, 5}}}, {"pinned", {{1024, 1}, {1 << 20, 50}}}}, 63, "PCIe Gen5 x16");
  CHECK(count(svg, "<polyline") == 2);
  CHECK(count(svg, "class=\"limit\"") == 1);
  CHECK(svg.find("1.0 KiB") != std::string::npos);
  CHECK(svg.find("PCIe Gen5 x16") != std::string::npos);
  CHECK(count(svg, "nan") == 0);
  CHECK(curve_svg({}, 0, "").empty());
  CHECK(count(curve_svg({{"one", {{4096, 1}}}}, 0, ""), "<polyline") == 1);
}

TEST_CASE("bars are stacked parts that name themselves") {
  const std::string svg =
      bars_svg({{"pageable", {10'000'000, 20'000'000, 70'000'000}}, {"pinned", {0, 0, 30'000'000}}}, {"allocate", "touch", "copy"});
  CHECK(svg.find("<title>touch: 20.0 ms</title>") != std::string::npos);
  CHECK(svg.find(">100 ms</text>") != std::string::npos);
  CHECK(count(svg, "<title>copy: ") == 2);
}

TEST_CASE("a timeline has a box a span") {
  const std::string svg =
      timeline_svg({{0, 0, 0, 5'000'000, "step 1"}, {1, 1, 5'000'000, 9'000'000, "save 1"}}, {"train", "writer"}, {"step", "write"});
  CHECK(svg.find("<title>step 1: 5.0 ms</title>") != std::string::npos);
  CHECK(svg.find("<title>save 1: 4.0 ms</title>") != std::string::npos);
}

TEST_CASE("a table as text; names cannot break a picture") {
  const Table t{{"method", "GB/s"}, {{"pinned", "5.10"}, {"x", "12.00"}}};
  CHECK(table_text(t, 1) == "method   GB/s\npinned   5.10\nx       12.00\n");
  const std::string svg = bars_svg({{"<script>\x1b\"&", {1'000'000}}}, {"copy"});
  CHECK(svg.find("&lt;script&gt; &quot;&amp;") != std::string::npos);
  CHECK(count(svg, "<script") == 0);
  CHECK(count(svg, "\x1b") == 0);
}
