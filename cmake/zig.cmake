# The compiler of packages: the one in PyPI's ziglang, which has the C libraries of other machines, and of older systems, with it. A toolchain file.
#   DCPCTL_ZIG     the program
#   DCPCTL_TARGET  the machine, and the oldest C library that will do: x86_64-linux-gnu.2.28, aarch64-linux-musl
cmake_policy(VERSION 3.25)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DCPCTL_ZIG DCPCTL_TARGET)
set(CMAKE_SYSTEM_NAME Linux)
# What CMake tries is compiled and not linked: with it the C++ library would be compiled, in a form that nothing else needs.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${DCPCTL_TARGET}")

# CMake and ccache want programs and not the commands of one.
get_filename_component(tools ${CMAKE_CURRENT_LIST_DIR}/../build/package/tools-${DCPCTL_TARGET} ABSOLUTE)
get_filename_component(folder ${DCPCTL_ZIG} DIRECTORY)
# -ffile-prefix-map: no name of this machine's folders in what is made.
set(compile "-target ${DCPCTL_TARGET} -ffile-prefix-map=${folder}=zig")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  string(APPEND compile " -mcpu=x86_64+evex512")  # functions for AVX-512 would lack it: clang 19 to 21 have it apart
endif()
foreach(tool "cc ${compile}" "c++ ${compile}" ar ranlib)
  string(REGEX MATCH "^[^ ]+" name ${tool})
  set(text "#!/bin/sh\n: \"\${ZIG_GLOBAL_CACHE_DIR:=${tools}/cache}\"\nexport ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR=\"$ZIG_GLOBAL_CACHE_DIR\"\ncase $* in *CMakeC*CompilerId.*) set -- \"$@\" -c ;; esac\nexec '${DCPCTL_ZIG}' ${tool} \"$@\"\n")
  file(CONFIGURE OUTPUT ${tools}/${name} CONTENT "@text@" @ONLY)
  file(CHMOD ${tools}/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
set(CMAKE_C_COMPILER ${tools}/cc)
set(CMAKE_CXX_COMPILER ${tools}/c++)
set(CMAKE_AR ${tools}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${tools}/ranlib CACHE FILEPATH "")
set(CMAKE_C_COMPILER_AR ${tools}/ar CACHE FILEPATH "")
set(CMAKE_CXX_COMPILER_AR ${tools}/ar CACHE FILEPATH "")
set(CMAKE_C_COMPILER_RANLIB ${tools}/ranlib CACHE FILEPATH "")
set(CMAKE_CXX_COMPILER_RANLIB ${tools}/ranlib CACHE FILEPATH "")
