#include "report/html.h"

#include "base/problem.h"

namespace dcp::cmd {

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

std::string html_page(std::string_view title, std::string_view style, std::string_view body) {
  constexpr std::string_view kStyle = ":root{color-scheme:light dark;--line:#8884;--faint:#8882}"
                                      "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;padding:0 1em;max-width:90em}"
                                      "h1{font-size:1.3em}h2{font-size:1.1em;margin-top:2em}"
                                      "pre,td,th,code{font-family:ui-monospace,monospace;font-size:12px}pre{white-space:pre-wrap}"
                                      "table{border-collapse:collapse}td,th{padding:2px 10px 2px "
                                      "0;text-align:left;vertical-align:middle;border-bottom:1px solid var(--line)}"
                                      ".n{text-align:right}";
  std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">";
  page += "<meta name=\"viewport\" content=\"width=device-width\"><title>" + html_text(title) + "</title>\n<style>";
  page.append(kStyle).append(style).append("</style></head>\n<body><h1>" + html_text(title) + "</h1>\n");
  return page.append(body).append("</body></html>\n");
}

}  // namespace dcp::cmd
