# CTest reads this after the names of a program's unit tests: the suites Thorough/... have more cases of the same tests,
# for make test-all.
list(FILTER thorough_tests INCLUDE REGEX "^unit[.]Thorough/")
if(thorough_tests)
  set_tests_properties(${thorough_tests} PROPERTIES LABELS "unit;thorough")
endif()
unset(thorough_tests)
