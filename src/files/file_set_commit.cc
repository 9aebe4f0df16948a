// How what was written gets the output's name.
#include "files/claim.h"
#include "files/file_set_state.h"
#include "files/output_free.h"

namespace dcp {

// Looked at before, and since the name may come to mean another file in that very moment, afterwards: then it goes back to where it was
// put.
void FileSet::State::rename_written(const Renaming& r, const FileFacts& made, Replace replace) {
  check_written(r.path, made, io.facts(r.in, r.from));
  io.rename(r.in, r.from, r.to, replace);
  bool written = true;  // should that not be seen afterwards, it was seen before
  ignoring_errors([&] { written = is_written(made, io.facts(r.in, r.to)); });
  if (written) return;
  ignoring_errors([&] {
    try {
      io.rename(r.in, r.to, r.from, Replace::kNo);
    } catch (const Error&) {  // something is there again; a file may at least not stay under the output's name
      if (made.kind == FileKind::kRegular) io.remove_file(r.in, r.to);
    }
  });
  fail(ProblemId::output_swapped, Place{.path = r.path});
}

// The file gets its name from what is open, so that no other can get it. A name that is taken can only be given by renaming.
void FileSet::State::name_file(uint32_t file, Replace replace) {
  const File& f = files[file];
  if (replace == Replace::kNo && f.sharing == Sharing::kCopy && io.link(handle(file)->get(), folder(), f.final_name)) return;
  rename_written({path_of(f), folder(), f.name, f.final_name}, *f.made, replace);
}

void FileSet::State::check_folder() const {
  for (const File& f : files) check_written(path_of(f), *f.made, io.facts(inside.get(), f.name));
  if (io.list(inside.get()).size() != files.size()) fail(ProblemId::output_swapped, Place{.path = path_of(partial)}, "other files");
}

// The moment without any output is as short as it can be without an exchange; a crash in it is repaired by remove_leftovers. What memory
// it takes is taken before: afterwards there is no way back.
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
    io.remove_file(around.get(), name);  // it holds nothing that could be lost, and to give a link another name the sandbox does not allow
  }
  bool named = false;
  try {
    rename_written({path_of(partial), around.get(), partial, name}, io.facts(inside.get()), Replace::kNo);
    named = true;
    // A file could be exchanged behind the look at it, and even behind a second one: in a call that had found the folder under its old
    // name, and waited for ours to end. Of what others do in it afterwards no run can know.
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

// The last file says that the others are there, so it must not reach the disk before them. Working names go when it is there: until then they
// tell the next run what is ours.
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
