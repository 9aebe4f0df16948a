// libdcpctl_net.so: the only file that includes curl and OpenSSL.
#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "modules/net.h"

namespace {

int refuse(DcpctlReason* why, const char* text, int code = kDcpctlNetWrong) {
  std::snprintf(why->text, sizeof why->text, "%s", text);
  return code;
}

// A transfer with connections of its own. curl_easy_perform would look at the stop flag once a second.
struct Line {
  CURLM* multi = curl_multi_init();
  CURL* easy = curl_easy_init();
  ~Line() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
};

// Those that are at rest, the last used first: it has a connection.
class Lines {
 public:
  std::unique_ptr<Line> take() {
    const std::lock_guard lock(mutex_);
    if (resting_.empty()) return std::make_unique<Line>();
    std::unique_ptr<Line> line = std::move(resting_.back());
    resting_.pop_back();
    return line;
  }
  void give_back(std::unique_ptr<Line> line) {
    curl_easy_reset(line->easy);
    const std::lock_guard lock(mutex_);
    resting_.push_back(std::move(line));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Line>> resting_;
};

Lines& lines() {
  static Lines& all = *new Lines;  // never destroyed: other threads may still be sending when the process ends
  return all;
}

struct Exchange {
  const DcpctlNetRequest& request;
  DcpctlNetAnswer& answer;
  size_t header_bytes = 0, error_bytes = 0;
};

size_t on_header(char* text, size_t, size_t bytes, void* exchange) {
  auto& e = *static_cast<Exchange*>(exchange);
  std::string_view line(text, bytes);
  if (line.starts_with("HTTP/")) {  // what came before was of an interim answer
    e.header_bytes = 0;
    const size_t space = std::min(line.find(' '), line.size());
    e.answer.status = static_cast<uint32_t>(std::strtoul(std::string(line.substr(space)).c_str(), nullptr, 10));
  }
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.find(':') == line.npos || e.header_bytes + line.size() + 2 > sizeof e.answer.headers) return bytes;
  std::copy(line.begin(), line.end(), e.answer.headers + e.header_bytes);
  e.header_bytes += line.size();
  e.answer.headers[e.header_bytes++] = '\n';
  e.answer.headers[e.header_bytes] = '\0';
  return bytes;
}

size_t on_body(char* data, size_t, size_t bytes, void* exchange) {
  auto& e = *static_cast<Exchange*>(exchange);
  if (e.answer.status / 100 != 2) {
    const size_t n = std::min(bytes, sizeof e.answer.error - 1 - e.error_bytes);
    std::memcpy(e.answer.error + e.error_bytes, data, n);
    e.error_bytes += n;
    e.answer.error[e.error_bytes] = '\0';
    return bytes;
  }
  const size_t n = std::min<uint64_t>(bytes, e.request.capacity - e.answer.bytes);
  if (n > 0) std::memcpy(static_cast<char*>(e.request.into) + e.answer.bytes, data, n);
  e.answer.bytes += n;
  e.answer.longer = n < bytes;
  return n;  // fewer than `bytes` ends the transfer
}

int code_of(CURL* easy, CURLcode result) {
  long error = 0;
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &error);
  if (result == CURLE_COULDNT_CONNECT && (error == EACCES || error == EPERM)) return kDcpctlNetKeptIn;
  switch (result) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_OUT_OF_MEMORY: return kDcpctlNetWrong;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return kDcpctlNetNoHost;
    default: return kDcpctlNetLost;
  }
}

// Runs the transfer of `line`, looking at the stop flag.
int transfer(Line& line, const DcpctlNetRequest& request, CURLcode& result) {
  curl_multi_add_handle(line.multi, line.easy);
  int running = 1, code = kDcpctlNetAnswered;
  for (;;) {
    if (curl_multi_perform(line.multi, &running) != CURLM_OK) code = kDcpctlNetLost;
    if (request.stopped && request.stopped(request.stopped_argument)) code = kDcpctlNetStopped;
    if (code != kDcpctlNetAnswered || running == 0) break;
    curl_multi_poll(line.multi, nullptr, 0, 200, nullptr);
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(line.multi, &left))
    if (message->msg == CURLMSG_DONE) result = message->data.result;
  curl_multi_remove_handle(line.multi, line.easy);
  return code;
}

void set_up(CURL* easy, Exchange& exchange, curl_slist* headers, char* error) {
  const DcpctlNetRequest& r = exchange.request;
  curl_easy_setopt(easy, CURLOPT_URL, r.url);
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);  // the path is what was signed
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  if (std::strcmp(r.method, "HEAD") == 0) curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  if (r.body) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(r.body_bytes));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r.body);
  }
  if (r.body || std::strcmp(r.method, "HEAD") != 0) curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r.method);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));  // a connection a request: more bytes a second
  if (r.ca_bundle) curl_easy_setopt(easy, CURLOPT_CAINFO, r.ca_bundle);
  if (r.direct) curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(r.connect_ms));
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(r.silence_ms / 1000)));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
}

int send(const DcpctlNetRequest* request, DcpctlNetAnswer* answer, DcpctlReason* why) {
  answer->status = answer->longer = 0;
  answer->bytes = 0;
  answer->headers[0] = answer->error[0] = '\0';
  curl_slist* headers = nullptr;
  for (uint64_t i = 0; i < request->header_count; ++i) headers = curl_slist_append(headers, request->headers[i]);
  std::unique_ptr<Line> line = lines().take();
  if (!line->easy || !line->multi) return refuse(why, "curl cannot be set up");
  Exchange exchange{.request = *request, .answer = *answer};
  char error[CURL_ERROR_SIZE] = "";
  set_up(line->easy, exchange, headers, error);
  CURLcode result = CURLE_OK;
  int code = transfer(*line, *request, result);
  if (code == kDcpctlNetAnswered && result != CURLE_OK && !answer->longer) code = code_of(line->easy, result);
  curl_slist_free_all(headers);
  lines().give_back(std::move(line));
  return code == kDcpctlNetAnswered ? code : refuse(why, *error ? error : curl_easy_strerror(result), code);
}

int sha256(const void* data, uint64_t bytes, unsigned char digest[32], DcpctlReason* why) {
  return EVP_Digest(data, bytes, digest, nullptr, EVP_sha256(), nullptr) == 1 ? 0 : refuse(why, "SHA-256 is not to be had");
}

int hmac_sha256(const void* key, uint64_t key_bytes, const void* data, uint64_t bytes, unsigned char digest[32], DcpctlReason* why) {
  const auto* begin = static_cast<const unsigned char*>(data);
  return HMAC(EVP_sha256(), key, static_cast<int>(key_bytes), begin, bytes, digest, nullptr) ? 0 : refuse(why, "HMAC is not to be had");
}

int sign_rs256(const char* pem, const void* data, uint64_t data_bytes, unsigned char* signature, uint64_t* bytes, DcpctlReason* why) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new_mem_buf(pem, -1), BIO_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr),
                                                                EVP_PKEY_free);
  if (!key) return refuse(why, "the private key cannot be read");
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  size_t size = *bytes;
  const bool ok = context && EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
                  EVP_DigestSign(context.get(), signature, &size, static_cast<const unsigned char*>(data), data_bytes) == 1;
  *bytes = size;
  return ok ? 0 : refuse(why, "the private key does not sign");
}

const char* built_with() {
  static char text[64];
  std::snprintf(text, sizeof text, "curl %s", curl_version_info(CURLVERSION_NOW)->version);
  return text;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const DcpctlModuleHeader* dcpctl_net() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  static const DcpctlNetTable table{.header = {.bytes = sizeof(DcpctlNetTable), .abi = kDcpctlNetAbi, .built_with = built_with()},
                                    .send = send,
                                    .sha256 = sha256,
                                    .hmac_sha256 = hmac_sha256,
                                    .sign_rs256 = sign_rs256};
  static const DcpctlModuleHeader unusable{};
  return ready ? &table.header : &unusable;
}
