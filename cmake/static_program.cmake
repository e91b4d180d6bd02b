# A program that needs nothing of the machine it runs on: in a mount pod's image, in the host's /sbin.
#   berth_static_program(NAME SOURCES ...)
# makes NAME of src/cmd/NAME/*.cc and further SOURCES, and of its *_test.cc the program
# berth_cmd_NAME_test (label unit), '-' written '_'. It is small: without exceptions, RTTI and
# symbols, and of the rooms it compiles only what it names.
#
# A build with sanitizers, which cannot be linked statically, links it as any other.

function(berth_static_program name)
  cmake_parse_arguments(PROGRAM "" "" "SOURCES" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/cmd/${name})
  file(GLOB own CONFIGURE_DEPENDS ${folder}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cc)
  list(REMOVE_ITEM own ${tests} ${folder}/main.cc)
  list(TRANSFORM PROGRAM_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/src/)

  add_executable(${name} ${folder}/main.cc ${own} ${PROGRAM_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE -Os -fno-exceptions -fno-rtti)
  if(NOT BERTH_SANITIZE)
    target_link_options(${name} PRIVATE -static -s)
  endif()

  if(tests)
    string(REPLACE "-" "_" test berth_cmd_${name}_test)
    add_executable(${test} ${tests} ${own} ${PROGRAM_SOURCES})
    berth_compile_tests_in_batches(${test})
    target_include_directories(${test} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${test} PRIVATE berth_base GTest::gmock GTest::gtest_main)
    berth_add_test(${test} unit)
  endif()
endfunction()
