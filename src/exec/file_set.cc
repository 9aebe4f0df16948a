#include "exec/file_set.h"

#include <algorithm>

#include "base/checked.h"
#include "base/recent_files.h"
#include "base/working_names.h"
#include "plan/assets.h"

namespace dcp {
namespace {

struct SplitPath {
  std::string prefix;  // up to and with the last '/', or ""
  std::string name;
  std::string folder() const { return prefix.empty() ? "." : without_trailing_slashes(prefix); }
};

SplitPath split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

// Names that are ours inside a folder that is filled in place.
bool is_ours(const DirEntry& entry) {
  return entry.kind == FileKind::kRegular && (entry.name == kLock || (entry.name.starts_with('.') && entry.name.ends_with(kPartial)));
}

bool is_empty_folder(Io& io, const std::string& path) {
  const std::vector<DirEntry> entries = io.list(path);
  return std::all_of(entries.begin(), entries.end(), is_ours);
}

// With --force a folder goes with all that is in it: only what an output consists of may be there.
bool may_be_replaced(const DirEntry& e) {
  if (e.kind == FileKind::kDirectory) return false;
  constexpr std::string_view kEndings[] = {".metadata", ".distcp", ".safetensors", ".safetensors.index.json", kPartial, kLock};
  return is_asset(e.name) || std::ranges::any_of(kEndings, [&](std::string_view ending) { return e.name.ends_with(ending); });
}

// Links are removed themselves, never followed: an old checkpoint may hold links to files that are not part of it.
void remove_tree(Io& io, const std::string& folder) {
  for (const DirEntry& entry : io.list(folder)) {
    const std::string path = folder + "/" + entry.name;
    if (entry.kind == FileKind::kDirectory && !entry.link) {
      remove_tree(io, path);
    } else {
      io.remove_file(path);
    }
  }
  io.remove_folder(folder);
}

void remove_any(Io& io, const std::string& path, const FileFacts& facts) {
  if (facts.kind == FileKind::kDirectory && !facts.link) return remove_tree(io, path);
  io.remove_file(path);
}

template <class F>
void ignoring_errors(F f) noexcept {
  try {
    f();
  } catch (...) {  // cleaning up after an error that is already on its way
  }
}

[[noreturn]] void fail_exists(const std::string& out, std::string got, bool force_helps) {
  Problem problem = make_problem(ProblemId::output_exists, Place{.path = out}, std::move(got));
  if (!force_helps) problem.hint = "give another name";
  throw Error(std::move(problem));
}

void check_parent(Io& io, const std::string& out) {
  const std::string parent = split(out).folder();
  if (parent == "." || parent == "/") return;
  const std::optional<FileFacts> facts = io.facts(parent);
  if (facts && facts->kind == FileKind::kDirectory) return;
  fail(ProblemId::io_create, Place{.path = out}, (facts ? "no folder but a file at '" : "no folder '") + parent + "'");
}

// The lock under `path`, or nothing while another process holds it.
OpenFile lock_file(Io& io, const std::string& path) {
  // A holder removes the file before it lets go, so what was opened may have lost its name: then it locks nothing, and the file that has
  // the name now is tried. Three rounds: each needs another run to end at that very moment.
  for (int round = 0; round < 3; ++round) {
    const bool was_there = io.facts(path).has_value();
    try {
      OpenFile file(io, io.create(path, Create::kReuse));
      if (!io.try_lock(file.get())) return {};
      const std::optional<FileFacts> named = io.facts(path);
      if (named && named->id == io.facts(file.get()).id) return file;
    } catch (...) {
      if (!was_there) ignoring_errors([&] { io.remove_file(path); });
      throw;
    }
  }
  return {};
}

}  // namespace

void check_output_free(Io& io, const std::string& out_as_given, bool folder, Replace replace) {
  const std::string out = without_trailing_slashes(out_as_given);
  if (!folder && out != out_as_given) fail(ProblemId::usage, Place{.path = out_as_given}, "a folder's name", "the name of a file");
  check_parent(io, out);
  const std::optional<FileFacts> facts = io.facts(out);
  if (!facts) return;
  const std::string name = split(out).name;
  // A working folder cannot be renamed, so it can be filled but not replaced.
  const bool movable = !name.empty() && name != "." && name != "..";
  if (facts->kind == FileKind::kOther) fail_exists(out, "neither a file nor a folder", false);
  if (facts->kind == FileKind::kDirectory) {
    if (!folder) fail_exists(out, "a folder", false);
    if (is_empty_folder(io, out)) return;
    if (replace == Replace::kNo || !movable) fail_exists(out, "a folder that is not empty", movable);
    if (facts->link) fail_exists(out, "a link to a folder", false);
    for (const DirEntry& e : io.list(out))
      if (!may_be_replaced(e)) fail_exists(out, "a folder that holds '" + e.name + "', which is no part of a checkpoint", false);
  } else {
    if (folder) fail_exists(out, "a file", false);
    if (replace == Replace::kNo) fail_exists(out, "a file", true);
  }
}

struct FileSet::State {
  enum class Form : uint8_t { kFile, kFolder, kInPlace };
  struct File {
    std::string path;        // until it is renamed
    std::string final_path;  // kInPlace and kFile: where commit renames it to
    uint64_t bytes;
  };

  Io& io;
  const std::string out;
  const FileSetOptions options;
  Form form = Form::kFile;
  std::string partial, old, lock_path;
  OpenFile lock;
  std::vector<File> files;
  size_t renamed = 0;  // kInPlace: so many of them have their final name
  RecentFiles opened;
  bool made_folder = false;  // `partial` is a folder of ours
  bool committed = false;

  State(Io& the_io, std::string path, FileSetOptions the_options)
      : io(the_io), out(without_trailing_slashes(std::move(path))), options(the_options), opened(the_options.open_files) {}
  ~State() { clean_up(); }

  void prepare(const std::vector<FileSpec>& specs, std::vector<std::string>& found, std::vector<std::string>& notes);
  void take_lock();
  void remove_leftovers(std::vector<std::string>& found);
  void check_space(const std::vector<FileSpec>& specs) const;
  void create(const FileSpec& spec, std::vector<std::string>& notes);
  std::shared_ptr<const OpenFile> handle(uint32_t file) {
    return opened.open(file, [&] { return OpenFile(io, io.create(files.at(file).path, Create::kReuse)); });
  }
  // What fails on the way to the medium is told when a file is synced that was open all the time; one opened again may not hear of it.
  Cache cache() const { return options.sync && files.size() <= options.open_files ? Cache::kPass : Cache::kKeep; }
  void swap_folders();
  void rename_in_place();
  void clean_up() noexcept;
  void sync_folder(const std::string& folder) {
    if (options.sync) io.sync_folder(folder);
  }
};

void FileSet::State::prepare(const std::vector<FileSpec>& specs, std::vector<std::string>& found, std::vector<std::string>& notes) {
  check_output_free(io, out, options.folder, options.replace);
  const bool in_place = options.folder && io.facts(out) && is_empty_folder(io, out);
  form = in_place ? Form::kInPlace : options.folder ? Form::kFolder : Form::kFile;
  partial = beside(out, kPartial);
  old = beside(out, kOld);
  lock_path = in_place ? out + "/" + std::string(kLock) : beside(out, kLock);

  take_lock();
  remove_leftovers(found);
  // Again, now that nobody else writes: a twin may have finished in between, or an old output may have come back.
  check_output_free(io, out, options.folder, options.replace);
  check_space(specs);
  if (form == Form::kFolder) {
    io.make_folder(partial);
    made_folder = true;
  }
  files.reserve(specs.size());
  for (const FileSpec& spec : specs) create(spec, notes);
}

void FileSet::State::take_lock() {
  lock = lock_file(io, lock_path);
  if (!lock) fail(ProblemId::output_busy, Place{.path = out});
}

void FileSet::State::remove_leftovers(std::vector<std::string>& found) {
  const auto remove = [&](const std::string& path, const FileFacts& facts, const std::string& what) {
    remove_any(io, path, facts);
    found.push_back("removed '" + escaped(path) + "', " + what);
  };
  const std::string interrupted = "left by an interrupted run";
  if (form == Form::kInPlace) {
    for (const DirEntry& entry : io.list(out)) {
      if (is_ours(entry) && entry.name != kLock) remove(out + "/" + entry.name, {.kind = FileKind::kRegular}, interrupted);
    }
    return;
  }
  if (const auto facts = io.facts(partial)) remove(partial, *facts, interrupted);
  const auto replaced = io.facts(old);
  if (!replaced) return;
  // An interrupted run came as far as moving the old folder aside. Without a new one in its place it is still the output.
  if (io.facts(out)) return remove(old, *replaced, "replaced by an interrupted run");
  io.rename(old, out, Replace::kNo);
  found.push_back("put '" + escaped(out) + "' back, moved aside by an interrupted run");
}

void FileSet::State::check_space(const std::vector<FileSpec>& specs) const {
  const std::string folder = form == Form::kInPlace ? out : split(out).folder();
  uint64_t needed = 0;
  for (const FileSpec& spec : specs) needed = add_or_fail(needed, spec.bytes, Place{.path = out});
  const std::optional<uint64_t> free = io.free_bytes(folder);
  if (!free || *free >= needed) return;
  fail(ProblemId::io_no_space, Place{.path = out}, std::to_string(*free) + " bytes free", std::to_string(needed) + " bytes");
}

void FileSet::State::create(const FileSpec& spec, std::vector<std::string>& notes) {
  File made{.path = partial, .final_path = out, .bytes = spec.bytes};
  if (form == Form::kFolder) made.path = partial + "/" + spec.name;
  if (form == Form::kInPlace) {
    made.final_path = out + "/" + spec.name;
    made.path = beside(made.final_path, kPartial);
  }
  const auto file = opened.open(static_cast<uint32_t>(files.size()), [&] {
    OpenFile open(io, io.create(made.path, Create::kNew));
    files.push_back(std::move(made));  // ours from here on; there is room, so nothing can come between
    return open;
  });
  const bool reserved = io.allocate(file->get(), spec.bytes);
  const std::string note = "'" + escaped(out) + "': the file system reserves no space, so it may run out later";
  if (!reserved && (notes.empty() || notes.back() != note)) notes.push_back(note);
}

// The moment without any output is as short as it can be without an exchange; a crash in it is repaired by remove_leftovers. What memory
// it takes is taken before: afterwards there is no way back. (The old folder holds files only, check_output_free has seen to that.)
void FileSet::State::swap_folders() {
  const bool replacing = options.replace == Replace::kYes && io.facts(out).has_value();
  const std::string around = split(out).folder();
  std::vector<std::string> replaced;
  if (replacing)
    for (const DirEntry& e : io.list(out)) replaced.push_back(old + "/" + e.name);
  if (replacing) io.rename(out, old, Replace::kNo);
  try {
    io.rename(partial, out, Replace::kNo);
  } catch (...) {
    if (replacing) ignoring_errors([&] { io.rename(old, out, Replace::kNo); });
    throw;
  }
  committed = true;
  sync_folder(around);
  if (!replacing) return;
  for (const std::string& path : replaced) io.remove_file(path);
  io.remove_folder(old);
}

// The last file says that the others are there, so it must not reach the disk before them.
void FileSet::State::rename_in_place() {
  for (size_t i = 0; i < files.size(); ++i) {
    if (i > 0 && i + 1 == files.size()) sync_folder(out);
    io.rename(files[i].path, files[i].final_path, Replace::kNo);
    renamed = i + 1;
  }
  committed = true;
  sync_folder(out);
}

// Removes what this object created and nothing else; after a commit that is only the lock. The lock last: until then no other run may
// take what lies here for its own. Its name goes before it is let go (lock_file says why).
void FileSet::State::clean_up() noexcept {
  opened.close_all();
  for (size_t i = 0; i < files.size() && !committed; ++i)
    ignoring_errors([&] { io.remove_file(i < renamed ? files[i].final_path : files[i].path); });
  files.clear();
  if (made_folder && !committed) ignoring_errors([&] { io.remove_folder(partial); });
  made_folder = false;
  if (lock) ignoring_errors([&] { io.remove_file(lock_path); });
  lock = OpenFile();
}

FileSet::FileSet(Io& io, std::string out, std::vector<FileSpec> files, FileSetOptions options)
    : state_(std::make_unique<State>(io, std::move(out), options)) {
  state_->prepare(files, found_, notes_);
}

FileSet::~FileSet() = default;

void FileSet::write(uint32_t file, uint64_t offset, Bytes bytes) {
  const State::File& target = state_->files.at(file);
  if (offset > target.bytes || bytes.size() > target.bytes - offset) {
    fail(ProblemId::internal, Place{.path = target.path, .offset = offset, .length = bytes.size()}, "a write past the planned end",
         std::to_string(target.bytes) + " bytes in all");
  }
  write_all(state_->io, state_->handle(file)->get(), offset, bytes, state_->cache());
}

void FileSet::finish() {
  if (!state_->options.sync) return;
  for (uint32_t file = 0; file < state_->files.size(); ++file) state_->io.sync(state_->handle(file)->get());
  if (state_->form == State::Form::kFolder) state_->io.sync_folder(state_->partial);
}

void FileSet::commit() {
  State& s = *state_;
  switch (s.form) {
    case State::Form::kFile: {
      const std::string around = split(s.out).folder();
      s.io.rename(s.partial, s.out, s.options.replace);
      s.committed = true;
      s.sync_folder(around);
      break;
    }
    case State::Form::kFolder:
      s.swap_folders();
      break;
    case State::Form::kInPlace:
      s.rename_in_place();
      break;
  }
  s.clean_up();
}

void FileSet::read(uint32_t file, uint64_t offset, MutableBytes into) const { read_exact(state_->io, state_->handle(file)->get(), offset, into); }

std::vector<std::string> FileSet::paths() const {
  std::vector<std::string> paths;
  for (const State::File& file : state_->files) paths.push_back(file.path);
  return paths;
}

void FileSet::drop_cache(uint32_t file) const { state_->io.drop_cache(state_->handle(file)->get()); }

std::string FileSet::name_of(uint32_t file) const {
  const State& s = *state_;
  return s.form == State::Form::kFolder ? s.out + "/" + split(s.files.at(file).path).name : s.files.at(file).final_path;
}

void FileSet::abort() noexcept { state_->clean_up(); }

}  // namespace dcp
