// A model map as it is read: lines that say which tensors of one side are which of the other. The language is dcpctl-maps(7); parse.cc
// reads its text, proof.cc shows that each line moves every element of both sides once, resolve.cc puts a checkpoint's tensors in.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/problem.h"

namespace dcp::maps {

struct Spot {
  uint32_t line = 0, column = 0;  // from 1
};

enum class Side : uint8_t { kLeft, kRight };
constexpr Side other(Side s) { return s == Side::kLeft ? Side::kRight : Side::kLeft; }
constexpr std::string_view name_of(Side s) { return s == Side::kLeft ? "left" : "right"; }

// An axis, an index, a size or a number that stands for an axis: in ModelMap::words.
using Word = uint32_t;

// Of a `size` line. kElse: the first that is known.
struct Expression {
  enum class Kind : uint8_t { kNumber, kSize, kPath, kAdd, kSubtract, kMultiply, kDivide, kElse };
  Kind kind = Kind::kNumber;
  uint64_t number = 0;
  Word size = 0;
  std::string path;  // in config.json, keys joined by dots; until all lines are read, of sizes as well
  std::vector<Expression> of;
  Spot spot;
};

struct Size {
  Word word = 0;
  Expression value;
  bool is_local = false;  // for one match of a line, since an axis of the line is in its value
  Spot spot;
};

// True where the first of `paths` that config.json has, and has not as null, is neither false, nor 0, nor empty. "true" is always true.
struct Condition {
  bool unless = false;
  std::vector<std::string> paths;
  Spot spot;
};

// A piece of names, one for the whole checkpoint: `name $p = a | b`.
struct Variable {
  std::string name;
  std::vector<std::string> values;
  Spot spot;
};

struct NamePart {
  enum class Kind : uint8_t { kText, kIndex, kRest, kVariable };
  Kind kind = Kind::kText;
  std::string text;         // kText
  Word index = 0;           // kIndex: the number in the name is the index...
  std::vector<Word> after;  // ... counted on from these sizes
  uint64_t plus = 0;        // ... and this number
  uint32_t variable = 0;    // kVariable: in ModelMap::variables
};

struct Name {
  std::vector<NamePart> parts;
  Spot spot;
};

// A dim of a tensor, or a part of one.
struct Axis {
  enum class Kind : uint8_t { kAxis, kOne, kProduct, kSum };
  Kind kind = Kind::kOne;
  Word word = 0;         // kAxis
  std::vector<Axis> of;  // kProduct: the last is the fastest; kSum: one after the other
  Spot spot;
};

struct Tensor {
  std::vector<Name> names;  // any is read, the first is written
  bool has_axes = false;
  std::vector<Axis> dims;
  std::vector<Name> same_as;  // none or one
  std::vector<Word> indexes;  // of its name, in order
  Spot spot;
};

// Two blocks with the same axes. Tensors in Line::sides, blocks in the order in which expand() makes them.
struct Pair {
  std::array<uint32_t, 2> tensor{}, block{};
};

// Where a line stands: a branch of a block.
struct Within {
  uint32_t block = 0, branch = 0;
};

struct Line {
  std::array<std::vector<Tensor>, 2> sides;  // an empty one: `none`
  std::vector<Condition> conditions;         // all must hold
  std::vector<Within> within;                // the outermost first
  std::vector<Word> outer;                   // indexes in the names of all its tensors: each of their values is a match
  std::vector<Pair> pairs;
  bool is_rest = false;  // its names end in {*}
  Spot spot;
};

struct Node {
  bool is_block = false;
  uint32_t at = 0;  // in ModelMap::lines or ModelMap::blocks
};

struct Branch {
  std::string name;
  std::vector<Condition> conditions;
  std::vector<Node> nodes;
  Spot spot;
};

// `either ... or ... end`. What is optional is a block whose second branch is empty.
struct Block {
  std::vector<Branch> branches;
  std::string choice;         // the name under which --set picks a branch; may be empty
  std::vector<Word> indexes;  // that all its lines have in all names: a branch is chosen for each of their values
  Spot spot;
};

struct ModelMap {
  std::string name;  // what was asked for: a built-in map's name, or a file's
  std::vector<std::string> text;
  std::vector<std::string> families;
  std::vector<std::string> notes;
  std::string state;  // what the left side calls an optimizer's state, with {slot} and {name}; "": optimizer.state.{name}.{slot}
  std::vector<std::string> words;
  std::vector<bool> is_index, is_size, is_axis;  // of words
  std::vector<Size> sizes;
  std::vector<Variable> variables;
  std::vector<Line> lines;
  std::vector<Block> blocks;
  std::vector<Node> nodes;
  std::map<std::string, Word, std::less<>> word_ids;

  const std::string& word(Word w) const { return words[w]; }
};

// The map of a text, proven: whatever sizes its axes have, each line moves every element once, and no key fits two lines. Throws map_*
// and over_limit with line, column and the line itself.
ModelMap read_map(std::string_view text, std::string name, const Limits& limits);

// `id` at a place of the map.
Problem problem_at(const ModelMap& map, Spot spot, ProblemId id, std::string got = {}, std::string expected = {});
[[noreturn]] void fail_at(const ModelMap& map, Spot spot, ProblemId id, std::string got = {}, std::string expected = {});

// As the map writes it, the rest of a line aside.
std::string to_text(const ModelMap& map, const Name& name);
std::string to_text(const ModelMap& map, const Axis& axis);
std::string to_text(const ModelMap& map, const Condition& condition);

}  // namespace dcp::maps
