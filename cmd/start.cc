// Where a package's program begins, which is the Python package's library as well: a shared object that can be run. Such a one is linked without
// the C library's own start files, so this is what those do: they hand main() to the C library.

int main(int argc, char** argv);

extern "C" {

using Initializer = void(int argc, char** argv, char** environment);
int __libc_start_main(int (*main)(int, char**), int argc, char** argv, Initializer* init, void (*fini)(), void (*at_exit)(),
                      void* stack_end);
[[gnu::visibility("hidden")]] extern Initializer* const __init_array_start[];
[[gnu::visibility("hidden")]] extern Initializer* const __init_array_end[];

// It is run as a program that has this loader.
[[gnu::section(".interp"), gnu::retain]] extern const char kLoader[] =
#if defined(__x86_64__)
    "/lib64/ld-linux-x86-64.so.2";
asm(R"(
.globl _start
.type _start, @function
_start:
  endbr64
  xor %ebp, %ebp
  mov %rsp, %rdi
  mov %rdx, %rsi
  and $-16, %rsp
  call start_program
)");
#elif defined(__aarch64__)
    "/lib/ld-linux-aarch64.so.1";
asm(R"(
.globl _start
.type _start, %function
_start:
  mov x29, #0
  mov x30, #0
  mov x1, x0
  mov x0, sp
  b start_program
)");
#else
#error "packages are made for x86-64 and aarch64"
#endif

// The loader initialises libraries and not the program. glibc does so from 2.34 on, unless it is given this, and left it to start files before.
static void initialize(int argc, char** argv, char** environment) {
  for (Initializer* const* init = __init_array_start; init != __init_array_end; ++init) (*init)(argc, argv, environment);
}

// On the stack: the number of arguments, and after it the arguments. `at_exit` is the loader's.
[[gnu::used]] void start_program(long* stack, void (*at_exit)()) {
  __libc_start_main(main, static_cast<int>(stack[0]), reinterpret_cast<char**>(stack + 1), initialize, nullptr, at_exit, stack);
}

}  // extern "C"
