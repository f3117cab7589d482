# tandem_fetch_cudnn_frontend(FOLDER REASON): fetches cudnn-frontend from its repository, where it was not
# fetched before, and gives the folder of its headers, or says in a phrase why there is none. Nothing of
# it is built. As FetchContent would end the whole configuration where it fails, another CMake runs this
# file as a script for it.
set(TANDEM_CUDNN_FRONTEND_URL https://github.com/NVIDIA/cudnn-frontend)

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  include(FetchContent)
  FetchContent_Populate(cudnn_frontend
    GIT_REPOSITORY ${TANDEM_CUDNN_FRONTEND_URL} GIT_TAG v${VERSION} GIT_SHALLOW ON GIT_SUBMODULES ""
    SOURCE_DIR ${FOLDER}-src BINARY_DIR ${FOLDER}-build SUBBUILD_DIR ${FOLDER}-subbuild)
  return()
endif()

# The version that tools/install_dependencies.sh takes from PyPI.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../tools/install_dependencies.sh TANDEM_CUDNN_FRONTEND_VERSION
  REGEX "^cudnn_frontend_version=")
string(REPLACE "cudnn_frontend_version=" "" TANDEM_CUDNN_FRONTEND_VERSION
  "${TANDEM_CUDNN_FRONTEND_VERSION}")

# What git, or else CMake, said first of a failure: git tries again, and says less behind its reason.
function(tandem_first_reason result said)
  set(words "")
  string(REPLACE ";" "," said "${said}")
  foreach(pattern "fatal: [^\n]+" "error: [^\n]+")
    string(REGEX MATCHALL "${pattern}" found "${said}")
    if(found AND NOT words)
      list(GET found 0 words)
      string(REGEX REPLACE "^[a-z]+: " "" words "${words}")
    endif()
  endforeach()
  set(${result} "${words}" PARENT_SCOPE)
endfunction()

function(tandem_fetch_cudnn_frontend folder reason)
  include(FetchContent)
  set(version ${TANDEM_CUDNN_FRONTEND_VERSION})
  set(base ${FETCHCONTENT_BASE_DIR}/cudnn_frontend)
  set(source ${base}-src)
  set(fetched "")  # what is whole there
  if(EXISTS ${base}-fetched)
    file(READ ${base}-fetched fetched)
  endif()
  set(why "")
  if(FETCHCONTENT_SOURCE_DIR_CUDNN_FRONTEND)
    set(source ${FETCHCONTENT_SOURCE_DIR_CUDNN_FRONTEND})
  elseif(fetched STREQUAL version AND EXISTS ${source}/include/cudnn_frontend.h)
    # Git would ask the repository again whether the tag is still the same.
  elseif(FETCHCONTENT_FULLY_DISCONNECTED)
    set(why "FETCHCONTENT_FULLY_DISCONNECTED is set")
  else()
    # Where a firewall drops what it does not let through, git would wait for many minutes.
    execute_process(TIMEOUT 180 RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said
      COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C GIT_TERMINAL_PROMPT=0
        ${CMAKE_COMMAND} -D VERSION=${version} -D FOLDER=${base} -D CMAKE_GENERATOR=${CMAKE_GENERATOR}
        -D CMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM} -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
    if(status EQUAL 0)
      file(WRITE ${base}-fetched ${version})
      message(STATUS "cudnn-frontend: v${version} fetched from ${TANDEM_CUDNN_FRONTEND_URL}")
    else()
      tandem_first_reason(why "${said}")
      if(NOT why)
        set(why "${status}")
      endif()
    endif()
  endif()
  if(NOT why AND NOT EXISTS ${source}/include/cudnn_frontend.h)
    set(why "no include/cudnn_frontend.h in ${source}")
  endif()
  set(${folder} ${source}/include PARENT_SCOPE)
  set(${reason} "${why}" PARENT_SCOPE)
endfunction()
