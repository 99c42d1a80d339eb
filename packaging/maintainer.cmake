# SPDX-License-Identifier: BSD-3-Clause
#
# Who is the maintainer of Debian packages: cpack includes this file when it makes them (CPACK_PROJECT_CONFIG_FILE).
#
# The first that is set: TCMALLOC_PACKAGE_MAINTAINER of the build; DEBEMAIL and DEBFULLNAME of the environment, as for
# Debian's own tools; user.name and user.email of git; the name of the user and of the machine.
if(NOT CPACK_PACKAGE_CONTACT)
  set(name "$ENV{DEBFULLNAME}")
  set(address "$ENV{DEBEMAIL}")
  if(address MATCHES "<.+>$")
    set(CPACK_PACKAGE_CONTACT ${address})
  else()
    foreach(what IN ITEMS name email)
      execute_process(COMMAND git config user.${what} WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}
        OUTPUT_VARIABLE git_${what} OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status ERROR_QUIET)
    endforeach()
    execute_process(COMMAND id -un OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
    cmake_host_system_information(RESULT host QUERY HOSTNAME)
    if(NOT address)
      set(address ${git_email})
    endif()
    if(NOT address)
      set(address ${user}@${host})
      set(git_name "")
    endif()
    foreach(found IN ITEMS "${git_name}" "${user}")
      if(NOT name)
        set(name ${found})
      endif()
    endforeach()
    set(CPACK_PACKAGE_CONTACT "${name} <${address}>")
  endif()
endif()
