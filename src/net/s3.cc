// s3://BUCKET/KEY, of AWS and of whatever AWS_ENDPOINT_URL names.
#include <ctime>

#include "net/aws_credentials.h"
#include "net/bucket_origin.h"

namespace dcp::net {
namespace {

class S3 final : public BucketOrigin {
 public:
  explicit S3(Http& http) : BucketOrigin(http), chain_(http) {}
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
  std::string region_of(const std::string& path, const std::string& bucket);

  AwsChain chain_;
  std::mutex mutex_;
  std::map<std::string, std::string> regions_;  // found out, by bucket
};

// The region of a bucket as its store says, in an answer to somebody who took it for another's.
std::string region_in(const HttpAnswer& answer) {
  const std::string code = code_of(answer), region = element(answer.error, "Region");
  const bool is_elsewhere = answer.status / 100 == 3 || code == "AuthorizationHeaderMalformed" || (answer.status == 400 && code.empty());
  return !is_elsewhere ? "" : region.empty() ? answer.header("x-amz-bucket-region") : region;
}

// The region that is set, or else the one that AWS names for a bucket, to anybody.
std::string S3::region_of(const std::string& path, const std::string& bucket) {
  const std::lock_guard lock(mutex_);
  std::string& region = regions_[bucket];
  if (region.empty()) region = chain_.region();
  if (region.empty() && !chain_.endpoint("S3").empty()) region = "us-east-1";
  if (region.empty()) {
    const HttpRequest head{.method = "HEAD", .url = "https://s3.us-east-1.amazonaws.com/" + bucket};
    const HttpAnswer answer = http_.send(path, [&](uint64_t) { return head; }, {}, nullptr);
    region = answer.header("x-amz-bucket-region");
    if (region.empty() && answer.status == 404) {
      Problem p = make_problem(ProblemId::net_refused, {.path = path}, "404 NoSuchBucket");
      p.hint = "AWS has no bucket of this name; AWS_ENDPOINT_URL names another store";
      throw Error(std::move(p));
    }
    if (region.empty()) region = "us-east-1";
  }
  return region;
}

BucketOrigin::Address S3::address_of(const std::string& path, const std::string& bucket) {
  const std::string endpoint = chain_.endpoint("S3"), style = chain_.setting("s3.addressing_style");
  // A certificate's *.s3.amazonaws.com has no place for a dot; names from before 2018 may have capitals and underscores.
  const bool is_host_name = bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == bucket.npos;
  if (!endpoint.empty()) return {.base = endpoint, .in_host = style == "virtual"};
  const std::string region = region_of(path, bucket);
  return {.base = "https://s3." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : ""),
          .in_host = is_host_name && style != "path"};
}

std::vector<std::string> S3::headers_of(const std::string& path, const ToSign& request, const std::string& bucket) {
  const std::optional<AwsCredentials> credentials = chain_.credentials(path);
  ToSign whole = request;
  if (const std::string payer = http_.settings().value("AWS_REQUEST_PAYER"); !payer.empty())
    whole.headers.emplace_back("x-amz-request-payer", payer);
  if (!credentials) return {};
  whole.region = region_of(path, bucket);
  return signed_headers(http_, whole, credentials->keys, std::time(nullptr));
}

bool S3::renew(const std::string& path, const HttpAnswer& answer) {
  const std::string code = code_of(answer);
  if (const std::string region = region_in(answer); !region.empty()) {
    const std::lock_guard lock(mutex_);
    regions_[place_of(path).bucket] = region;
    return true;
  }
  if (code != "ExpiredToken" && code != "TokenRefreshRequired" && code != "ExpiredTokenException") return false;
  chain_.renew();
  return true;
}

void S3::refuse(const std::string& path, const HttpAnswer& answer) {
  const std::string code = code_of(answer), bucket = place_of(path).bucket;
  std::string who = "nobody: AWS_NO_SIGN_REQUEST is set";
  if (const auto credentials = chain_.credentials(path)) who = credentials->source;
  std::string hint = hint_of(answer, who, address_of(path, bucket).base);
  const bool may_cost = element(answer.error, "Message") == "Access Denied" && http_.settings().value("AWS_REQUEST_PAYER").empty();
  if (!hint.empty()) net::refuse(path, answer, hint);
  if (const std::string region = region_in(answer); !region.empty()) hint = "the bucket is in " + region + ": set AWS_REGION=" + region;
  else if (code == "RequestTimeTooSkewed")
    hint = "the clock of this machine is wrong: it says " + utc(std::time(nullptr), "%F %T") + " UTC";
  else if (code == "NoSuchBucket")
    hint = "buckets were looked up at " + address_of(path, bucket).base + "; AWS_ENDPOINT_URL names another store";
  else if (code.starts_with("Expired")) hint = "sign in again, or renew what you have: the credentials were those of " + who;
  else if (answer.status == 401 || answer.status == 403)
    hint = "the credentials were those of " + who + "; reading takes s3:GetObject and s3:ListBucket on " + bucket +
           (may_cost ? ", and AWS_REQUEST_PAYER=requester where readers pay" : "");
  else if (answer.status >= 500 || answer.status == 429) hint = "the store has too much to do, or is ill: try again later";
  net::refuse(path, answer, hint);
}

std::string S3::endpoint(const std::string&) { return chain_.endpoint("S3"); }

std::vector<std::string> S3::files(const std::string& path) {
  chain_.prepare(path);
  return chain_.files();
}

// Of what gives credentials: the instance's metadata, the container's service, STS.
std::vector<uint16_t> S3::ports() {
  std::vector<uint16_t> all{80};
  for (const std::string& address :
       {http_.settings().value("AWS_CONTAINER_CREDENTIALS_FULL_URI"), http_.settings().value("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        chain_.endpoint("STS"), chain_.endpoint("SSO")})
    if (const auto url = parse_url(address)) all.push_back(url->port);
  return all;
}

std::vector<std::pair<std::string, std::string>> S3::about(const std::string& path) {
  const std::string bucket = place_of(path).bucket;
  const auto credentials = chain_.credentials(path);
  const std::string ends = credentials && credentials->expires ? ", until " + utc(*credentials->expires, "%F %T") + " UTC" : "";
  return {{"endpoint", address_of(path, bucket).base},
          {"region", region_of(path, bucket)},
          {"credentials", credentials ? credentials->source + ends : "none: requests are not signed"}};
}

}  // namespace

std::unique_ptr<Origin> make_s3(Http& http) { return std::make_unique<S3>(http); }

}  // namespace dcp::net
