# Code that is written once for a processor's instructions and once without, a header each: the
# build's options choose, so that no file asks.
include(CheckCXXSourceCompiles)

# tandem_instructions(HEADER MACRO WITH WITHOUT): makes HEADER, an include path, which includes WITH
# where the compiler defines MACRO (__SSE__), else WITHOUT. It is not installed.
function(tandem_instructions header macro with without)
  if(TANDEM_NATIVE)
    set(CMAKE_REQUIRED_FLAGS -march=native)
  endif()
  set(known TANDEM${macro}NATIVE_${TANDEM_NATIVE})
  check_cxx_source_compiles("#ifndef ${macro}\n#error\n#endif\nint main() {}" ${known})
  if(${known})
    set(chosen ${with})
  else()
    set(chosen ${without})
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${header}
    CONTENT "#pragma once\n\n#include \"${chosen}\"\n" @ONLY)
  set_property(GLOBAL APPEND PROPERTY TANDEM_INTERNAL_HEADERS ${header})
endfunction()
