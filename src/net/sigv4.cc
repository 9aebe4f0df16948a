#include "net/sigv4.h"

#include <algorithm>

namespace dcp::net {

std::vector<std::string> signed_headers(Http& http, const ToSign& request, const AwsKeys& keys, int64_t now) {
  const std::string time = utc(now, "%Y%m%dT%H%M%SZ"), day = time.substr(0, 8);
  const std::string body_sum = hex_of(http.sha256(request.body));
  std::vector<std::pair<std::string, std::string>> headers = request.headers;
  headers.insert(headers.end(), {{"host", request.host}, {"x-amz-date", time}});
  if (request.service == "s3") headers.emplace_back("x-amz-content-sha256", body_sum);
  if (!keys.token.empty()) headers.emplace_back("x-amz-security-token", keys.token);
  std::ranges::sort(headers);
  std::string lines, names;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical =
      request.method + "\n" + request.path + "\n" + query_text(request.query) + "\n" + lines + "\n" + names + "\n" + body_sum;
  const std::string scope = day + "/" + request.region + "/" + request.service + "/aws4_request";
  const std::string text = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + hex_of(http.sha256(canonical));
  std::string key = "AWS4" + keys.secret;
  for (const std::string& part : {day, request.region, request.service, std::string("aws4_request")}) key = http.hmac_sha256(key, part);
  std::vector<std::string> all;
  for (const auto& [name, value] : headers)
    if (name != "host") all.push_back(name + ": " + value);
  all.push_back("authorization: AWS4-HMAC-SHA256 Credential=" + keys.id + "/" + scope + ", SignedHeaders=" + names +
                ", Signature=" + hex_of(http.hmac_sha256(key, text)));
  return all;
}

}  // namespace dcp::net
