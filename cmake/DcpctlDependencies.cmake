# Libraries of the core. Small ones only: dcpctl starts in a millisecond and runs on a bare login node.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Packages are compiled for other machines than this one, and what they link with them: from the sources in a folder (cmake/package.sh).
set(DCPCTL_THIRD_PARTY "" CACHE PATH "Folder with the sources of zlib, zstd, xxhash, CLI11, nlohmann_json and curl, to compile them in")
if(DCPCTL_THIRD_PARTY)
  include(DcpctlThirdParty)
  return()
endif()

# dcpctl_library(NAME HEADER LIBRARY): target dcpctl_NAME, linked statically where there is an archive: the program needs the C library alone.
function(dcpctl_library name header library)
  find_path(DCPCTL_${name}_INCLUDE ${header} REQUIRED)
  find_library(DCPCTL_${name}_LIBRARY NAMES lib${library}.a ${library} REQUIRED)
  add_library(dcpctl_${name} INTERFACE)
  target_include_directories(dcpctl_${name} SYSTEM INTERFACE ${DCPCTL_${name}_INCLUDE})
  target_link_libraries(dcpctl_${name} INTERFACE ${DCPCTL_${name}_LIBRARY})
endfunction()
dcpctl_library(zlib zlib.h z)
dcpctl_library(zstd zstd.h zstd)
dcpctl_library(xxhash xxhash.h xxhash)

if(DCPCTL_FETCH_DEPS)
  include(FetchContent)
  FetchContent_Declare(CLI11 URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz)
  FetchContent_Declare(nlohmann_json URL https://github.com/nlohmann/json/archive/refs/tags/v3.11.3.tar.gz)
  FetchContent_MakeAvailable(CLI11 nlohmann_json)
else()
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
endif()
