// The state of a FileSet. It is made and removed in file_set.cc, and committed in file_set_commit.cc.
#pragma once

#include "base/file_names.h"
#include "base/store.h"
#include "files/file_set.h"

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

}  // namespace dcp
