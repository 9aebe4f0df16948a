// Everything that can go wrong. A Problem is a fact with a place; an Error is a Problem that stops the command; a finding is a Problem in a
// list (inspect, verify). Ids and texts live in problems.def.
//
// The library never prints and never exits: it throws Error, and `cmd/` renders it.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dcp {

// Where the fault lies.
enum class ProblemClass : uint8_t {
  kAnswerNo,  // nowhere: the answer is no. Damage, differences, expectations not met
  kUsage,     // the request is wrong, or the output exists
  kInput,     // the input is not a checkpoint, is malformed or damaged, or uses something unsupported
  kMachine,   // I/O, space, memory, device
  kLacking,   // this build or machine lacks what was asked for
  kRank,      // another rank failed or could not be reached
  kInterrupted,
  kTerminated,
};

enum class Severity : uint8_t { kNote, kWarning, kDamage, kError };

enum class ProblemId : uint16_t {
#define DCP_PROBLEM(id, class_, what, hint) id,
#include "base/problems.def"
#undef DCP_PROBLEM
};

// Stable identifier ("zip_no_end"), class, default text and hint of an id. Static storage.
std::string_view id_name(ProblemId id);
ProblemClass class_of(ProblemId id);
std::string_view text_of(ProblemId id);
std::string_view hint_of(ProblemId id);

// Where a fact was seen. All text is raw (unescaped, may hold any byte); rendering escapes it.
// The empty initializers let `Place{.path = p}` pass -Wmissing-field-initializers.
struct Place {
  std::string path{};                // file or folder as the user would type it
  std::string member{};              // record inside it, such as "data.pkl"
  std::string tensor{};              // fqn
  bool object = false;               // `tensor` is the key of a byte item
  std::optional<uint64_t> offset{};  // bytes from the start of `path`
  std::optional<uint64_t> length{};  // bytes
  uint32_t line = 0, column = 0;     // of a text, from 1; 0: not a place in a text
  std::optional<uint32_t> rank{};    // of several ranks, the one at fault; `path` is then its host, if known
  std::string setting{};             // of the request, such as "prefer_rank"; `got`, or each of `names`, is then its value
};
// "rank 2 at node7:29500", or the path.
std::string who_or_where(const Place& place);

// What would help, where the id alone does not imply it. The renderer supplies the words (cmd/line/problem_words.def).
enum class Remedy : uint8_t {
  kOfId,
  kMoreMemory,             // Problem::enough_bytes of it
  kMoreMemoryOrFewerKeys,  // the same
  kFewerKeys,              // leaving the key out
  kLargerPickle,           // Problem::enough_bytes as its cap
  kOneOrLatest,            // one of Problem::names, or the newest of them
  kNumberOfStep,           // a pattern that says which number counts: Problem::names has some
  kNoStep,                 // the folder itself
  kReadAll,                // reading everything, including what was skipped
  kOtherName,              // renaming the key, or leaving it out
  kOtherKind,              // commands that change the output's kind
  kWriteAnew,              // commands that rewrite the data
  kConvert,                // the command that writes any kind
  kSharedOutput,           // an output that all ranks see
  kOtherTransport,         // one that needs no device
  kWorldSize,              // any setting that gives it
  kMesh,                   // a mesh
  kMeshOrWorldSize,        // a mesh, or one of one dim
  kMeshNames,              // a mesh whose dims have names
  kLayoutFile,             // `expected`, as the help shows it
  kForRename,              // `expected`, which applies where keys are renamed
  kModelOnly,              // the model without what is beside it
  kBelowWorldSize,         // `expected`, the world size
  kSplitObjects,           // a file in which containers are keys
  kSetting,                // the first of Problem::names, a setting of a map
};
constexpr Remedy kLastRemedy = Remedy::kSetting;

struct Problem {
  ProblemId id{};
  Severity severity = Severity::kError;
  Place place{};
  std::string what{};      // defaults to text_of(id)
  std::string got{};       // may be empty
  std::string expected{};  // may be empty
  std::string hint{};      // defaults to hint_of(id)
  std::string quote{};     // the line of a text that `place` points into
  // Keys of the checkpoint, if the problem is about several; `place` then has none.
  std::vector<std::string> keys{};
  // All names concerned; `got` has the first.
  std::vector<std::string> names{};
  Remedy remedy = Remedy::kOfId;
  uint64_t enough_bytes = 0;  // 0: unknown
};

// One line: `PATH[:LINE[:COLUMN]][ > MEMBER][ @ 0xOFFSET]: [tensor 'FQN': | object 'KEY': ]what: got`, or `what (got X, expected Y)` where two
// things are compared. Names are escaped, a very long key is shortened. Without the hint, the remedy and the quote.
std::string to_line(const Problem& problem);

// A name, escaped; a long one is cut to its beginning, its length and its end. Keys may have any length.
std::string shortened(std::string_view name);

// `text` with control characters, invalid UTF-8 and bidirectional overrides written as \xNN or \u{NNNN}: safe on a terminal.
std::string escaped(std::string_view text);

class Error : public std::exception {
 public:
  explicit Error(Problem problem);
  const Problem& problem() const { return problem_; }
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  Problem problem_;
  std::string line_;
};

// What happens to faults of single items: the first one ends the command, or all are collected while the rest goes on (verify).
enum class Faults : uint8_t { kThrow, kCollect };
// Whether kCollect may collect the problem: faults in the bytes that are read, or in reading them. Other machine failures and signals end
// every command.
bool can_be_collected(ProblemId id);

// Adds findings to a list. The first of each kind are kept and the others counted: malicious metadata can cause one every few bytes.
class FindingList {
 public:
  explicit FindingList(std::vector<Problem>& list) : list_(list) {}
  void add(Problem p);
  void end();  // adds, for each kind, how many more there were

 private:
  static constexpr uint64_t kMax = 10'000, kMaxBytes = 4 << 20;
  struct Seen {
    uint64_t kept = 0, bytes = 0, more = 0;
    std::set<std::string> names;  // of those that were kept
    size_t last = 0;              // in the list
  };
  std::vector<Problem>& list_;
  std::map<ProblemId, Seen> seen_;
};

// Builds a Problem with the texts of its id. Both got and expected are optional.
Problem make_problem(ProblemId id, Place place, std::string got = {}, std::string expected = {});
Problem make_finding(ProblemId id, Severity severity, Place place, std::string got = {}, std::string expected = {});
// The same with other words, or with what helps.
Problem with_hint(Problem p, std::string_view hint);
Problem with_remedy(Problem p, Remedy remedy, uint64_t enough_bytes = 0);
Problem with_what(Problem p, std::string_view what);
[[noreturn]] void fail(ProblemId id, Place place, std::string got = {}, std::string expected = {});

}  // namespace dcp
