# One library per folder of src/, which links those that it uses. Linking alone keeps no include from the wrong
# direction: headers need nothing linked, and a program links all folders. tools/folder_arrows.py does, a test.

add_library(tandem_options INTERFACE)
target_compile_features(tandem_options INTERFACE cxx_std_20)
target_compile_options(tandem_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TANDEM_WERROR}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow --expt-relaxed-constexpr -lineinfo>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TANDEM_WERROR}>>:-Werror=all-warnings -Xcompiler=-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies inside std::string that cannot happen (GCC bug 105651).
  target_compile_options(tandem_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-restrict>)
endif()
# nvcc takes no consteval constructor of fmt's for a constant; formats are then checked at run time.
target_compile_definitions(tandem_options INTERFACE 
  $<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=> $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
# Messages and debug information name files from the project's root, not the builder's folders.
target_compile_options(tandem_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(TANDEM_NATIVE)
  target_compile_options(tandem_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(TANDEM_SANITIZE)
  target_compile_options(tandem_options INTERFACE
    -fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Checked loops cannot be vectorised, which clang warns of where they ask to be.
    target_compile_options(tandem_options INTERFACE -Wno-pass-failed)
  endif()
endif()

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Kind of build" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# Used inside .cpp files only and with nothing to link: the package's users need not have them.
set(TANDEM_HEADER_ONLY
  tandem_tomlplusplus nlohmann_json::nlohmann_json CLI11::CLI11 Eigen3::Eigen)

# tandem_library(NAME SOURCES ... [CUDA_SOURCES ...] [NO_CUDA_SOURCES ...] [PUBLIC targets...]
#   [PRIVATE targets...]). CUDA_SOURCES are compiled where the CUDA backend is built,
# NO_CUDA_SOURCES where it is not: no file asks which.
function(tandem_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;CUDA_SOURCES;NO_CUDA_SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target tandem_${name})
  if(TANDEM_HAS_CUDA)
    list(APPEND arg_SOURCES ${arg_CUDA_SOURCES})
  else()
    list(APPEND arg_SOURCES ${arg_NO_CUDA_SOURCES})
  endif()
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(tandem::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tandem>)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE $<BUILD_INTERFACE:tandem_options>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(TANDEM_HAS_CUDA AND arg_CUDA_SOURCES)
    target_link_libraries(${target} PRIVATE ${TANDEM_CUDA_LIBRARIES}
      $<BUILD_INTERFACE:CudnnFrontend::headers>)
  endif()
  foreach(dependency IN LISTS arg_PRIVATE)
    if(dependency IN_LIST TANDEM_HEADER_ONLY)
      set(dependency $<BUILD_INTERFACE:${dependency}>)
    endif()
    target_link_libraries(${target} PRIVATE ${dependency})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TANDEM_LIBRARIES ${target})
endfunction()
