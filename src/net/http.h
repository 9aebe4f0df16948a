// Requests over HTTP, repeated until they are answered.
//
// What may pass (429, 5xx, a lost connection, a body that is cut short) is tried again after a growing, random pause; a read goes on at
// the byte where it was lost. Any other answer is the caller's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/problem.h"
#include "modules/net.h"
#include "net/settings.h"

namespace dcp::net {

struct HttpRequest {
  std::string method = "GET", url;
  std::vector<std::string> headers{};  // "Name: value"
  std::string body{};
  uint64_t expected = 0;  // bytes of the body, from the first try on; fewer are no answer. 0: not known
  bool local = false;     // to a service of this machine: no proxy, one second
};

struct HttpAnswer {
  uint32_t status = 0;
  uint64_t bytes = 0;   // of the caller's buffer
  bool longer = false;  // there were more
  std::string headers;  // lines
  std::string error;    // the beginning of the body of an answer that is not 2xx

  bool ok() const { return status / 100 == 2; }
  // "": there is none. `name` in lower case.
  std::string header(std::string_view name) const;
};

// How many requests may be under way: more while they are answered, half as many when the store says that it is too much.
class Gate {
 public:
  void enter();
  void leave(bool refused);

 private:
  static constexpr double kLeast = 8, kFirst = 32, kMost = 64;
  std::mutex mutex_;
  std::condition_variable free_;
  double limit_ = kFirst;
  unsigned inside_ = 0;
};

class Http {
 public:
  // `module`: instead of libdcpctl_net.so, for a test.
  explicit Http(std::shared_ptr<const Settings> settings, const DcpctlNetTable* module = nullptr)
      : settings_(std::move(settings)), module_(module) {}

  const Settings& settings() const { return *settings_; }
  Counts& counts() { return counts_; }
  // Opened at the first call. Throws module_missing and its like.
  const DcpctlNetTable& module();
  // Files that the module and its libraries read when a request is sent, and ports other than the stores' own.
  std::vector<std::string> files() const;
  std::vector<uint16_t> ports() const;

  // Sends what `make` makes, anew for each try (a signature has a time, a read that goes on has another range): its argument is how many
  // bytes of `into` are there already. `path` is what the caller reads, for messages. Throws net_failed, net_insecure and interrupted.
  // `check` sees each 2xx answer, also one that is lost later, and throws if its bytes are not those that were asked for.
  using Make = std::function<HttpRequest(uint64_t received)>;
  using Check = std::function<void(const HttpAnswer& answer, uint64_t received)>;
  HttpAnswer send(const std::string& path, const Make& make, MutableBytes into, const Check& check);
  // The same with the body as text of at most `cap` bytes.
  HttpAnswer ask(const std::string& path, const HttpRequest& request, std::string& body, size_t cap = 16 << 20);
  // The same of `url`, and of where redirects lead from there: `url` is then the last. What has no request is not asked.
  using RequestFor = std::function<std::optional<HttpRequest>(const std::string& url)>;
  HttpAnswer follow(const std::string& path, std::string& url, const RequestFor& request_for, std::string& body);

  std::string sha256(std::string_view data);
  std::string hmac_sha256(std::string_view key, std::string_view data);
  std::string sign_rs256(const std::string& path, const std::string& pem, std::string_view data);

 private:
  using Clock = std::chrono::steady_clock;
  // A request and where it stands: those that are repeated have an end.
  struct Turn {
    const std::string& path;
    const HttpRequest& request;
    Clock::time_point end;
    HttpAnswer answer{};
    int outcome = 0;
    std::string why{};
  };
  struct Failure {
    Clock::time_point when;
    HttpAnswer answer;
    std::optional<Problem> problem;
  };
  void send_in_turn(Turn& turn, MutableBytes into);
  void send_once(Turn& turn, MutableBytes into);
  HttpAnswer give_up(const Turn& turn, unsigned tries);
  Problem problem_of(const Turn& turn, unsigned tries);
  std::optional<HttpAnswer> failed_before(const HttpRequest& request);
  void pause(std::chrono::milliseconds time) const;
  void check_stop() const;
  // Of what `path` is read from: "" is curl's own.
  std::string ca_bundle(const std::string& path) const;
  bool has_answered(const std::string& host);

  std::shared_ptr<const Settings> settings_;
  Counts counts_;
  std::mutex mutex_;  // of what is found out once
  const DcpctlNetTable* module_;
  std::set<std::string> answered_;           // hosts that have
  std::map<std::string, Failure> failures_;  // of requests that were given up, by method and URL
  Gate gate_;
};

// "403 AccessDenied: Access Denied": what an answer of S3, Google or a hub says.
std::string reason_of(const HttpAnswer& answer);
// The code alone, "AccessDenied"; "": it has none.
std::string code_of(const HttpAnswer& answer);
// Throws net_refused. `got`: something that this kind of store does not answer.
[[noreturn]] void refuse_strange(const std::string& path, const HttpAnswer& answer, std::string got, std::string expected);
[[noreturn]] void refuse(const std::string& path, const HttpAnswer& answer, std::string hint);

}  // namespace dcp::net
