// The C table between dcpctl and libdcpctl_net.so: requests over HTTP, and the sums and signatures that stores ask for.
//
// Rules as in table.h. Every function may be called from any thread.
#pragma once

#include "modules/table.h"

extern "C" {

enum { kDcpctlNetAbi = 2 };

// What send() returns.
enum {
  kDcpctlNetAnswered = 0,
  kDcpctlNetStopped = 1,
  kDcpctlNetLost = 2,    // no answer, or a part of one: another try may get it
  kDcpctlNetWrong = 3,   // another try would fail as well: certificates, addresses
  kDcpctlNetNoHost = 4,  // its name is not known
  kDcpctlNetKeptIn = 5,  // this process may not connect to it
};

struct DcpctlNetRequest {
  const char* method;
  const char* url;
  const char* const* headers;  // "Name: value"
  uint64_t header_count;
  const void* body;
  uint64_t body_bytes;
  const char* ca_bundle;            // a file of certificates; null: the library's own
  uint32_t direct;                  // through no proxy
  uint32_t connect_ms, silence_ms;  // until there is a connection; without a byte
  int (*stopped)(void*);            // asked at least four times a second
  void* stopped_argument;
  void* into;  // for the body of a 2xx answer
  uint64_t capacity;
};

struct DcpctlNetAnswer {
  uint32_t status;
  uint32_t longer;         // the body had more bytes than `into` takes: the others were not received
  uint64_t bytes;          // in `into`
  char headers[16 << 10];  // lines "Name: value\n" of the last answer
  char error[4 << 10];     // the beginning of the body of any other answer
};

struct DcpctlNetTable {
  DcpctlModuleHeader header;

  // Redirects are answers. Connections are kept.
  int (*send)(const DcpctlNetRequest* request, DcpctlNetAnswer* answer, DcpctlReason* why);
  int (*sha256)(const void* data, uint64_t bytes, unsigned char digest[32], DcpctlReason* why);
  int (*hmac_sha256)(const void* key, uint64_t key_bytes, const void* data, uint64_t bytes, unsigned char digest[32], DcpctlReason* why);
  // RSASSA-PKCS1-v1_5 with SHA-256. `bytes`: of `signature`, then how many are used.
  int (*sign_rs256)(const char* pem, const void* data, uint64_t data_bytes, unsigned char* signature, uint64_t* bytes, DcpctlReason* why);
};

}  // extern "C"
