// What stores differ in: how their objects are listed, found and asked for. ObjectStore makes a Store of one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/store.h"
#include "net/http.h"

namespace dcp::net {

struct ObjectFacts {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  std::string version{};  // its ETag, without quotes; "": not known
};

// What a folder holds.
struct Listing {
  std::map<std::string, ObjectFacts> objects{};
  std::set<std::string> folders{};
  bool complete = true;  // what is not in it may still be there
  bool empty() const { return objects.empty() && folders.empty(); }
};

// Paths are whole, with their scheme. Calls come from any thread.
class Origin {
 public:
  explicit Origin(Http& http) : http_(http) {}
  virtual ~Origin() = default;

  // Empty: there is none. Where it takes several requests, `first` gets what the first one gave.
  using FirstPage = std::function<void(const Listing&)>;
  virtual Listing list(const std::string& folder, const FirstPage& first) = 0;
  virtual std::optional<ObjectFacts> look(const std::string& path) = 0;  // nullopt: there is no such object
  // Of bytes [first, last] of the object as it was when its facts were found.
  virtual HttpRequest get(const std::string& path, const ObjectFacts& facts, uint64_t first, uint64_t last) = 0;
  // After an answer of 3xx or 4xx: whether another try may do better, since what had expired is new now, or the place is known.
  virtual bool renew(const std::string& /*path*/, const HttpAnswer&) { return false; }
  // Throws net_refused, with the store's words and the next step.
  [[noreturn]] virtual void refuse(const std::string& path, const HttpAnswer& answer) = 0;
  // The address of the service, files and ports beside those of Http. Called before the process is confined.
  virtual std::string endpoint(const std::string& path) = 0;
  virtual std::vector<std::string> files(const std::string& /*path*/) { return {}; }
  virtual std::vector<uint16_t> ports() { return {}; }
  // Whether list() costs one request, and is the better question about a name of which nothing is known.
  virtual bool lists() const { return true; }
  // For people: where its credentials come from, the region; pairs of words and texts.
  virtual std::vector<std::pair<std::string, std::string>> about(const std::string& path) = 0;

 protected:
  Http& http_;
};

// Facts in the headers of an answer to HEAD, or to a ranged GET.
ObjectFacts facts_of(const HttpAnswer& answer);
std::string without_quotes(std::string version);
// Headers of a ranged read: the range, and the version where it is known.
std::vector<std::string> range_headers(const ObjectFacts& facts, uint64_t first, uint64_t last);

}  // namespace dcp::net
