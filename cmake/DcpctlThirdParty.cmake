# The libraries of the core from their sources in DCPCTL_THIRD_PARTY, under the names that DcpctlDependencies.cmake gives to those of the system.
# Of the two that are compiled, what decodes.
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
