#include "report/page/page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "app/output.h"
#include "base/text.h"
#include "line/problem_words.h"
#include "line/text_file.h"
#include "report/findings.h"
#include "report/page/parts.h"

namespace dcp::cmd {
namespace {

constexpr size_t kMaxFindings = 2'000;  // in the page

std::string_view tone_of(Severity severity) { return severity >= Severity::kDamage ? "bad" : severity == Severity::kWarning ? "warn" : ""; }

void finding(JsonWriter& json, const Problem& problem, const PageHead& head) {
  const Problem p = worded(problem);
  json.begin_object().member("tone", tone_of(p.severity)).member("word", severity_word(p.severity)).member("text", to_line(p));
  if (!p.hint.empty()) json.member("hint", escaped(p.hint));
  json.member("file", head.file_of ? head.file_of(p) : int64_t{-1});
  if (p.place.offset) json.member("offset", *p.place.offset);
  if (p.place.length) json.member("length", *p.place.length);
  json.end_object();
}

void head_json(JsonWriter& json, const PageHead& head) {
  json.member("command", head.command).member("title", head.title).member("verdict", head.verdict).member("tone", head.tone);
  if (!head.note.empty()) json.member("note", head.note);
  json.key("cards").begin_array();
  for (const Card& c : head.cards) {
    json.begin_object().member("label", c.label).member("value", c.value);
    if (!c.note.empty()) json.member("note", c.note);
    if (!c.tone.empty()) json.member("tone", c.tone);
    json.end_object();
  }
  json.end_array().member("facts", head.facts).key("findings").begin_array();
  const size_t count = head.findings == nullptr ? 0 : head.findings->size();
  for (size_t i = 0; i < std::min(count, kMaxFindings); ++i) finding(json, (*head.findings)[i], head);
  json.end_array();
  if (count > kMaxFindings) json.member("more", grouped(count - kMaxFindings) + " more findings are not in this page; --json has them all");
}

}  // namespace

double page_number(double value) {
  if (value == std::trunc(value) && std::abs(value) < 1e6) return value;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

std::string html_text(std::string_view raw) {
  std::string text;
  for (const char c : escaped(raw)) {
    switch (c) {
      case '&': text += "&amp;"; break;
      case '<': text += "&lt;"; break;
      case '>': text += "&gt;"; break;
      case '"': text += "&quot;"; break;
      default: text += c;
    }
  }
  return text;
}

void check_page(const Context& context, const std::string& file, const std::string& source, const std::string& other) {
  if (file.empty()) return;
  if (auto fault = text_file_fault(context.io, {"--html", file, "<!doctype html>"}, source, other)) throw Error(std::move(*fault));
}

void save_page(Context& context, const std::string& file, const std::string& page) {
  if (file.empty()) return;
  save_small_file(context, file, page, {.sync = false});
  context.info("wrote '" + escaped(file) + "'");
}

std::string page_html(const PageHead& head, const std::function<void(JsonWriter&)>& sections) {
  std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  page.append("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-").append(kScriptHash);
  page.append("'; style-src 'sha256-").append(kStyleHash).append("'\">\n");
  page += "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" + html_text(head.title) + "</title>\n";
  page.append("<style>").append(kStyle).append("</style></head>\n<body><main>");
  // For readers without a script.
  page += "<h1>" + html_text(head.title) + "</h1><p>" + html_text(head.verdict) + "</p><pre>";
  for (const std::string& line : head.facts) page += html_text(line) + "\n";
  page += "</pre></main>\n<script type=\"application/json\" id=\"data\">";
  // In JSON a '<' stands in texts only. Written as an escape, none of them can end the element.
  JsonWriter json([&](std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('<', at), text.size());
      page.append(text, at, end - at);
      if (end < text.size()) page += "\\u003c";
      at = end + 1;
    }
  });
  json.begin_object();
  head_json(json, head);
  json.key("sections").begin_array();
  sections(json);
  json.end_array().end_object();
  json.finish();
  return page.append("</script>\n<script>").append(kScript).append("</script></body></html>\n");
}

}  // namespace dcp::cmd
