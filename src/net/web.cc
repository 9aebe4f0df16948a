// https://HOST/PATH: any server that answers ranges. It lists nothing: what is looked for are the files that describe a checkpoint.
#include "net/web.h"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>

#include "net/answers.h"

namespace dcp::net {
namespace {

constexpr std::array kDescriptions = {".metadata", "model.safetensors.index.json", "pytorch_model.bin.index.json", "metadata.pkl",
                                      "model.safetensors"};

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// As it is sent: what a URL cannot hold is encoded, and what is encoded already stays.
std::string encoded_url(const std::string& path) {
  constexpr std::string_view kKept = "/:@!$&'()*+,;=[]";
  std::string url;
  for (size_t i = 0; i < path.size(); ++i) {
    const bool is_escape = path[i] == '%' && i + 2 < path.size() && is_hex(path[i + 1]) && is_hex(path[i + 2]);
    url += is_escape || kKept.find(path[i]) != kKept.npos ? std::string(1, path[i]) : percent_encoded({&path[i], 1}, Slashes::kEncoded);
  }
  return url;
}

class Web final : public Origin {
 public:
  using Origin::Origin;
  Listing list(const std::string& folder, const FirstPage&) override;
  std::optional<ObjectFacts> look(const std::string& path) override;
  HttpRequest get(const std::string& path, const ObjectFacts& facts, uint64_t first, uint64_t last) override;
  bool renew(const std::string& path, const HttpAnswer& answer) override;
  [[noreturn]] void refuse(const std::string& path, const HttpAnswer& answer) override;
  std::string endpoint(const std::string& path) override { return path; }
  bool lists() const override { return false; }
  std::vector<std::pair<std::string, std::string>> about(const std::string&) override { return {{"credentials", "none are sent"}}; }

 private:
  void check_address(const std::string& path) const;

  std::mutex mutex_;
  std::map<std::string, std::string> places_;  // where redirects have led, by path
};

void Web::check_address(const std::string& path) const {
  const auto url = parse_url(path);
  if (url && !url->has_user && path.find('?') == path.npos) return;
  // What is refused may be a secret.
  const std::string shown = url ? url->scheme + "://" + url->authority() + url->path.substr(0, url->path.find('?')) : path;
  Problem p = make_problem(ProblemId::net_address, {.path = shown}, !url ? "" : url->has_user ? "a user's name in it" : "a query in it");
  p.hint = "give https://HOST/PATH; a checkpoint that takes credentials is read from its store (s3://, gs://, hf://)";
  throw Error(std::move(p));
}

std::optional<ObjectFacts> Web::look(const std::string& path) {
  check_address(path);
  std::string url = encoded_url(path), before, body;
  bool is_folder = false;
  const auto request_for = [&](const std::string& at) -> std::optional<HttpRequest> {
    is_folder = at == std::exchange(before, at) + "/";
    return is_folder ? std::nullopt : std::optional(HttpRequest{.method = "HEAD", .url = at});
  };
  const HttpAnswer answer = http_.follow(path, url, request_for, body);
  if (is_folder || answer.status == 404 || answer.status == 410) return std::nullopt;
  if (!answer.ok()) refuse(path, answer);
  const std::lock_guard lock(mutex_);
  places_[path] = url;
  return facts_of(answer);
}

Listing Web::list(const std::string& folder, const FirstPage&) {
  Listing found{.complete = false};
  std::exception_ptr refused;  // some servers answer 403 for what is not there
  for (const char* name : kDescriptions) {
    if (!found.empty()) break;
    try {
      if (const auto facts = look(folder + "/" + name)) found.objects.emplace(name, *facts);
    } catch (const Error& error) {
      if (error.problem().id != ProblemId::net_refused) throw;
      if (!refused) refused = std::current_exception();
    }
  }
  if (found.empty() && refused) std::rethrow_exception(refused);
  return found;
}

HttpRequest Web::get(const std::string& path, const ObjectFacts& facts, uint64_t first, uint64_t last) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(path);
  return {.url = place == places_.end() ? encoded_url(path) : place->second, .headers = range_headers(facts, first, last)};
}

// A place that a redirect has led to may be one for a while only.
bool Web::renew(const std::string& path, const HttpAnswer& answer) {
  {
    const std::lock_guard lock(mutex_);
    if (places_.erase(path) == 0 || (answer.status / 100 != 3 && answer.status != 403)) return false;
  }
  return look(path).has_value();
}

void Web::refuse(const std::string& path, const HttpAnswer& answer) {
  net::refuse(
      path, answer,
      answer.status == 401 || answer.status == 403 ? "no credentials are sent to a web server: s3://, gs:// and hf:// have them" : "");
}

}  // namespace

std::unique_ptr<Origin> make_web(Http& http) { return std::make_unique<Web>(http); }

}  // namespace dcp::net
