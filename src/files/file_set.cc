#include "files/file_set.h"

#include <algorithm>
#include <functional>

#include "base/checked.h"
#include "base/file_names.h"
#include "base/store.h"
#include "files/claim.h"
#include "files/output_free.h"

namespace dcp {

struct FileSet::State {
  enum class Form : uint8_t { kFile, kFolder, kInPlace };
  struct File {
    std::string name, final_name;  // in the folder that the files are written into; equal if the folder is renamed as a whole
    uint64_t bytes;
    std::optional<FileFacts> made{};  // as soon as they are known
    Sharing sharing = Sharing::kCopy;
  };

  Io& io;
  const std::string out;
  const FileSetOptions options;
  const std::string name, partial, old;  // of the output, and beside it
  Form form = Form::kFile;
  OpenFile around, inside;  // the folder of those names; the one that files are written into, if it is a different one
  std::string lock_name;
  OpenFile lock;
  uint32_t owner = 0;  // of files that we create here
  std::vector<File> files;
  RecentFiles opened;
  bool made_folder = false;             // `partial` is a folder of ours
  FileId made_id;                       // of it
  std::optional<uint32_t> permissions;  // that it will get; until then it is private to its owner. nullopt: it has them
  bool committed = false;

  State(Io& the_io, std::string path, FileSetOptions the_options)
      : io(the_io),
        out(without_trailing_slashes(std::move(path))),
        options(the_options),
        name(split_path(out).name),
        partial(beside(name, kPartial)),
        old(beside(name, kOld)),
        opened(the_options.open_files) {}
  ~State() { clean_up(); }

  void prepare(const std::vector<FileSpec>& specs, std::vector<std::string>& found, std::vector<std::string>& notes);
  void check_capabilities() const;
  void take_lock();
  void remove_leftovers(std::vector<std::string>& found);
  void check_space(const std::vector<FileSpec>& specs) const;
  void make_partial_folder();
  void create(const FileSpec& spec);
  bool share(const FileSpec& spec, File& file);
  Handle folder() const { return inside ? inside.get() : around.get(); }
  std::string path_of(const std::string& beside_out) const { return split_path(out).prefix + beside_out; }
  std::string path_of(const File& f) const {
    return form == Form::kFile ? path_of(f.name) : (form == Form::kInPlace ? out : path_of(partial)) + "/" + f.name;
  }
  std::shared_ptr<const OpenFile> handle(uint32_t file);
  // Only a descriptor that was open all the time is sure to report write-back errors when it is synced.
  Cache cache() const { return options.sync && files.size() <= options.open_files ? Cache::kPass : Cache::kKeep; }
  bool is_written(const FileFacts& made, const std::optional<FileFacts>& now) const;
  void check_written(const std::string& path, const FileFacts& made, const std::optional<FileFacts>& now) const;
  struct Renaming {
    const std::string& path;  // for messages
    Handle in = 0;
    const std::string &from, &to;
  };
  void rename_written(const Renaming& r, const FileFacts& made, Replace replace);
  void name_file(uint32_t file, Replace replace);
  void check_folder() const;
  void swap_folders();
  void name_in_place();
  void remove_written(const std::string& file, const FileFacts& made);
  void clean_up() noexcept;
  void sync_folder(Handle which) {
    if (options.sync) io.sync_folder(which);
  }
};

void FileSet::State::prepare(const std::vector<FileSpec>& specs, std::vector<std::string>& found, std::vector<std::string>& notes) {
  check_output_free(io, out, options.folder, options.replace);
  const bool in_place = is_filled_in_place(io, out, options.folder, options.replace);
  form = in_place ? Form::kInPlace : options.folder ? Form::kFolder : Form::kFile;
  around = open_parent(io, out).folder;
  if (in_place) inside = OpenFile(io, io.open_folder(out));
  check_capabilities();

  take_lock();
  remove_leftovers(found);
  // Check again, now that nobody else writes: a concurrent dcpctl may have finished in between, or restored an old output.
  check_output_free(io, out, options.folder, options.replace);
  check_space(specs);
  if (form == Form::kFolder) make_partial_folder();
  files.reserve(specs.size());
  for (const FileSpec& spec : specs) create(spec);
  if (!io.write_capabilities(folder()).reserves)
    notes.push_back("'" + escaped(out) + "': the file system reserves no space, so it may run out later");
}

void FileSet::State::check_capabilities() const {
  const WriteCapabilities can = io.write_capabilities(folder());
  const auto refuse = [&](const char* what) { fail(ProblemId::output_unfit, Place{.path = out}, what); };
  if (!can.writes_anywhere) refuse("files there can only be written from front to back");
  if (form == Form::kFile && !can.replaces_atomically && io.facts(around.get(), name))
    refuse("a file there cannot be replaced in one step");
}

void FileSet::State::take_lock() {
  lock_name = form == Form::kInPlace ? kLock : beside(name, kLock);
  lock = lock_output(io, folder(), lock_name);
  if (!lock) fail(ProblemId::output_busy, Place{.path = out});
  owner = io.facts(lock.get()).owner;
}

void FileSet::State::remove_leftovers(std::vector<std::string>& found) {
  const auto remove = [&](const std::string& path, const std::string& left, const FileFacts& facts, Links links, const std::string& what) {
    remove_leftover(io, {folder(), left, facts}, owner, links);
    found.push_back("removed '" + escaped(path) + "', " + what);
  };
  const std::string interrupted = "left by an interrupted run";
  if (form == Form::kInPlace) {
    std::vector<DirEntry> entries = io.list(inside.get());
    // Files with final names come first: the working names show that they are ours.
    std::ranges::stable_partition(entries, std::not_fn(is_working_file));
    for (const DirEntry& entry : entries) {
      if (entry.name == kLock || (!is_working_file(entry) && !has_working_name(io, inside.get(), entry.name))) continue;
      if (const auto facts = io.facts(inside.get(), entry.name))
        remove(out + "/" + entry.name, entry.name, *facts, Links::kNever, interrupted);
    }
    return;
  }
  if (const auto facts = io.facts(around.get(), partial)) remove(path_of(partial), partial, *facts, Links::kNever, interrupted);
  const auto replaced = io.facts(around.get(), old);
  if (!replaced) return;
  // An interrupted run had moved the old folder aside. If no new one took its place, it is still the output.
  if (io.facts(around.get(), name)) return remove(path_of(old), old, *replaced, Links::kMayBe, "replaced by an interrupted run");
  if (replaced->link || replaced->kind != FileKind::kDirectory)
    fail(ProblemId::leftover_foreign, Place{.path = path_of(old)}, {}, "a folder");
  io.rename(around.get(), old, name, Replace::kNo);
  found.push_back("put '" + escaped(out) + "' back, moved aside by an interrupted run");
}

void FileSet::State::check_space(const std::vector<FileSpec>& specs) const {
  const std::string folder = form == Form::kInPlace ? out : folder_around(out);
  uint64_t needed = 0;
  for (const FileSpec& spec : specs)
    if (spec.bytes != FileSpec::kGrows && (!spec.same_as || options.sharing == Sharing::kCopy))
      needed = add_or_fail(needed, spec.bytes, Place{.path = out});
  dcp::check_space(io, out, folder, needed);
}

// The folder that is opened may already be a different one; an empty folder of ours is as good as the one that was made. Other users get
// access once it has the output's name.
void FileSet::State::make_partial_folder() {
  io.make_folder(around.get(), partial);
  made_folder = true;
  const std::optional<Handle> made = io.open_folder(around.get(), partial);
  OpenFile opened_folder;
  if (made) opened_folder = OpenFile(io, *made);
  if (made && io.facts(*made).owner == owner) permissions = io.make_private(*made);
  if (!made || io.facts(*made).owner != owner || !io.list(*made).empty()) fail(ProblemId::output_swapped, Place{.path = path_of(partial)});
  inside = std::move(opened_folder);
  made_id = io.facts(inside.get()).id;
}

void FileSet::State::create(const FileSpec& spec) {
  File file{.name = partial, .final_name = name, .bytes = spec.bytes};
  if (form == Form::kFolder) file.name = file.final_name = spec.name;
  if (form == Form::kInPlace) file.name = beside(spec.name, kPartial), file.final_name = spec.name;
  if (spec.same_as && options.sharing != Sharing::kCopy && share(spec, file)) return files.push_back(std::move(file));
  const auto handle = opened.open(static_cast<uint32_t>(files.size()), [&] {
    OpenFile open(io, io.create(folder(), file.name));
    files.push_back(std::move(file));  // the set owns it from here on; push_back cannot throw, as there is room
    files.back().made = io.facts(open.get());
    return open;
  });
  if (spec.bytes != FileSpec::kGrows) io.allocate(handle->get(), spec.bytes);
}

// Returns false if the file has to be written; nothing of it exists then. `files` has room.
bool FileSet::State::share(const FileSpec& spec, File& file) {
  const OpenFile source = spec.same_as();
  if (!source && options.sharing != Sharing::kBest) fail(ProblemId::share_impossible, Place{.path = path_of(file)}, "another store");
  if (!source) return false;
  if (options.sharing != Sharing::kLink) {
    OpenFile clone(io, io.create(folder(), file.name));
    bool is_clone = false;
    try {
      is_clone = io.clone(source.get(), clone.get());
      if (is_clone) file.made = io.facts(clone.get());
      if (is_clone && options.sync) io.sync(clone.get());
    } catch (...) {
      ignoring_errors([&] { io.remove_file(folder(), file.name); });
      throw;
    }
    file.sharing = Sharing::kClone;
    if (is_clone) return true;
    io.remove_file(folder(), file.name);
    if (options.sharing == Sharing::kClone) fail(ProblemId::share_impossible, Place{.path = path_of(file)}, "no reflink");
  }
  file.sharing = Sharing::kLink;
  file.made = io.facts(source.get());
  if (io.link(source.get(), folder(), file.name)) return true;
  file.made.reset();
  if (options.sharing == Sharing::kLink) fail(ProblemId::share_impossible, Place{.path = path_of(file)}, "no hard link");
  file.sharing = Sharing::kCopy;
  return false;
}

std::shared_ptr<const OpenFile> FileSet::State::handle(uint32_t file) {
  return opened.open(file, [&] {
    const File& f = files.at(file);
    const std::optional<Handle> again = io.open_write(folder(), f.name);
    OpenFile open;
    if (again) open = OpenFile(io, *again);
    check_written(path_of(f), *f.made, again ? std::optional(io.facts(*again)) : std::nullopt);
    return open;
  });
}

// Where ids do not last, a file of the same owner and kind counts.
bool FileSet::State::is_written(const FileFacts& made, const std::optional<FileFacts>& now) const {
  return now && !now->link && now->kind == made.kind && now->owner == made.owner &&
         (now->id == made.id || !io.write_capabilities(folder()).keeps_ids);
}

void FileSet::State::check_written(const std::string& path, const FileFacts& made, const std::optional<FileFacts>& now) const {
  if (!is_written(made, now)) fail(ProblemId::output_swapped, Place{.path = path}, now ? "" : "nothing");
}

void FileSet::State::remove_written(const std::string& file, const FileFacts& made) {
  if (is_written(made, io.facts(folder(), file))) io.remove_file(folder(), file);
}

// Removes what this object created and nothing else; after a commit that is only the lock. The lock is removed last: until then no other
// run may claim the files here. Its file is removed before the lock is released (lock_output says why).
void FileSet::State::clean_up() noexcept {
  opened.close_all();
  for (const File& f : files) {
    if (committed) break;
    ignoring_errors([&] { f.made ? remove_written(f.name, *f.made) : io.remove_file(folder(), f.name); });
    if (form == Form::kInPlace && f.made) ignoring_errors([&] { remove_written(f.final_name, *f.made); });
  }
  files.clear();
  if (made_folder && !committed) {
    ignoring_errors([&] {
      if (!inside || is_written(io.facts(inside.get()), io.facts(around.get(), partial))) io.remove_folder(around.get(), partial);
    });
  }
  made_folder = false;
  if (lock) ignoring_errors([&] { io.remove_file(form == Form::kInPlace ? inside.get() : around.get(), lock_name); });
  for (OpenFile* f : {&lock, &inside, &around}) *f = OpenFile();
}

FileSet::FileSet(Io& io, std::string out, std::vector<FileSpec> files, FileSetOptions options)
    : state_(std::make_unique<State>(io, std::move(out), options)) {
  state_->prepare(files, found_, notes_);
}

FileSet::~FileSet() = default;

void FileSet::write(uint32_t file, uint64_t offset, Bytes bytes) {
  const State::File& target = state_->files.at(file);
  if (offset > target.bytes || bytes.size() > target.bytes - offset) {
    fail(ProblemId::internal, Place{.path = state_->path_of(target), .offset = offset, .length = bytes.size()},
         "a write past the planned end", std::to_string(target.bytes) + " bytes in all");
  }
  write_all(state_->io, state_->handle(file)->get(), offset, bytes, state_->cache());
}

void FileSet::finish(const std::function<void()>& between) {
  State& s = *state_;
  if (!s.options.sync) return;
  for (uint32_t file = 0; file < s.files.size(); ++file)
    if (s.files[file].sharing == Sharing::kCopy) sync_all(s.io, s.handle(file)->get(), between);
  if (s.form == State::Form::kFolder) s.io.sync_folder(s.inside.get());
}

void FileSet::read(uint32_t file, uint64_t offset, MutableBytes into) const {
  read_exact(state_->io, state_->handle(file)->get(), offset, into);
}

std::vector<std::string> FileSet::shared() const {
  const State& s = *state_;
  std::vector<std::string> reported;
  const auto add = [&](const std::string& name, const FileFacts& facts) {
    reported.push_back(name);
    reported.push_back(std::to_string(facts.id.inode));
  };
  const bool in_place = s.form == State::Form::kInPlace, made = s.form == State::Form::kFolder;
  add(in_place ? s.out : split_path(s.out).prefix, s.io.facts(in_place ? s.inside.get() : s.around.get()));
  add(made ? s.partial : "", made ? s.io.facts(s.inside.get()) : FileFacts{});
  for (const State::File& f : s.files) add(f.name, *f.made);
  return reported;
}

Sharing FileSet::sharing_of(uint32_t file) const { return state_->files.at(file).sharing; }
void FileSet::drop_cache(uint32_t file) const { state_->io.drop_cache(state_->handle(file)->get()); }

std::string FileSet::name_of(uint32_t file) const {
  const State& s = *state_;
  return s.form == State::Form::kFile ? s.out : s.out + "/" + s.files.at(file).final_name;
}

FileId FileSet::folder_id() const { return state_->made_id; }
void FileSet::abort() noexcept { state_->clean_up(); }

// --- how the written files get the output's name

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
