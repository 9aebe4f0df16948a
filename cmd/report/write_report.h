// The output of a writing command: notes on the way, the closing line or the JSON document, and the --report file in every outcome.
#pragma once

#include <functional>
#include <optional>

#include "app/write.h"
#include "base/json.h"
#include "line/context.h"
#include "line/text_file.h"

namespace dcp::cmd {

void notes_json(JsonWriter& out, std::string_view name, const std::vector<KeyNote>& notes);

// Of a tensor in a file for numpy: that its bits are there as integers.
void note_numpy_bits(DType dtype, Context& context);

class WriteReport {
 public:
  WriteReport(std::string source_path, std::string output_path) : source(std::move(source_path)), output(std::move(output_path)) {}

  const std::string source, output;
  WriteRequest request;  // once made from the command line
  WriteResult result;

  // Reports what was kept, stripped, dropped, converted or is unsafe: one line each, on stderr.
  void describe(Context& context) const;
  // Prints the answer and returns the exit code.
  int done(Context& context);
  // Runs `body`; renders its failure; writes --report whatever happened. Returns the exit code.
  int around(Context& context, const std::function<int()>& body);

 private:
  void json(JsonWriter& out, const Context& context) const;
  void plan_json(JsonWriter& out) const;
  void cast_json(JsonWriter& out) const;
  void cast_keys_json(JsonWriter& out) const;
  void describe_plan(Context& context) const;
  LeftOut objects_left_out() const;
  void describe_casts(Context& context) const;
  std::vector<std::string> unmatched() const;  // rules that match nothing
  void describe_losses(Context& context) const;
  void print_plan(const Context& context) const;

  std::string document_;
  int exit_ = 0;
  std::optional<Problem> error_;
};

}  // namespace dcp::cmd
