#include "files/output_free.h"

#include <algorithm>
#include <functional>

#include "base/file_names.h"
#include "base/text.h"
#include "files/claim.h"

namespace dcp {
namespace {

[[noreturn]] void fail_exists(const std::string& out, std::string got, bool force_helps) {
  Problem problem = make_problem(ProblemId::output_exists, Place{.path = out}, std::move(got));
  if (!force_helps) problem.hint = "give another name";
  throw Error(std::move(problem));
}

void check_parent(Io& io, const std::string& out) {
  const std::string parent = folder_around(out);
  if (parent == "." || parent == "/") return;
  const std::optional<FileFacts> facts = io.facts(parent);
  if (facts && facts->kind == FileKind::kDirectory) return;
  fail(ProblemId::io_create, Place{.path = out}, (facts ? "no folder but a file at '" : "no folder '") + parent + "'");
}

// The facts of the output. For a link they are those of its target, or, if that does not exist, of the link.
std::optional<FileFacts> facts_of_output(Io& io, const std::string& out) {
  const std::optional<FileFacts> facts = io.facts(out);
  if (facts) return facts;
  const NameIn named = open_parent(io, out);
  return io.facts(named.folder.get(), named.name);
}

// nullopt: the folder is gone. Another run may be replacing it; then the name does not exist for a moment.
std::optional<std::vector<DirEntry>> entries_of(Io& io, const std::string& folder) {
  for (int tries = 3;; --tries) {
    try {
      return io.list(folder);
    } catch (const Error& error) {
      if (error.problem().id != ProblemId::io_list || tries == 0) throw;
      if (!io.facts(folder)) return {};
    }
  }
}

}  // namespace

bool is_working_file(const DirEntry& entry) {
  return entry.kind == FileKind::kRegular && (entry.name == kLock || (entry.name.starts_with('.') && entry.name.ends_with(kPartial)));
}

bool has_working_name(Io& io, Handle folder, const std::string& name) {
  const auto named = io.facts(folder, name), working = io.facts(folder, beside(name, kPartial));
  return named && working && !named->link && !working->link && named->id == working->id;
}

bool is_empty_folder(Io& io, const std::string& path) {
  const std::optional<std::vector<DirEntry>> entries = entries_of(io, path);
  if (!entries) return false;
  const auto is_partial = [](const DirEntry& e) { return is_working_file(e) && e.name != kLock; };
  const auto partials = std::ranges::count_if(*entries, is_partial);
  const auto named = std::ranges::count_if(*entries, std::not_fn(is_working_file));
  if (named == 0) return true;
  if (named >= partials) return false;  // there is something else, or all files have their final names and the output is complete
  const OpenFile folder(io, io.open_folder(path));
  return std::ranges::all_of(*entries, [&](const DirEntry& e) { return is_working_file(e) || has_working_name(io, folder.get(), e.name); });
}

void check_replaceable(const std::string& out, const std::vector<DirEntry>& entries) {
  const bool has_items = std::ranges::find(entries, kItemMetadata, &DirEntry::name) != entries.end();
  for (const DirEntry& e : entries)
    if (e.kind == FileKind::kDirectory || !(may_be_in_output(e.name) || (has_items && is_item_file(e.name))))
      fail_exists(out, "a folder that holds '" + e.name + "', which is not part of a checkpoint", false);
}

void check_output_free(Io& io, const std::string& out_as_given, bool folder, Replace replace) {
  const std::string out = without_trailing_slashes(out_as_given);
  if (!folder && out != out_as_given) fail(ProblemId::usage, Place{.path = out_as_given}, "a folder's name", "the name of a file");
  check_parent(io, out);
  const std::optional<FileFacts> facts = facts_of_output(io, out);
  if (!facts || is_filled_in_place(io, out, folder, replace)) return;
  if (facts->link && replace == Replace::kYes) return;  // the link itself is replaced, whatever it points to
  if (facts->link) fail_exists(out, "a link", true);
  const std::string name = split_path(out).name;
  // A working folder cannot be renamed, so it can be filled but not replaced.
  const bool movable = !name.empty() && name != "." && name != "..";
  if (facts->kind == FileKind::kOther) fail_exists(out, "neither a file nor a folder", false);
  if (facts->kind == FileKind::kDirectory) {
    if (!folder) fail_exists(out, "a folder", false);
    if (replace == Replace::kNo || !movable) fail_exists(out, "a folder that is not empty", movable);
    if (const auto entries = entries_of(io, out)) check_replaceable(out, *entries);
  } else {
    if (folder) fail_exists(out, "a file", false);
    if (replace == Replace::kNo) fail_exists(out, "a file", true);
  }
}

void check_space(Io& io, const std::string& out, const std::string& folder, uint64_t bytes) {
  const std::optional<uint64_t> free = io.free_bytes(folder);
  if (!free || *free >= bytes) return;
  fail(ProblemId::io_no_space, Place{.path = out}, "needs " + human_bytes(bytes) + ", " + human_bytes(*free) + " free");
}

bool is_filled_in_place(Io& io, const std::string& out, bool folder, Replace replace) {
  if (!folder) return false;
  const std::optional<FileFacts> facts = io.facts(out);
  return facts && facts->kind == FileKind::kDirectory && !(facts->link && replace == Replace::kYes) && is_empty_folder(io, out);
}

void check_output_room(Io& io, const std::string& out_as_given, bool folder, Replace replace, uint64_t bytes) {
  const std::string out = without_trailing_slashes(out_as_given);
  check_space(io, out, is_filled_in_place(io, out, folder, replace) ? out : folder_around(out), bytes);
}

}  // namespace dcp
