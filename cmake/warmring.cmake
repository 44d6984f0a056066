# How this project declares its targets: one call per small target, every source and dependency listed.
#
#   warmring_library(NAME core_ring SRCS ring.cc HDRS ring.h DEPS core_base [PRIVATE_DEPS ...])
#   warmring_proto_library(NAME warmring_proto ROOT <dir> PROTOS warmring/v1/a.proto ...)
#   warmring_binary(NAME warmringd SRCS main.cc DEPS ...)
#   warmring_module(NAME warmring-redis SRCS module.cc DEPS ...)       a shared object to dlopen
#   warmring_test(NAME ring_test SRCS ring_test.cc DEPS core_ring
#                 [LABELS unit|integration|crash|scenario] [TIMEOUT seconds]
#                 [ENVIRONMENT NAME=value ...] [SERIAL] [AFTER_CRASH_TESTS])
#
# Headers are found from the root of the repository: #include "core/placement/ring.h".

include_guard(GLOBAL)
include(GoogleTest)

set(WARMRING_WARNINGS
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual)
if(WARMRING_WERROR)
  list(APPEND WARMRING_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees overlapping copies in std::string's own code once it inlines it (GCC bug 105651).
  list(APPEND WARMRING_WARNINGS -Wno-restrict)
endif()

# The sanitizers' flags are given per target and not globally, because two kinds of code go without:
# the shared objects that a foreign process loads, and (for "undefined" only) generated code, where
# that sanitizer costs three times the compile time and finds nothing of ours.
function(_warmring_sanitize target sanitizers)
  if(sanitizers)
    target_compile_options(${target} PRIVATE -fsanitize=${sanitizers} -fno-omit-frame-pointer)
    if(sanitizers MATCHES "undefined")
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=undefined)
    endif()
  endif()
endfunction()

# What holds for each target with sources of our own.
function(_warmring_own_code target)
  target_compile_options(${target} PRIVATE ${WARMRING_WARNINGS})
  if(WARMRING_FAILPOINTS)
    target_compile_definitions(${target} PRIVATE WARMRING_FAILPOINTS=1)
  endif()
  if(WARMRING_MUTANTS)
    target_compile_definitions(${target} PRIVATE WARMRING_MUTANTS=1)
  endif()
endfunction()

function(_warmring_executable target)
  _warmring_own_code(${target})
  _warmring_sanitize(${target} "${WARMRING_SANITIZE}")
  if(WARMRING_SANITIZE)
    target_link_options(${target} PRIVATE -fsanitize=${WARMRING_SANITIZE})
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

function(_warmring_check_arguments function)
  if(NOT A_NAME)
    message(FATAL_ERROR "${function}: NAME is missing")
  endif()
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}(${A_NAME}): unknown arguments: ${A_UNPARSED_ARGUMENTS}")
  endif()
endfunction()

# A static library, or an interface library if it has no SRCS.
function(warmring_library)
  cmake_parse_arguments(A "" "NAME" "SRCS;HDRS;DEPS;PRIVATE_DEPS" ${ARGN})
  _warmring_check_arguments(warmring_library)
  if(NOT A_SRCS)
    add_library(${A_NAME} INTERFACE ${A_HDRS})
    target_include_directories(${A_NAME} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(${A_NAME} INTERFACE ${A_DEPS} ${A_PRIVATE_DEPS})
    if(WARMRING_SANITIZE)
      _warmring_plain_names(deps ${A_DEPS} ${A_PRIVATE_DEPS})
      add_library(${A_NAME}_plain INTERFACE)
      target_include_directories(${A_NAME}_plain INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
      target_link_libraries(${A_NAME}_plain INTERFACE ${deps})
    endif()
    return()
  endif()
  add_library(${A_NAME} STATIC ${A_SRCS} ${A_HDRS})
  target_include_directories(${A_NAME} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(${A_NAME} PUBLIC ${A_DEPS} PRIVATE ${A_PRIVATE_DEPS})
  _warmring_own_code(${A_NAME})
  _warmring_sanitize(${A_NAME} "${WARMRING_SANITIZE}")
  if(WARMRING_SANITIZE)
    _warmring_plain_twin()
  endif()
endfunction()

# In a sanitizer build each library has a twin <NAME>_plain without sanitizers, built only if a module
# links it: a redis-server that is not instrumented cannot load instrumented code.
function(_warmring_plain_twin)
  add_library(${A_NAME}_plain STATIC EXCLUDE_FROM_ALL ${A_SRCS})
  target_include_directories(${A_NAME}_plain PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  _warmring_plain_names(public ${A_DEPS})
  _warmring_plain_names(private ${A_PRIVATE_DEPS})
  target_link_libraries(${A_NAME}_plain PUBLIC ${public} PRIVATE ${private})
  _warmring_own_code(${A_NAME}_plain)
endfunction()

function(_warmring_plain_names result)
  set(names)
  foreach(dep IN LISTS ARGN)
    list(APPEND names $<IF:$<TARGET_EXISTS:${dep}_plain>,${dep}_plain,${dep}>)
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# Runs protoc over PROTOS (paths below ROOT) and makes a static library of the result. Files that
# define a service get gRPC code too. The includes are SYSTEM, so that our warnings stay with our code.
function(warmring_proto_library)
  cmake_parse_arguments(A "" "NAME;ROOT" "PROTOS;DEPS" ${ARGN})
  _warmring_check_arguments(warmring_proto_library)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/gen)
  set(sources)
  foreach(proto IN LISTS A_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    get_filename_component(directory ${out}/${stem} DIRECTORY)
    file(MAKE_DIRECTORY ${directory})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${A_ROOT}/${proto})
    file(STRINGS ${A_ROOT}/${proto} services REGEX "^service[ \t]")
    set(outputs ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
    set(plugin)
    set(plugin_target)
    if(services)
      # Ninja wants the first output to be the depfile's first target, and protoc sorts those.
      list(PREPEND outputs ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
      set(plugin --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> --grpc_out=${out})
      set(plugin_target gRPC::grpc_cpp_plugin)
    endif()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc -I ${A_ROOT} --cpp_out=${out} ${plugin}
              --dependency_out=${out}/${stem}.d ${A_ROOT}/${proto}
      DEPENDS ${A_ROOT}/${proto} protobuf::protoc ${plugin_target}
      DEPFILE ${out}/${stem}.d
      COMMENT "protoc ${proto}"
      VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()
  add_library(${A_NAME} STATIC ${sources})
  target_include_directories(${A_NAME} SYSTEM PUBLIC $<BUILD_INTERFACE:${out}>)
  target_link_libraries(${A_NAME} PUBLIC protobuf::libprotobuf gRPC::grpc++ ${A_DEPS})
  string(REPLACE ",undefined" "" sanitizers "${WARMRING_SANITIZE}")
  _warmring_sanitize(${A_NAME} "${sanitizers}")
endfunction()

# An executable in <build>/bin.
function(warmring_binary)
  cmake_parse_arguments(A "" "NAME" "SRCS;HDRS;DEPS" ${ARGN})
  _warmring_check_arguments(warmring_binary)
  add_executable(${A_NAME} ${A_SRCS} ${A_HDRS})
  target_link_libraries(${A_NAME} PRIVATE ${A_DEPS})
  _warmring_executable(${A_NAME})
endfunction()

# <build>/bin/<NAME>.so, for another program to load; never instrumented by a sanitizer.
function(warmring_module)
  cmake_parse_arguments(A "" "NAME" "SRCS;HDRS;DEPS" ${ARGN})
  _warmring_check_arguments(warmring_module)
  add_library(${A_NAME} MODULE ${A_SRCS} ${A_HDRS})
  set_target_properties(${A_NAME} PROPERTIES
    PREFIX ""
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_include_directories(${A_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  if(WARMRING_SANITIZE)
    _warmring_plain_names(deps ${A_DEPS})
  else()
    set(deps ${A_DEPS})
  endif()
  target_link_libraries(${A_NAME} PRIVATE ${deps})
  # A symbol that the loading program will not have is an error now and not at load time.
  target_link_options(${A_NAME} PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
  _warmring_own_code(${A_NAME})
endfunction()

# Where the processes of the tests labelled "crash" write down which crash points they have reached.
set(WARMRING_FAILPOINT_LOG ${CMAKE_BINARY_DIR}/crash_points.log)

# A GoogleTest program; ctest knows each of its tests as <NAME>.<Suite>.<Test>. The programs find the
# built binaries in $WARMRING_BIN_DIR and files of the repository below $WARMRING_SOURCE_DIR.
function(warmring_test)
  cmake_parse_arguments(A "SERIAL;AFTER_CRASH_TESTS" "NAME;TIMEOUT"
    "SRCS;HDRS;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  _warmring_check_arguments(warmring_test)
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 60)
    if("integration" IN_LIST A_LABELS OR "crash" IN_LIST A_LABELS)
      set(A_TIMEOUT 300)
    endif()
  endif()
  if(WARMRING_SANITIZE)
    math(EXPR A_TIMEOUT "${A_TIMEOUT} * 3")
  endif()
  add_executable(${A_NAME} ${A_SRCS} ${A_HDRS})
  target_link_libraries(${A_NAME} PRIVATE ${A_DEPS} GTest::gmock GTest::gtest_main)
  _warmring_executable(${A_NAME})

  set(environment
    "WARMRING_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
    "WARMRING_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
    ${WARMRING_TEST_ENVIRONMENT}
    ${A_ENVIRONMENT})
  gtest_discover_tests(${A_NAME}
    TEST_PREFIX ${A_NAME}.
    TEST_LIST ${A_NAME}_tests
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${A_TIMEOUT})
  if("crash" IN_LIST A_LABELS OR A_AFTER_CRASH_TESTS)
    list(APPEND environment "WARMRING_FAILPOINT_LOG=${WARMRING_FAILPOINT_LOG}")
  endif()
  # Properties that are lists cannot pass through gtest_discover_tests; ctest reads this file after
  # the one that discovers.
  set(properties "LABELS [==[${A_LABELS}]==] ENVIRONMENT [==[${environment}]==]")
  if(A_AFTER_CRASH_TESTS)
    string(APPEND properties " FIXTURES_REQUIRED crash_tests")
  elseif("crash" IN_LIST A_LABELS)
    string(APPEND properties " FIXTURES_SETUP crash_tests FIXTURES_REQUIRED crash_points_log")
  endif()
  if(A_SERIAL)
    string(APPEND properties " RUN_SERIAL TRUE")
  endif()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${A_NAME}_properties.cmake)
  file(WRITE ${file} "if(${A_NAME}_tests)\n"
    "  set_tests_properties(\${${A_NAME}_tests} PROPERTIES ${properties})\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()
