// How the written files get the output's name.
#include "files/claim.h"
#include "files/file_set_state.h"
#include "files/output_free.h"

namespace dcp {

// The file is checked before the rename, and again afterwards, since its name may come to mean another file in between. Such a file is
// renamed back.
void FileSet::State::rename_written(const Renaming& r, const FileFacts& made, Replace replace) {
  check_written(r.path, made, io.facts(r.in, r.from));
  io.rename(r.in, r.from, r.to, replace);
  bool written = true;  // if it cannot be checked afterwards, the check before must do
  ignoring_errors([&] { written = is_written(made, io.facts(r.in, r.to)); });
  if (written) return;
  ignoring_errors([&] {
    try {
      io.rename(r.in, r.to, r.from, Replace::kNo);
    } catch (const Error&) {  // the name is taken again; a file must at least not keep the output's name
      if (made.kind == FileKind::kRegular) io.remove_file(r.in, r.to);
    }
  });
  fail(ProblemId::output_swapped, Place{.path = r.path});
}

// Links the open file to its name, so that no other file can get it. A name that is taken can only be replaced by a rename.
void FileSet::State::name_file(uint32_t file, Replace replace) {
  const File& f = files[file];
  if (replace == Replace::kNo && f.sharing == Sharing::kCopy && io.link(handle(file)->get(), folder(), f.final_name)) return;
  rename_written({path_of(f), folder(), f.name, f.final_name}, *f.made, replace);
}

void FileSet::State::check_folder() const {
  for (const File& f : files) check_written(path_of(f), *f.made, io.facts(inside.get(), f.name));
  if (io.list(inside.get()).size() != files.size()) fail(ProblemId::output_swapped, Place{.path = path_of(partial)}, "other files");
}

// The moment without an output is as short as possible without an exchange; remove_leftovers repairs a crash in it. All memory is allocated
// before, since afterwards there is no way back.
void FileSet::State::swap_folders() {
  check_folder();
  const auto there = options.replace == Replace::kYes ? io.open_folder(around.get(), name) : std::nullopt;
  OpenFile replaced;
  std::vector<DirEntry> outdated;
  if (there) {
    replaced = OpenFile(io, *there);
    outdated = io.list(replaced.get());
    check_replaceable(out, outdated);
    rename_written({out, around.get(), name, old}, io.facts(replaced.get()), Replace::kNo);
  } else if (options.replace == Replace::kYes && io.facts(around.get(), name).value_or(FileFacts{}).link) {
    io.remove_file(around.get(), name);  // a link holds no data, and the sandbox does not allow renaming it
  }
  bool named = false;
  try {
    rename_written({path_of(partial), around.get(), partial, name}, io.facts(inside.get()), Replace::kNo);
    named = true;
    // A file could be swapped after the first check, and even after the second: by a call that had found the folder under its old name and
    // waited for ours to end. What others do in the folder afterwards, no run can know.
    check_folder();
    if (permissions) io.set_permissions(inside.get(), *permissions);
    check_folder();
  } catch (...) {
    if (named) ignoring_errors([&] { io.rename(around.get(), name, partial, Replace::kNo); });
    if (replaced) ignoring_errors([&] { io.rename(around.get(), old, name, Replace::kNo); });
    throw;
  }
  committed = true;
  if (permissions) sync_folder(inside.get());
  sync_folder(around.get());
  if (!replaced) return;
  for (const DirEntry& e : outdated) io.remove_file(replaced.get(), e.name);
  replaced = OpenFile();
  io.remove_folder(around.get(), old);
}

// The last file implies that the others exist, so it must not reach the disk before them. Working names are removed after it: until then
// they show the next run which files are ours.
void FileSet::State::name_in_place() {
  const auto now = io.facts(out);
  if (!now || now->id != io.facts(inside.get()).id) fail(ProblemId::output_swapped, Place{.path = out});
  for (uint32_t i = 0; i < files.size(); ++i) {
    if (i > 0 && i + 1 == files.size()) sync_folder(inside.get());
    name_file(i, Replace::kNo);
  }
  committed = true;
  for (const File& f : files) remove_written(f.name, *f.made);
  sync_folder(inside.get());
}

void FileSet::commit() {
  State& s = *state_;
  switch (s.form) {
    case State::Form::kFile:
      s.name_file(0, s.options.replace);
      s.committed = true;
      s.remove_written(s.partial, *s.files[0].made);
      s.sync_folder(s.around.get());
      break;
    case State::Form::kFolder: s.swap_folders(); break;
    case State::Form::kInPlace: s.name_in_place(); break;
  }
  s.clean_up();
}

}  // namespace dcp
