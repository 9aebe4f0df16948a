// What a writing command says: notes on the way, the closing line or the JSON document, and the --report file in every outcome.
#pragma once

#include <functional>
#include <optional>

#include "catalog/select.h"
#include "context.h"
#include "exec/execute.h"
#include "expect.h"
#include "plan/plan.h"
#include "text_file.h"

namespace dcp::cmd {

void notes_json(JsonWriter& out, std::string_view name, const std::vector<KeyNote>& notes);

struct MapAnswer;

class WriteReport {
 public:
  WriteReport(std::string source_path, std::string output_path) : source(std::move(source_path)), output(std::move(output_path)) {}

  const std::string source, output;
  Selection selection;
  const Plan* plan = nullptr;        // both must outlive done() and damaged()
  const Catalog* catalog = nullptr;  // by note_source() or note_map()
  const MapAnswer* map = nullptr;    // by note_map()
  bool dry_run = false;
  Fp8Overflow fp8_overflow = Fp8Overflow::kSaturate;
  uint64_t planned_memory = 0;  // bytes, peak
  uint64_t seconds_ns = 0;
  ExecuteReport executed;
  bool verified_after = false;
  Expectation expectation;

  // What the source's metadata says that concerns any output.
  void note_source(const Catalog& catalog);
  // What is written is what a map makes of the source: a catalog of its own.
  void note_map(const MapAnswer& answer, const Catalog& derived);
  // `expectation` holds: what a missing file could have held is not missing, unless REF lacks it, too.
  void note_expected(const Context& context);
  // Says what was kept, stripped, dropped, converted, is unsafe: one line each, on stderr.
  void describe(const Context& context, const SelectOptions& select) const;
  // Prints the answer and returns `exit`.
  int done(const Context& context, int exit);
  // Every CRC mismatch, and the exit code of damaged input.
  int damaged(const Context& context);
  // Whether a cast met values that are too large; then with --strict-cast all such tensors, and its exit code.
  bool overflows() const;
  int overflowed(const Context& context);
  // Runs `body`; renders its failure; writes --report whatever happened. Returns the exit code.
  int around(Context& context, const std::function<int()>& body);

 private:
  void json(JsonWriter& out, const Context& context) const;
  void cast_json(JsonWriter& out) const;
  void cast_keys_json(JsonWriter& out) const;
  void describe_casts(const Context& context) const;
  void describe_losses(const Context& context) const;
  void print_plan(const Context& context) const;

  std::vector<Problem> warnings_;  // of the source
  std::string checkpoint_;         // what of the source was read: a step of a run
  std::string document_;
  int exit_ = 0;
  std::optional<Problem> error_;
};

}  // namespace dcp::cmd
