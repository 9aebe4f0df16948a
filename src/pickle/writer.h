// Writes pickles, opcode by opcode. The caller chooses the opcodes; the writer picks the shortest form that the protocol has.
//
// Protocol 2 output uses only what torch.load(weights_only=True) accepts; protocol 4 output is
// for `.metadata`. No FRAME is written: readers do not need them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "pickle/tokens.h"

namespace dcp {

enum class PickleProtocol : uint8_t { k2 = 2, k4 = 4 };

class PickleWriter {
 public:
  // Appends to `out`, which must outlive the writer and may be emptied between calls.
  PickleWriter(std::string& out, PickleProtocol protocol) : out_(&out), protocol_(protocol) {}

  void begin();  // PROTO
  void end() { op(Op::STOP); }

  // An opcode without an argument: MARK, NONE, EMPTY_DICT, SETITEMS, TUPLE, REDUCE, NEWOBJ, BUILD, BINPERSID, ...
  void op(Op code) { out_->push_back(static_cast<char>(code)); }
  void boolean(bool value) { op(value ? Op::NEWTRUE : Op::NEWFALSE); }
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view utf8);
  void global(std::string_view module, std::string_view name);
  void tuple(uint64_t count);  // of the last `count` values, at most 3; 0: the empty tuple. Longer ones: MARK, values, TUPLE

  // Stores the top value in the next memo slot and returns the slot.
  uint64_t put();
  void get(uint64_t slot);

  // --- for splicing
  uint64_t size() const { return out_->size(); }
  void raw(std::string_view opcodes) { out_->append(opcodes); }
  void put_at(uint64_t slot);  // an explicit slot, which must differ from those of put(): see claim()
  uint64_t next_slot() const { return next_slot_; }
  void claim(uint64_t slots) { next_slot_ += slots; }

 private:
  template <class T>
  void number(T value);

  std::string* out_;
  PickleProtocol protocol_;
  uint64_t next_slot_ = 0;
};

}  // namespace dcp
