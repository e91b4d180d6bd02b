# Compiler, linker and warnings, the same for every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# "Dev" is for the edit loop and CI: quick to compile, assertions on, line numbers in backtraces.
set(CMAKE_CXX_FLAGS_DEV "-O1 -gline-tables-only -fno-omit-frame-pointer" CACHE STRING "" FORCE)
set(CMAKE_EXE_LINKER_FLAGS_DEV "" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG -gline-tables-only" CACHE STRING "" FORCE)

add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter -Wthread-safety
                    -Wno-missing-field-initializers -ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections -Wl,--as-needed)

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
  # A release keeps one copy of equal functions whose address nobody takes, which makes a stripped program smaller.
  add_link_options($<$<CONFIG:Release>:-Wl,--icf=safe>)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  # Lets ccache reuse objects that were built with a precompiled header.
  add_compile_options(-Xclang -fno-pch-timestamp)
endif()

set(BERTH_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize=")
if(BERTH_SANITIZE)
  add_compile_options(-fsanitize=${BERTH_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BERTH_SANITIZE})
endif()
