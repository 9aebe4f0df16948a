// A stack machine with shadows instead of values: it only knows which opcode pushed a text. Used by splice.
#pragma once

#include <deque>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "pickle/memo.h"
#include "pickle/tokens.h"

namespace dcp {

// kAny: persistent ids may be anything, and key_use() is not set.
enum class StorageIds : uint8_t { kChecked, kAny };

class ShadowStack {
 public:
  ShadowStack(Bytes pickle, const Place& place, const Limits& limits, StorageIds ids = StorageIds::kChecked,
              Opcodes opcodes = Opcodes::kOwn)
      : pickle_(pickle), place_(&place), limits_(&limits), storage_ids_(ids), memo_(pickle, place, limits, opcodes) {}

  // A literal: the opcode that holds a text.
  struct Literal {
    uint64_t offset = 0;
    uint32_t bytes = 0;   // of opcode and argument
    uint16_t header = 0;  // of them, before the text
    explicit operator bool() const { return bytes != 0; }
  };
  struct KeyUse {
    uint64_t push = 0;  // offset of the opcode that pushed the key: a literal, or a GET of one
    Literal key;
  };

  // Runs one opcode. Throws pickle_underflow, pickle_leftover, pickle_no_mark, pickle_memo_unset, pickle_storage_id, over_limit.
  void step(const Token& t);

  // About the last opcode:
  const std::optional<KeyUse>& key_use() const { return key_use_; }  // of a BINPERSID
  Literal got() const { return got_; }                               // of a GET whose slot holds a text
  uint64_t slot() const { return slot_; }                            // of a PUT or MEMOIZE
  bool built_global() const { return built_global_; }                // by a BUILD: a class or function got a state
  std::string_view module() const { return module_; }                // of GLOBAL and STACK_GLOBAL
  std::string_view name() const { return name_; }

  std::string_view opcode(const Literal& l) const { return as_text(pickle_).substr(l.offset, l.bytes); }
  std::string_view text(const Literal& l) const { return opcode(l).substr(l.header); }

 private:
  static constexpr uint32_t kNoTuple = ~uint32_t{0}, kOtherTuple = kNoTuple - 1;
  struct Shadow {  // kept small, since each byte of a pickle may push a value
    uint64_t push = 0;
    Literal text = {};  // of a text
    uint32_t tuple =
        kNoTuple;            // a tuple, made here, not taken from the memo; `push` is where. An index of ids_ if it may be a persistent id
    bool is_global = false;  // a class or function
  };
  struct Id {
    Literal key;
    uint64_t key_push = 0;
  };
  uint64_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void need(const Token& t, uint64_t count) const;
  uint64_t pop_mark(const Token& t);
  void push_literal(const Token& t);
  void push_tuple(const Token& t, uint64_t first);
  void replace(const Token& t, uint64_t count);  // pops `count` values and pushes one that is not a text
  void take_persistent_id(const Token& t);
  void take_stack_global(const Token& t);
  void take_get(const Token& t);
  void take_put(const Token& t, bool explicit_slot);
  bool step_container(const Token& t);
  bool step_memo(const Token& t);

  Bytes pickle_;
  const Place* place_;
  const Limits* limits_;
  StorageIds storage_ids_;
  Memo memo_;
  std::deque<Shadow> stack_;  // a growing vector would exist twice
  std::vector<Id> ids_;
  std::vector<uint64_t> marks_;
  std::unordered_set<uint64_t> id_tuples_;      // by the opcode that made them
  std::unordered_set<uint64_t> shared_tuples_;  // read from the memo
  std::optional<KeyUse> key_use_;
  Literal got_;
  uint64_t slot_ = 0;
  bool built_global_ = false;
  std::string_view module_;
  std::string_view name_;
};

}  // namespace dcp
