// Pages of HTML that need nothing beside them: no script, no font, no file from elsewhere, light or dark as the reader's system is.
#pragma once

#include <string>
#include <string_view>

namespace dcp::cmd {

// Text from a checkpoint as text or as the value of an attribute in double quotes; bytes that are not printable UTF-8 as \xNN.
std::string html_text(std::string_view raw);

// The whole document. `title` is raw text, `style` and `body` are HTML.
std::string html_page(std::string_view title, std::string_view style, std::string_view body);

}  // namespace dcp::cmd
