// S3 and what speaks it, the XML API of Google Cloud Storage included: listings by pages, HEAD, ranged GET.
#pragma once

#include "net/origin.h"
#include "net/sigv4.h"

namespace dcp::net {

class BucketOrigin : public Origin {
 public:
  using Origin::Origin;
  Listing list(const std::string& folder, const FirstPage& first) override;
  std::optional<ObjectFacts> look(const std::string& path) override;
  HttpRequest get(const std::string& path, const ObjectFacts& facts, uint64_t first, uint64_t last) override;

 protected:
  struct Place {
    std::string bucket, key;
  };
  // Throws net_address.
  static Place place_of(const std::string& path);
  // Where a bucket is asked: `base` with the bucket in its host, or else first in the path.
  struct Address {
    std::string base;
    bool in_host = false;
  };
  virtual Address address_of(const std::string& path, const std::string& bucket) = 0;
  // The headers of a request, which may be signed or carry a token.
  virtual std::vector<std::string> headers_of(const std::string& path, const ToSign& request, const std::string& bucket) = 0;

  // What the store's own code says to do; "": nothing.
  static std::string hint_of(const HttpAnswer& answer, const std::string& who, const std::string& store);
  HttpRequest request(const std::string& path, std::string method, const Query& query, bool of_bucket);
};

std::unique_ptr<Origin> make_s3(Http& http);
std::unique_ptr<Origin> make_gcs(Http& http);

}  // namespace dcp::net
