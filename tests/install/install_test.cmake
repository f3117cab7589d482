cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGV}\nended with ${code}:\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

# The package must work where the build folder is gone.
file(GLOB_RECURSE package ${prefix}/*.cmake)
foreach(file IN LISTS package)
  file(READ ${file} text)
  string(REPLACE "${prefix}" "" text "${text}")
  string(FIND "${text}" "${FORBIDDEN}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} names the source or build folder, ${FORBIDDEN}")
  endif()
endforeach()

# Every installed header compiles against installed headers alone.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include/tandem ${prefix}/include/tandem/*.h)
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"")
list(JOIN headers "\n" includes)
file(WRITE ${WORK}/all_headers.h "${includes}\n")

set(flags "")
if(SANITIZE)
  set(flags -fsanitize=${SANITIZE})
endif()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${prefix} -D "CMAKE_CXX_FLAGS=${flags}"
  -D TANDEM_TARGETS=${LIBRARIES} -D ALL_HEADERS=${WORK})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)

run(${CMAKE_COMMAND} -S ${EXAMPLE} -B ${WORK}/example -G ${GENERATOR}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${prefix} -D "CMAKE_CXX_FLAGS=${flags}")
run(${CMAKE_COMMAND} --build ${WORK}/example)
run(${WORK}/example/custom_layer)

file(REMOVE_RECURSE ${WORK})
