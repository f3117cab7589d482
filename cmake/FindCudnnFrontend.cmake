# cudnn-frontend, which is headers alone: the target CudnnFrontend::headers and
# CudnnFrontend_VERSION. TANDEM_CUDNN_FRONTEND_DIR: the folder of cudnn_frontend.h.
include(FindPackageHandleStandardArgs)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
  HINTS ${TANDEM_CUDNN_FRONTEND_DIR} ${PROJECT_SOURCE_DIR}/build/cudnn_frontend/include)
set(CudnnFrontend_VERSION "")
if(EXISTS ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h)
  file(STRINGS ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h lines
    REGEX "define CUDNN_FRONTEND_(MAJOR|MINOR|PATCH)_VERSION ")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  list(JOIN lines "." CudnnFrontend_VERSION)
endif()
find_package_handle_standard_args(CudnnFrontend REQUIRED_VARS CUDNN_FRONTEND_INCLUDE_DIR
  VERSION_VAR CudnnFrontend_VERSION)
if(CudnnFrontend_FOUND AND NOT TARGET CudnnFrontend::headers)
  add_library(CudnnFrontend::headers INTERFACE IMPORTED)
  target_include_directories(CudnnFrontend::headers SYSTEM INTERFACE ${CUDNN_FRONTEND_INCLUDE_DIR})
  # It brings a JSON library, which is for writing plans down; nothing here does.
  target_compile_definitions(CudnnFrontend::headers INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
endif()
mark_as_advanced(CUDNN_FRONTEND_INCLUDE_DIR)
