#include "rbd/omap.h"

#include <errno.h>

#include <memory>

#include "base/log.h"
#include "rbd/rbd_error.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr uint64_t kPageSize = 1000;

struct ReleaseRead {
  void operator()(rados_read_op_t op) const { rados_release_read_op(op); }
};
struct ReleaseWrite {
  void operator()(rados_write_op_t op) const { rados_release_write_op(op); }
};
using ReadOp = std::unique_ptr<void, ReleaseRead>;
using WriteOp = std::unique_ptr<void, ReleaseWrite>;

std::string ReadContext(const std::string& object) {
  return fmt::format("read the records of {}", Quote(object));
}

// Moves the pairs of `iterator` to `values`, and closes it. `result` is what the operation
// returned: after a failure the iterator points nowhere.
int ReadPairs(int result, rados_omap_iter_t iterator, OmapValues& values) {
  while (result >= 0) {
    char* key = nullptr;
    char* value = nullptr;
    size_t key_size = 0;
    size_t value_size = 0;
    result = rados_omap_get_next2(iterator, &key, &value, &key_size, &value_size);
    if (result < 0 || key == nullptr) break;
    values[std::string(key, key_size)].assign(value, value_size);
  }
  rados_omap_get_end(iterator);
  return result;
}

int Operate(const Cluster& cluster, const std::string& object, rados_write_op_t op) {
  // Also in a full pool, since a deletion needs records, too. They are small.
  return rados_write_op_operate(op, cluster.io(), object.c_str(), nullptr,
                                LIBRADOS_OPERATION_FULL_FORCE);
}

base::Status ToStatus(int result, const std::string& object) {
  if (result >= 0) return base::OkStatus();
  return RbdError(result, fmt::format("write the records of {}", Quote(object)));
}

base::Status ChangeOmap(const Cluster& cluster, const std::string& object, rados_write_op_t op) {
  return ToStatus(Operate(cluster, object, op), object);
}

void AddSet(rados_write_op_t op, const std::string& key, const std::string& value) {
  const char* const keys[] = {key.data()};
  const char* const values[] = {value.data()};
  const size_t key_sizes[] = {key.size()};
  const size_t value_sizes[] = {value.size()};
  rados_write_op_omap_set2(op, keys, values, key_sizes, value_sizes, 1);
}

void AddRemove(rados_write_op_t op, const std::vector<std::string>& keys) {
  if (keys.empty()) return;
  std::vector<const char*> names;
  std::vector<size_t> sizes;
  for (const std::string& key : keys) {
    names.push_back(key.data());
    sizes.push_back(key.size());
  }
  rados_write_op_omap_rm_keys2(op, names.data(), sizes.data(), keys.size());
}

}  // namespace

base::StatusOr<std::optional<std::string>> ReadOmap(const Cluster& cluster,
                                                    const std::string& object,
                                                    const std::string& key) {
  const ReadOp op(rados_create_read_op());
  const char* const keys[] = {key.data()};
  const size_t sizes[] = {key.size()};
  rados_omap_iter_t iterator = nullptr;
  int of_keys = 0;
  rados_read_op_omap_get_vals_by_keys2(op.get(), keys, 1, sizes, &iterator, &of_keys);
  int result = rados_read_op_operate(op.get(), cluster.io(), object.c_str(), 0);
  if (result >= 0) result = of_keys;
  OmapValues values;
  result = ReadPairs(result, iterator, values);
  if (result == -ENOENT) return std::optional<std::string>();
  if (result < 0) return RbdError(result, ReadContext(object));
  const auto found = values.find(key);
  if (found == values.end()) return std::optional<std::string>();
  return std::optional(found->second);
}

base::StatusOr<OmapValues> ListOmap(const Cluster& cluster, const std::string& object,
                                    const std::string& prefix) {
  OmapValues all;
  std::string after;
  for (unsigned char more = 1; more != 0;) {
    const ReadOp op(rados_create_read_op());
    rados_omap_iter_t iterator = nullptr;
    int of_values = 0;
    rados_read_op_omap_get_vals2(op.get(), after.c_str(), prefix.c_str(), kPageSize, &iterator,
                                 &more, &of_values);
    int result = rados_read_op_operate(op.get(), cluster.io(), object.c_str(), 0);
    if (result >= 0) result = of_values;
    OmapValues page;
    result = ReadPairs(result, iterator, page);
    if (result == -ENOENT) return OmapValues();
    if (result < 0) return RbdError(result, ReadContext(object));
    if (page.empty()) break;
    after = page.rbegin()->first;
    all.merge(page);
    if (all.size() > kMostKeys) {
      return Error(StatusCode::kResourceExhausted, "{} has more than {} records", Quote(object),
                   kMostKeys);
    }
  }
  return all;
}

base::Status SetOmap(const Cluster& cluster, const std::string& object, const std::string& key,
                     const std::string& value) {
  const WriteOp op(rados_create_write_op());
  rados_write_op_create(op.get(), LIBRADOS_CREATE_IDEMPOTENT, nullptr);
  AddSet(op.get(), key, value);
  return ChangeOmap(cluster, object, op.get());
}

base::Status SetInExisting(const Cluster& cluster, const std::string& object,
                           const std::string& key, const std::string& value) {
  const WriteOp op(rados_create_write_op());
  rados_write_op_assert_exists(op.get());
  AddSet(op.get(), key, value);
  return ChangeOmap(cluster, object, op.get());
}

base::Status ReplaceOmap(const Cluster& cluster, const std::string& object,
                         const OmapReplacement& change) {
  const WriteOp op(rados_create_write_op());
  rados_write_op_create(op.get(), LIBRADOS_CREATE_IDEMPOTENT, nullptr);
  int compared = 0;
  rados_write_op_omap_cmp(op.get(), change.key.c_str(), LIBRADOS_CMPXATTR_OP_EQ,
                          change.before.data(), change.before.size(), &compared);
  for (const auto& [key, value] : change.set) AddSet(op.get(), key, value);
  AddRemove(op.get(), change.remove);
  const int result = Operate(cluster, object, op.get());
  if (result == -ECANCELED) {
    return Error(StatusCode::kAborted, "record {} of {} was changed by another call meanwhile",
                 Quote(change.key), Quote(object));
  }
  return ToStatus(result, object);
}

base::Status RemoveOmap(const Cluster& cluster, const std::string& object,
                        const std::vector<std::string>& keys) {
  if (keys.empty()) return base::OkStatus();
  const WriteOp op(rados_create_write_op());
  // Without the assertion the operation would make an empty object.
  rados_write_op_assert_exists(op.get());
  AddRemove(op.get(), keys);
  base::Status removed = ChangeOmap(cluster, object, op.get());
  if (removed.code() == StatusCode::kNotFound) return base::OkStatus();
  return removed;
}

}  // namespace berth::rbd
