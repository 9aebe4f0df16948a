// dcpctl: options in, exit code out. The work is in src/, one command a file beside this.
#include "app/resources.h"
#include "base/heap.h"
#include "line/program.h"

int main(int argc, char** argv) {
  dcp::Heap::take_process();
  dcp::raise_open_file_limit();
  const auto io = dcp::make_posix_io();
  return dcp::cmd::run_program(*io, argc, argv);
}
