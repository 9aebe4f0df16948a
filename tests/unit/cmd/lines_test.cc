#include "line/lines.h"

#include <catch2/catch_test_macros.hpp>

#include "line/help_text.h"
#include "line/progress.h"
#include "report/page/page.h"

namespace dcp::cmd {
namespace {

TEST_CASE("the width of a text is that of its code points, without its colours") {
  CHECK(display_width("") == 0);
  CHECK(display_width("abc") == 3);
  CHECK(display_width("Größe → 1") == 9);
  CHECK(display_width(styled("damage:", Style::kRed, true)) == 7);
  CHECK(display_width("\033[1") == 0);  // a colour that is cut off
}

TEST_CASE("a text is broken at blanks, and what follows is indented") {
  CHECK(wrapped("one two three", 2, 9) == "one two\n  three");
  CHECK(wrapped("one two", 0, 7) == "one two");
  CHECK(wrapped("one two", 0, 6) == "one\ntwo");
  CHECK(wrapped("", 4, 10).empty());
  CHECK(wrapped("a_word_longer_than_the_line next", 2, 10) == "a_word_longer_than_the_line\n  next");
  CHECK(wrapped("größer größer", 0, 13) == "größer größer");
}

TEST_CASE("a command in a text stays in one line, so that it can be copied") {
  CHECK(wrapped("see 'dcpctl inspect ckpt --keys' there", 0, 20) == "see\n'dcpctl inspect ckpt --keys'\nthere");
  CHECK(wrapped("see 'some other words' there", 0, 14) == "see 'some\nother words'\nthere");
}

TEST_CASE("a bar has what room its numbers leave") {
  CHECK(bar_line(0.5, {"1.0 GiB of 2.0 GiB"}, 80).ends_with("[" + std::string(20, '#') + std::string(20, '.') + "]  1.0 GiB of 2.0 GiB"));
  for (const size_t columns : {0u, 1u, 5u, 10u, 20u, 40u, 80u, 200u}) {
    CAPTURE(columns);
    for (const double share : {0.0, 0.5, 1.0})
      CHECK(bar_line(share, {"1.0 GiB of 2.0 GiB", "1.1 GB/s", "3 s left"}, columns).size() < columns + (columns == 0));
  }
  CHECK(bar_line(1, {}, 80).ends_with("[" + std::string(40, '#') + "]"));
  CHECK(bar_line(0, {}, 80).ends_with("[" + std::string(40, '.') + "]"));
  CHECK(bar_line(0.5, {"first", "a part for which there is no room", "last"}, 30).ends_with("first  last"));
}

TEST_CASE("the details of a command are prose, tables and command lines") {
  const auto blocks = blocks_of("Words of\nprose.\n\n  .pt    a file\n  a/     a folder\n\n  dcpctl inspect ckpt\n    --keys\n");
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0].kind == TextBlock::Kind::kProse);
  CHECK(blocks[0].lines == std::vector<std::string>{"Words of", "prose."});
  CHECK(blocks[1].kind == TextBlock::Kind::kTable);
  CHECK(blocks[1].lines == std::vector<std::string>{".pt    a file", "a/     a folder"});
  CHECK(blocks[2].kind == TextBlock::Kind::kExample);
  CHECK(blocks[2].lines == std::vector<std::string>{"dcpctl inspect ckpt", "  --keys"});
  CHECK(blocks_of("\n\n").empty());
}

TEST_CASE("a name on a page is text, whatever it holds") {
  CHECK(html_text("<script>alert(\"a & b\")</script>") == "&lt;script&gt;alert(&quot;a &amp; b&quot;)&lt;/script&gt;");
  CHECK(html_text("a\x01\xff") == "a\\x01\\xff");
  const std::string page = page_html({.command = "c", .title = "<t>", .verdict = "</script><b>"}, [](JsonWriter&) {});
  CHECK(page.find("<title>&lt;t&gt;</title>") != std::string::npos);
  CHECK(page.find("<t>") == std::string::npos);
  CHECK(page.find("\"verdict\":\"\\u003c/script>\\u003cb>\"") != std::string::npos);
}

}  // namespace
}  // namespace dcp::cmd
