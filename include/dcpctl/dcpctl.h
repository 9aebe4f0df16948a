// All of the library. A checkpoint is a folder of torch.distributed.checkpoint (`.metadata` and .distcp files), or any of the other kinds
// that the program dcpctl reads: torch.save and safetensors files, Hugging Face folders, files of ranks, a step of a run.
#pragma once

#include "dcpctl/checkpoint.h"  // IWYU pragma: export
#include "dcpctl/error.h"       // IWYU pragma: export
#include "dcpctl/rewrite.h"     // IWYU pragma: export
#include "dcpctl/save.h"        // IWYU pragma: export
#include "dcpctl/verify.h"      // IWYU pragma: export
