#include "cli/explain/state.h"

#include "api/kinds/csi_names.h"

namespace berth::cli::explain {

std::string ProvisionKey(const State& state) { return "provision " + state.claim_key; }
std::string DeleteKey(const State& state) {
  return "delete-volume " + (state.volume ? state.volume->name() : "");
}
std::string AttachKey(const std::string& name) { return "attach " + name; }
std::string ResizeKey(const State& state) { return "resize " + state.claim_key; }
std::string ModifyKey(const State& state) { return "modify " + state.claim_key; }
std::string SnapshotKey(const State& state) {
  return "snapshot " + (state.content ? state.content->name() : "");
}
std::string NodeKey(const State& state) {
  return "volumes " + api::UniqueVolumeName(state.driver, api::VolumeHandle(state.handle));
}
std::vector<std::string> DriverKeys(const State& state) {
  std::vector<std::string> keys;
  if (!state.handle.empty()) keys.push_back("volume " + state.handle);
  if (state.claim) keys.push_back("volume pvc-" + state.claim->uid());
  return keys;
}

std::vector<const base::FlightRecord*> FindRecords(const State& state, const std::string& key) {
  std::vector<const base::FlightRecord*> out;
  for (const base::FlightLog& log : state.logs) {
    for (const base::FlightRecord& record : log.records) {
      if (record.key == key) out.push_back(&record);
    }
  }
  return out;
}

}  // namespace berth::cli::explain
