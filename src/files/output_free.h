// What an output may replace: nothing, an empty folder, or if replacing is allowed an output of the same kind or a link, which is replaced itself and
// not its target.
#pragma once

#include <string>
#include <vector>

#include "base/io.h"

namespace dcp {

// Throws output_exists, or io_create if the parent folder is missing. FileSet's constructor checks this first; here for dry runs, and for
// failing before any work.
void check_output_free(Io& io, const std::string& out, bool folder, Replace replace);

// Throws io_no_space if there is no room for `bytes`: the next check of FileSet, for dry runs.
void check_output_room(Io& io, const std::string& out, bool folder, Replace replace, uint64_t bytes);
void check_space(Io& io, const std::string& out, const std::string& folder, uint64_t bytes);

// Whether the output's files go into the existing folder: an empty one, or a link to one that is not replaced.
bool is_filled_in_place(Io& io, const std::string& out, bool folder, Replace replace);

// Of the two halves of check_output_free for a folder. A folder counts as empty if it holds nothing but what an interrupted run has left that filled
// it. Replacing a folder removes everything in it: output_exists if that is more than an
// output consists of.
bool is_empty_folder(Io& io, const std::string& path);
void check_replaceable(const std::string& out, const std::vector<DirEntry>& entries);

// A file of ours inside a folder that is filled in place.
bool is_working_file(const DirEntry& entry);
// One that has its final name as well: files keep their working names until all have their final ones. What tells an interrupted run's files.
bool has_working_name(Io& io, Handle folder, const std::string& name);

}  // namespace dcp
