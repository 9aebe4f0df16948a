#include "format/manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "format/dtype.h"
#include "format/json_text.h"

namespace dcp {
namespace {

constexpr std::string_view kSchema = "dcpctl.manifest/1";
constexpr size_t kCrcDigits = 16, kFileDigits = 32;

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == text.npos; }

std::string checked_name(const std::string& name, const Place& place) {
  for (std::string_view rest = name; !rest.empty();) {
    const CodePoint c = first_code_point(rest);
    if (c.size == 0) {
      Place here = place;
      here.tensor = name;
      fail(ProblemId::manifest_bad_name, std::move(here));
    }
    rest.remove_prefix(c.size);
  }
  return name;
}

std::string described(const Manifest::Tensor& t) {
  return t.dtype + " " + shape_text(t.shape) + " with CRC-64 " + hex(t.crc64, kCrcDigits);
}
std::string described(const Manifest::Object& o) { return std::to_string(o.bytes) + " bytes with CRC-64 " + hex(o.crc64, kCrcDigits); }

// What has been read so far about one tensor, object or file.
struct RawEntry {
  std::optional<uint64_t> bytes, crc64;
  std::optional<std::string> dtype, xxh3_128;
  std::optional<std::vector<int64_t>> shape;
};

class Reader {
 public:
  Reader(const Place& place, const Limits& limits) : place_(place), limits_(limits) {}

  Manifest read(std::string_view json) {
    walk_json(json, place_, limits_, ProblemId::manifest_bad,
              [&](std::span<const std::string> keys, const JsonValue& v) { visit(keys, v); });
    end_entry();
    if (!schema_) bad("no schema", std::string(kSchema));
    return std::move(out_);
  }

 private:
  using Kind = JsonValue::Kind;

  [[noreturn]] void bad(std::string got, std::string expected) const {
    fail(ProblemId::manifest_bad, at_key(), std::move(got), std::move(expected));
  }
  Place at_key() const {
    Place place = place_;
    place.tensor = entry_;
    return place;
  }

  void visit(std::span<const std::string> keys, const JsonValue& v) {
    if (keys.size() == 1 && keys[0] == "schema") {
      if (v.kind != Kind::kText || v.text != kSchema)
        bad(v.kind == Kind::kText ? std::string(v.text) : "a schema that is not text", std::string(kSchema));
      schema_ = true;
    }
    if (keys.size() == 1 && keys[0] == "objects" && !out_.objects) out_.objects.emplace();
    const bool known = !keys.empty() && (keys[0] == "tensors" || keys[0] == "objects" || keys[0] == "files");
    if (!known) return;
    if (keys.size() < 3 && v.kind != Kind::kObject) bad("a value at '" + keys.back() + "'", "an object");
    if (keys.size() == 2) return begin_entry(keys);
    if (keys.size() == 3) return member(keys[2], v);
    if (keys.size() == 4 && keys[2] == "shape" && entry_members_.shape) return size(v);
  }

  void begin_entry(std::span<const std::string> keys) {
    end_entry();
    section_ = keys[0];
    entry_ = keys[1];
    in_entry_ = true;
  }

  template <class T>
  void set(std::optional<T>& to, T value, std::string_view name) {
    if (to) bad("two members '" + std::string(name) + "'", "one");
    to = std::move(value);
  }

  void member(std::string_view name, const JsonValue& v) {
    RawEntry& e = entry_members_;
    if (name == "shape") {
      if (v.kind != Kind::kArray) bad("a shape that is not a list", "a list of sizes");
      return set(e.shape, std::vector<int64_t>(), name);
    }
    if (name == "bytes") {
      if (v.kind != Kind::kNatural) bad("bytes that are not a number", "a number");
      return set(e.bytes, v.number, name);
    }
    if (name != "dtype" && name != "crc64" && name != "xxh3_128") return;
    if (v.kind != Kind::kText) bad(std::string(name) + " that is not text", "text");
    if (name == "dtype") return set(e.dtype, std::string(v.text), name);
    const size_t digits = name == "crc64" ? kCrcDigits : kFileDigits;
    if (v.text.size() != digits || !is_hex(v.text))
      bad("the digest '" + std::string(v.text.substr(0, 40)) + "'", std::to_string(digits) + " hexadecimal digits");
    if (name == "xxh3_128") return set(e.xxh3_128, std::string(v.text), name);
    uint64_t crc = 0;
    std::from_chars(v.text.data(), v.text.data() + v.text.size(), crc, 16);
    set(e.crc64, crc, name);
  }

  void size(const JsonValue& v) {
    std::vector<int64_t>& shape = *entry_members_.shape;
    if (v.kind != Kind::kNatural || v.number > static_cast<uint64_t>(INT64_MAX)) bad("a size that is not a natural number", "a size");
    if (shape.size() == limits_.tensor_rank)
      fail(ProblemId::over_limit, at_key(), std::to_string(shape.size() + 1) + " dims", "at most " + std::to_string(limits_.tensor_rank));
    shape.push_back(static_cast<int64_t>(v.number));
  }

  void end_entry() {
    if (!in_entry_) return;
    const RawEntry e = std::exchange(entry_members_, {});
    bool fresh = false, whole = false;
    if (section_ == "tensors") {
      whole = e.dtype && e.shape && e.crc64;
      if (whole) fresh = out_.tensors.try_emplace(entry_, Manifest::Tensor{*e.dtype, *e.shape, *e.crc64}).second;
    } else if (section_ == "objects") {
      whole = e.bytes && e.crc64;
      if (whole) fresh = out_.objects->try_emplace(entry_, Manifest::Object{*e.bytes, *e.crc64}).second;
    } else {
      whole = e.bytes && e.xxh3_128;
      if (whole) fresh = out_.files.try_emplace(entry_, Manifest::File{*e.bytes, *e.xxh3_128}).second;
    }
    if (!whole)
      bad("an entry of '" + section_ + "' without all its members", "dtype, shape and crc64 of a tensor, bytes and a digest of others");
    if (!fresh) bad("two entries of this name", "one");
    in_entry_ = false;
  }

  const Place& place_;
  const Limits& limits_;
  Manifest out_;
  bool schema_ = false, in_entry_ = false;
  std::string section_, entry_;
  RawEntry entry_members_;
};

class Comparer {
 public:
  Comparer(const Manifest& expected, const Manifest& found, const Place& place, ManifestRules rules)
      : expected_(expected), found_(found), place_(place), rules_(rules) {}

  ManifestComparison run() {
    compare(expected_.tensors, found_.tensors);
    objects();
    if (rules_.subset == Subset::kYes && lacking_ > 0) note(ProblemId::manifest_key_lacking, lacking_text());
    files();
    return std::move(out_);
  }

 private:
  void add(ProblemId id, Severity severity, Place place, std::string got, std::string expected = {}) {
    out_.findings.push_back(make_finding(id, severity, std::move(place), std::move(got), std::move(expected)));
  }
  void note(ProblemId id, std::string got) {
    add(id, Severity::kNote, place_, std::move(got));
    out_.findings.back().hint.clear();
  }
  Place at(const std::string& key, const Manifest::Tensor&) const {
    Place place = place_;
    place.tensor = key;
    return place;
  }
  Place at(const std::string& key, const Manifest::Object&) const {
    Place place = place_;
    place.tensor = key;
    place.object = true;
    return place;
  }

  template <class Entries>
  void compare(const Entries& expected, const Entries& found) {
    for (const auto& [key, e] : expected) {
      const auto it = found.find(key);
      if (it == found.end()) {
        lack(at(key, e), described(e));
        continue;
      }
      ++out_.keys;
      if (!(it->second == e)) add(ProblemId::manifest_value_differs, Severity::kDamage, at(key, e), described(it->second), described(e));
    }
    for (const auto& [key, f] : found)
      if (!expected.contains(key)) add(ProblemId::manifest_key_extra, Severity::kDamage, at(key, f), described(f));
  }

  void objects() {
    if (expected_.objects && found_.objects) return compare(*expected_.objects, *found_.objects);
    const uint64_t here = found_.objects ? found_.objects->size() : rules_.objects_here;
    const uint64_t there = expected_.objects ? expected_.objects->size() : 0;
    if (here + there > 0)
      note(ProblemId::manifest_objects_apart, counted(here, "object") + " here, " + std::to_string(there) + " in the manifest");
  }

  void lack(Place place, std::string what) {
    if (++lacking_ <= 5) lacking_names_ += (lacking_names_.empty() ? "" : ", ") + place.tensor;
    if (rules_.subset == Subset::kNo) add(ProblemId::manifest_key_lacking, Severity::kDamage, std::move(place), {}, std::move(what));
  }
  std::string lacking_text() const {
    return lacking_ > 5 ? lacking_names_ + " and " + std::to_string(lacking_ - 5) + " more" : lacking_names_;
  }

  void files() {
    if (expected_.files.empty() || found_.files.empty()) return;
    const auto same_place = [](const auto& a, const auto& b) { return a.first == b.first && a.second.bytes == b.second.bytes; };
    if (!std::ranges::equal(expected_.files, found_.files, same_place)) return note(ProblemId::manifest_other_files, {});
    for (const auto& [name, e] : expected_.files) {
      ++out_.files;
      const Manifest::File& f = found_.files.at(name);
      Place place = place_;
      if (rules_.files == FilesAre::kBelow) place.path += "/" + name;
      if (!(f == e)) add(ProblemId::manifest_file_differs, Severity::kDamage, std::move(place), "XXH3-128 " + f.xxh3_128, e.xxh3_128);
    }
  }

  const Manifest& expected_;
  const Manifest& found_;
  const Place& place_;
  const ManifestRules rules_;
  ManifestComparison out_;
  uint64_t lacking_ = 0;
  std::string lacking_names_;
};

}  // namespace

std::string write_manifest(const Manifest& manifest, const Place& place) {
  const auto members = [&](JsonWriter& out) {
    out.member("schema", kSchema).key("files").begin_object();
    for (const auto& [name, f] : manifest.files)
      out.key(checked_name(name, place)).begin_object().member("bytes", f.bytes).member("xxh3_128", f.xxh3_128).end_object();
    out.end_object();
    if (manifest.objects) {
      out.key("objects").begin_object();
      for (const auto& [key, o] : *manifest.objects)
        out.key(checked_name(key, place)).begin_object().member("bytes", o.bytes).member("crc64", hex(o.crc64, kCrcDigits)).end_object();
      out.end_object();
    }
    out.key("tensors").begin_object();
    for (const auto& [key, t] : manifest.tensors) {
      out.key(checked_name(key, place)).begin_object().member("crc64", hex(t.crc64, kCrcDigits));
      out.member("dtype", t.dtype).member("shape", t.shape).end_object();
    }
    out.end_object();
  };
  return json_document(members, 1);
}

Manifest read_manifest(std::string_view json, const Place& place, const Limits& limits) { return Reader(place, limits).read(json); }

ManifestComparison compare_manifests(const Manifest& expected, const Manifest& found, const Place& place, ManifestRules rules) {
  return Comparer(expected, found, place, rules).run();
}

}  // namespace dcp
