# `cmake --install`: the program, the model zoo, and the libraries with a package config, so that
# another project can say find_package(tandem) and link tandem::train.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)

if(TARGET tandem)
  install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem/models FILES_MATCHING PATTERN "*.toml")

get_property(libraries GLOBAL PROPERTY TANDEM_LIBRARIES)
install(TARGETS ${libraries} EXPORT tandemTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${package_folder})

# Headers that include another library's are for .cpp files alone, as are those that are named so, and so is what
# includes them.
function(tandem_public_headers result)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/src/*.h)
  set(internal "<(mpi|hwloc|omp|zlib|jpeglib|turbojpeg|cudnn|nccl|nvml|cublasLt|cuda_runtime|cuda_runtime_api|cudnn_frontend|immintrin|xmmintrin)[.]h>|<(oneapi|toml[+][+]|nlohmann|CLI|spdlog|Eigen)/")
  get_property(named GLOBAL PROPERTY TANDEM_INTERNAL_HEADERS)
  list(REMOVE_ITEM headers ${named})
  foreach(header IN LISTS named)
    string(REPLACE "." "[.]" pattern ${header})
    string(APPEND internal "|\"${pattern}\"")
  endforeach()
  set(settled FALSE)
  while(NOT settled)
    set(settled TRUE)
    foreach(header IN LISTS headers)
      file(STRINGS ${PROJECT_SOURCE_DIR}/src/${header} hit LIMIT_COUNT 1
        REGEX "^#include (${internal})")
      if(hit)
        list(REMOVE_ITEM headers ${header})
        string(REPLACE "." "[.]" pattern ${header})
        string(APPEND internal "|\"${pattern}\"")
        set(settled FALSE)
      endif()
    endforeach()
  endwhile()
  set(${result} ${headers} PARENT_SCOPE)
endfunction()

tandem_public_headers(headers)
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder})
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/generated/device/any_context.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/device)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandemConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/tandemConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/tandemConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/tandemConfig.cmake
  ${PROJECT_BINARY_DIR}/package/tandemConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindCuDNN.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindNCCL.cmake
  DESTINATION ${package_folder})
