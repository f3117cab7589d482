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

# tandem_needed_instructions(HEADER): makes HEADER, an include path, with missing_instructions(), which names the
# first set of instructions that this build takes for granted and the processor lacks. It is not installed.
function(tandem_needed_instructions header)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  if(TANDEM_NATIVE)
    list(APPEND flags -march=native)
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${flags} -x c++ -dM -E /dev/null OUTPUT_VARIABLE macros
    COMMAND_ERROR_IS_FATAL ANY)
  set(checks "")
  foreach(name SSE3 SSSE3 SSE4.1 SSE4.2 AVX AVX2 FMA BMI BMI2 AVX512F AVX512CD AVX512DQ AVX512BW AVX512VL AVX512IFMA
      AVX512VBMI AVX512VBMI2 AVX512VNNI AVX512BITALG AVX512VPOPCNTDQ AVX512BF16)
    string(REPLACE "." "_" macro ${name})
    string(TOLOWER ${name} known_as)
    if(macros MATCHES "#define __${macro}__ ")
      string(APPEND checks "  if (!__builtin_cpu_supports(\"${known_as}\")) return \"${name}\";\n")
    endif()
  endforeach()
  if(checks)
    string(PREPEND checks "  __builtin_cpu_init();\n")
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${header} @ONLY CONTENT
"#pragma once

namespace tandem {

/// Null where there is nothing missing.
inline const char* missing_instructions() {
@checks@  return nullptr;
}

}  // namespace tandem
")
  set_property(GLOBAL APPEND PROPERTY TANDEM_INTERNAL_HEADERS ${header})
endfunction()

# tandem_for_any_processor(SOURCE ...): compiles them for all processors of this kind, whatever the rest is compiled for.
function(tandem_for_any_processor)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -march=x86-64)
  endif()
  set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)  # made for the rest's
endfunction()
