# cudnn-frontend, which is headers alone: the target CudnnFrontend::headers, CudnnFrontend_VERSION and
# CudnnFrontend_INCLUDE_DIR, the folder of cudnn_frontend.h. It is looked for anew each time, in
# TANDEM_CUDNN_FRONTEND_DIR, where tools/install_dependencies.sh puts it, where CMake looks for headers,
# in a wheel (nvidia-cudnn-frontend) of the active virtual environment or of python3, and last in
# CudnnFrontend_FETCHED_DIR.
include(FindPackageHandleStandardArgs)

# Where wheels of the active virtual environment, and then of the python3 on the PATH, put headers:
# beside their modules.
function(tandem_wheel_includes result)
  set(pythons "")
  if(DEFINED ENV{VIRTUAL_ENV})
    list(APPEND pythons $ENV{VIRTUAL_ENV}/bin/python3)
  endif()
  find_program(on_path python3 NO_CACHE)
  if(on_path)
    list(APPEND pythons ${on_path})
  endif()
  set(folders "")
  foreach(python IN LISTS pythons)
    execute_process(OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
      COMMAND ${python} -c "import sys; print(*(p + '/include' for p in sys.path if p), sep=';')")
    list(APPEND folders ${output})
  endforeach()
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

find_file(CudnnFrontend_HEADER cudnn_frontend.h NO_CACHE
  HINTS ${TANDEM_CUDNN_FRONTEND_DIR} ${PROJECT_SOURCE_DIR}/build/cudnn_frontend/include)
if(NOT CudnnFrontend_HEADER)
  tandem_wheel_includes(folders)
  find_file(CudnnFrontend_HEADER cudnn_frontend.h PATHS ${folders} ${CudnnFrontend_FETCHED_DIR}
    NO_DEFAULT_PATH NO_CACHE)
endif()
cmake_path(GET CudnnFrontend_HEADER PARENT_PATH CudnnFrontend_INCLUDE_DIR)
set(CudnnFrontend_VERSION "")
if(EXISTS ${CudnnFrontend_INCLUDE_DIR}/cudnn_frontend_version.h)
  file(STRINGS ${CudnnFrontend_INCLUDE_DIR}/cudnn_frontend_version.h lines
    REGEX "define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION ")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  list(JOIN lines "." CudnnFrontend_VERSION)
endif()
find_package_handle_standard_args(CudnnFrontend REQUIRED_VARS CudnnFrontend_INCLUDE_DIR
  VERSION_VAR CudnnFrontend_VERSION)
if(CudnnFrontend_FOUND AND NOT TARGET CudnnFrontend::headers)
  add_library(CudnnFrontend::headers INTERFACE IMPORTED)
  target_include_directories(CudnnFrontend::headers SYSTEM INTERFACE ${CudnnFrontend_INCLUDE_DIR})
  # It brings a JSON library, which is for writing plans down; nothing here does.
  target_compile_definitions(CudnnFrontend::headers INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
endif()
