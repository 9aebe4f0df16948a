#include "net/object_store.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <deque>

#include "net/aws_credentials.h"
#include "net/bucket_origin.h"
#include "net/web.h"

namespace dcp::net {
namespace {

using Catch::Matchers::ContainsSubstring;

// What the module answers, in order, and what it is asked. `body`: of an answer of 2xx as many bytes as fit; `outcome`: what send() returns.
struct Said {
  int outcome = kDcpctlNetAnswered;
  uint32_t status = 200;
  std::string headers, body;
};
struct Script {
  std::deque<Said> said;
  std::vector<std::string> asked;  // "GET URL range"
};
Script* g_script = nullptr;

int scripted_send(const DcpctlNetRequest* request, DcpctlNetAnswer* answer, DcpctlReason* why) {
  std::string asked = std::string(request->method) + " " + request->url;
  for (uint64_t i = 0; i < request->header_count; ++i)
    if (const std::string_view h = request->headers[i]; h.starts_with("range: ") || h.starts_with("if-match: "))
      asked += " " + std::string(h);
  g_script->asked.push_back(asked);
  if (g_script->said.empty()) return kDcpctlNetWrong;
  const Said said = g_script->said.front();
  g_script->said.pop_front();
  answer->status = said.status;
  std::strcpy(answer->headers, said.headers.c_str());
  if (said.status / 100 == 2) {
    answer->bytes = std::min<uint64_t>(said.body.size(), request->capacity);
    std::memcpy(request->into, said.body.data(), answer->bytes);
  } else {
    std::strcpy(answer->error, said.body.c_str());
  }
  std::strcpy(why->text, "scripted");
  return said.outcome;
}

const DcpctlNetTable kScripted{.header = {}, .send = scripted_send, .sha256 = {}, .hmac_sha256 = {}, .sign_rs256 = {}};

struct OnScript {
  Script script;
  StopFlag stop{0};
  std::map<std::string, std::string> variables{
      {"AWS_NO_SIGN_REQUEST", "yes"}, {"AWS_ENDPOINT_URL", "http://127.0.0.1:1"}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  std::shared_ptr<Settings> settings = std::make_shared<Settings>(
      Settings{.variable = [this](const std::string& name) { return value_of(name); }, .module_folders = {}, .stop = stop});
  std::shared_ptr<Http> http = std::make_shared<Http>(settings, &kScripted);
  ObjectStore store{http, make_s3(*http)};

  OnScript() { g_script = &script; }
  std::optional<std::string> value_of(const std::string& name) const {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  }
  void say(std::string headers, std::string body, uint32_t status = 200, int outcome = kDcpctlNetAnswered) {
    script.said.push_back({.outcome = outcome, .status = status, .headers = std::move(headers), .body = std::move(body)});
  }
  void say_folder() {
    say("",
        "<ListBucketResult><Contents><Key>f/a</Key><Size>10</Size><ETag>&quot;e1&quot;</ETag></Contents>"
        "<Contents><Key>f/</Key><Size>0</Size></Contents><CommonPrefixes><Prefix>f/inner/</Prefix></CommonPrefixes></ListBucketResult>");
  }
  std::string read(uint64_t offset, size_t bytes) {
    const OpenFile file(store, *store.open_beneath("s3://bucket/f", "a", FollowLinks::kCacheOnly));
    std::string text(bytes, ' ');
    read_exact(store, file.get(), offset, std::as_writable_bytes(std::span(text)));
    return text;
  }
  Problem problem_of_reading() {
    try {
      read(0, 10);
    } catch (const Error& error) {
      return error.problem();
    }
    return {};
  }
};

TEST_CASE("A listing answers what is asked of a folder and what is in it") {
  OnScript t;
  t.say_folder();
  CHECK(t.store.facts("s3://bucket/f")->kind == FileKind::kDirectory);
  const std::vector<DirEntry> entries = t.store.list("s3://bucket/f");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "a");
  CHECK(entries[1].kind == FileKind::kDirectory);
  CHECK(t.store.facts("s3://bucket/f/a")->bytes == 10);
  CHECK_FALSE(t.store.facts("s3://bucket/f/none"));
  CHECK_FALSE(t.store.open_beneath("s3://bucket/f", "none", FollowLinks::kCacheOnly));
  CHECK(t.script.asked ==
        std::vector<std::string>{"GET http://127.0.0.1:1/bucket?delimiter=%2F&encoding-type=url&list-type=2&prefix=f%2F"});
}

TEST_CASE("A read that is lost goes on at the byte where it was") {
  OnScript t;
  t.say_folder();
  t.say("content-range: bytes 0-9/10\netag: \"e1\"\n", "0123", 206, kDcpctlNetLost);
  t.say("", "<Error><Code>SlowDown</Code></Error>", 503);
  t.say("content-range: bytes 4-9/10\netag: \"e1\"\n", "456789", 206);
  CHECK(t.read(0, 10) == "0123456789");
  REQUIRE(t.script.asked.size() == 4);
  CHECK(t.script.asked[1] == "GET http://127.0.0.1:1/bucket/f/a range: bytes=0-9 if-match: \"e1\"");
  CHECK(t.script.asked[3] == "GET http://127.0.0.1:1/bucket/f/a range: bytes=4-9 if-match: \"e1\"");
  CHECK(t.http->counts().retries == 2);
  CHECK(t.read(3, 2) == "34");  // from what is kept
  CHECK(t.script.asked.size() == 4);
}

TEST_CASE("A body that is cut short is lost, too") {
  OnScript t;
  t.say_folder();
  t.say("content-range: bytes 0-9/10\n", "01234", 206);
  t.say("content-range: bytes 5-9/10\n", "56789", 206);
  CHECK(t.read(0, 10) == "0123456789");
}

TEST_CASE("What is not the object that was listed is refused") {
  const auto id_for = [](std::string headers, uint32_t status) {
    OnScript t;
    t.say_folder();
    t.say(std::move(headers), "0123456789", status);
    return t.problem_of_reading().id;
  };
  CHECK(id_for("content-range: bytes 0-9/10\netag: \"e2\"\n", 206) == ProblemId::net_changed);
  CHECK(id_for("content-range: bytes 0-9/11\n", 206) == ProblemId::net_changed);
  CHECK(id_for("content-range: bytes 1-9/10\n", 206) == ProblemId::net_refused);
  CHECK(id_for("", 206) == ProblemId::net_refused);
  CHECK(id_for("", 412) == ProblemId::net_changed);
  CHECK(id_for("", 404) == ProblemId::net_changed);
}

TEST_CASE("The store's own words, and where the credentials came from") {
  OnScript t;
  t.say("", "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>", 403);
  const Problem p = t.problem_of_reading();
  CHECK(p.id == ProblemId::net_refused);
  CHECK(p.got == "403 AccessDenied: No.");
  CHECK_THAT(p.hint, ContainsSubstring("AWS_NO_SIGN_REQUEST"));
}

TEST_CASE("The next step follows from the store's code") {
  const auto hint_for = [](uint32_t status, std::string body, std::string headers = "") {
    OnScript t;
    t.say(std::move(headers), std::move(body), status);
    return t.problem_of_reading().hint;
  };
  const auto error = [](std::string code, std::string text) {
    return "<Error><Code>" + code + "</Code><Message>" + text + "</Message></Error>";
  };
  CHECK_THAT(hint_for(403, error("InvalidAccessKeyId", "")), ContainsSubstring("http://127.0.0.1:1 does not know the key"));
  CHECK_THAT(hint_for(403, error("SignatureDoesNotMatch", "")), ContainsSubstring("is wrong, or a proxy"));
  CHECK_THAT(hint_for(403, error("InvalidObjectState", "")), ContainsSubstring("archive"));
  CHECK_THAT(hint_for(403, error("AccessDenied", "not authorized to perform: kms:Decrypt")), ContainsSubstring("kms:Decrypt"));
  CHECK_THAT(hint_for(403, error("AccessDenied", "Access Denied")), ContainsSubstring("AWS_REQUEST_PAYER=requester"));
  CHECK_THAT(hint_for(302, "", "location: https://login.example/x?secret\n"),
             ContainsSubstring("it leads to login.example, which gets no credentials"));
  CHECK_THAT(hint_for(200, "<html>Sign in</html>", "content-type: text/html\n"), ContainsSubstring("a page to sign in"));
}

TEST_CASE("A token of Google's that has ended") {
  OnScript t;
  t.variables["CLOUDSDK_AUTH_ACCESS_TOKEN"] = "x";
  ObjectStore gcs(t.http, make_gcs(*t.http));
  t.say("", "<Error><Code>AuthenticationRequired</Code></Error>", 401);
  try {
    gcs.list("gs://bucket/f");
    FAIL();
  } catch (const Error& e) {
    CHECK_THAT(e.problem().hint, ContainsSubstring("the token of CLOUDSDK_AUTH_ACCESS_TOKEN has ended"));
  }
}

TEST_CASE("A bucket of another region is asked there, once") {
  OnScript t;
  t.variables.erase("AWS_ENDPOINT_URL");
  t.variables["AWS_REGION"] = "us-east-1";
  t.say("x-amz-bucket-region: eu-west-3\n", "<Error><Code>PermanentRedirect</Code></Error>", 301);
  t.say_folder();
  t.say("content-range: bytes 0-9/10\n", "0123456789", 206);
  CHECK(t.read(0, 10) == "0123456789");
  REQUIRE(t.script.asked.size() == 3);
  CHECK_THAT(t.script.asked[0], ContainsSubstring("https://bucket.s3.us-east-1.amazonaws.com/"));
  CHECK_THAT(t.script.asked[1], ContainsSubstring("https://bucket.s3.eu-west-3.amazonaws.com/"));
  CHECK_THAT(t.script.asked[2], ContainsSubstring("https://bucket.s3.eu-west-3.amazonaws.com/f/a"));

  OnScript lost;
  lost.variables = t.variables;
  for (int i = 0; i < 2; ++i) lost.say("", "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>", 400);
  CHECK_THAT(lost.problem_of_reading().hint, ContainsSubstring("the bucket is in eu-west-3"));
  CHECK(lost.script.asked.size() == 2);

  OnScript expired;  // which is no word about the region
  for (int i = 0; i < 2; ++i) expired.say("x-amz-bucket-region: eu-west-3\n", "<Error><Code>ExpiredToken</Code></Error>", 400);
  CHECK_THAT(expired.problem_of_reading().hint, ContainsSubstring("sign in again"));
}

TEST_CASE("A store that does not answer, and one that nobody has credentials for") {
  OnScript t;
  CHECK(t.problem_of_reading().id == ProblemId::net_failed);
  t.variables.erase("AWS_NO_SIGN_REQUEST");
  CHECK(t.problem_of_reading().id == ProblemId::net_credentials);
}

TEST_CASE("What was given up is not asked again") {
  OnScript t;
  t.settings->timeout_s = 1;
  for (int i = 0; i < 20; ++i) t.say("", "<Error><Code>SlowDown</Code></Error>", 503);
  const Problem p = t.problem_of_reading();
  CHECK(p.got == "503 SlowDown");
  const size_t asked = t.script.asked.size();
  CHECK(t.problem_of_reading().got == p.got);
  CHECK(t.script.asked.size() == asked);
}

TEST_CASE("A connection that this process may not make is tried once") {
  OnScript t;
  t.say("", "", 0, kDcpctlNetKeptIn);
  CHECK_THAT(t.problem_of_reading().hint, ContainsSubstring("forbids connections to 127.0.0.1:1"));
  CHECK(t.script.asked.size() == 1);
}

TEST_CASE("A signal ends a request that would be repeated") {
  OnScript t;
  t.say("", "", 503);
  t.stop = 2;
  CHECK(t.problem_of_reading().id == ProblemId::interrupted);
}

TEST_CASE("Where redirects lead") {
  CHECK(joined_url("https://h:1/a/b?q", "c") == "https://h:1/a/c");
  CHECK(joined_url("https://h:1/a/b", "/c?d") == "https://h:1/c?d");
  CHECK(joined_url("https://h/a", "//other/x") == "https://other/x");
  CHECK(joined_url("https://h/a", "http://other/x") == "http://other/x");
  CHECK(joined_url("https://h/a", "file://other/x").empty());
  CHECK(joined_url("https://h/a", "").empty());
}

TEST_CASE("Command lines of credential_process are cut as Python's shlex does") {
  CHECK(shell_words(R"(a 'b c' "d \" e\f" g\ h '' i"j"k)") == std::vector<std::string>{"a", "b c", "d \" e\\f", "g h", "", "ijk"});
  std::string why;
  CHECK(output_of({"/bin/echo", "x y"}, why) == "x y\n");
  CHECK_FALSE(output_of({"/nowhere/at/all"}, why));
  CHECK(why == "/nowhere/at/all cannot be started: no such file or directory");
  CHECK_FALSE(output_of({"/bin/sh", "-c", "echo no token >&2; echo more >&2; exit 3"}, why));
  CHECK(why == "it ended with exit code 3: no token");
}

}  // namespace
}  // namespace dcp::net
