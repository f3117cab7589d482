# The CUDA backend: built where the toolkit with every part that the code links or includes, cuDNN, NCCL
# and cudnn-frontend's headers are found.
# TANDEM_CUDA=AUTO builds without it where one is missing and says which; ON makes that an error.
set(TANDEM_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE TANDEM_CUDA PROPERTY STRINGS AUTO ON OFF)
set(TANDEM_CUDNN_FRONTEND_DIR "" CACHE PATH
  "Folder of cudnn_frontend.h; empty: see cmake/FindCudnnFrontend.cmake")
option(TANDEM_FETCH_CUDNN_FRONTEND
  "Fetch cudnn-frontend's headers from GitHub where they alone are missing for CUDA" ON)
include(FetchCudnnFrontend)

# Compute capabilities of this machine's cards, as CMake writes architectures; a second variable
# takes their number. Cards before Ampere (8.0) do not count: kernels multiply bf16 on tensor cores.
function(tandem_seen_architectures result)
  find_program(TANDEM_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(TANDEM_NVIDIA_SMI)
  set(seen "")
  set(count 0)
  if(TANDEM_NVIDIA_SMI)
    execute_process(COMMAND ${TANDEM_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
      RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_QUIET)
    # Where it fails it may tell the driver's version instead.
    if(status EQUAL 0)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]+" seen "${output}")
    endif()
    list(TRANSFORM seen REPLACE "\\." "")
    list(FILTER seen INCLUDE REGEX "^([89]|[0-9][0-9])[0-9]$")
    list(LENGTH seen count)
    list(REMOVE_DUPLICATES seen)
    list(TRANSFORM seen APPEND "-real")
  endif()
  set(${result} "${seen}" PARENT_SCOPE)
  if(ARGC GREATER 1)
    set(${ARGV1} ${count} PARENT_SCOPE)
  endif()
endfunction()

# tandem_missing(WHAT LEAST VERSION PLACE): WHAT is not there from version LEAST on; VERSION, where not
# empty, is what is there instead, as in "in FOLDER".
function(tandem_missing what least version place)
  set(instead "")
  if(version AND version VERSION_LESS least)
    set(instead ", ${version} is ${place}")
  endif()
  list(APPEND missing "${what} (${least} or later${instead})")
  set(missing "${missing}" PARENT_SCOPE)
endfunction()

# Adds to `missing` what the toolkit lacks of all that the code links or includes: packagers split it,
# and FindCUDAToolkit is content with the runtime.
function(tandem_toolkit_parts)
  foreach(library cudart cublasLt nvrtc)
    if(NOT TARGET CUDA::${library})
      list(APPEND missing "lib${library} of the CUDA Toolkit")
    endif()
  endforeach()
  foreach(header cuda.h cuda_bf16.h cuda_fp16.h cuda_runtime_api.h cublasLt.h nvrtc.h
          nvtx3/nvToolsExt.h cuda/atomic nv/target)
    unset(folder)
    # From CUDA 13 on the C++ library has a folder of its own, which nvcc knows.
    find_path(folder ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_MATH_INCLUDE_DIR}
      PATH_SUFFIXES cccl NO_CACHE)
    if(NOT folder)
      list(APPEND missing "${header} of the CUDA Toolkit")
    endif()
  endforeach()
  set(missing "${missing}" PARENT_SCOPE)
endfunction()

# The version of the cuBLAS that is compiled against, which goes its own way from the toolkit's.
function(tandem_cublas_version result)
  find_file(header cublas_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_MATH_INCLUDE_DIR} NO_CACHE)
  set(lines "")
  if(header)
    file(STRINGS ${header} lines REGEX "define CUBLAS_VER_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  endif()
  list(JOIN lines "." version)
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

set(TANDEM_HAS_CUDA OFF)
set(missing "")
if(NOT TANDEM_CUDA STREQUAL "OFF")
  # CMake itself would look at CUDAARCHS only where nothing is set before the language is enabled.
  if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT "$ENV{CUDAARCHS}" STREQUAL "")
    set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "CUDA architectures, here from CUDAARCHS" FORCE)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    tandem_seen_architectures(CMAKE_CUDA_ARCHITECTURES)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
  endif()
  # A compiler that was not there the last time may have come.
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    find_package(CUDAToolkit 12.4 QUIET)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    list(APPEND missing "a CUDA compiler that works (nvcc of the CUDA Toolkit, 12.4 or later)")
  elseif(CUDAToolkit_FOUND)
    tandem_toolkit_parts()
  elseif(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.4)
    list(APPEND missing "libcudart or cuda_runtime.h of the CUDA Toolkit")
  else()
    tandem_missing("the CUDA Toolkit" 12.4 "${CUDAToolkit_VERSION}" there)
  endif()
  find_package(CuDNN 9.8 QUIET)
  if(NOT CuDNN_FOUND)
    tandem_missing(cuDNN 9.8 "${CuDNN_VERSION}" "in ${CuDNN_INCLUDE_DIR}")
  endif()
  find_package(NCCL 2.18 QUIET)
  if(NOT NCCL_FOUND)
    tandem_missing(NCCL 2.18 "${NCCL_VERSION}" "in ${NCCL_INCLUDE_DIR}")
  endif()
  # 1.13 is the first whose Graph builds a plan without a handle: against 1.12 the code does not compile.
  find_package(CudnnFrontend 1.13 QUIET)
  set(not_fetched "")
  if(NOT CudnnFrontend_INCLUDE_DIR AND TANDEM_FETCH_CUDNN_FRONTEND AND NOT missing)
    tandem_fetch_cudnn_frontend(CudnnFrontend_FETCHED_DIR not_fetched)
    if(not_fetched)
      string(PREPEND not_fetched
        " (v${TANDEM_CUDNN_FRONTEND_VERSION} could not be fetched from ${TANDEM_CUDNN_FRONTEND_URL}: ")
      string(APPEND not_fetched "),")
    else()
      find_package(CudnnFrontend 1.13 QUIET)
    endif()
  endif()
  if(NOT CudnnFrontend_FOUND)
    string(CONCAT headers "cudnn-frontend's headers${not_fetched} by tools/install_dependencies.sh --cuda "
      "or -DTANDEM_CUDNN_FRONTEND_DIR=...")
    tandem_missing(
      "${headers}" 1.13 "${CudnnFrontend_VERSION}" "in ${CudnnFrontend_INCLUDE_DIR}")
  endif()
  list(JOIN missing ", " missing)
  if(NOT missing)
    set(TANDEM_HAS_CUDA ON)
  elseif(TANDEM_CUDA STREQUAL "ON")
    # CMake would wrap a text that does not start with a blank.
    message(FATAL_ERROR " TANDEM_CUDA=ON, but not found: ${missing}")
  endif()
endif()

if(TANDEM_HAS_CUDA)
  enable_language(CUDA)
  # CMake before 3.26 does not know that nvcc has C++20.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(TANDEM_CUDA_LIBRARIES
    CUDA::cudart CUDA::cublasLt CUDA::nvrtc CuDNN::cudnn NCCL::nccl ${CMAKE_DL_LIBS})
  tandem_cublas_version(cublas_version)
  message(STATUS "CUDA backend: toolkit ${CUDAToolkit_VERSION}, cuBLASLt ${cublas_version}, "
    "cuDNN ${CuDNN_VERSION}, cudnn-frontend ${CudnnFrontend_VERSION} in ${CudnnFrontend_INCLUDE_DIR}, "
    "NCCL ${NCCL_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
elseif(TANDEM_CUDA STREQUAL "OFF")
  message(STATUS "CUDA backend: off")
else()
  message(STATUS "CUDA backend: left out; not found: ${missing}")
endif()
