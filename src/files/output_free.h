// What an output may replace: an empty folder or, if replacing is allowed, an output of the same kind or a link. A link is replaced itself,
// not its target.
#pragma once

#include <string>
#include <vector>

#include "base/io.h"

namespace dcp {

// Throws output_exists, or io_create if the parent folder is missing. FileSet's constructor checks this first. It is called directly for
// dry runs, and to fail before any work.
void check_output_free(Io& io, const std::string& out, bool folder, Replace replace);

// Throws io_no_space if there is no room for `bytes`. FileSet checks this next; it is called directly for dry runs.
void check_output_room(Io& io, const std::string& out, bool folder, Replace replace, uint64_t bytes);
void check_space(Io& io, const std::string& out, const std::string& folder, uint64_t bytes);

// Whether the output's files go into the existing folder: an empty one, or a link to one that is not replaced.
bool is_filled_in_place(Io& io, const std::string& out, bool folder, Replace replace);

// Called by check_output_free for folders. A folder counts as empty if it contains only leftovers of an interrupted run that was filling
// it. Replacing a folder removes everything in it, so check_replaceable throws output_exists if it contains anything that is not part of an
// output.
bool is_empty_folder(Io& io, const std::string& path);
void check_replaceable(const std::string& out, const std::vector<DirEntry>& entries);

// A file of ours inside a folder that is filled in place.
bool is_working_file(const DirEntry& entry);
// Whether the file has a working name besides its final one: files keep their working names until all have their final ones. This
// identifies an interrupted run's files.
bool has_working_name(Io& io, Handle folder, const std::string& name);

}  // namespace dcp
