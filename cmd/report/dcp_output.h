// What the commands that write a DCP folder share.
#pragma once

#include <string>

#include "app/output.h"
#include "base/json.h"
#include "line/context.h"

namespace dcp::cmd {

struct DcpFlags {
  std::string for_torch;

  // Throws usage.
  TorchTarget target() const;
};
// --for-torch.
void add_dcp(Command& command, DcpFlags& flags);
// Throws usage if one of them was given with an output that is not a DCP folder.
void refuse_dcp_flags(const DcpFlags& flags, const std::string& out);

// One line for each thing that users of the folder should know.
void describe_dcp(Context& context, const DcpNotes& notes);
void dcp_json(JsonWriter& out, const DcpNotes& notes);
// Of any folder for a number of ranks.
void describe_layout(Context& context, const std::vector<KeyNote>& replicated, const std::vector<RankBound>& rank_bound,
                     uint32_t world_size);
void layout_json(JsonWriter& out, const std::vector<std::string>& unmatched, const std::vector<KeyNote>& replicated,
                 const std::vector<RankBound>& rank_bound);

}  // namespace dcp::cmd
