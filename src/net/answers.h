// Texts as stores write and want them: URLs, XML, times, files of profiles. Nothing here trusts its input.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dcp::net {

// RFC 3986: everything but letters, digits and -._~ (and '/', in a path) as %XX.
enum class Slashes { kKept, kEncoded };
std::string percent_encoded(std::string_view text, Slashes slashes);
std::string percent_decoded(std::string_view text);

using Query = std::vector<std::pair<std::string, std::string>>;
// Sorted as signatures want it.
std::string query_text(const Query& query);

struct Url {
  std::string scheme, host;  // the host in brackets if it is a number of IPv6
  uint16_t port = 0;         // the scheme's own where none is given
  std::string path;          // "" or "/...", with the query
  bool has_user = false;
  std::string authority() const;  // host, and the port if it is not the scheme's own
};
std::optional<Url> parse_url(std::string_view text);
// Where a redirect of `base` leads; "": nowhere.
std::string joined_url(const std::string& base, const std::string& location);
bool is_this_machine(std::string_view host);

std::string hex_of(std::string_view bytes);
std::string base64url_of(std::string_view bytes);
std::string lower(std::string_view text);
std::string trimmed(std::string_view text);
// The texts between `separator`s.
std::vector<std::string> split(std::string_view text, char separator);

// What is between each <name> and its </name>, outermost first; elements of one name do not nest in answers of stores.
std::vector<std::string_view> elements(std::string_view xml, std::string_view name);
// Of the first, with entities replaced; "": there is none.
std::string element(std::string_view xml, std::string_view name);

// A member of an object that is a text; "": there is none, or it is no object.
std::string text_at(const nlohmann::json& object, const char* key);

// Seconds since the epoch of "2026-11-25T10:00:00[.123]Z" (also with an offset), or of "Wed, 25 Nov 2026 10:00:00 GMT".
std::optional<int64_t> time_of(std::string_view text);
int64_t nanoseconds_of(std::string_view text);         // the same with what is behind the point; 0: no time
std::string utc(int64_t seconds, const char* format);  // of strftime

// Sections of a file of the AWS CLI: "profile x" of `[profile "x"]`; indented lines after `outer =` have the key "outer.key".
using Sections = std::map<std::string, std::map<std::string, std::string>>;
Sections sections_of(std::string_view text);

}  // namespace dcp::net
