// Pages that people pass on: one file with its data as JSON, one script that draws it and one style sheet. A page loads nothing, and its
// policy lets no other script run, whatever names a checkpoint has.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/problem.h"
#include "line/context.h"

namespace dcp::cmd {

struct Card {
  std::string label, value, note{};
  std::string_view tone{};  // "good", "warn", "bad"; "g0", "g1", "g2": of the model, the optimizer, what else a trainer keeps
};

// What stands above the pictures. Texts are as on a terminal: names in them are escaped, and nothing else is.
struct PageHead {
  std::string command;  // that made the page: "dcpctl inspect"
  std::string title, verdict;
  std::string_view tone = "good";
  std::string note{};  // below the verdict
  std::vector<Card> cards{};
  std::vector<std::string> facts{};  // lines
  const std::vector<Problem>* findings = nullptr;
  std::function<int64_t(const Problem&)> file_of{};  // the number on the page of the file that a finding is in; -1: none
};

// `sections` writes the elements of an array: objects whose member "type" names what page.js draws of the others.
std::string page_html(const PageHead& head, const std::function<void(JsonWriter&)>& sections);

// Of --html: throws what is wrong with the name of the file, before any work. Other than a page is not replaced, and no file of what is read.
void check_page(const Context& context, const std::string& file, const std::string& source, const std::string& other = "");
void save_page(Context& context, const std::string& file, const std::string& page);

// With as many digits as a page shows: of whole numbers below a million all, of others four.
double page_number(double value);

// Text as it stands between tags or in an attribute; bytes that are not printable UTF-8 become \xNN.
std::string html_text(std::string_view raw);

}  // namespace dcp::cmd
