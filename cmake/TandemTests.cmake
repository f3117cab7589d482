# Seconds that a test, or listing a program's tests, may take by default: tests take some, but virtual
# machines may stand still for minutes.
set(TANDEM_TEST_TIMEOUT 400)
# PROCESSORS of a test that measures: it runs alone, for CTest takes no more than it has.
set(TANDEM_ALL_PROCESSORS 1000)

# tandem_test_program(NAME SOURCE ...): what all programs of tests have in common; tests/CMakeLists.txt has their
# headers and options.
function(tandem_test_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE tandem_options)
  target_compile_options(${name} PRIVATE ${TANDEM_TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM tandem_test_headers)
endfunction()

# tandem_test(NAME SOURCES ... LIBRARIES ... [TIMEOUT seconds]): a GoogleTest program whose cases run
# in one process and are listed one by one under the label `unit`.
function(tandem_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${TANDEM_TEST_TIMEOUT})
  endif()
  tandem_test_program(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest_main)
  # Pretty values would print a parameter's bytes, padding included, into the test's name.
  gtest_discover_tests(${name} NO_PRETTY_VALUES PROPERTIES LABELS unit TIMEOUT ${arg_TIMEOUT}
    DISCOVERY_TIMEOUT ${TANDEM_TEST_TIMEOUT})
endfunction()

# tandem_mpi_test(NAME RANKS 1 2 4 SOURCES ... LIBRARIES ... [LABEL label]): a GoogleTest program with
# its own main() that initialises MPI; it runs whole under `mpirun -n N` for every N, label `mpi`, or
# `training` where that takes too long under sanitizers. Ranks that cannot start fail the test.
function(tandem_mpi_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;LABEL" "SOURCES;LIBRARIES;RANKS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${TANDEM_TEST_TIMEOUT})
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL mpi)
  endif()
  tandem_test_program(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest)
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}.${ranks} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
      ${TANDEM_MPIRUN_FLAGS} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.${ranks} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT}
      PROCESSORS ${ranks} ENVIRONMENT "${TANDEM_MPI_TEST_ENVIRONMENT}")
  endforeach()
endfunction()

# tandem_cuda_test(NAME SOURCES ... LIBRARIES ... [TIMEOUT seconds]): a GoogleTest program whose cases
# need a GPU. It is built wherever the CUDA backend is; its cases are listed one by one under the
# label `gpu` where a GPU is seen, and elsewhere counted as left out, by ./test.sh: only the built
# program knows how many a parametrised one is.
function(tandem_cuda_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${TANDEM_TEST_TIMEOUT})
  endif()
  if(TANDEM_HAS_CUDA)
    tandem_test_program(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} ${TANDEM_CUDA_LIBRARIES} GTest::gtest_main)
    if(TANDEM_GPUS_SEEN)
      gtest_discover_tests(${name} NO_PRETTY_VALUES PROPERTIES LABELS gpu TIMEOUT ${arg_TIMEOUT}
        RESOURCE_LOCK gpu DISCOVERY_TIMEOUT ${TANDEM_TEST_TIMEOUT})
      return()
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY TANDEM_GPU_TESTS_LEFT_OUT "cases of ${name}")
endfunction()

# tandem_cuda_mpi_test(NAME RANKS 1 2 4 SOURCES ... LIBRARIES ... [TIMEOUT seconds]): as tandem_mpi_test,
# of ranks with a GPU each. It is built wherever the CUDA backend is, and registered for every N
# that the GPUs suffice for, elsewhere counted as left out. Labels: `gpu` for one rank, `multi_gpu` for
# more, which also run once through sockets (NAME.network), as between hosts; with
# NCCL_P2P_DISABLE=1 training's own choice is NCCL too.
function(tandem_cuda_mpi_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;RANKS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${TANDEM_TEST_TIMEOUT})
  endif()
  if(TANDEM_HAS_CUDA)
    tandem_test_program(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} ${TANDEM_CUDA_LIBRARIES} GTest::gtest)
  endif()
  set(through_network NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1)
  foreach(variant IN LISTS arg_RANKS ITEMS network)
    set(ranks ${variant})
    set(label multi_gpu)
    set(environment ${TANDEM_MPI_TEST_ENVIRONMENT})
    if(variant STREQUAL network)
      set(ranks 2)
      list(APPEND environment ${through_network})
    elseif(ranks EQUAL 1)
      set(label gpu)
    endif()
    if(NOT TANDEM_HAS_CUDA OR ranks GREATER TANDEM_GPU_COUNT)
      set_property(GLOBAL APPEND PROPERTY TANDEM_GPU_TESTS_LEFT_OUT "${name}.${variant}")
      continue()
    endif()
    add_test(NAME ${name}.${variant} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
      ${TANDEM_MPIRUN_FLAGS} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.${variant} PROPERTIES LABELS ${label} TIMEOUT ${arg_TIMEOUT}
      PROCESSORS ${ranks} RESOURCE_LOCK gpu ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# tandem_shared_gpu_test(NAME PLACEMENTS 1x4 2x2 SOURCES ... LIBRARIES ... [TIMEOUT seconds]): as
# tandem_mpi_test, of ranks that share GPUs: for each placement GPUSxRANKS so many ranks on each of so
# many GPUs, taking turns (NAME.1x4.turns) and under an MPS daemon of the test's own (NAME.1x4.mps), on
# several GPUs once more with TANDEM_TEST_EXCHANGE=direct (NAME.2x2.mps.direct). It is built
# wherever the CUDA backend is, and registered where the GPUs suffice, elsewhere counted as left out.
function(tandem_shared_gpu_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;PLACEMENTS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${TANDEM_TEST_TIMEOUT})
  endif()
  if(TANDEM_HAS_CUDA)
    tandem_test_program(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} ${TANDEM_CUDA_LIBRARIES} GTest::gtest)
  endif()
  find_program(TANDEM_MPS_CONTROL nvidia-cuda-mps-control)
  mark_as_advanced(TANDEM_MPS_CONTROL)
  foreach(placement IN LISTS arg_PLACEMENTS)
    string(REPLACE x ";" parts ${placement})
    list(GET parts 0 gpus)
    list(GET parts 1 ranks_per_gpu)
    math(EXPR ranks "${gpus} * ${ranks_per_gpu}")
    set(devices 0)
    set(label gpu)
    if(gpus GREATER 1)
      math(EXPR last "${gpus} - 1")
      foreach(device RANGE 1 ${last})
        string(APPEND devices ",${device}")
      endforeach()
      set(label multi_gpu)
    endif()
    set(variants .turns .mps)
    if(gpus GREATER 1)
      list(APPEND variants .mps.direct)
    endif()
    foreach(variant IN LISTS variants)
      set(test ${name}.${placement}${variant})
      set(environment ${TANDEM_MPI_TEST_ENVIRONMENT} CUDA_VISIBLE_DEVICES=${devices})
      set(wrapper "")
      if(variant MATCHES mps)
        set(wrapper ${PROJECT_SOURCE_DIR}/tests/support/with_mps.sh)
      endif()
      if(variant MATCHES direct)
        list(APPEND environment TANDEM_TEST_EXCHANGE=direct)
      endif()
      if(NOT TANDEM_HAS_CUDA OR gpus GREATER TANDEM_GPU_COUNT OR (wrapper AND NOT TANDEM_MPS_CONTROL))
        set_property(GLOBAL APPEND PROPERTY TANDEM_GPU_TESTS_LEFT_OUT ${test})
        continue()
      endif()
      add_test(NAME ${test} COMMAND ${wrapper} ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
        ${TANDEM_MPIRUN_FLAGS} $<TARGET_FILE:${name}>)
      set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT ${arg_TIMEOUT}
        PROCESSORS ${ranks} RESOURCE_LOCK gpu
        ENVIRONMENT "${environment}")
    endforeach()
  endforeach()
endfunction()

# tandem_leave_out(NAME REASON): says that a group of tests is not registered on this machine, and
# why. ./test.sh tells it at its end.
function(tandem_leave_out name reason)
  string(REGEX REPLACE " *[;\n]+ *" ", " reason "${reason}")
  message(STATUS "Left out: ${name}: ${reason}")
  set_property(GLOBAL APPEND PROPERTY TANDEM_TESTS_LEFT_OUT "${name}: ${reason}")
endfunction()

# Writes the build folder's tests_left_out, a line for each group: empty where none is.
# tools/build_preset.sh configures again as long as there is one, for its reason may be gone.
function(tandem_write_tests_left_out)
  get_property(groups GLOBAL PROPERTY TANDEM_TESTS_LEFT_OUT)
  list(TRANSFORM groups APPEND "\n")
  list(JOIN groups "" lines)
  file(WRITE ${PROJECT_BINARY_DIR}/tests_left_out "${lines}")
endfunction()

# Writes the build folder's gpu_tests_left_out, for ./test.sh: a line for each test that is not
# registered for want of GPUs, or for all cases of a program, or that none is built.
function(tandem_write_gpu_tests_left_out)
  get_property(lines GLOBAL PROPERTY TANDEM_GPU_TESTS_LEFT_OUT)
  if(NOT TANDEM_HAS_CUDA)
    set(lines "not built")
  endif()
  list(TRANSFORM lines APPEND "\n")
  list(JOIN lines "" text)
  file(WRITE ${PROJECT_BINARY_DIR}/gpu_tests_left_out "${text}")
endfunction()

# As root (containers, CI) and with more ranks than cores mpirun wants to be told that it is meant.
set(TANDEM_MPIRUN_FLAGS --oversubscribe)
set(TANDEM_MPI_TEST_ENVIRONMENT
  "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMP_NUM_THREADS=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none")
if(TANDEM_SANITIZE MATCHES address)
  # Open MPI's own leaks; why the slow unwinder is needed says the file.
  list(APPEND TANDEM_MPI_TEST_ENVIRONMENT
    "ASAN_OPTIONS=fast_unwind_on_malloc=0:allocator_may_return_null=1:detect_stack_use_after_return=1:strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
endif()

# Capabilities of the GPUs that this machine has, empty where none is seen, and their number.
if(COMMAND tandem_seen_architectures)
  tandem_seen_architectures(TANDEM_GPUS_SEEN TANDEM_GPU_COUNT)
endif()
