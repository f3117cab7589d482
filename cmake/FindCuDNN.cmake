# cuDNN 9: the target CuDNN::cudnn and CuDNN_VERSION.
include(FindPackageHandleStandardArgs)
find_path(CuDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CuDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
if(CuDNN_INCLUDE_DIR AND EXISTS ${CuDNN_INCLUDE_DIR}/cudnn_version.h)
  file(STRINGS ${CuDNN_INCLUDE_DIR}/cudnn_version.h lines
    REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  list(JOIN lines "." CuDNN_VERSION)
endif()
find_package_handle_standard_args(CuDNN REQUIRED_VARS CuDNN_LIBRARY CuDNN_INCLUDE_DIR
  VERSION_VAR CuDNN_VERSION)
if(CuDNN_FOUND AND NOT TARGET CuDNN::cudnn)
  add_library(CuDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CuDNN::cudnn PROPERTIES IMPORTED_LOCATION ${CuDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CuDNN_INCLUDE_DIR})
endif()
mark_as_advanced(CuDNN_INCLUDE_DIR CuDNN_LIBRARY)
