# A room is a folder under src/ (docs/design.md). `berth_room(NAME DEPS ...)` makes
#   berth_NAME            an object-bearing static library of the folder's *.cc
#   berth_NAME_test       a program of its *_test.cc            (label unit)
#   berth_NAME_root_test  a program of its *_root_test.cc       (label root: needs mount, loop devices, ...)
#   berth_NAME_vm_test    a program of its *_vm_test.cc         (label vm: tests/vm runs it in a virtual machine)
# fake_*.cc files belong to the tests of this room and of those above: library berth_NAME_fakes.
# '/' in a room's name is written '_' in its targets. Folders within a room's folder that are part of it
# are named by FOLDERS. The root tests of those that APART names take long, so that they are a program of their own beside
# the others: berth_NAME_FOLDER_root_test.

# Two precompiled headers that all targets share: one for products, and one with GoogleTest for tests, which are
# compiled without optimisation, because that halves their time and nobody waits for what they compute themselves.
set(BERTH_TEST_OPTIONS -O0)
function(berth_precompiled target header)
  add_library(${target} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
  target_link_libraries(${target} PRIVATE absl::status absl::statusor fmt::fmt spdlog::spdlog
                        nlohmann_json::nlohmann_json)
  target_compile_options(${target} PRIVATE -Wno-unused-macros ${ARGN})
endfunction()
berth_precompiled(berth_pch pch.h)
berth_precompiled(berth_test_pch test_pch.h ${BERTH_TEST_OPTIONS})
target_link_libraries(berth_test_pch PRIVATE GTest::gmock GTest::gtest)

# A target's sources are compiled in batches: so many small files that read the same headers cost a quarter of the
# processor time. A batch is small enough that one changed file is compiled again in seconds, so that there is no
# second way for the edit loop (docs/benchmarks.md, loop). Names of one room must not collide, in anonymous namespaces
# neither.
set(BERTH_BATCH 8)
option(BERTH_BATCHES "Compile a target's sources in batches" ON)
function(berth_compile_in_batches target)
  target_precompile_headers(${target} REUSE_FROM berth_pch)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BERTH_BATCHES} UNITY_BUILD_BATCH_SIZE ${BERTH_BATCH})
endfunction()
function(berth_compile_tests_in_batches target)
  target_precompile_headers(${target} REUSE_FROM berth_test_pch)
  target_compile_options(${target} PRIVATE ${BERTH_TEST_OPTIONS})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BERTH_BATCHES} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

function(berth_room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;LIBS;FOLDERS;APART" ${ARGN})
  string(REPLACE "/" "_" target ${name})
  set(target berth_${target})
  set(folders ${CMAKE_SOURCE_DIR}/src/${name})
  foreach(inner ${ROOM_FOLDERS})
    list(APPEND folders ${CMAKE_SOURCE_DIR}/src/${name}/${inner})
  endforeach()

  list(TRANSFORM folders APPEND /*.cc OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  list(TRANSFORM folders APPEND /*_test.cc OUTPUT_VARIABLE patterns)
  file(GLOB tests CONFIGURE_DEPENDS ${patterns})
  list(TRANSFORM folders APPEND /*_root_test.cc OUTPUT_VARIABLE patterns)
  file(GLOB root_tests CONFIGURE_DEPENDS ${patterns})
  list(TRANSFORM folders APPEND /*_vm_test.cc OUTPUT_VARIABLE patterns)
  file(GLOB vm_tests CONFIGURE_DEPENDS ${patterns})
  list(TRANSFORM folders APPEND /fake_*.cc OUTPUT_VARIABLE patterns)
  file(GLOB fakes CONFIGURE_DEPENDS ${patterns})
  list(REMOVE_ITEM fakes ${tests})
  list(REMOVE_ITEM sources ${tests} ${fakes})
  if(root_tests OR vm_tests)
    list(REMOVE_ITEM tests ${root_tests} ${vm_tests})
  endif()
  list(TRANSFORM ROOM_DEPS REPLACE "/" "_")
  list(TRANSFORM ROOM_DEPS PREPEND berth_ OUTPUT_VARIABLE deps)

  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    berth_compile_in_batches(${target})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} ${scope} ${deps} ${ROOM_LIBS})

  add_library(${target}_fakes INTERFACE)
  if(fakes)
    add_library(${target}_fakes_impl STATIC ${fakes})
    berth_compile_in_batches(${target}_fakes_impl)
    target_link_libraries(${target}_fakes_impl PUBLIC ${target})
    target_link_libraries(${target}_fakes INTERFACE ${target}_fakes_impl)
  endif()

  if(tests)
    berth_test(${target}_test unit ${target} "${deps}" ${tests})
  endif()
  foreach(inner ${ROOM_APART})
    set(apart ${root_tests})
    list(FILTER apart INCLUDE REGEX "/${inner}/[^/]*$")
    list(REMOVE_ITEM root_tests ${apart})
    berth_test(${target}_${inner}_root_test root ${target} "${deps}" ${apart})
  endforeach()
  if(root_tests)
    berth_test(${target}_root_test root ${target} "${deps}" ${root_tests})
  endif()
  if(vm_tests)
    berth_test(${target}_vm_test vm ${target} "${deps}" ${vm_tests})
  endif()
endfunction()

# One program is one test of ctest, because starting 3,000 processes of up to 55 MB takes longer than their tests do;
# tools/run_tests reads each test's outcome from what the program reports.
function(berth_add_test test label)
  add_test(NAME ${test} COMMAND ${test})
  set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT 600)
  if(label STREQUAL root)
    # At once, because they wait most.
    set_tests_properties(${test} PROPERTIES COST 1)
  endif()
endfunction()

function(berth_test test label target deps)
  add_executable(${test} ${ARGN})
  berth_compile_tests_in_batches(${test})
  list(TRANSFORM deps APPEND _fakes OUTPUT_VARIABLE dep_fakes)
  if(label STREQUAL root)
    target_sources(${test} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/root_test_main.cc)
    set(main berth_platform)
  else()
    set(main GTest::gtest_main)
  endif()
  target_link_libraries(${test} PRIVATE ${target} ${target}_fakes ${dep_fakes} ${main} GTest::gmock GTest::gtest)
  if(label STREQUAL vm)
    return() # not by ctest
  endif()
  berth_add_test(${test} ${label})
endfunction()
