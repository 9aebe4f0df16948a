# With DCPCTL_TOGETHER, what nearly every file includes of the standard library is parsed once. Each file includes what it needs all the same:
# development builds have no such header.
set(dcpctl_common_headers <algorithm> <array> <atomic> <bit> <charconv> <cstdint> <cstring> <deque> <functional> <list> <map> <memory> <mutex> <optional>
  <span> <string> <string_view> <tuple> <unordered_map> <utility> <vector>)

# dcpctl_room(NAME DEPS rooms-and-libraries...)
# One folder of src/ = one static library `dcp_NAME` of its .cc files, but for those LEFT_OUT. It links the rooms that src/README.md lets it include, so that a wrong arrow fails at link time
# as well.
# With DCPCTL_TOGETHER, files of a room are compiled together, which takes two thirds of the time or less. APART: those that are not, since names
# in their unnamed namespaces are also those of a neighbour's.
function(dcpctl_room name)
  cmake_parse_arguments(ROOM "" "" "LEFT_OUT;APART;DEPS" ${ARGN})
  file(GLOB sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cc)
  list(REMOVE_ITEM sources ${ROOM_LEFT_OUT} "")
  add_library(dcp_${name} STATIC ${sources})
  set_target_properties(dcp_${name} PROPERTIES UNITY_BUILD ${DCPCTL_TOGETHER} UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${ROOM_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(dcp_${name} PUBLIC dcpctl_options ${ROOM_DEPS})
  if(DCPCTL_TOGETHER AND name STREQUAL base)
    target_precompile_headers(dcp_base PRIVATE ${dcpctl_common_headers})
  elseif(DCPCTL_TOGETHER)
    target_precompile_headers(dcp_${name} REUSE_FROM dcp_base)
  endif()
endfunction()

# dcpctl_unit(ROOM [THREADS] [LEFT_OUT a_test.cc] [DEPS ...]): of the *_test.cc there, the Catch2 program `unit_ROOM`, and a ctest test of each file. THREADS: what it
# tests has threads, and belongs to what ThreadSanitizer looks at in the short form.
function(dcpctl_unit room)
  cmake_parse_arguments(UNIT "THREADS" "" "LEFT_OUT;DEPS" ${ARGN})
  file(GLOB sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *_test.cc)
  list(REMOVE_ITEM sources ${UNIT_LEFT_OUT} "")
  add_executable(unit_${room} ${sources})
  add_dependencies(quick unit_${room})
  target_include_directories(unit_${room} PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit)
  target_compile_definitions(unit_${room} PRIVATE DCPCTL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  # Most of the time goes into templates of Catch2 and the standard library, which files that are compiled together share. A name in an unnamed
  # namespace must therefore be the only one of its kind among neighbours.
  set_target_properties(unit_${room} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  target_link_libraries(unit_${room} PRIVATE dcp_${room} ${UNIT_DEPS} Catch2::Catch2WithMain)
  set(labels unit quick)
  if(UNIT_THREADS)
    list(APPEND labels threads)
  endif()
  dcpctl_unit_tests("${room}" "${labels}" ${sources})
endfunction()

# A ctest test of each file of unit_ROOM: Catch2 tags cases with their file's name.
function(dcpctl_unit_tests room labels)
  foreach(source IN LISTS ARGN)
    string(REPLACE "_test.cc" "" about ${source})
    add_test(NAME "${room}: ${about}" COMMAND unit_${room} --filenames-as-tags "[#${about}_test]~[.]")
    dcpctl_labels_of("${room}: ${about}" features)
    set_tests_properties("${room}: ${about}" PROPERTIES LABELS "${labels};${features}" SKIP_RETURN_CODE 4)
  endforeach()
endfunction()

# dcpctl_module(NAME SOURCES ... LINKS ... RPATH ...): libdcpctl_NAME.so, beside the program in the build and in ${libexecdir}/dcpctl installed.
function(dcpctl_module name)
  cmake_parse_arguments(MODULE "" "" "SOURCES;LINKS;RPATH" ${ARGN})
  add_library(dcpctl_${name} MODULE ${MODULE_SOURCES})
  dcpctl_module_options(dcpctl_${name})
  target_link_libraries(dcpctl_${name} PRIVATE ${MODULE_LINKS})
  # -z defs finds a missing library here and not in the user's dlopen. DT_RPATH, unlike RUNPATH, is also searched for LibTorch's own needs.
  target_link_options(dcpctl_${name} PRIVATE LINKER:-z,defs LINKER:--disable-new-dtags)
  if(TARGET dcpctl_options)  # not where modules are built alone
    target_link_options(dcpctl_${name} PRIVATE $<TARGET_PROPERTY:dcpctl_options,INTERFACE_LINK_OPTIONS>)
  endif()
  set_target_properties(dcpctl_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  add_dependencies(dcpctl_modules dcpctl_${name})
  if(MODULE_RPATH)  # an empty entry would mean the folder that the user is in
    set(installed ${MODULE_RPATH})
    if(SKBUILD)  # into libexec/dcpctl of an environment, whatever its place will be: what is in it, too, is found from there
      foreach(folder IN LISTS MODULE_RPATH)
        string(REGEX MATCH "^(.*)/lib(64)?/python[^/]*/site-packages/" in_environment ${folder}/)
        if(in_environment)
          file(RELATIVE_PATH relative ${CMAKE_MATCH_1}/libexec/dcpctl ${folder})
          list(TRANSFORM installed REPLACE "^${folder}$" "$ORIGIN/${relative}")
        endif()
      endforeach()
    endif()
    set_target_properties(dcpctl_${name} PROPERTIES BUILD_RPATH "${MODULE_RPATH}" INSTALL_RPATH "$ORIGIN;${installed}")
  endif()
  if(DCPCTL_INSTALL)
    install(TARGETS dcpctl_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/dcpctl)
  endif()
endfunction()

# What is compiled for a module, in it or in an object library that several share.
function(dcpctl_module_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${DCPCTL_WERROR}>:-Werror>)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
endfunction()
