# SPDX-License-Identifier: BSD-3-Clause
#
# Tests for systems without shared libraries to preload: C programs of this folder and others, linked statically with all
# they need. Label: process.

# add_static_process_test(name argument...), with each of ${libraries}
function(add_static_process_test name)
  get_filename_component(source ${CMAKE_CURRENT_SOURCE_DIR}/${name}.c ABSOLUTE)
  get_filename_component(name ${name} NAME)
  foreach(library ${libraries})
    set(target static_${name}_${library})
    add_executable(${target} ${source})
    target_compile_definitions(${target} PRIVATE LINKED_STATICALLY _GNU_SOURCE=)
    target_compile_options(${target} PRIVATE
      -fno-builtin -Wno-alloc-size-larger-than -Wno-unused-function -Wno-unused-variable
      -include ${CMAKE_CURRENT_SOURCE_DIR}/musl.h)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)  # not that of what it is linked with
    target_link_options(${target} PRIVATE -static)
    target_link_libraries(${target} PRIVATE ${library}_static)
    add_test(NAME process.static.${name}.${library} COMMAND ${target} ${ARGN})
    set_tests_properties(process.static.${name}.${library} PROPERTIES LABELS process TIMEOUT 120)
  endforeach()
endfunction()

set(libraries tcmalloc tcmalloc_minimal)
add_static_process_test(static_use)
# Tests of the shared libraries show how the two differ.
set(libraries tcmalloc)
foreach(name ../fork/fork_trim ../../packaging/client ../../packaging/bystander)
  add_static_process_test(${name})
endforeach()

# The tcmalloc command of another build on such a program.
add_executable(static_command ${PROJECT_SOURCE_DIR}/tests/command/observed_program.c)
target_compile_definitions(static_command PRIVATE LINKED _GNU_SOURCE=)
target_compile_options(static_command PRIVATE -fno-builtin)
set_target_properties(static_command PROPERTIES LINKER_LANGUAGE C)
target_link_options(static_command PRIVATE -static)
target_link_libraries(static_command PRIVATE tcmalloc_static)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(what rest objects profile inspect busy forks)
  add_test(NAME process.command.${what}.musl
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/command/command_test.py ${what} ${PROJECT_SOURCE_DIR}/build
      $<TARGET_FILE:static_command> linked)
  set_tests_properties(process.command.${what}.musl PROPERTIES LABELS process TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()

# There is no leak checker, and the library says so.
add_test(NAME process.static.no_leak_checker COMMAND static_static_use_tcmalloc)
set_tests_properties(process.static.no_leak_checker PROPERTIES LABELS process TIMEOUT 120
  ENVIRONMENT HEAPCHECK=normal PASS_REGULAR_EXPRESSION
  "tcmalloc: HEAPCHECK is ignored: this library was built without the leak checker\nran")

# The commands of docs/getting-started.md.
add_test(NAME process.getting_started
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/packaging/getting_started_test.py
    ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_BINARY_DIR}/getting_started musl)
set_tests_properties(process.getting_started PROPERTIES LABELS process TIMEOUT 120
  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
