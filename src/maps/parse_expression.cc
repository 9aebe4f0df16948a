#include <utility>

#include "maps/parse_line.h"

namespace dcp::maps {
namespace {

class ExpressionParser {
 public:
  ExpressionParser(LineReader& in, const MapText& text) : in_(in), text_(text) {}

  Expression alternatives(uint32_t depth) {
    if (depth == kDeepest) text_.too_long(in_.spot(), "parentheses nested deeper", kDeepest);
    Expression all{.kind = Expression::Kind::kElse, .number = 0, .size = 0, .path = {}, .of = {}, .spot = in_.spot()};
    do all.of.push_back(sum(depth));
    while (in_.take('|'));
    return all.of.size() == 1 ? std::move(all.of[0]) : all;
  }

 private:
  Expression sum(uint32_t depth) {
    return chain('+', Expression::Kind::kAdd, '-', Expression::Kind::kSubtract, [&] { return product(depth); });
  }
  Expression product(uint32_t depth) {
    return chain('*', Expression::Kind::kMultiply, '/', Expression::Kind::kDivide, [&] { return factor(depth); });
  }
  // a + b - c is one level for each kind of sign in turn, so that a long line makes no deep tree.
  template <class Operand>
  Expression chain(char one, Expression::Kind of_one, char two, Expression::Kind of_two, const Operand& operand) {
    Expression left = operand();
    uint32_t levels = 0;
    while (in_.next() == one || in_.next() == two) {
      const Expression::Kind kind = in_.next() == one ? of_one : of_two;
      const Spot spot = in_.spot();
      in_.take(in_.next());
      if (left.kind != kind || levels == 0) {
        if (++levels > kDeepest) text_.too_long(spot, "a longer expression", kDeepest);
        left = {.kind = kind, .number = 0, .size = 0, .path = {}, .of = {std::move(left)}, .spot = spot};
      }
      left.of.push_back(operand());
    }
    return left;
  }
  Expression factor(uint32_t depth) {
    Expression e{.kind = Expression::Kind::kNumber, .number = 0, .size = 0, .path = {}, .of = {}, .spot = in_.spot()};
    if (in_.take('(')) {
      e = alternatives(depth + 1);
      in_.need(')', " for '('");
    } else if (is_digit(in_.next())) {
      e.number = in_.number();
    } else {
      e.kind = Expression::Kind::kPath;
      e.path = in_.path("a number, a size or a key of config.json");
    }
    return e;
  }

  LineReader& in_;
  const MapText& text_;
};

}  // namespace

Expression parse_expression(LineReader& in, MapText& text) { return ExpressionParser(in, text).alternatives(0); }

}  // namespace dcp::maps
