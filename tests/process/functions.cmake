# Functions for the tests of processes, here and in tests/command. Each adds a test for each of ${libraries}, or the program
# of tests.
find_package(Threads REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
# The system's Python is the one that has the packages of scripts/setup.sh.
find_program(TCMALLOC_SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(NOT TCMALLOC_SYSTEM_PYTHON)
  set(TCMALLOC_SYSTEM_PYTHON ${Python3_EXECUTABLE})
endif()
set(libraries ${TCMALLOC_TESTED_LIBRARIES})

# GoogleTest program ${name}.cc, linked with each library. ARGN: more environment settings.
function(add_linked_process_test name)
  foreach(library IN LISTS libraries)
    set(target process_${name}_${library})
    add_executable(${target} ${name}.cc)
    target_compile_options(${target} PRIVATE
      -O0  # as in tests/unit
      -fno-builtin
      $<$<CXX_COMPILER_ID:GNU>:-Wno-alloc-size-larger-than -Wno-free-nonheap-object>
      -Wno-mismatched-new-delete)
    target_link_libraries(${target} PRIVATE ${library} GTest::gtest GTest::gtest_main ${CMAKE_DL_LIBS})
    add_test(NAME process.${name}.${library} COMMAND ${target})
    set_tests_properties(process.${name}.${library} PROPERTIES LABELS process TIMEOUT 180
      ENVIRONMENT "LIBRARY_UNDER_TEST=$<TARGET_FILE:${library}>;${ARGN}")
  endforeach()
endfunction()

# Small program ${name}.c or ${name}.cc, built without the allocator and run with each library preloaded.
#   ARGUMENTS   the program's arguments
#   VARIANT     suffix of the test's name, for a program that runs in several ways
#   BEFORE      library to preload before the allocator     AFTER  library to preload after it
#   NO_PRELOAD  the program gets the library by name only
#   ENVIRONMENT more environment settings
#   SKIPS       the program may skip, by the exit status 77
function(add_preloaded_process_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "NO_PRELOAD;SKIPS" "VARIANT;BEFORE;AFTER" "ARGUMENTS;ENVIRONMENT")
  set(suffix)
  if(test_VARIANT)
    set(suffix .${test_VARIANT})
  endif()
  foreach(library ${libraries})
    set(test process.${name}${suffix}.${library})
    set(preload $<TARGET_FILE:${library}>)
    if(test_BEFORE)
      set(preload $<TARGET_FILE:${test_BEFORE}>:${preload})
    endif()
    if(test_AFTER)
      set(preload ${preload}:$<TARGET_FILE:${test_AFTER}>)
    endif()
    set(environment LIBRARY_UNDER_TEST=$<TARGET_FILE:${library}>)
    if(NOT test_NO_PRELOAD)
      list(APPEND environment LD_PRELOAD=${preload})
    endif()
    list(APPEND environment ${test_ENVIRONMENT})
    add_test(NAME ${test} COMMAND process_${name} ${test_ARGUMENTS})
    set_tests_properties(${test} PROPERTIES LABELS process TIMEOUT 120 ENVIRONMENT "${environment}")
    if(test_SKIPS)
      set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()

# Adds the program of such tests. The C compiler links C sources, without the C++ library.
function(add_process_program name source)
  add_executable(process_${name} ${source})
  target_compile_options(process_${name} PRIVATE -fno-builtin
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-alloc-size-larger-than -Wno-mismatched-new-delete>
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-alloc-size-larger-than> -Wno-unused-function -Wno-unused-variable)
  target_link_libraries(process_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# Test ${name}: a Python script of this folder with ARGUMENTS. SKIPS: it may skip, by the exit status 77. TIMEOUT: 180 s
# unless given. LABEL: `process` unless given.
function(add_script_test name script)
  cmake_parse_arguments(PARSE_ARGV 2 test "SKIPS" "TIMEOUT;LABEL" "ARGUMENTS")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 180)
  endif()
  if(NOT test_LABEL)
    set(test_LABEL process)
  endif()
  add_test(NAME ${name} COMMAND ${TCMALLOC_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${test_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS ${test_LABEL} TIMEOUT ${test_TIMEOUT}
    ENVIRONMENT PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/process)
  if(test_SKIPS)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# A program linked with the full library that runs ${program} WHAT for each of ARGN, a name and arguments in a string: the test
# process.${program}.WHAT, with dots between its words.
function(add_full_library_tests program timeout)
  foreach(what ${ARGN})
    string(REPLACE " " ";" arguments ${what})
    string(REPLACE " " "." name ${what})
    add_test(NAME process.${program}.${name} COMMAND process_${program} ${arguments})
    set_tests_properties(process.${program}.${name} PROPERTIES
      LABELS process TIMEOUT ${timeout} ENVIRONMENT "LIBRARY_UNDER_TEST=$<TARGET_FILE:tcmalloc>")
  endforeach()
endfunction()

# Tests of this folder that compute or wait for many seconds, or compile something. make check leaves them out, and make
# test-all runs them on one library. The longest starts first, so that no long test runs alone at the end.
function(tcmalloc_slow seconds)
  foreach(name IN LISTS ARGN)
    foreach(library IN ITEMS "" .tcmalloc .tcmalloc_minimal)
      if(TEST process.${name}${library})
        set_property(TEST process.${name}${library} APPEND PROPERTY LABELS slow)
        set_property(TEST process.${name}${library} PROPERTY COST ${seconds})
        if(library STREQUAL ".tcmalloc_minimal" AND TEST process.${name}.tcmalloc)
          set_property(TEST process.${name}${library} APPEND PROPERTY LABELS thorough)
        endif()
      endif()
    endforeach()
  endforeach()
endfunction()
