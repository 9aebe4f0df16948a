// gs://BUCKET/KEY: Google Cloud Storage by its XML API, with a bearer token or HMAC keys.
#include <ctime>
#include <nlohmann/json.hpp>

#include "net/answers.h"
#include "net/aws_credentials.h"
#include "net/bucket_origin.h"

namespace dcp::net {
namespace {

using nlohmann::json;

class Gcs final : public BucketOrigin {
 public:
  using BucketOrigin::BucketOrigin;
  bool renew(const std::string& path, const HttpAnswer& answer) override;
  [[noreturn]] void refuse(const std::string& path, const HttpAnswer& answer) override;
  std::string endpoint(const std::string& path) override;
  std::vector<std::string> files(const std::string& path) override;
  std::vector<uint16_t> ports() override;
  std::vector<std::pair<std::string, std::string>> about(const std::string& path) override;

 protected:
  Address address_of(const std::string& path, const std::string& bucket) override;
  std::vector<std::string> headers_of(const std::string& path, const ToSign& request, const std::string& bucket) override;

 private:
  std::string emulator() const;
  std::string file_of_credentials() const;
  std::string metadata_host() const;
  std::string token(const std::string& path);
  HttpRequest token_request(const std::string& path);
  [[noreturn]] void lacking(const std::string& path, std::string got, std::string hint) const;

  std::mutex mutex_;
  std::string token_, source_;
  int64_t expires_ = 0;
};

std::string Gcs::emulator() const {
  const std::string host = http_.settings().value("STORAGE_EMULATOR_HOST");
  return host.empty() || host.find("://") != host.npos ? host : "http://" + host;
}

std::string Gcs::metadata_host() const {
  const std::string host = http_.settings().value("GCE_METADATA_HOST");
  return host.empty() ? "169.254.169.254" : host;
}

std::string Gcs::file_of_credentials() const {
  const Settings& s = http_.settings();
  if (std::string given = s.value("GOOGLE_APPLICATION_CREDENTIALS"); !given.empty()) return given;
  const std::string config = s.value("CLOUDSDK_CONFIG");
  return (config.empty() ? s.value("HOME") + "/.config/gcloud" : config) + "/application_default_credentials.json";
}

std::string Gcs::endpoint(const std::string&) {
  const std::string here = emulator();
  return here.empty() ? "https://storage.googleapis.com" : here;
}

BucketOrigin::Address Gcs::address_of(const std::string& path, const std::string&) { return {.base = endpoint(path)}; }

std::vector<std::string> Gcs::headers_of(const std::string& path, const ToSign& request, const std::string&) {
  const Settings& s = http_.settings();
  const std::string id = s.value("GS_ACCESS_KEY_ID"), no_sign = lower(s.value("GS_NO_SIGN_REQUEST"));
  if (!emulator().empty() || no_sign == "yes" || no_sign == "true" || no_sign == "1") return {};
  if (!id.empty()) {
    ToSign whole = request;
    whole.region = "auto";
    return signed_headers(http_, whole, {.id = id, .secret = s.value("GS_SECRET_ACCESS_KEY"), .token = {}}, std::time(nullptr));
  }
  return {"authorization: Bearer " + token(path)};
}

void Gcs::lacking(const std::string& path, std::string got, std::string hint) const {
  Problem p = make_problem(ProblemId::net_credentials, {.path = path}, std::move(got));
  if (!p.got.empty()) p.what = "the credentials cannot be had";
  p.hint = std::move(hint);
  throw Error(std::move(p));
}

// Where a token comes from: a key of a service account, what 'gcloud auth application-default login' has left, the machine itself.
HttpRequest Gcs::token_request(const std::string& path) {
  const std::string file = file_of_credentials(), text = contents_of(file);
  if (text.empty()) {
    if (!http_.settings().value("GOOGLE_APPLICATION_CREDENTIALS").empty())
      lacking(path, "nothing in " + file, "GOOGLE_APPLICATION_CREDENTIALS names it");
    source_ = "the machine's service account";
    return {.url = "http://" + metadata_host() + "/computeMetadata/v1/instance/service-accounts/default/token",
            .headers = {"metadata-flavor: Google"},
            .local = true};
  }
  const json key = json::parse(text, nullptr, false);
  const std::string type = text_at(key, "type");
  HttpRequest request{.method = "POST", .url = text_at(key, "token_uri"), .headers = {"content-type: application/x-www-form-urlencoded"}};
  if (request.url.empty()) request.url = "https://oauth2.googleapis.com/token";
  if (type == "service_account") {
    source_ = text_at(key, "client_email") + " of " + file;
    const int64_t now = std::time(nullptr);
    const json claims{{"iss", text_at(key, "client_email")},
                      {"scope", "https://www.googleapis.com/auth/devstorage.read_only"},
                      {"aud", request.url},
                      {"iat", now},
                      {"exp", now + 3600}};
    const std::string signed_text = base64url_of(R"({"alg":"RS256","typ":"JWT"})") + "." + base64url_of(claims.dump());
    request.body =
        query_text({{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
                    {"assertion", signed_text + "." + base64url_of(http_.sign_rs256(path, text_at(key, "private_key"), signed_text))}});
  } else if (type == "authorized_user") {
    source_ = "the user of " + file;
    request.body = query_text({{"grant_type", "refresh_token"},
                               {"refresh_token", text_at(key, "refresh_token")},
                               {"client_id", text_at(key, "client_id")},
                               {"client_secret", text_at(key, "client_secret")}});
  } else {
    lacking(path, "credentials of type '" + type + "' in " + file,
            "service_account and authorized_user are known; CLOUDSDK_AUTH_ACCESS_TOKEN takes a token of any");
  }
  return request;
}

std::string Gcs::token(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (std::string given = http_.settings().value("CLOUDSDK_AUTH_ACCESS_TOKEN"); !given.empty()) {
    source_ = "CLOUDSDK_AUTH_ACCESS_TOKEN";
    return given;
  }
  if (std::time(nullptr) < expires_ - 300) return token_;
  const HttpRequest request = token_request(path);
  std::string body;
  HttpAnswer answer;
  try {
    answer = http_.ask(path, request, body);
  } catch (const Error& error) {
    if (error.problem().id != ProblemId::net_failed || !request.local) throw;
    lacking(path, {},
            "'gcloud auth application-default login', or GOOGLE_APPLICATION_CREDENTIALS with a key's file, give some; "
            "GS_NO_SIGN_REQUEST=YES reads a public bucket without");
  }
  const json got = json::parse(body, nullptr, false);
  token_ = text_at(got, "access_token");
  if (!answer.ok() || token_.empty())
    lacking(path, source_ + ": " + (answer.ok() ? "an answer without a token" : reason_of(answer)),
            "'gcloud auth application-default login' renews a user's");
  const auto seconds = got.find("expires_in");
  expires_ = std::time(nullptr) + (seconds != got.end() && seconds->is_number() ? seconds->get<int64_t>() : 3600);
  return token_;
}

bool Gcs::renew(const std::string&, const HttpAnswer& answer) {
  const std::lock_guard lock(mutex_);
  return answer.status == 401 && std::exchange(expires_, 0) != 0;
}

void Gcs::refuse(const std::string& path, const HttpAnswer& answer) {
  const std::string who = !http_.settings().value("GS_ACCESS_KEY_ID").empty() ? "GS_ACCESS_KEY_ID" : source_.empty() ? "nobody" : source_;
  std::string hint = hint_of(answer, who, endpoint(path));
  if (!hint.empty()) net::refuse(path, answer, hint);
  if (answer.status == 401) {
    hint = "the token of " + who + " has ended, or is none: " +
           (source_ == "CLOUDSDK_AUTH_ACCESS_TOKEN" ? "'gcloud auth print-access-token' prints"
                                                    : "'gcloud auth application-default login' gives") +
           " a new one";
  } else if (answer.status == 403) {
    hint =
        "the credentials were those of " + who + "; reading takes storage.objects.get and storage.objects.list on " + place_of(path).bucket;
  } else if (answer.status == 404) {
    hint = "is the bucket's name right? it was looked up at " + endpoint(path);
  }
  net::refuse(path, answer, hint);
}

std::vector<std::string> Gcs::files(const std::string&) { return {file_of_credentials()}; }

std::vector<uint16_t> Gcs::ports() {
  std::vector<uint16_t> all;
  for (const std::string& address :
       {"http://" + metadata_host(), text_at(json::parse(contents_of(file_of_credentials()), nullptr, false), "token_uri")})
    if (const auto url = parse_url(address)) all.push_back(url->port);
  return all;
}

std::vector<std::pair<std::string, std::string>> Gcs::about(const std::string& path) {
  const bool is_open = headers_of(path, {.host = "x", .path = "/"}, "").empty();
  return {{"endpoint", endpoint(path)}, {"credentials", is_open ? "none" : source_.empty() ? "GS_ACCESS_KEY_ID" : source_}};
}

}  // namespace

std::unique_ptr<Origin> make_gcs(Http& http) { return std::make_unique<Gcs>(http); }

}  // namespace dcp::net
