# Every library that Berth uses, all from Debian 12. A new one needs a line in docs/adr/.

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(BLKID REQUIRED IMPORTED_TARGET blkid)
pkg_check_modules(FUSE3 REQUIRED IMPORTED_TARGET fuse3)

# Debian's Ceph has no description of its libraries for CMake or pkg-config.
foreach(library rados rbd)
  find_library(CEPH_${library} ${library} REQUIRED)
  add_library(Ceph::${library} UNKNOWN IMPORTED)
  set_target_properties(Ceph::${library} PROPERTIES IMPORTED_LOCATION ${CEPH_${library}})
endforeach()

# re2, which gRPC links, brings the compile option -pthread: a no-op with glibc, but it makes the shared
# precompiled header unusable for every target above src/rpc.
set_property(TARGET re2::re2 PROPERTY INTERFACE_COMPILE_OPTIONS "")
