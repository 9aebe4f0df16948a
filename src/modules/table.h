// The beginning of every module's table. A module is a shared library opened at run time (modules/loader.h) that exports one function,
// which returns its table: plain structs and C functions, so that the two sides share no C++ library, only this header.
//
// A table of each kind has a header of its own beside this one and starts with a ModuleHeader. Rules for all of them: functions return 0,
// or on failure another code with the reason as text; no exception leaves a module; buffers belong to the caller, who keeps them until the
// operation has been waited for; functions may be called from any thread unless the table says otherwise.
#pragma once

#include <cstdint>

extern "C" {

struct DcpctlModuleHeader {
  uint32_t bytes;          // of the whole table
  uint32_t abi;            // of this kind of table; changes whenever the table does
  const char* built_with;  // "torch 2.11.0": what the module was compiled against
};

// Why a function failed; zero-terminated, one line.
struct DcpctlReason {
  char text[512];
};

}  // extern "C"
