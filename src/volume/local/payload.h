// Collects the files of a configMap, secret, projected or downwardAPI volume from API objects.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/json.h"
#include "base/status.h"
#include "volume/host.h"

namespace berth::volume {

struct PayloadFile {
  std::string data;  // may be secret: never logged
  mode_t mode = 0644;
  std::optional<uid_t> owner;  // nullopt: root
};

// Keyed by the path relative to the volume.
using Payload = std::map<std::string, PayloadFile>;

// Collects the files of one volume.
class PayloadBuilder {
 public:
  // The bytes that the files of a volume may have together: the agent holds them in memory, and a
  // short pod spec can name one large object any number of times.
  static constexpr size_t kMaxBytes = 16 << 20;

  // Adds a file, in place of one that has the path. INVALID_ARGUMENT: CheckPayloadPath refuses the
  // path, the path is that of a folder or below a file, or there are more than kMaxBytes.
  base::Status AddFile(const std::string& path, PayloadFile file);
  const Payload& files() const { return files_; }

 private:
  Payload files_;
  size_t size_ = 0;
};

// INVALID_ARGUMENT for paths that could lead out of the volume or collide with the writer's own
// names: empty, absolute, with "..", a first part that begins with "..", parts over 255 or paths
// over 4,096 bytes.
base::Status CheckPayloadPath(std::string_view path);

// The ConfigMap or Secret of a source, and the files that its keys become.
struct KeysSource {
  const api::KindInfo& kind;
  std::string ns;
  std::string name;
  const base::Json& source;  // with items[] and optional
  mode_t default_mode = 0644;
};

// Adds the keys of a ConfigMap or Secret to `files`. NOT_FOUND, with the kubelet's words: the
// object or a key is missing and not optional. DATA_LOSS: a value is not base64. INVALID_ARGUMENT:
// a mode is invalid, or AddFile refuses a file.
base::Status AddKeys(Host& host, const KeysSource& keys, PayloadBuilder& files);

// Adds the files of downwardAPI items[] to `files`. Errors are those of ReadDownwardValue, and
// INVALID_ARGUMENT for a path or mode.
base::Status AddDownward(Host& host, const api::Pod& pod, const base::Json& source,
                         mode_t default_mode, PayloadBuilder& files);

// The member `field` (a defaultMode or mode), or `fallback` if it is absent. INVALID_ARGUMENT: it
// is not within 0 to 0777.
base::StatusOr<mode_t> ParseMode(const base::Json& source, std::string_view field, mode_t fallback);

}  // namespace berth::volume
