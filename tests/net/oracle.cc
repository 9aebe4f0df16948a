// oracle FOLDER sign: signs the requests that standard input describes, a JSON object a line. oracle FOLDER credentials: prints which ones the
// environment yields. FOLDER has the module. oracle.py compares both with botocore.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "net/aws_credentials.h"

namespace {

using dcp::net::AwsKeys;
using nlohmann::json;

AwsKeys keys_in(const json& j) { return {.id = j["id"], .secret = j["secret"], .token = j["token"]}; }

void sign(dcp::net::Http& http) {
  for (std::string line; std::getline(std::cin, line);) {
    const json j = json::parse(line);
    const dcp::net::ToSign request{.method = j["method"],
                                   .host = j["host"],
                                   .path = dcp::net::percent_encoded(j["path"].get<std::string>(), dcp::net::Slashes::kKept),
                                   .query = j["query"],
                                   .headers = j["headers"],
                                   .body = j["body"],
                                   .region = j["region"],
                                   .service = j["service"]};
    std::cout << json(dcp::net::signed_headers(http, request, keys_in(j), j["now"])).dump() << "\n";
  }
}

void credentials(dcp::net::Http& http) try {
  dcp::net::AwsChain chain(http);
  const auto found = chain.credentials("s3://b/k");
  const json keys{{"id", found->keys.id},
                  {"secret", found->keys.secret},
                  {"token", found->keys.token},
                  {"source", found->source},
                  {"region", chain.region()}};
  std::cout << keys.dump() << "\n";
} catch (const dcp::Error& error) {
  std::cout << json{{"error", error.what()}}.dump() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const dcp::StopFlag stop{0};
  const auto variable = [](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  const auto folders = [folder = std::string(argv[1])] { return std::vector{folder}; };
  dcp::net::Http http(std::make_shared<dcp::net::Settings>(
      dcp::net::Settings{.variable = variable, .module_folders = folders, .stop = stop, .timeout_s = 5}));
  if (argv[2] == std::string_view("sign")) sign(http);
  else credentials(http);
}
