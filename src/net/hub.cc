// hf://[datasets/|spaces/]ORG/NAME[@REVISION][/PATH]: Hugging Face.
//
// A revision is looked up once, as its commit, so that what is read is of one commit. /resolve/ answers with a signed address on another
// host, which is kept and read by ranges until it ends: the hub's limits are on requests, not on bytes.
#include <algorithm>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/file_names.h"
#include "base/text.h"
#include "net/answers.h"
#include "net/aws_credentials.h"
#include "net/web.h"

namespace dcp::net {
namespace {

using nlohmann::json;

struct Repository {
  std::string kind = "models", name, revision = "main", path;
  std::string api() const { return "/api/" + kind + "/" + name; }
  std::string page() const { return "/" + (kind == "models" ? "" : kind + "/") + name; }
};

class Hub final : public Origin {
 public:
  using Origin::Origin;
  Listing list(const std::string& folder, const FirstPage& first) override;
  std::optional<ObjectFacts> look(const std::string& path) override;
  HttpRequest get(const std::string& path, const ObjectFacts& facts, uint64_t first, uint64_t last) override;
  bool renew(const std::string& path, const HttpAnswer& answer) override;
  [[noreturn]] void refuse(const std::string& path, const HttpAnswer& answer) override;
  std::string endpoint(const std::string& path) override;
  std::vector<std::string> files(const std::string&) override { return {token_file()}; }
  std::vector<std::pair<std::string, std::string>> about(const std::string& path) override;

 private:
  struct Place {
    std::string url;
    int64_t expires = 0;
  };
  static Repository repository_of(const std::string& path);
  std::string token_file() const;
  std::string token() const;
  std::vector<std::string> headers_for(const std::string& url);
  HttpAnswer ask(const std::string& path, const char* method, std::string& url, std::string& body);
  std::string commit_of(const std::string& path, const Repository& r);
  Place resolve(const std::string& path);

  std::mutex mutex_;
  std::map<std::string, std::string> commits_;  // by repository and revision
  std::map<std::string, Place> places_;         // signed addresses, by path
};

Repository Hub::repository_of(const std::string& path) {
  Repository r;
  std::vector<std::string> parts = split(path.substr(root_bytes(path)), '/');
  const auto take = [&] {
    std::string part = parts.empty() ? "" : parts.front();
    if (!parts.empty()) parts.erase(parts.begin());
    return part;
  };
  if (!parts.empty() && (parts[0] == "models" || parts[0] == "datasets" || parts[0] == "spaces")) r.kind = take();
  const std::string owner = take(), rest = take();
  const size_t at = rest.find('@');
  r.name = owner + "/" + rest.substr(0, at);
  if (owner.empty() || rest.substr(0, at).empty())
    fail(ProblemId::net_address, {.path = path}, owner.empty() ? "no repository" : owner, "hf://ORG/NAME[@REVISION][/PATH]");
  if (at != rest.npos) r.revision = percent_decoded(rest.substr(at + 1));
  if (r.revision == "refs" && parts.size() >= 2) {  // refs/pr/7, refs/convert/parquet
    r.revision += "/" + take();
    r.revision += "/" + take();
  }
  for (const std::string& part : parts) r.path += (r.path.empty() ? "" : "/") + part;
  return r;
}

std::string Hub::endpoint(const std::string&) {
  std::string endpoint = http_.settings().value("HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint.empty() ? "https://huggingface.co" : endpoint;
}

std::string Hub::token_file() const {
  const Settings& s = http_.settings();
  if (std::string given = s.value("HF_TOKEN_PATH"); !given.empty()) return given;
  const std::string home = s.value("HF_HOME"), cache = s.value("XDG_CACHE_HOME");
  return (!home.empty() ? home : (cache.empty() ? s.value("HOME") + "/.cache" : cache) + "/huggingface") + "/token";
}

std::string Hub::token() const {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (std::string token = http_.settings().value(name); !token.empty()) return trimmed(token);
  return trimmed(contents_of(token_file()));
}

// The token goes to the hub, and to nobody else.
std::vector<std::string> Hub::headers_for(const std::string& url) {
  const auto to = parse_url(url), hub = parse_url(endpoint({}));
  const bool is_hub = to && hub && to->scheme == hub->scheme && to->authority() == hub->authority();
  const std::string secret = is_hub ? token() : "";
  if (secret.empty()) return {};
  return {"authorization: Bearer " + secret};
}

// Asks the host of `url`, wherever redirects lead on it: a repository that was renamed has its old name there.
HttpAnswer Hub::ask(const std::string& path, const char* method, std::string& url, std::string& body) {
  const auto host = [](const std::string& of) { return parse_url(of).value_or(Url{}).authority(); };
  const auto request_for = [&, first = host(url)](const std::string& at) {
    const HttpRequest request{.method = method, .url = at, .headers = headers_for(at)};
    return host(at) == first ? std::optional(request) : std::nullopt;
  };
  return http_.follow(path, url, request_for, body);
}

std::string Hub::commit_of(const std::string& path, const Repository& r) {
  const std::lock_guard lock(mutex_);
  std::string& commit = commits_[r.kind + "/" + r.name + "@" + r.revision];
  if (commit.empty()) {
    std::string url = endpoint(path) + r.api() + "/revision/" + percent_encoded(r.revision, Slashes::kEncoded);
    std::string body;
    const HttpAnswer answer = ask(path, "GET", url, body);
    if (!answer.ok()) refuse(path, answer);
    commit = text_at(json::parse(body, nullptr, false), "sha");
    if (commit.empty()) refuse_strange(path, answer, "an answer without a commit", "that of a hub");
  }
  return commit;
}

// "<https://...>; rel="next"": the next page.
std::string next_page(const HttpAnswer& answer) {
  const std::string link = answer.header("link");
  const size_t begin = link.find('<'), end = link.find('>');
  return begin == link.npos || end == link.npos || link.find("rel=\"next\"") == link.npos ? "" : link.substr(begin + 1, end - begin - 1);
}

Listing Hub::list(const std::string& folder, const FirstPage& first) {
  const Repository r = repository_of(folder);
  std::string url =
      endpoint(folder) + r.api() + "/tree/" + commit_of(folder, r) + (r.path.empty() ? "" : "/" + percent_encoded(r.path, Slashes::kKept));
  Listing listing;
  for (bool is_first = true; !url.empty(); is_first = false) {
    std::string body;
    const HttpAnswer answer = ask(folder, "GET", url, body);
    if (answer.status == 404 && !r.path.empty()) return {};
    if (!answer.ok()) refuse(folder, answer);
    const json entries = json::parse(body, nullptr, false);
    if (!entries.is_array()) refuse_strange(folder, answer, "an answer that is no listing", "that of a hub");
    for (const json& e : entries) {
      const std::string path = text_at(e, "path"), name = split_path(path).name;
      if (path != (r.path.empty() ? name : r.path + "/" + name)) continue;
      const auto size = e.find("size");
      if (text_at(e, "type") == "directory") listing.folders.insert(name);
      else if (size != e.end() && size->is_number_unsigned()) listing.objects[name] = {.bytes = size->get<uint64_t>()};
    }
    url = joined_url(url, next_page(answer));
    if (is_first && !url.empty()) first(listing);
  }
  return listing;
}

std::optional<ObjectFacts> Hub::look(const std::string& path) {
  if (repository_of(path).path.empty()) return std::nullopt;
  const Listing around = list(folder_around(path), [](const Listing&) {});
  const auto found = around.objects.find(split_path(path).name);
  return found == around.objects.end() ? std::nullopt : std::optional(found->second);
}

// When a signed address ends: X-Amz-Date and X-Amz-Expires, or Expires; else an hour from now.
int64_t end_of(const std::string& url, int64_t now) {
  std::map<std::string, std::string> query;
  for (const std::string& part : split(url.substr(std::min(url.find('?'), url.size() - 1) + 1), '&'))
    if (const size_t equals = part.find('='); equals != part.npos) query[lower(part.substr(0, equals))] = part.substr(equals + 1);
  if (const auto at = decimal<int64_t>(query["expires"])) return *at;
  return now + std::min<int64_t>(decimal<int64_t>(query["x-amz-expires"]).value_or(3600), 3600);
}

Hub::Place Hub::resolve(const std::string& path) {
  const int64_t now = std::time(nullptr);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = places_.find(path); known != places_.end() && known->second.expires - 60 > now) return known->second;
  }
  const Repository r = repository_of(path);
  std::string url = endpoint(path) + r.page() + "/resolve/" + commit_of(path, r) + "/" + percent_encoded(r.path, Slashes::kKept);
  std::string body;
  const HttpAnswer answer = ask(path, "HEAD", url, body);
  // Of another host only a GET is signed.
  if (!answer.ok() && parse_url(url)->authority() == parse_url(endpoint(path))->authority()) refuse(path, answer);
  const std::lock_guard lock(mutex_);
  return places_[path] = {.url = url, .expires = end_of(url, now)};
}

HttpRequest Hub::get(const std::string& path, const ObjectFacts& facts, uint64_t first, uint64_t last) {
  HttpRequest request{.url = resolve(path).url};
  request.headers = headers_for(request.url);
  for (std::string& h : range_headers(facts, first, last)) request.headers.push_back(std::move(h));
  return request;
}

bool Hub::renew(const std::string& path, const HttpAnswer&) {
  const std::lock_guard lock(mutex_);
  return places_.erase(path) > 0;
}

void Hub::refuse(const std::string& path, const HttpAnswer& answer) {
  const Repository r = repository_of(path);
  const std::string token = this->token(), who = token.empty() ? "no token was sent: HF_TOKEN, or 'hf auth login', gives one"
                                                               : "the token of HF_TOKEN or " + token_file() + " was sent";
  std::string hint;
  if (answer.status == 401 || answer.status == 403)
    hint = who + "; a gated repository takes its page's consent (" + endpoint(path) + r.page() + ")";
  else if (answer.status == 404) hint = "is there " + r.name + " at " + endpoint(path) + ", and " + r.revision + " in it? " + who;
  else if (answer.status / 100 == 3)
    hint = "it leads to " + parse_url(answer.header("location")).value_or(Url{}).authority() + ": HF_ENDPOINT names another hub";
  else if (answer.status == 429) hint = "the hub counts requests in five minutes: " + who;
  net::refuse(path, answer, hint);
}

std::vector<std::pair<std::string, std::string>> Hub::about(const std::string& path) {
  const Repository r = repository_of(path);
  const bool is_variable = !http_.settings().value("HF_TOKEN").empty();
  return {{"endpoint", endpoint(path)},
          {"revision", r.revision + " is " + commit_of(path, r)},
          {"credentials", token().empty() ? "none"
                          : is_variable   ? "HF_TOKEN"
                                          : "the token of " + token_file()}};
}

}  // namespace

std::unique_ptr<Origin> make_hub(Http& http) { return std::make_unique<Hub>(http); }

}  // namespace dcp::net
