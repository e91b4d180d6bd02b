// The calls of `berth-iscsi` about the LUNs of one target, with the secret of the StorageCluster.
//
// Thread-safe. FAILED_PRECONDITION: the Secret is missing or wrong. Other failures are those of
// StorageProgram and of the program itself (src/iscsi/calls.h).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "block/backend.h"
#include "block/iscsi/iscsi_settings.h"
#include "block/storage_program.h"
#include "block/storage_secret.h"

namespace berth::block {

// A LUN as the target shows it.
struct Lun {
  int64_t number = 0;
  std::string identity;
  int64_t size_bytes = 0;
  // For whom it is reserved, as the volume that the list was made for sees it. kGuard: for that
  // volume, and no node uses it. kWipe: for a wipe of that volume that was cut off. kOther: for a
  // node, or for another volume.
  enum class Reserved { kNobody, kGuard, kWipe, kOther };
  Reserved reserved = Reserved::kNobody;
  bool blank = false;  // false also if it could not be read
  std::string problem;
};

// `age` is which Secret that was read before is used without a question to the API.
class LunCalls {
 public:
  LunCalls(IscsiSettings settings, const BackendParts& parts, const std::string& program);

  // The allowed LUNs that the target shows. Two LUNs of one identity are left out, because they
  // cannot be told apart. `volume` as of Lun::reserved.
  base::StatusOr<std::vector<Lun>> ListLuns(const std::string& volume);
  // The same without `reserved`, `blank` and `problem`, for which nothing is read from the LUNs.
  // Ends within eight seconds.
  base::StatusOr<std::vector<Lun>> FindLuns();
  // The LUN of the image. NOT_FOUND: the target does not show it. UNAVAILABLE: it may be one of
  // those that gave an error in place of their identity. FAILED_PRECONDITION: the
  // StorageCluster does not list it any more.
  base::StatusOr<Lun> FindLun(const std::string& image,
                              StorageSecret::Age age = StorageSecret::Age::kRecent);

  // Makes a call about a LUN for `volume`. `request` has "call" and what the call needs beside the
  // LUN.
  base::StatusOr<base::Json> CallFor(const std::string& volume, const Lun& lun, base::Json request,
                                     StorageSecret::Age age = StorageSecret::Age::kRecent);
  // What `berth-iscsi serve` reads to serve the LUN.
  base::StatusOr<base::Json> MakeServeSettings(const std::string& volume, const Lun& lun);

  // Whether the Secret is there and has what is needed.
  base::Status CheckSecret() { return ReadChap(StorageSecret::Age::kRecent).status(); }

  const IscsiSettings& settings() const { return settings_; }

 private:
  base::StatusOr<ChapSecret> ReadChap(StorageSecret::Age age);
  base::Json Describe(const ChapSecret& chap, const std::string& volume) const;
  base::StatusOr<base::Json> Call(base::Json request, const std::string& volume,
                                  std::chrono::milliseconds timeout, StorageSecret::Age age);
  struct Listed {
    std::vector<Lun> luns;
    int64_t unread = 0;  // LUNs whose identity could not be read
  };
  base::StatusOr<Listed> List(base::Json request, const std::string& volume,
                              std::chrono::milliseconds timeout, StorageSecret::Age age);
  base::StatusOr<Listed> ListBriefly(StorageSecret::Age age);

  const IscsiSettings settings_;
  const std::string node_;
  const StorageProgram program_;
  StorageSecret secret_;
};

}  // namespace berth::block
