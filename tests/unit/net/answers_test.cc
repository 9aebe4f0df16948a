#include "net/answers.h"

#include <catch2/catch_test_macros.hpp>

namespace dcp::net {
namespace {

TEST_CASE("Elements of XML are cut out, and entities replaced") {
  const std::string page =
      "<?xml version=\"1.0\"?><List xmlns=\"x\"><Contents><Key>a &amp;&#x27;&#233;&lt;b&gt;</Key><KeyCount>3</KeyCount></Contents>"
      "<Contents><Key/><Size>7</Size></Contents></List>";
  REQUIRE(elements(page, "Contents").size() == 2);
  CHECK(element(elements(page, "Contents")[0], "Key") == "a &'\xC3\xA9<b>");
  CHECK(element(elements(page, "Contents")[1], "Key").empty());
  CHECK(element(elements(page, "Contents")[1], "Size") == "7");
  CHECK(element("<Key>cut", "Key").empty());
  CHECK(element("<Key", "Key").empty());
  CHECK(element("<Key>&bad; & &#xZZ;</Key>", "Key") == "&bad; & &#xZZ;");
}

TEST_CASE("URLs") {
  const auto url = parse_url("HTTPS://Host.example:8443/a?b");
  REQUIRE(url);
  CHECK(url->authority() == "host.example:8443");
  CHECK(url->path == "/a?b");
  CHECK(parse_url("http://[::1]:80/")->authority() == "[::1]");
  CHECK(parse_url("https://me:pw@h/")->has_user);
  for (const char* bad : {"ftp://h", "https://", "https://h:0", "https://h:x", "https://h y/", "h"}) CHECK_FALSE(parse_url(bad));
  for (const char* near : {"localhost", "127.0.0.1", "[::1]", "b.localhost"}) CHECK(is_this_machine(near));
  for (const char* far : {"127.0.0.1.example.com", "10.0.0.1", "localhost.example.com", "[::2]"}) CHECK_FALSE(is_this_machine(far));
}

TEST_CASE("What URLs cannot hold is encoded, and decoded") {
  const std::string odd = "a b/+%\xC3\xA9~";
  CHECK(percent_encoded(odd, Slashes::kKept) == "a%20b/%2B%25%C3%A9~");
  CHECK(percent_decoded(percent_encoded(odd, Slashes::kEncoded)) == odd);
  CHECK(percent_decoded("%4") == "%4");
  CHECK(percent_decoded("%zz%41") == "%zzA");
  CHECK(query_text({{"b", "1"}, {"a", "x y"}, {"a", ""}}) == "a=&a=x%20y&b=1");
  CHECK(base64url_of("\xFB\xFF?a") == "-_8_YQ");
}

TEST_CASE("Times of answers") {
  CHECK(time_of("1970-01-02T00:00:00Z") == 86400);
  CHECK(time_of("1970-01-02T00:00:00.123Z") == 86400);
  CHECK(time_of("1970-01-02T02:00:00+02:00") == 86400);
  CHECK(time_of("Fri, 02 Jan 1970 00:00:00 GMT") == 86400);
  CHECK_FALSE(time_of("soon"));
  CHECK(nanoseconds_of("1970-01-01T00:00:01.0625Z") == 1'062'500'000);
  CHECK(nanoseconds_of("Thu, 01 Jan 1970 00:00:01 GMT") == 1'000'000'000);
  CHECK(utc(86400, "%F") == "1970-01-02");
}

TEST_CASE("Files of profiles") {
  const Sections all =
      sections_of("# c\n[default]\na=1\n[profile \"x y\"]\nB = 2 # kept\ns3 =\n  addressing_style = path\n  max = 3\nregion = r\nnone\n");
  CHECK(all.at("default").at("a") == "1");
  const auto& x = all.at("profile x y");
  CHECK(x.at("b") == "2 # kept");
  CHECK(x.at("s3.addressing_style") == "path");
  CHECK(x.at("s3.max") == "3");
  CHECK(x.at("region") == "r");
  CHECK_FALSE(x.contains("none"));
}

}  // namespace
}  // namespace dcp::net
