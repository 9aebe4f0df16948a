// What a writing command says: notes on the way, the closing line or the JSON document, and the --report file in every outcome.
#pragma once

#include <functional>
#include <optional>

#include "catalog/select.h"
#include "context.h"
#include "exec/execute.h"
#include "expect.h"
#include "plan/plan.h"

namespace dcp::cmd {

// A small file, whole or absent; one that is there is replaced.
void save_text(Io& io, const std::string& path, const std::string& text);

// A file that an option asks for beside the answer.
struct TextFile {
  std::string_view option;  // "--report"
  std::string path;
  std::string_view begins;  // how such a file begins: only one that does is replaced
};
// Why it cannot be written there: it would replace something else, or lie inside the source or the output. Asked before any work is done.
std::optional<Problem> text_file_fault(Io& io, const TextFile& file, const std::string& source, const std::string& output);
std::optional<Problem> report_fault(const Context& context, const std::string& source, const std::string& output);

// Writes the JSON document to the file of --report, if one is asked for.
void save_report(const Context& context, const std::string& document);

// After a command line that could not be understood, as far as --report can be made out in it.
void save_usage_report(Context& context, const std::vector<std::string>& words, const Problem& problem);

class WriteReport {
 public:
  WriteReport(std::string source_path, std::string output_path) : source(std::move(source_path)), output(std::move(output_path)) {}

  const std::string source, output;
  Selection selection;
  const Plan* plan = nullptr;        // both must outlive done() and damaged()
  const Catalog* catalog = nullptr;  // by note_source()
  bool dry_run = false;
  Fp8Overflow fp8_overflow = Fp8Overflow::kSaturate;
  uint64_t planned_memory = 0;  // bytes, peak
  uint64_t seconds_ns = 0;
  ExecuteReport executed;
  bool verified_after = false;
  Expectation expectation;

  // What the source's metadata says that concerns any output.
  void note_source(const Catalog& catalog);
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

  std::vector<Problem> warnings_;   // of the source
  std::string checkpoint_;          // what of the source was read: a step of a run
  std::string document_;
  int exit_ = 0;
  std::optional<Problem> error_;
};

}  // namespace dcp::cmd
