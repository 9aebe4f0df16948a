# Writes OUT, a header with the commit of the folder SOURCE, if it is another than before. Empty where there is no repository.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define DCPCTL_COMMIT \"${commit}\"\n")
