# Libraries of the core. Small ones only: dcpctl starts in a millisecond and runs on a bare login node.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

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
  FetchContent_Declare(nlohmann_json URL https://github.com/nlohmann/json/archive/refs/tags/v3.11.3.tar.gz)
  FetchContent_MakeAvailable(nlohmann_json)
else()
  find_package(nlohmann_json 3.11 REQUIRED)
endif()
