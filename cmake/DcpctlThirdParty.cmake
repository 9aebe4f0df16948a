# The libraries of the core from their sources in DCPCTL_THIRD_PARTY, under the names that DcpctlDependencies.cmake gives to those of the system.
# Of zlib and zstd, what decodes; of curl, what speaks http.
enable_language(C)
set(at ${DCPCTL_THIRD_PARTY})

function(dcpctl_compiled name include)
  add_library(dcpctl_${name} STATIC ${ARGN})
  target_include_directories(dcpctl_${name} SYSTEM PUBLIC ${include})
  target_compile_options(dcpctl_${name} PRIVATE -w -ffile-prefix-map=${include}=${name})
endfunction()
dcpctl_compiled(zlib ${at}/zlib ${at}/zlib/adler32.c ${at}/zlib/crc32.c ${at}/zlib/inffast.c ${at}/zlib/inflate.c ${at}/zlib/inftrees.c ${at}/zlib/zutil.c)
file(GLOB zstd_files CONFIGURE_DEPENDS ${at}/zstd/lib/common/*.c ${at}/zstd/lib/decompress/*.c)
dcpctl_compiled(zstd ${at}/zstd/lib ${zstd_files})
target_compile_definitions(dcpctl_zstd PRIVATE ZSTD_DISABLE_ASM=1 ZSTD_LEGACY_SUPPORT=0)
dcpctl_compiled(xxhash ${at}/xxhash ${at}/xxhash/xxhash.c)

foreach(header_only IN ITEMS CLI11 nlohmann_json)
  add_library(dcpctl_${header_only} INTERFACE)
  target_include_directories(dcpctl_${header_only} SYSTEM INTERFACE ${at}/${header_only}/include)
  add_library(${header_only}::${header_only} ALIAS dcpctl_${header_only})
endforeach()

# For the module of stores. OpenSSL has been compiled by its own means (cmake/package.sh).
if(NOT DCPCTL_WITH_NET STREQUAL "OFF")
  foreach(on IN ITEMS HTTP_ONLY CURL_DISABLE_ALTSVC CURL_DISABLE_COOKIES CURL_DISABLE_DOH CURL_DISABLE_GETOPTIONS CURL_DISABLE_HSTS CURL_DISABLE_MIME
      CURL_DISABLE_NETRC CURL_DISABLE_NTLM CURL_DISABLE_PARSEDATE CURL_DISABLE_PROGRESS_METER
      HAVE_POLL_FINE)  # which curl cannot try for another machine
    set(${on} ON CACHE INTERNAL "")
  endforeach()
  foreach(off IN ITEMS BUILD_CURL_EXE BUILD_SHARED_LIBS BUILD_TESTING CURL_ENABLE_EXPORT_TARGET CURL_USE_LIBPSL CURL_USE_LIBSSH2 CURL_ZLIB ENABLE_MANUAL
      ENABLE_UNIX_SOCKETS PICKY_COMPILER USE_LIBIDN2)
    set(${off} OFF CACHE INTERNAL "")
  endforeach()
  foreach(none IN ITEMS CURL_CA_BUNDLE CURL_CA_PATH)  # net/http finds those of the system
    set(${none} none CACHE INTERNAL "")
  endforeach()
  block()
    set(CMAKE_TRY_COMPILE_TARGET_TYPE EXECUTABLE)  # curl asks which functions the C library has
    add_subdirectory(${at}/curl ${CMAKE_BINARY_DIR}/curl EXCLUDE_FROM_ALL)
  endblock()
  target_compile_options(libcurl PRIVATE -w -ffunction-sections -fdata-sections -fstack-protector-strong -ffile-prefix-map=${at}/curl=curl)
  get_directory_property(CURL_VERSION_STRING DIRECTORY ${at}/curl DEFINITION CURL_VERSION)
endif()
