// Self-contained HTML pages: no script, no font, no external file; light or dark as the reader's system.
#pragma once

#include <string>
#include <string_view>

namespace dcp::cmd {

// Text from a checkpoint, escaped for use as text or in a double-quoted attribute; bytes that are not printable UTF-8 become \xNN.
std::string html_text(std::string_view raw);

// The whole document. `title` is raw text, `style` and `body` are HTML.
std::string html_page(std::string_view title, std::string_view style, std::string_view body);

}  // namespace dcp::cmd
