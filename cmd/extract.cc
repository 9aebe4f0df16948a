// dcpctl extract: one tensor or object of a checkpoint, as a file, as text, or on standard output.
#include "app/extract.h"

#include <unistd.h>

#include <filesystem>

#include "app/output_in_source.h"
#include "app/small_file.h"
#include "commands.h"
#include "dtype_flags.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "inspect_text.h"
#include "object_text.h"
#include "ranks_flags.h"
#include "source.h"
#include "stats_report.h"
#include "text_file.h"
#include "values_text.h"
#include "write_report.h"

namespace dcp::cmd {
namespace {

constexpr const char* kDetails =
    R"(Takes the tensor or object KEY out of a checkpoint, whatever its kind and however the tensor is sharded. Without -o it is printed:
a tensor as numpy prints one, with the ends of its dims alone where it is large, an object as Python spells it; nothing of it is run.

-o writes a file, whose ending says what it is: .npy, .pt (what torch.load gives is the tensor or object itself), .safetensors, .json, .txt,
or .raw, the elements alone, row-major and little-endian. numpy has no bfloat16 and no float8: a .npy file holds their bits as unsigned
integers, unless --dtype float32 converts them.

--slice takes what numpy and torch take between brackets: integers, START:STOP:STEP and '...', with commas between dims. Only what is
needed is read, so that the CRC, which is of the whole, is not checked then. Steps must be above 0; new axes, lists and masks are refused.

  dcpctl extract step-1000 model.norm.weight
  dcpctl extract step-1000 model.norm.weight --slice ':4'
  dcpctl extract step-1000 model.norm.weight --stats
  dcpctl extract step-1000 model.norm.weight -o norm.npy --dtype float32
  dcpctl extract step-1000 model.norm.weight --format raw -o - | sha256sum)";

enum class Form : uint8_t { kDefault, kNpy, kTorch, kSafetensors, kRaw, kText, kJson };
constexpr std::pair<const char*, Form> kEndings[] = {
    {".npy", Form::kNpy}, {".pt", Form::kTorch}, {".pth", Form::kTorch}, {".bin", Form::kTorch},
    {".raw", Form::kRaw}, {".txt", Form::kText}, {".json", Form::kJson}, {".safetensors", Form::kSafetensors}};
constexpr uint64_t kShownWhole = 1000;  // elements, as torch and numpy do

struct Options {
  SourceFlags source;
  std::string key, out, slice, dtype, max_memory;
  Form form = Form::kDefault;
  bool stats = false, raw = false, force = false, no_verify = false, no_sync = false;
  unsigned threads = 0;

  bool to_file() const { return !out.empty() && out != "-"; }
  bool is_text() const { return form == Form::kText || form == Form::kJson; }
  std::optional<Subscript> part() const { return slice.empty() ? std::nullopt : std::optional(Subscript::parse(slice)); }
  // All that is selected is the one key.
  DtypeOptions dtypes() const {
    DtypeOptions d{.scope = DtypeScope::kAll, .raw = raw};
    if (!dtype.empty()) d.rules.push_back({"*", parse_dtype(dtype)});
    return d;
  }
  ReadRequest read(const Context& context) const {
    return {.source = source.request(context), .max_memory = reading_cap(max_memory), .threads = threads};
  }
};

Form form_of(const Options& o, const Context& context) {
  if (o.form != Form::kDefault) {
    if (o.out.empty() && !o.is_text())
      fail(ProblemId::usage, {}, "--format without -o, of what is not for a terminal", "-o FILE, or -o - for standard output");
    return o.form;
  }
  if (!o.to_file()) return context.common.json ? Form::kJson : Form::kText;
  std::string ending = std::filesystem::path(o.out).extension();
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const auto& [known, form] : kEndings)
    if (ending == known) return form;
  fail(ProblemId::usage, {.path = o.out}, "a name that does not say what the file is",
       ".npy, .pt, .safetensors, .raw, .txt or .json at its end, or --format");
}

void note_bits(DType dtype, Form form, Context& context) {
  if (form != Form::kNpy || is_numpy_dtype(dtype)) return;
  const std::string name(facts_of(dtype).name);
  const bool castable = facts_of(dtype).kind == DTypeKind::kFloat;
  context.info("numpy has no " + name + ": its bits are there as " +
               std::string(bytes_of(dtype) == 1   ? "uint8"
                           : bytes_of(dtype) == 2 ? "uint16"
                                                  : "uint32") +
               (castable ? "; --dtype float32 converts it" : ""));
}

void note_unchecked(const Options& o, Context& context) {
  if (!o.slice.empty()) context.info("the CRC is of the whole tensor, and not checked for a slice");
}

// ---- a file of elements

int write_file(const Options& o, Context& context) {
  WriteReport report(o.source.path, o.out);
  return report.around(context, [&] {
    using Kind = OutputRequest::Kind;
    const Kind kind = o.form == Form::kNpy     ? Kind::kNpy
                      : o.form == Form::kTorch ? Kind::kTorch
                      : o.form == Form::kRaw   ? Kind::kRaw
                                               : Kind::kSafetensors;
    report.request = {.read = o.read(context),
                      .select = {.rules = {{KeyRule::Kind::kKey, o.key}}, .dtypes = o.dtypes()},
                      .map = {},
                      .slice = o.part(),
                      .output = {.path = o.out, .kind = kind, .one_value = true, .check_crcs = o.slice.empty() && !o.no_verify},
                      .expect = {},
                      .replace = o.force ? Replace::kYes : Replace::kNo,
                      .sync = !o.no_sync};
    write(report.request, context, report.result, [&] {
      report.result.selection.dropped_by_rules = 0;  // that is what was asked for
      report.describe(context);
      if (!report.result.plan->regions.empty()) note_bits(report.result.plan->regions.front().dtype, o.form, context);
      note_unchecked(o, context);
    });
    return report.done(context);
  });
}

// ---- text, JSON and streams

struct ReaderGone {};

void head_json(JsonWriter& json, const Options& o, const Extraction& found) {
  json.begin_object().member("schema", "dcpctl.extract/1").member("path", o.source.path).member("key", found.key());
  if (found.checkpoint() != o.source.path) json.member("checkpoint", found.checkpoint());
  json.member("kind", found.is_object() ? "object" : "tensor");
  if (found.is_object()) return;
  json.member("dtype", facts_of(found.dtype()).name).key("shape").begin_array();
  for (const int64_t n : found.shape()) json.value(n);
  json.end_array();
  if (!o.slice.empty()) json.member("slice", o.slice);
}

void emit_json(const Options& o, Extraction& found, const TextOut& out) {
  JsonWriter json(out);
  head_json(json, o, found);
  if (found.is_object()) {
    json.key("value");
    object_json(json, found.object());
  } else {
    json.key("values");
    values_json(json, found);
  }
  json.end_object();
  json.finish();
}

std::string text_of(const Options& o, Extraction& found, Context& context) {
  const size_t columns = o.to_file() ? 80 : context.columns(STDOUT_FILENO);
  if (found.is_object()) return object_text(found.object(), columns);
  const bool small = volume(found.shape()) <= kShownWhole;
  if (small && !o.no_verify) found.check();
  const Glance glance = found.glance(kShownWhole);
  context.status(escaped(found.key()) + ": " + std::string(facts_of(found.dtype()).name) + " " + shape_text(found.shape()));
  if (!small) context.status("more than 1,000 elements: the ends of its dims, CRC not checked; --slice shows a part, --format json all");
  return values_text(glance, found.dtype(), columns);
}

void emit_binary(const Options& o, Extraction& found, const TextOut& out) {
  if (o.form == Form::kTorch) return found.torch_file([&](Bytes bytes) { out(as_text(bytes)); });
  if (found.is_object())
    fail(ProblemId::usage, {.path = found.checkpoint(), .tensor = std::string(found.key()), .object = true},
         "an object, which has no elements", "a .pt file, text or JSON for it");
  if (o.form == Form::kNpy) out(npy_header(found.dtype(), found.shape()));
  if (o.form == Form::kSafetensors) {
    std::vector<SafetensorsEntry> entry{{.name = std::string(found.key()), .dtype = found.dtype(), .shape = found.shape()}};
    if (facts_of(found.dtype()).safetensors.empty())
      fail(ProblemId::no_dtype_in_output, {.path = found.checkpoint()},
           std::string(found.key()) + " (" + std::string(facts_of(found.dtype()).name) + ")");
    out(write_safetensors_header(entry, {{"format", "pt"}}));
  }
  found.each_piece([&](Bytes bytes) { out(as_text(bytes)); });
}

std::string document_of(const Options& o, const Extraction& found) {
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  head_json(json, o, found);
  if (o.to_file()) json.member("output", o.out);
  json.end_object();
  json.finish();
  return document;
}

// What --report says of it.
std::string show(const Options& o, Context& context) {
  Extraction found({.read = o.read(context), .key = o.key, .slice = o.part(), .dtypes = o.dtypes()}, context);
  if (!found.is_object() && !o.dtype.empty() && found.dtype() != parse_dtype(o.dtype))
    context.info("not cast: " + std::string(facts_of(found.dtype()).name) + " is no floating dtype");
  const auto out = [&](std::string_view text) {
    if (!write_fd(STDOUT_FILENO, text)) throw ReaderGone();
  };
  note_unchecked(o, context);
  if (o.form == Form::kText && !o.to_file()) return context.print(text_of(o, found, context)), document_of(o, found);
  // What is damaged is not handed out: a stream cannot be taken back.
  if (!found.is_object() && !o.no_verify && o.form != Form::kText && o.form != Form::kTorch) found.check();
  if (!found.is_object()) note_bits(found.dtype(), o.form, context);
  if (!o.to_file()) {
    try {
      if (o.form == Form::kJson) emit_json(o, found, out);
      else emit_binary(o, found, out);
    } catch (const ReaderGone&) {  // as `head` does: what is not wanted is not read
    }
    return document_of(o, found);
  }
  refuse_source(o.out, found.catalog());
  const SmallFileOptions options{.replace = o.force ? Replace::kYes : Replace::kNo, .sync = !o.no_sync};
  if (o.form == Form::kText) save_small_file(context, o.out, text_of(o, found, context), options);
  else save_text(context, o.out, [&](const TextOut& to) { emit_json(o, found, to); }, options);
  std::string document = document_of(o, found);
  if (context.common.json) context.print(document);
  else if (!context.common.quiet) context.print("wrote " + escaped(o.out) + "\n");
  return document;
}

// ---- --stats

std::string show_stats(const Options& o, Context& context) {
  StatsResult found;
  stats({.read = o.read(context), .select = {.rules = {{KeyRule::Kind::kKey, o.key}}}, .slice = o.part()}, context, found);
  if (found.tensors.empty())
    fail(ProblemId::usage, {.path = found.checkpoint, .tensor = o.key, .object = true}, "--stats of an object", "a tensor");
  const KeyStats& k = found.tensors.front();
  if (k.fault) throw Error(*k.fault);
  std::string document;
  JsonWriter json([&](std::string_view text) { document += text; });
  json.begin_object().member("schema", "dcpctl.extract/1").member("path", o.source.path).member("kind", "stats");
  stats_json(json, k);
  if (!o.slice.empty()) json.member("slice", o.slice);
  json.end_object();
  json.finish();
  note_unchecked(o, context);
  context.print(context.common.json ? document : stats_text(k));
  return document;
}

int run(Options o, Context& context) {
  o.form = o.stats ? Form::kText : form_of(o, context);
  if (o.out == "-" && context.common.json && o.form != Form::kJson)
    fail(ProblemId::usage, {}, "-o - with --json", "one of them: both are for stdout");
  if (o.to_file() && !o.is_text()) return write_file(o, context);
  return run_reported(context, {.source = o.source.path, .output = o.to_file() ? o.out : ""},
                      [&] { return o.stats ? show_stats(o, context) : show(o, context); });
}

}  // namespace

void add_extract(Command& c, Context& context) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  const std::string what = "What of it", output = "As what";
  c.details = kDetails;
  add_source(c, context, o.source);
  c.argument("KEY", o.key, "The tensor or object, by its full name").offers(Offer::kKeys).or_empty().is_required();
  c.option("--slice", o.slice, "SLICE", "Only that part of the tensor, such as '0:4, :8' or '-1'").in(what);
  c.flag("--stats", o.stats, "Bounds, mean, deviation, NaN, inf and zero counts and magnitudes instead of values").in(what);
  const auto take_output = [&o, &c](const std::string& file) { return c.pages = false, o.out = file, true; };  // a stream is no page
  c.option("-o,--output", take_output, "FILE", "Write to FILE; - is standard output").writes().excludes("--stats").in(output);
  const Choices<Form> forms{{"npy", Form::kNpy}, {"pt", Form::kTorch},  {"safetensors", Form::kSafetensors},
                            {"raw", Form::kRaw}, {"text", Form::kText}, {"json", Form::kJson}};
  c.choice("--format", o.form, forms, "FORM", "As npy, pt, safetensors, raw, text or json (default: what the ending of FILE says, or text)")
      .excludes("--stats")
      .in(output);
  c.option("--dtype", o.dtype, "D", "Convert a floating tensor to D, such as float32 (fp32)")
      .offers(Offer::kDtypes)
      .excludes("--stats")
      .in(output);
  c.flag("--raw", o.raw, "Convert a float8 tensor that has a scale, too: its values as they are").needs("--dtype").in(output);
  c.flag("--force", o.force, "Replace FILE when the new one is complete").needs("--output").in(output);
  c.flag("--no-verify", o.no_verify, "Do not check the CRC of what is read").in("Reading");
  c.flag("--no-sync", o.no_sync, "Do not wait for the disk before FILE appears").needs("--output").in(output);
  add_threads(c, o.threads, "Reading");
  add_max_memory(c, o.max_memory, "Reading");
  add_common(c, context, true);
  c.pages = true;
  c.run = [options, &context] {
    if (const auto launch = launch_here(); launch && launch->rank > 0) return 0;  // rank 0 does it for all
    return run(*options, context);
  };
}

}  // namespace dcp::cmd
