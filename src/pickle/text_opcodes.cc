#include "pickle/text_opcodes.h"

#include <charconv>
#include <string>
#include <string_view>

#include "pickle/tokens.h"
#include "pickle/writer.h"

namespace dcp {
namespace {

std::optional<unsigned> digits(std::string_view text, int base) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty() ? std::optional(value) : std::nullopt;
}

std::string utf8_of(uint32_t c) {
  const auto byte = [](uint32_t bits) { return static_cast<char>(bits); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
}

class Rewriter {
 public:
  Rewriter(Bytes pickle, const Place& place, const Limits& limits)
      : pickle_(as_text(pickle)), place_(place), max_(limits.memory_bytes / 2), reader_(pickle, place), writer_(out_, PickleProtocol::k4) {}

  std::string run() {
    Token t;
    do {
      at_ = reader_.position();
      const char op = at_ < pickle_.size() ? pickle_[at_] : '\0';
      if (!rewrite(static_cast<Op>(op))) {
        reader_.next(t);
        writer_.raw(pickle_.substr(t.offset, t.end - t.offset));
      }
      if (out_.size() > max_)
        fail(ProblemId::memory_cap, at_offset(place_, at_), "more than " + std::to_string(max_) + " bytes of opcodes");
    } while (t.op != Op::STOP || t.offset != at_);
    writer_.raw(pickle_.substr(reader_.position()));
    return std::move(out_);
  }

 private:
  bool rewrite(Op op) {
    switch (op) {
      case Op::INT: return integer(line(), true), true;
      case Op::LONG: return integer(line(), false), true;
      case Op::FLOAT: return real(line()), true;
      case Op::STRING: return writer_.text(unquoted(line())), true;
      case Op::UNICODE: return writer_.text(decoded(line())), true;
      case Op::GET: return memo(line(), Op::LONG_BINGET), true;
      case Op::PUT: return memo(line(), Op::LONG_BINPUT), true;
      default: return false;
    }
  }

  [[noreturn]] void refuse(std::string_view got, std::string expected) const {
    fail(ProblemId::pickle_operand, at_offset(place_, at_), "'" + std::string(got.substr(0, 200)) + "'", std::move(expected));
  }

  std::string_view line() {
    const size_t end = pickle_.find('\n', at_ + 1);
    if (end == pickle_.npos)
      fail(ProblemId::pickle_truncated, at_offset(place_, at_), "no line end",
           "a line for " + std::string(op_name(static_cast<Op>(pickle_[at_]))));
    reader_.go_to(end + 1);
    return pickle_.substr(at_ + 1, end - at_ - 1);
  }

  void integer(std::string_view text, bool may_be_bool) {
    if (may_be_bool && (text == "00" || text == "01")) return writer_.boolean(text == "01");
    std::string_view rest = text;
    if (!may_be_bool && rest.ends_with('L')) rest.remove_suffix(1);
    const bool negative = rest.starts_with('-');
    if (negative || rest.starts_with('+')) rest.remove_prefix(1);
    int base = 10;
    if (rest.size() > 2 && rest[0] == '0') {
      base = rest[1] == 'x' || rest[1] == 'X' ? 16 : rest[1] == 'o' || rest[1] == 'O' ? 8 : rest[1] == 'b' || rest[1] == 'B' ? 2 : 10;
      if (base != 10) rest.remove_prefix(2);
    }
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
    const uint64_t max = uint64_t{INT64_MAX} + negative;
    if (rest.empty() || error != std::errc{} || end != rest.data() + rest.size() || value > max)
      refuse(text, "an integer of up to 64 bits");
    writer_.integer(static_cast<int64_t>(negative ? ~value + 1 : value));
  }

  void real(std::string_view text) {
    double value = 0;
    const std::string_view number = text.starts_with('+') ? text.substr(1) : text;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (end != number.data() + number.size() || number.empty() || error == std::errc::invalid_argument) refuse(text, "a float");
    writer_.real(value);
  }

  void memo(std::string_view text, Op op) {
    const auto slot = digits(text, 10);
    if (!slot) refuse(text, "a memo slot");
    writer_.op(op);
    for (unsigned shift = 0; shift < 32; shift += 8) writer_.raw(std::string(1, static_cast<char>(*slot >> shift)));
  }

  // 'text' or "text" with the escapes of bytes literals.
  std::string unquoted(std::string_view text) const {
    if (text.size() < 2 || text.front() != text.back() || (text.front() != '\'' && text.front() != '"')) refuse(text, "a text in quotes");
    const std::string_view inner = text.substr(1, text.size() - 2);
    std::string out;
    for (size_t i = 0; i < inner.size(); ++i) {
      if (inner[i] != '\\') {
        out += inner[i];
        continue;
      }
      if (++i == inner.size()) refuse(text, "an escape that ends");
      constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t known = kNames.find(inner[i]); known != kNames.npos) {
        out += kValues[known];
      } else if (inner[i] == 'x') {
        const auto byte = inner.size() - i > 2 ? digits(inner.substr(i + 1, 2), 16) : std::nullopt;
        if (!byte) refuse(text, "two digits after \\x");
        out += static_cast<char>(*byte);
        i += 2;
      } else if (inner[i] >= '0' && inner[i] <= '7') {
        size_t count = 1;
        while (count < 3 && i + count < inner.size() && inner[i + count] >= '0' && inner[i + count] <= '7') ++count;
        out += static_cast<char>(*digits(inner.substr(i, count), 8));
        i += count - 1;
      } else {
        out += '\\';  // both characters of an unknown escape are kept
        out += inner[i];
      }
    }
    for (const char c : out)
      if (static_cast<unsigned char>(c) >= 0x80) refuse(text, "ASCII");
    return out;
  }

  // Bytes are Latin-1; \uXXXX and \UXXXXXXXX are code points where an odd number of backslashes begins them.
  std::string decoded(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool escape = text[i] == '\\' && i + 1 < text.size();
      if (escape && text[i + 1] == '\\') {
        out += "\\\\";
        ++i;
      } else if (escape && (text[i + 1] == 'u' || text[i + 1] == 'U')) {
        const size_t count = text[i + 1] == 'u' ? 4 : 8;
        const auto point = text.size() - i - 2 >= count ? digits(text.substr(i + 2, count), 16) : std::nullopt;
        if (!point || *point > 0x10FFFF) refuse(text, "a code point");
        out += utf8_of(*point);
        i += count + 1;
      } else {
        out += utf8_of(static_cast<unsigned char>(text[i]));
      }
    }
    return out;
  }

  const std::string_view pickle_;
  const Place& place_;
  const uint64_t max_;
  TokenReader reader_;
  std::string out_;
  PickleWriter writer_;
  uint64_t at_ = 0;
};

}  // namespace

std::optional<std::vector<std::byte>> binary_form(Bytes pickle, const Place& place, const Limits& limits) {
  if (pickle.empty() || static_cast<Op>(pickle[0]) == Op::PROTO) return std::nullopt;
  const std::string text = Rewriter(pickle, place, limits).run();
  const Bytes bytes = as_bytes(text);
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace dcp
