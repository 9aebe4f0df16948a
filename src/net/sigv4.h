// Signature Version 4 of AWS, as S3 and its like check it. Ours: curl's own is refused for keys and queries with special characters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/answers.h"
#include "net/http.h"

namespace dcp::net {

struct AwsKeys {
  std::string id, secret, token;  // an empty token: none
};

struct ToSign {
  std::string method = "GET";
  std::string host;  // as the request's Host header has it
  std::string path;  // percent-encoded
  Query query{};
  std::vector<std::pair<std::string, std::string>> headers{};  // that are signed beside host, date and token: names in lower case
  std::string body{};
  std::string region{}, service = "s3";
};

// The headers of the request: those of `request`, the date, the sum of the body, the token and the signature.
std::vector<std::string> signed_headers(Http& http, const ToSign& request, const AwsKeys& keys, int64_t now);

}  // namespace dcp::net
