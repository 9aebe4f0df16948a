#include "net/aws_credentials.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "net/answers.h"

namespace dcp::net {
namespace {

using nlohmann::json;

constexpr int64_t kRenewBefore = 300, kTryEvery = 60;  // seconds

int64_t now() { return std::time(nullptr); }

std::string value_of(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? std::string() : found->second;
}

}  // namespace

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<AwsCredentials> credentials_of(std::string_view text, std::string source) {
  const json answer = json::parse(text, nullptr, false);
  const std::string token = text_at(answer, "Token");
  AwsCredentials found{.keys = {.id = text_at(answer, "AccessKeyId"),
                                .secret = text_at(answer, "SecretAccessKey"),
                                .token = token.empty() ? text_at(answer, "SessionToken") : token},
                       .expires = time_of(text_at(answer, "Expiration")),
                       .source = std::move(source)};
  return found.keys.id.empty() || found.keys.secret.empty() ? std::nullopt : std::optional(std::move(found));
}

void AwsChain::wrong(std::string got, std::string hint) const {
  Problem p = make_problem(ProblemId::net_credentials, {.path = path_}, std::move(got));
  p.what = "the credentials cannot be had";
  p.hint = std::move(hint);
  throw Error(std::move(p));
}

void AwsChain::read_files() {
  if (std::exchange(has_read_, true)) return;
  const Settings& s = http_.settings();
  const auto either = [&](const char* name, const std::string& other) {
    std::string value = s.value(name);
    if (value.starts_with("~/")) value = s.value("HOME") + value.substr(1);
    return value.empty() ? other : value;
  };
  config_path_ = either("AWS_CONFIG_FILE", s.value("HOME") + "/.aws/config");
  keys_path_ = either("AWS_SHARED_CREDENTIALS_FILE", s.value("HOME") + "/.aws/credentials");
  config_ = sections_of(contents_of(config_path_));
  keys_file_ = sections_of(contents_of(keys_path_));
  for (const auto& [name, values] : config_) {
    if (name == "default") profiles_[name].insert(values.begin(), values.end());
    if (name.starts_with("profile ")) profiles_[trimmed(name.substr(8))] = values;
  }
  for (const auto& [name, values] : keys_file_)
    for (const auto& [key, value] : values) profiles_[name][key] = value;
  name_ = either("AWS_PROFILE", either("AWS_DEFAULT_PROFILE", "default"));
}

std::vector<std::string> AwsChain::files() const {
  const Settings& s = http_.settings();
  std::vector<std::string> all{s.value("HOME") + "/.aws"};
  for (const char* name :
       {"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"})
    if (const std::string path = s.value(name); !path.empty()) all.push_back(path);
  return all;
}

const AwsChain::Profile& AwsChain::profile(const std::string& name) {
  read_files();
  static const Profile kNone;
  const auto found = profiles_.find(name);
  if (found != profiles_.end()) return found->second;
  if (name != "default" || !http_.settings().value("AWS_PROFILE").empty())
    wrong("no profile " + name, "profiles are looked up in " + config_path_ + " and " + keys_path_);
  return kNone;
}

std::string AwsChain::setting(const std::string& key) {
  const std::lock_guard lock(mutex_);
  read_files();
  return value_of(profile(name_), key);
}

std::string AwsChain::region() {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (std::string region = http_.settings().value(name); !region.empty()) return region;
  return setting("region");
}

std::string AwsChain::endpoint(const std::string& service) {
  const Settings& s = http_.settings();
  if (lower(s.value("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) == "true") return {};
  std::string found = s.value("AWS_ENDPOINT_URL_" + service);
  if (found.empty()) found = s.value("AWS_ENDPOINT_URL");
  const std::string services = found.empty() ? setting("services") : "";
  if (!services.empty()) found = value_of(config_["services " + services], lower(service) + ".endpoint_url");
  if (found.empty()) found = setting("endpoint_url");
  while (found.ends_with('/')) found.pop_back();
  return found;
}

std::optional<AwsCredentials> AwsChain::credentials(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string no_sign = lower(http_.settings().value("AWS_NO_SIGN_REQUEST"));
  if (no_sign == "yes" || no_sign == "true" || no_sign == "1") return std::nullopt;
  path_ = path;
  const int64_t time = now(), left = held_ && held_->expires ? *held_->expires - time : kRenewBefore;
  if (held_ && (left >= kRenewBefore || (left > 0 && time < next_try_))) return held_;
  next_try_ = time + kTryEvery;
  Found found;
  try {
    found = chain();
  } catch (const Error&) {
    if (!held_ || left <= 0) throw;
    return held_;  // they are good for a while
  }
  if (!found) {
    Problem p = make_problem(ProblemId::net_credentials, {.path = path});
    p.hint = "AWS_PROFILE, 'aws configure' or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY give some; AWS_NO_SIGN_REQUEST=YES reads a "
             "public bucket without";
    throw Error(std::move(p));
  }
  if (found->expires && *found->expires <= time)
    wrong("those of " + found->source + " ended " + utc(*found->expires, "%F %T") + " UTC", "sign in again, or renew them");
  held_ = std::move(found);
  return held_;
}

void AwsChain::renew() {
  const std::lock_guard lock(mutex_);
  held_.reset();
}

void AwsChain::prepare(const std::string& path) {
  const std::lock_guard lock(mutex_);
  read_files();
  const Settings& s = http_.settings();
  if (held_ || !s.value("AWS_ACCESS_KEY_ID").empty() || !s.value("AWS_NO_SIGN_REQUEST").empty() || !profiles_.contains(name_)) return;
  for (std::string name = name_; !name.empty();) {  // the role's source may be what runs a program
    const Profile& p = profile(name);
    if (p.contains("credential_process") && !value_of(keys_file_[name], "aws_access_key_id").empty()) return;
    if (p.contains("credential_process")) {
      credentials(path);
      return;
    }
    const std::string next = value_of(p, "source_profile");
    name = next == name || !profiles_.contains(next) ? "" : next;
  }
}

AwsChain::Found AwsChain::chain() {
  read_files();
  const Profile& p = profile(name_);
  if (Found found = from_environment()) return found;
  if (p.contains("role_arn") && !p.contains("web_identity_token_file")) return from_role(name_, {});
  if (Found found = from_profile(name_, true)) return found;
  if (Found found = from_container()) return found;
  return from_instance();
}

AwsChain::Found AwsChain::from_environment() {
  const Settings& s = http_.settings();
  AwsCredentials found{
      .keys = {.id = s.value("AWS_ACCESS_KEY_ID"), .secret = s.value("AWS_SECRET_ACCESS_KEY"), .token = s.value("AWS_SECURITY_TOKEN")},
      .source = "AWS_ACCESS_KEY_ID of the environment"};
  if (found.keys.id.empty()) return std::nullopt;
  if (found.keys.secret.empty()) wrong("AWS_ACCESS_KEY_ID without AWS_SECRET_ACCESS_KEY");
  if (found.keys.token.empty()) found.keys.token = s.value("AWS_SESSION_TOKEN");
  return found;
}

AwsChain::Found AwsChain::from_profile(const std::string& name, bool with_environment) {
  if (Found found = from_web_identity(name, with_environment)) return found;
  if (Found found = from_sso(name)) return found;
  if (Found found = of_keys(keys_file_[name], "profile " + name + " of " + keys_path_)) return found;
  if (Found found = from_process(name)) return found;
  return of_keys(config_[name == "default" ? name : "profile " + name], "profile " + name + " of " + config_path_);
}

AwsChain::Found AwsChain::of_keys(const Profile& p, const std::string& where) {
  AwsCredentials found{.keys = {.id = value_of(p, "aws_access_key_id"),
                                .secret = value_of(p, "aws_secret_access_key"),
                                .token = value_of(p, "aws_security_token")},
                       .source = where};
  if (!p.contains("aws_access_key_id")) return std::nullopt;
  if (found.keys.secret.empty()) wrong("aws_access_key_id without aws_secret_access_key in " + where);
  if (found.keys.token.empty()) found.keys.token = value_of(p, "aws_session_token");
  return found;
}

AwsCredentials AwsChain::ask_sts(Query query, const AwsKeys* keys, std::string source) {
  query.insert(query.end(), {{"Version", "2011-06-15"}});
  std::string endpoint = this->endpoint("STS");
  const std::string region = this->region().empty() ? "us-east-1" : this->region();
  if (endpoint.empty()) endpoint = "https://sts." + region + ".amazonaws.com";
  const auto url = parse_url(endpoint);
  if (!url) wrong(endpoint + " as the endpoint of STS");
  HttpRequest request{
      .method = "POST", .url = endpoint + "/", .headers = {"content-type: application/x-www-form-urlencoded"}, .body = query_text(query)};
  if (keys) {
    const ToSign to_sign{.method = "POST",
                         .host = url->authority(),
                         .path = "/",
                         .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                         .body = request.body,
                         .region = region,
                         .service = "sts"};
    request.headers = signed_headers(http_, to_sign, *keys, now());
  }
  const std::string answer = get(request, source);
  AwsCredentials found{.keys = {.id = element(answer, "AccessKeyId"),
                                .secret = element(answer, "SecretAccessKey"),
                                .token = element(answer, "SessionToken")},
                       .expires = time_of(element(answer, "Expiration")),
                       .source = std::move(source)};
  if (found.keys.secret.empty()) wrong("an answer of STS without credentials, for " + found.source);
  return found;
}

AwsChain::Found AwsChain::from_role(const std::string& name, std::vector<std::string> visited) {
  const Profile& p = profile(name);
  const std::string source_profile = value_of(p, "source_profile"), credential_source = value_of(p, "credential_source");
  const std::string where = "profile " + name;
  if (source_profile.empty() == credential_source.empty())
    wrong(where + " with a role_arn, and not one of source_profile and credential_source");
  if (p.contains("mfa_serial"))
    wrong(where + " with mfa_serial", "'aws configure export-credentials' as credential_process of a profile asks for the code");
  Found source;
  if (!credential_source.empty()) {
    if (credential_source == "Environment") source = from_environment();
    else if (credential_source == "EcsContainer") source = from_container();
    else if (credential_source == "Ec2InstanceMetadata") source = from_instance();
    else wrong(credential_source + " as credential_source of " + where, "Environment, EcsContainer and Ec2InstanceMetadata are known");
  } else {
    const Profile& q = profile(source_profile);
    const bool has_keys = q.contains("aws_access_key_id") || q.contains("aws_secret_access_key");
    visited.push_back(name);
    if (std::ranges::find(visited, source_profile) != visited.end() && !(source_profile == name && has_keys))
      wrong(where + " in a circle of source_profile");
    const bool is_role = q.contains("role_arn") && !q.contains("web_identity_token_file") && !has_keys;
    source = is_role ? from_role(source_profile, visited) : from_profile(source_profile, false);
  }
  if (!source) wrong("no credentials from the source of " + where);
  const auto session = p.contains("role_session_name") ? value_of(p, "role_session_name") : "dcpctl-" + std::to_string(now());
  Query query{{"Action", "AssumeRole"}, {"RoleArn", value_of(p, "role_arn")}, {"RoleSessionName", session}};
  if (p.contains("external_id")) query.emplace_back("ExternalId", value_of(p, "external_id"));
  if (is_number(value_of(p, "duration_seconds"))) query.emplace_back("DurationSeconds", value_of(p, "duration_seconds"));
  return ask_sts(std::move(query), &source->keys, "the role of " + where + ", assumed with " + source->source);
}

AwsChain::Found AwsChain::from_web_identity(const std::string& name, bool with_environment) {
  const auto either = [&](const char* variable, const char* key) {
    const std::string value = with_environment ? http_.settings().value(variable) : "";
    return value.empty() ? value_of(profile(name), key) : value;
  };
  const std::string file = either("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file"), role = either("AWS_ROLE_ARN", "role_arn");
  if (file.empty()) return std::nullopt;
  if (role.empty()) wrong("a web identity token without the role (AWS_ROLE_ARN, role_arn)");
  const std::string token = trimmed(contents_of(file));
  if (token.empty()) wrong("no web identity token in " + file);
  std::string session = either("AWS_ROLE_SESSION_NAME", "role_session_name");
  if (session.empty()) session = "dcpctl-" + std::to_string(now());
  return ask_sts({{"Action", "AssumeRoleWithWebIdentity"}, {"RoleArn", role}, {"RoleSessionName", session}, {"WebIdentityToken", token}},
                 nullptr, "the web identity token in " + file);
}

// Of those that 'aws sso login' has left, the one for the portal that ends last. Their files are named by hashes of what their texts say.
std::string AwsChain::sso_token(const std::string& start_url, const std::string& name) {
  std::string token, ends;
  std::error_code ignored;
  for (const auto& e : std::filesystem::directory_iterator(http_.settings().value("HOME") + "/.aws/sso/cache", ignored)) {
    const json cached = json::parse(contents_of(e.path()), nullptr, false);
    if (text_at(cached, "startUrl") != start_url || text_at(cached, "accessToken").empty() || text_at(cached, "expiresAt") < ends) continue;
    token = text_at(cached, "accessToken");
    ends = text_at(cached, "expiresAt");
  }
  if (token.empty() || time_of(ends).value_or(0) <= now())
    wrong(token.empty() ? "nobody is signed in for profile " + name : "the sign-in of profile " + name + " ended " + ends,
          "run 'aws sso login', with its profile");
  return token;
}

AwsChain::Found AwsChain::from_sso(const std::string& name) {
  Profile p = profile(name);
  if (!p.contains("sso_role_name") && !p.contains("sso_account_id")) return std::nullopt;
  if (const std::string session = value_of(p, "sso_session"); !session.empty()) {
    const auto found = config_.find("sso-session " + session);
    if (found == config_.end()) wrong("no sso-session " + session + " in " + config_path_);
    p.insert(found->second.begin(), found->second.end());
  }
  for (const char* key : {"sso_role_name", "sso_account_id", "sso_start_url", "sso_region"})
    if (!p.contains(key)) wrong("no " + std::string(key) + " in profile " + name);
  std::string endpoint = this->endpoint("SSO");
  if (endpoint.empty()) endpoint = "https://portal.sso." + p["sso_region"] + ".amazonaws.com";
  const std::string source = "the sign-in of profile " + name;
  const HttpRequest request{
      .url = endpoint + "/federation/credentials?" + query_text({{"role_name", p["sso_role_name"]}, {"account_id", p["sso_account_id"]}}),
      .headers = {"x-amz-sso_bearer_token: " + sso_token(p["sso_start_url"], name)}};
  const json answer = json::parse(get(request, source), nullptr, false);
  const json keys = answer.is_object() && answer.contains("roleCredentials") ? answer["roleCredentials"] : json();
  AwsCredentials found{
      .keys = {.id = text_at(keys, "accessKeyId"), .secret = text_at(keys, "secretAccessKey"), .token = text_at(keys, "sessionToken")},
      .source = source};
  if (found.keys.secret.empty()) wrong("an answer without credentials, for " + source);
  if (const auto ends = keys.find("expiration"); ends != keys.end() && ends->is_number()) found.expires = ends->get<int64_t>() / 1000;
  return found;
}

AwsChain::Found AwsChain::from_process(const std::string& name) {
  const std::string command = value_of(profile(name), "credential_process");
  if (command.empty()) return std::nullopt;
  const std::string source = "credential_process of profile " + name;
  std::string why;
  const auto printed = output_of(shell_words(command), why);
  Found found = printed ? credentials_of(*printed, source) : std::nullopt;
  if (!found)
    wrong(source + ": " + (printed ? "what it prints has no credentials" : why),
          "try its command by hand; a confined process can start no program, so that its credentials cannot be renewed during a run");
  return found;
}

AwsChain::Found AwsChain::from_container() {
  const Settings& s = http_.settings();
  const std::string relative = s.value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), full = s.value("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative.empty() && full.empty()) return std::nullopt;
  HttpRequest request{.url = relative.empty() ? full : "http://169.254.170.2" + relative, .local = true};
  const auto url = parse_url(request.url);
  const bool is_near = url && (url->scheme == "https" || is_this_machine(url->host) || url->host == "169.254.170.2" ||
                               url->host == "169.254.170.23" || url->host == "[fd00:ec2::23]");
  if (!is_near) wrong("AWS_CONTAINER_CREDENTIALS_FULL_URI of another machine", "it is https://, or this machine");
  std::string token = s.value("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string file = s.value("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) token = trimmed(contents_of(file));
  if (!token.empty()) request.headers.push_back("authorization: " + token);
  const std::string source = "the container's credentials";
  Found found = credentials_of(get(request, source), source);
  if (!found) wrong("an answer without credentials, for " + source);
  return found;
}

AwsChain::Found AwsChain::from_instance() {
  const Settings& s = http_.settings();
  if (lower(s.value("AWS_EC2_METADATA_DISABLED")) == "true") return std::nullopt;
  std::string endpoint = s.value("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty()) endpoint = "http://169.254.169.254";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  std::string token, role, keys;
  try {
    const HttpRequest hello{
        .method = "PUT", .url = endpoint + "/latest/api/token", .headers = {"x-aws-ec2-metadata-token-ttl-seconds: 21600"}, .local = true};
    if (!http_.ask(path_, hello, token).ok()) return std::nullopt;
    HttpRequest request{
        .url = endpoint + "/latest/meta-data/iam/security-credentials/", .headers = {"x-aws-ec2-metadata-token: " + token}, .local = true};
    if (!http_.ask(path_, request, role).ok()) return std::nullopt;
    request.url += trimmed(role.substr(0, role.find('\n')));
    if (!http_.ask(path_, request, keys).ok()) return std::nullopt;
  } catch (const Error& error) {  // not a machine of AWS
    if (error.problem().id == ProblemId::net_failed) return std::nullopt;
    throw;
  }
  return credentials_of(keys, "the instance's role " + trimmed(role.substr(0, role.find('\n'))));
}

std::string AwsChain::get(const HttpRequest& request, const std::string& source) {
  std::string body;
  const HttpAnswer answer = http_.ask(path_, request, body);
  if (!answer.ok()) wrong(source + ": " + reason_of(answer));
  return body;
}

}  // namespace dcp::net
