# Compiler settings of every target: one interface library, `dcpctl_options`.
add_library(dcpctl_options INTERFACE)
target_include_directories(dcpctl_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(dcpctl_options INTERFACE
  -Wall -Wextra -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  -Wno-missing-field-initializers  # options are aggregates with defaults in place, designated at the call
  # Not where clang compiles files together: it counts an alias as shadowed that two of them declare, to the same type.
  $<$<NOT:$<AND:$<CXX_COMPILER_ID:Clang>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>>:-Wshadow>
  # In std::stable_sort of libstdc++ 12, as clang 19 sees it.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # False alarms of g++ 12 on std::string (GCC bug 105329) and on a vector's resize.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow> $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
  $<$<BOOL:${DCPCTL_WERROR}>:-Werror>)

# Hardening: this program is pointed at strangers' files. tests/safety/hardening.py looks for each of these in the finished program.
target_compile_options(dcpctl_options INTERFACE -fstack-protector-strong -D_GLIBCXX_ASSERTIONS)
set(is_release OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(is_release ON)
endif()
option(DCPCTL_HARDEN "Everything the compiler has against exploits; for programs that are given away" ${is_release})
if(DCPCTL_HARDEN AND NOT DCPCTL_SANITIZE)  # the sanitizers have checks of their own in these places
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection=full DCPCTL_HAVE_CET)  # indirect calls land on marked places only (x86)
  target_compile_options(dcpctl_options INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-clash-protection
    $<$<BOOL:${DCPCTL_HAVE_CET}>:-fcf-protection=full>)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES CXX)  # so that CMAKE_POSITION_INDEPENDENT_CODE links programs with -pie
endif()
target_link_options(dcpctl_options INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)
if(DCPCTL_ZIG)  # a package has no function that nothing calls
  target_compile_options(dcpctl_options INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(dcpctl_options INTERFACE LINKER:--gc-sections)
endif()

if(DCPCTL_SANITIZE)
  target_compile_options(dcpctl_options INTERFACE -fsanitize=${DCPCTL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # in std::regex
  target_link_options(dcpctl_options INTERFACE -fsanitize=${DCPCTL_SANITIZE})
  # ThreadSanitizer of clang brings operator new of its own, which then takes the place of ours: nothing counts (--max-memory is not held), and
  # no allocation fails on demand.
  if(DCPCTL_SANITIZE MATCHES thread)
    target_link_options(dcpctl_options INTERFACE LINKER:--allow-multiple-definition)
  endif()
endif()
