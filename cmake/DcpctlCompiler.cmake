# Compiler settings of every target: one interface library, `dcpctl_options`.
add_library(dcpctl_options INTERFACE)
target_include_directories(dcpctl_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(dcpctl_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Wno-missing-field-initializers  # options are aggregates with defaults in place, designated at the call
  # False alarms of g++ 12 on std::string (GCC bug 105329) and on a vector's resize.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow> $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
  $<$<BOOL:${DCPCTL_WERROR}>:-Werror>)

# Hardening: this program is pointed at strangers' files.
target_compile_options(dcpctl_options INTERFACE -fstack-protector-strong -D_GLIBCXX_ASSERTIONS)
if(NOT DCPCTL_SANITIZE)  # the sanitizers have checks of their own in these places
  target_compile_options(dcpctl_options INTERFACE $<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)

if(DCPCTL_SANITIZE)
  target_compile_options(dcpctl_options INTERFACE -fsanitize=${DCPCTL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # in std::regex
  add_link_options(-fsanitize=${DCPCTL_SANITIZE})
endif()
