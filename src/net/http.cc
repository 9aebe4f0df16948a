#include "net/http.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/file_names.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "modules/loader.h"
#include "net/answers.h"

namespace dcp::net {
namespace {

using std::chrono::milliseconds;

// Debian, RHEL, SUSE, Alpine and FreeBSD; curl's own default is that of the system it was built on.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

bool may_pass(uint32_t status) { return status == 429 || status == 408 || (status >= 500 && status != 501); }

// The pause before try `n` (from 1): up to 0.1, 0.2, 0.4 ... 5 s. Random, so that many processes do not come back at once.
milliseconds pause_before(unsigned n) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const int64_t most = std::min<int64_t>(100ll << std::min(n - 1, 10u), 5000);
  return milliseconds(std::uniform_int_distribution<int64_t>(most / 2, most)(random));
}

struct Slot {
  Gate& gate;
  bool refused = false;
  explicit Slot(Gate& the_gate) : gate(the_gate) { gate.enter(); }
  ~Slot() { gate.leave(refused); }
};

}  // namespace

std::string HttpAnswer::header(std::string_view name) const {
  std::string found;
  for (const std::string& line : split(headers, '\n'))
    if (const size_t colon = line.find(':'); colon != line.npos && lower(line.substr(0, colon)) == name)
      found = trimmed(line.substr(colon + 1));
  return found;
}

void Gate::enter() {
  std::unique_lock lock(mutex_);
  free_.wait(lock, [&] { return inside_ < limit_; });
  ++inside_;
}

void Gate::leave(bool refused) {
  const std::lock_guard lock(mutex_);
  --inside_;
  limit_ = std::clamp(refused ? limit_ / 2 : limit_ + 1 / limit_, kLeast, kMost);
  free_.notify_all();
}

const DcpctlNetTable& Http::module() {
  const std::lock_guard lock(mutex_);
  if (module_ == nullptr) module_ = &open_module(settings_->module_folders(), kNetModule);
  return *module_;
}

std::string Http::ca_bundle(const std::string& path) const {
  // Of AWS and its like alone, as its own programs take it; the others as curl does.
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (std::string given = settings_->value(name); !given.empty() && (*name != 'A' || scheme_of(path) == "s3")) return given;
  struct stat facts{};
  for (const char* bundle : kBundles)
    if (::stat(bundle, &facts) == 0) return bundle;
  return {};
}

std::vector<std::string> Http::files() const {
  std::vector<std::string> all = settings_->module_folders();
  // Libraries (also those that the C library opens to resolve names), names, certificates.
  for (const char* path :
       {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf",
        "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/run/systemd/resolve", "/run/nscd", "/etc/ssl", "/etc/pki",
        "/etc/crypto-policies", "/usr/share/ca-certificates", "/var/lib/ca-certificates", "/dev/urandom"})
    all.emplace_back(path);
  for (const char* name : {"AWS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "OPENSSL_CONF"})
    if (const std::string path = settings_->value(name); !path.empty()) all.push_back(path);
  return all;
}

std::vector<uint16_t> Http::ports() const {
  std::vector<uint16_t> all{53};  // long answers about names
  for (const char* name : {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"})
    if (const std::string proxy = settings_->value(name); !proxy.empty())
      if (const auto url = parse_url(proxy.find("://") == proxy.npos ? "http://" + proxy : proxy)) all.insert(all.end(), {url->port, 1080});
  return all;
}

void Http::check_stop() const {
  if (const int signal = settings_->stop.load()) fail(signal == 2 ? ProblemId::interrupted : ProblemId::terminated, {});
}

void Http::pause(milliseconds time) const {
  for (const auto end = Clock::now() + time; Clock::now() < end; check_stop())
    std::this_thread::sleep_for(std::min<Clock::duration>(milliseconds(50), end - Clock::now()));
}

void Http::send_once(Turn& turn, MutableBytes into) {
  const auto& [path, request, end, answer, outcome, why] = turn;
  const std::optional<Url> url = parse_url(request.url);
  if (!url) fail(ProblemId::net_address, {.path = path}, request.url.substr(0, request.url.find('?')), "http:// or https:// and a host");
  if (url->scheme == "http" && !request.local && !settings_->insecure_http && !is_this_machine(url->host))
    fail(ProblemId::net_insecure, {.path = path}, "http://" + url->authority());
  std::vector<const char*> headers;
  for (const std::string& h : request.headers) headers.push_back(h.c_str());
  const int64_t left = std::chrono::duration_cast<milliseconds>(end - Clock::now()).count();
  const auto silence = request.local ? 1000 : std::clamp<int64_t>(std::min<int64_t>(settings_->timeout_s * 500, left), 1000, 30'000);
  const auto stopped = [](void* stop) { return static_cast<int>(static_cast<const StopFlag*>(stop)->load() != 0); };
  const std::string bundle = ca_bundle(path);
  const DcpctlNetRequest raw{.method = request.method.c_str(),
                             .url = request.url.c_str(),
                             .headers = headers.data(),
                             .header_count = headers.size(),
                             .body = request.body.empty() ? nullptr : request.body.data(),
                             .body_bytes = request.body.size(),
                             .ca_bundle = bundle.empty() ? nullptr : bundle.c_str(),
                             .direct = request.local,
                             .connect_ms = static_cast<uint32_t>(std::min<int64_t>(silence, 10'000)),
                             .silence_ms = static_cast<uint32_t>(silence),
                             .stopped = stopped,
                             .stopped_argument = const_cast<StopFlag*>(&settings_->stop),
                             .into = into.data(),
                             .capacity = into.size()};
  ++counts_.requests;
  const auto got = std::make_unique<DcpctlNetAnswer>();
  DcpctlReason reason{};
  turn.outcome = module().send(&raw, got.get(), &reason);
  counts_.bytes += got->bytes;
  turn.answer = {.status = got->status, .bytes = got->bytes, .longer = got->longer != 0, .headers = got->headers, .error = got->error};
  turn.why = reason.text;
  if (turn.outcome == kDcpctlNetStopped) check_stop();
}

HttpAnswer Http::send(const std::string& path, const Make& make, MutableBytes into, const Check& check) {
  // A store that has answered before will again; one that never has may be the wrong one.
  constexpr unsigned kFirstTries = 7, kTriesForHost = 3;
  uint64_t received = 0;
  auto since = Clock::now();
  for (unsigned n = 1;; ++n) {
    const HttpRequest request = make(received);
    if (const auto failed = failed_before(request)) return *failed;
    Turn turn{.path = path, .request = request, .end = since + std::chrono::seconds(settings_->timeout_s)};
    send_in_turn(turn, into.subspan(received));
    HttpAnswer& answer = turn.answer;
    if (answer.ok()) {
      if (check) check(answer, received);
      received += answer.bytes;
      if (turn.outcome == kDcpctlNetAnswered && received < request.expected)
        turn.outcome = kDcpctlNetLost, turn.why = "the body was cut short";
      if (answer.bytes > 0) n = 1, turn.end += Clock::now() - since, since = Clock::now();
    }
    if (turn.outcome == kDcpctlNetAnswered && !may_pass(answer.status)) {
      answer.bytes = received;
      return answer;
    }
    milliseconds wait = pause_before(n);
    if (const auto seconds = decimal<uint32_t>(answer.header("retry-after")))
      wait = std::max(wait, milliseconds(1000ll * std::min(*seconds, 30u)));
    const unsigned tries = turn.outcome == kDcpctlNetNoHost ? kTriesForHost : kFirstTries;
    const bool is_over = turn.outcome == kDcpctlNetWrong || turn.outcome == kDcpctlNetKeptIn || request.local ||
                         (n >= tries && !has_answered(parse_url(request.url)->authority())) || Clock::now() + wait >= turn.end;
    if (is_over) return give_up(turn, n);
    ++counts_.retries;
    pause(wait);
  }
}

void Http::send_in_turn(Turn& turn, MutableBytes into) {
  Slot slot(gate_);
  check_stop();
  send_once(turn, into);
  const uint32_t status = turn.answer.status;
  slot.refused = status == 503 || status == 429;
  if (status / 100 != 2) return;
  const std::lock_guard lock(mutex_);
  answered_.insert(parse_url(turn.request.url)->authority());
}

bool Http::has_answered(const std::string& host) {
  const std::lock_guard lock(mutex_);
  return answered_.contains(host);
}

// The store's own words where it has some; who asks the same again gets the same.
HttpAnswer Http::give_up(const Turn& turn, unsigned tries) {
  Failure failure{.when = Clock::now(), .answer = turn.answer, .problem = {}};
  if (!may_pass(turn.answer.status)) failure.problem = problem_of(turn, tries);
  if (!turn.request.local) {
    const std::lock_guard lock(mutex_);
    failures_.insert_or_assign(turn.request.method + turn.request.url, failure);
  }
  if (failure.problem) throw Error(*failure.problem);
  return failure.answer;
}

std::optional<HttpAnswer> Http::failed_before(const HttpRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto failure = failures_.find(request.method + request.url);
  // A process that waits for something asks again after a while.
  if (failure == failures_.end() || Clock::now() - failure->second.when > std::chrono::seconds(settings_->timeout_s)) return std::nullopt;
  if (failure->second.problem) throw Error(*failure->second.problem);
  return failure->second.answer;
}

Problem Http::problem_of(const Turn& turn, unsigned tries) {
  const std::string host = parse_url(turn.request.url)->authority(), bundle = ca_bundle(turn.path);
  Problem p = make_problem(ProblemId::net_failed, {.path = turn.path}, turn.why);
  if (turn.outcome == kDcpctlNetKeptIn && is_confined()) {
    p = make_problem(ProblemId::sandbox_failed, {.path = turn.path}, host + ", which has another port than the address that was given");
    p.what = "the sandbox lets no connection out to this place";
  } else if (turn.outcome == kDcpctlNetKeptIn) {
    p.hint = "this machine, or what the process runs in, forbids connections to " + host;
  } else if (turn.why.find("certificate") != turn.why.npos) {
    p.hint = "certificates are looked up in " + (bundle.empty() ? "curl's own place" : bundle) +
             (!bundle.empty() && bundle == settings_->value("AWS_CA_BUNDLE") ? ", as AWS_CA_BUNDLE says" : "; SSL_CERT_FILE names others");
  } else if (turn.outcome == kDcpctlNetNoHost) {
    p.hint = "is " + host + " the right name, and does it take a proxy to reach it (HTTPS_PROXY)?";
  } else if (has_answered(host)) {
    p.hint =
        host + " had answered before, and then not for " + std::to_string(settings_->timeout_s) + " s: try again when the network is well";
  } else {
    p.hint = host + " was asked " + counted(tries, "time") + ": is it the right address, and can it be reached from here?";
  }
  return p;
}

HttpAnswer Http::ask(const std::string& path, const HttpRequest& request, std::string& body, size_t cap) {
  body.resize(1 << 20);  // a page of a listing, which is not to be asked for twice
  for (;;) {
    HttpAnswer answer = send(path, [&](uint64_t) { return request; }, std::as_writable_bytes(std::span(body)), nullptr);
    if (answer.longer && body.size() < cap) {
      body.resize(std::min(body.size() * 16, cap));
      continue;
    }
    if (answer.longer) fail(ProblemId::net_refused, {.path = path}, "an answer of more than " + human_bytes(cap));
    body.resize(answer.bytes);
    return answer;
  }
}

HttpAnswer Http::follow(const std::string& path, std::string& url, const RequestFor& request_for, std::string& body) {
  HttpAnswer answer;
  for (int hops = 0; hops < 6; ++hops) {
    const std::optional<HttpRequest> request = request_for(url);
    if (!request) return answer;
    answer = ask(path, *request, body);
    std::string to = answer.status / 100 == 3 ? joined_url(url, answer.header("location")) : "";
    if (to.empty()) return answer;
    url = std::move(to);
  }
  fail(ProblemId::net_refused, {.path = path}, "more than five redirects");
}

namespace {
void check(int outcome, const std::string& path, const DcpctlReason& why) {
  if (outcome != 0) fail(ProblemId::net_credentials, {.path = path}, why.text);
}
}  // namespace

std::string Http::sha256(std::string_view data) {
  std::string digest(32, '\0');
  DcpctlReason why{};
  check(module().sha256(data.data(), data.size(), reinterpret_cast<unsigned char*>(digest.data()), &why), {}, why);
  return digest;
}

std::string Http::hmac_sha256(std::string_view key, std::string_view data) {
  std::string digest(32, '\0');
  DcpctlReason why{};
  check(module().hmac_sha256(key.data(), key.size(), data.data(), data.size(), reinterpret_cast<unsigned char*>(digest.data()), &why), {},
        why);
  return digest;
}

std::string Http::sign_rs256(const std::string& path, const std::string& pem, std::string_view data) {
  std::string signature(2048, '\0');
  uint64_t bytes = signature.size();
  DcpctlReason why{};
  check(module().sign_rs256(pem.c_str(), data.data(), data.size(), reinterpret_cast<unsigned char*>(signature.data()), &bytes, &why), path,
        why);
  signature.resize(bytes);
  return signature;
}

// ---- what stores say when they refuse

std::string code_of(const HttpAnswer& answer) {
  if (const std::string code = element(answer.error, "Code"); !code.empty()) return code;
  return answer.header("x-error-code");  // of Hugging Face
}

std::string reason_of(const HttpAnswer& answer) {
  std::string text = element(answer.error, "Message");
  const auto json = nlohmann::json::parse(answer.error, nullptr, false);
  if (text.empty() && json.is_object() && json.contains("error")) {
    const auto& error = json["error"];
    if (error.is_string())
      text = error.get<std::string>() + (json.contains("error_description") ? ": " + json.value("error_description", "") : "");
    else if (error.is_object() && error.contains("message") && error["message"].is_string()) text = error["message"].get<std::string>();
  }
  if (text.empty()) text = answer.header("x-error-message");
  const std::string code = code_of(answer);
  const std::string both = code.empty() || text.empty() ? code + text : code + ": " + text;
  return std::to_string(answer.status) + (both.empty() ? "" : " " + both.substr(0, 300));
}

void refuse_strange(const std::string& path, const HttpAnswer& answer, std::string got, std::string expected) {
  Problem p = make_problem(ProblemId::net_refused, {.path = path}, std::move(got), std::move(expected));
  if (answer.header("content-type").starts_with("text/html"))
    p.hint = "a page for people was answered: a proxy, a page to sign in, or the store's own for its users is at this address";
  throw Error(std::move(p));
}

void refuse(const std::string& path, const HttpAnswer& answer, std::string hint) {
  Problem p = make_problem(ProblemId::net_refused, {.path = path}, reason_of(answer));
  p.hint = std::move(hint);
  throw Error(std::move(p));
}

}  // namespace dcp::net
