#include "net/bucket_origin.h"

#include <algorithm>

#include "base/file_names.h"
#include "base/text.h"

namespace dcp::net {

BucketOrigin::Place BucketOrigin::place_of(const std::string& path) {
  const std::string rest = path.substr(root_bytes(path));
  const size_t slash = std::min(rest.find('/'), rest.size());
  Place place{.bucket = rest.substr(0, slash), .key = slash < rest.size() ? rest.substr(slash + 1) : ""};
  const bool is_name =
      !place.bucket.empty() &&
      place.bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == place.bucket.npos;
  if (!is_name)
    fail(ProblemId::net_address, {.path = path}, place.bucket.empty() ? "no bucket" : place.bucket,
         std::string(scheme_of(path)) + "://BUCKET/KEY");
  return place;
}

HttpRequest BucketOrigin::request(const std::string& path, std::string method, const Query& query, bool of_bucket) {
  const Place place = place_of(path);
  const Address address = address_of(path, place.bucket);
  std::optional<Url> url = parse_url(address.base);
  if (!url) fail(ProblemId::net_address, {.path = path}, address.base, "http:// or https:// and a host");
  if (address.in_host) url->host = place.bucket + "." + url->host;
  std::string resource = url->path;
  if (!address.in_host) resource += "/" + percent_encoded(place.bucket, Slashes::kEncoded);
  if (!of_bucket) resource += "/" + percent_encoded(place.key, Slashes::kKept);
  else if (address.in_host) resource += "/";
  const ToSign to_sign{.method = method, .host = url->authority(), .path = resource, .query = query};
  const std::string text = query_text(query);
  return {.method = std::move(method),
          .url = url->scheme + "://" + url->authority() + resource + (text.empty() ? "" : "?" + text),
          .headers = headers_of(path, to_sign, place.bucket)};
}

std::string BucketOrigin::hint_of(const HttpAnswer& answer, const std::string& who, const std::string& store) {
  const std::string code = code_of(answer), reason = lower(reason_of(answer)), to = answer.header("location");
  if (code == "InvalidAccessKeyId") return store + " does not know the key, which was that of " + who;
  if (code == "SignatureDoesNotMatch") return "the secret of " + who + " is wrong, or a proxy changes what is sent";
  if (code == "InvalidObjectState") return "it lies in an archive, from which its owner has to restore it first";
  if (reason.find("kms") != reason.npos)
    return "it has a key of KMS, for which reading takes kms:Decrypt: the credentials were those of " + who;
  if (answer.status / 100 == 3 && code.empty() && !to.empty())
    return "it leads to " + parse_url(to).value_or(Url{}).authority() + ", which gets no credentials: is " + store + " the store?";
  return {};
}

HttpRequest BucketOrigin::get(const std::string& path, const ObjectFacts& facts, uint64_t first, uint64_t last) {
  HttpRequest asked = request(path, "GET", {}, false);
  for (std::string& h : range_headers(facts, first, last)) asked.headers.push_back(std::move(h));
  return asked;
}

std::optional<ObjectFacts> BucketOrigin::look(const std::string& path) {
  if (place_of(path).key.empty()) return std::nullopt;
  for (bool has_renewed = false;; has_renewed = true) {
    const HttpAnswer answer = http_.send(path, [&](uint64_t) { return request(path, "HEAD", {}, false); }, {}, nullptr);
    if (answer.ok()) return facts_of(answer);
    if (answer.status == 404) return std::nullopt;
    if (has_renewed || !renew(path, answer)) refuse(path, answer);
  }
}

namespace {

// Adds a page of a listing; the token of the next one, or "".
std::string add_page(std::string_view page, const std::string& prefix, Listing& listing) {
  const bool is_encoded = element(page, "EncodingType") == "url";
  const auto name_in = [&](std::string_view inner, std::string_view tag) {
    std::string key = element(inner, tag);
    if (is_encoded) {
      std::ranges::replace(key, '+', ' ');
      key = percent_decoded(key);
    }
    return key.starts_with(prefix) ? key.substr(prefix.size()) : std::string();
  };
  for (const std::string_view inner : elements(page, "Contents")) {
    const std::string name = name_in(inner, "Key");
    if (name.empty() || name.find('/') != name.npos) continue;  // a mark for the folder itself
    listing.objects[name] = {.bytes = decimal<uint64_t>(element(inner, "Size")).value_or(0),
                             .modified_ns = nanoseconds_of(element(inner, "LastModified")),
                             .version = without_quotes(element(inner, "ETag"))};
  }
  for (const std::string_view inner : elements(page, "CommonPrefixes")) {
    std::string name = name_in(inner, "Prefix");
    if (name.ends_with('/')) name.pop_back();
    if (!name.empty()) listing.folders.insert(std::move(name));
  }
  return element(page, "IsTruncated") == "true" ? element(page, "NextContinuationToken") : std::string();
}

}  // namespace

Listing BucketOrigin::list(const std::string& folder, const FirstPage& first) {
  const Place place = place_of(folder);
  const std::string prefix = place.key.empty() ? "" : place.key + "/";
  Listing listing;
  std::string token, page;
  do {
    Query query{{"list-type", "2"}, {"delimiter", "/"}, {"encoding-type", "url"}, {"prefix", prefix}};
    if (!token.empty()) query.emplace_back("continuation-token", token);
    HttpAnswer answer = http_.ask(folder, request(folder, "GET", query, true), page);
    if (!answer.ok() && renew(folder, answer)) answer = http_.ask(folder, request(folder, "GET", query, true), page);
    if (!answer.ok()) refuse(folder, answer);
    if (page.find("<ListBucketResult") == page.npos) refuse_strange(folder, answer, "an answer that is no listing", "S3's");
    const std::string before = std::exchange(token, add_page(page, prefix, listing));
    if (before.empty() && !token.empty()) first(listing);
    if (!token.empty() && token == before) fail(ProblemId::net_refused, {.path = folder}, "the same page of a listing twice");
  } while (!token.empty());
  return listing;
}

}  // namespace dcp::net
