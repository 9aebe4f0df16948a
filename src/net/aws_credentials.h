// Which credentials of AWS a process has: the chain of botocore, in its order. Values never get into a message; where they come from does.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/http.h"
#include "net/sigv4.h"

namespace dcp::net {

struct AwsCredentials {
  AwsKeys keys;
  std::optional<int64_t> expires{};  // seconds since the epoch
  std::string source;                // "AWS_ACCESS_KEY_ID of the environment": for messages
};

class AwsChain {
 public:
  explicit AwsChain(Http& http) : http_(http) {}

  // Renewed five minutes before they end. nullopt: requests are not signed (AWS_NO_SIGN_REQUEST). Throws net_credentials.
  std::optional<AwsCredentials> credentials(const std::string& path);
  void renew();  // at the next call: the store says that they have expired
  // Runs the program of credential_process, if it is what the chain leads to: a confined process can start none.
  void prepare(const std::string& path);
  // "profile x" with what it says, "" where it says nothing.
  std::string setting(const std::string& key);
  std::string region();                              // of the environment or the profile
  std::string endpoint(const std::string& service);  // "S3"; "": AWS's own
  std::vector<std::string> files() const;

 private:
  using Profile = std::map<std::string, std::string>;
  using Found = std::optional<AwsCredentials>;

  void read_files();
  const Profile& profile(const std::string& name);
  Found chain();
  Found from_environment();
  Found from_profile(const std::string& name, bool with_environment);
  Found of_keys(const Profile& p, const std::string& where);
  Found from_role(const std::string& name, std::vector<std::string> visited);
  Found from_web_identity(const std::string& name, bool with_environment);
  Found from_sso(const std::string& name);
  Found from_process(const std::string& name);
  Found from_container();
  Found from_instance();
  AwsCredentials ask_sts(Query query, const AwsKeys* keys, std::string source);
  std::string sso_token(const std::string& start_url, const std::string& name);
  std::string get(const HttpRequest& request, const std::string& source);
  [[noreturn]] void wrong(std::string got, std::string hint = {}) const;

  Http& http_;
  std::recursive_mutex mutex_;
  std::string path_;  // what is read, for messages
  bool has_read_ = false;
  std::string config_path_, keys_path_, name_;
  Sections config_, keys_file_;
  std::map<std::string, Profile> profiles_;
  std::optional<AwsCredentials> held_;
  int64_t next_try_ = 0;  // of renewing them
};

// A JSON object with the keys AccessKeyId, SecretAccessKey, Token or SessionToken, and Expiration. nullopt: it has not all of them.
std::optional<AwsCredentials> credentials_of(std::string_view json, std::string source);
// The words of a command line, as Python's shlex splits it.
std::vector<std::string> shell_words(std::string_view text);
// What a program prints. nullopt: it could not be started, or failed; `why` says it, with the first line of its complaint.
std::optional<std::string> output_of(const std::vector<std::string>& words, std::string& why);
std::string contents_of(const std::string& path);  // of a file on disk; "": there is none

}  // namespace dcp::net
