# Writes OUT, a header with the commit of the folder SOURCE, if it is another than before, with -dirty where files differ from it. Empty where SOURCE
# is not the root of a repository: one around it has other commits.
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
get_filename_component(source ${SOURCE} REALPATH)
set(commit)
if(root STREQUAL source)
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define DCPCTL_COMMIT \"${commit}\"\n")
