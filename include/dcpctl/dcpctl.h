// The whole library. A checkpoint is a torch.distributed.checkpoint folder (`.metadata` and .distcp files), or any other kind that the
// dcpctl program reads: torch.save and safetensors files, Hugging Face folders, per-rank files, a step of a run.
//
// C++20. In CMake: find_package(dcpctl) and target_link_libraries(PROGRAM PRIVATE dcpctl::dcpctl). Paths and keys are bytes, as the system and
// the checkpoint have them; as a rule they are UTF-8.
//
// For C, and for languages that call C, there is dcpctl/c.h.
//
// Functions may be called on several threads at the same time, unless they say otherwise. No function ends the process; a failure is thrown
// as an Error.
#pragma once

#include "dcpctl/checkpoint.h"  // IWYU pragma: export
#include "dcpctl/control.h"     // IWYU pragma: export
#include "dcpctl/error.h"       // IWYU pragma: export
#include "dcpctl/rewrite.h"     // IWYU pragma: export
#include "dcpctl/save.h"        // IWYU pragma: export
#include "dcpctl/verify.h"      // IWYU pragma: export
