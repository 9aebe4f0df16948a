// What an output may be put in the place of: nothing, a folder with nothing in it, or with --force an output of the same kind or a link, which
// goes without what it points to.
#pragma once

#include <string>
#include <vector>

#include "base/io.h"

namespace dcp {

// Throws output_exists, or io_create where there is no folder around it. What FileSet's constructor checks first; for --dry-run, and for
// failing before any work.
void check_output_free(Io& io, const std::string& out, bool folder, Replace replace);

// Throws io_no_space where `bytes` have no room: what FileSet meets next, for --dry-run.
void check_output_room(Io& io, const std::string& out, bool folder, Replace replace, uint64_t bytes);
void check_space(Io& io, const std::string& out, const std::string& folder, uint64_t bytes);

// An empty folder, or a link to one that nobody asked to replace, gets the output's files itself.
bool is_filled_in_place(Io& io, const std::string& out, bool folder, Replace replace);

// Of the two halves of check_output_free for a folder. A folder that is to be replaced goes with all that is in it: output_exists if that is more than an
// output consists of.
bool is_empty_folder(Io& io, const std::string& path);
void check_replaceable(const std::string& out, const std::vector<DirEntry>& entries);

// A file of ours inside a folder that is filled in place.
bool is_working_file(const DirEntry& entry);

}  // namespace dcp
