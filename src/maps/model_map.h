// A model map as it is read: lines that relate the tensors of one side to those of the other. The language is dcpctl-maps(7); parse.cc
// reads its text, proof.cc proves that each line moves every element of both sides once, apply_map.cc applies it to a checkpoint's tensors.
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

// What a user says of a map or of config.json: NAME=VALUE.
struct Setting {
  std::string name, value;
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
  std::string path;  // in config.json, keys joined by dots; until all lines are read, maybe the name of a size
  std::vector<Expression> of;
  Spot spot;
};

struct Size {
  Word word = 0;
  Expression value;
  bool is_local = false;  // per match of a line, since its value contains an axis of the line
  Spot spot;
};

// True if the first of `paths` that config.json has with a value other than null is neither false, nor 0, nor empty. "true" is always true.
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
  std::vector<Word> after;  // ... plus these sizes
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
  std::vector<Axis> of;  // kProduct: last fastest; kSum: one after the other
  Spot spot;
};

struct LineTensor {
  std::vector<Name> names;  // any may be read, the first is written
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

// The position of a line: a branch of a block.
struct Within {
  uint32_t block = 0, branch = 0;
};

struct Line {
  std::array<std::vector<LineTensor>, 2> sides;  // an empty one: `none`
  std::vector<Condition> conditions;             // all must hold
  std::vector<Within> within;                    // the outermost first
  std::vector<Word> outer;                       // indexes in the names of all its tensors: one match per combination of their values
  std::vector<Pair> pairs;
  bool is_rest = false;        // its names end in {*}
  bool moves_nothing = false;  // the axes of both sides are alike: they are only compared with shapes, as far as their sizes are known
  Spot spot;

  const std::vector<LineTensor>& on(Side side) const { return sides[static_cast<size_t>(side)]; }
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

// `either ... or ... end`. `optional` and `required when` are blocks whose second branch is empty.
struct Block {
  std::vector<Branch> branches;
  std::string choice;               // the name under which a setting picks a branch; may be empty
  std::vector<Word> indexes;        // indexes in all names of all its lines: a branch is chosen per value
  std::vector<Condition> required;  // of a line that is optional otherwise, and then for all values of its indexes or none
  Spot spot;
};

// A piece of the names of tensors that transformers holds in float32 whatever dtype it loads the model in: those in memory, which are the left
// side of its own maps; other maps have only the published ones, on the right.
struct Keep {
  std::string piece;
  bool only_float16 = false;  // in bfloat16 they are as asked
};

struct ModelMap {
  std::string name;  // as requested: a built-in map's name, or a file's
  std::vector<std::string> text;
  std::vector<std::string> families;
  std::vector<std::string> classes;  // of the published model, one for each family; or none
  std::vector<Keep> keeps;
  std::vector<std::string> notes;
  // Of the trainer, the newest first: those that introduced the left side's names of this place in `a | b`.
  std::vector<std::string> releases;
  std::string state;  // the left side's name of an optimizer's state, with {slot} and {name}; "": optimizer.state.{name}.{slot}
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

// Releases of trainers: numbers with dots, 0.2.1.
bool is_release(std::string_view text);
bool is_before(std::string_view a, std::string_view b);

// The class of a published model of this model_type; "": the map does not say.
std::string class_of(const ModelMap& map, std::string_view model_type);

// Reads a map and proves it: whatever sizes its axes have, each line moves every element once, and no key matches two lines. Throws map_*
// and over_limit with line, column and the line itself.
ModelMap read_map(std::string_view text, std::string name, const Limits& limits);

// `id` at a place of the map.
Problem problem_at(const ModelMap& map, Spot spot, ProblemId id, std::string got = {}, std::string expected = {});
[[noreturn]] void fail_at(const ModelMap& map, Spot spot, ProblemId id, std::string got = {}, std::string expected = {});

// The name as the map spells it, without the rest of the line.
std::string to_text(const ModelMap& map, const Name& name);
std::string to_text(const ModelMap& map, const Axis& axis);

}  // namespace dcp::maps
