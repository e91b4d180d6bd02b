#include "writer.h"

#include "recording_client.h"

namespace berth::chaos {

using base::Json;
using base::Status;
using base::StatusCode;

namespace {

// The wait after a failed call. Most calls fail because the server does not run at the moment.
constexpr std::chrono::milliseconds kAbsence{5};

}  // namespace

Writer::Writer(kube::Client& client, std::string name, std::vector<std::string> namespaces,
               size_t objects, uint64_t seed)
    : client_(client), random_(seed) {
  for (size_t i = 0; i < objects; ++i) {
    objects_.push_back({.kind = i % 2 == 0 ? &api::kinds::kConfigMap : &api::kinds::kSecret,
                        .ns = namespaces[i / 2 % namespaces.size()],
                        .name = fmt::format("{}-{}", name, i)});
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void Writer::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Writer::Run(const std::stop_token& stop) {
  std::uniform_int_distribution<size_t> any(0, objects_.size() - 1);
  std::uniform_int_distribution<int> dice(0, 99);
  while (!stop.stop_requested()) {
    Object& object = objects_[any(random_)];
    if (object.unsure) {
      LookAgain(object);
    } else if (object.version == 0) {
      Create(object);
    } else if (dice(random_) < 80) {
      Update(object);
    } else {
      Delete(object);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(dice(random_) * 40));
  }
}

// One informer selects the objects of one side only. Each write puts its object on a random side.
Json Writer::Labels() { return {{"side", random_() % 2 == 0 ? "left" : "right"}}; }

void Writer::Acknowledge(Object& object, const Json& answer) {
  object.version = VersionOf(answer);
  object.unsure = object.may_be_gone = false;
  acknowledged_[object.kind].push_back(object.version);
}

void Writer::Unknown(Object& object) {
  object.unsure = true;
  ++unknown_;
  std::this_thread::sleep_for(kAbsence);
}

void Writer::Create(Object& object) {
  const auto made = client_.Create(
      *object.kind, object.ns,
      {{"apiVersion", "v1"},
       {"kind", std::string(object.kind->kind)},
       {"metadata", {{"name", object.name}, {"namespace", object.ns}, {"labels", Labels()}}}});
  if (made.ok()) return Acknowledge(object, *made);
  Unknown(object);
}

void Writer::Update(Object& object) {
  const auto made = client_.Patch(
      *object.kind, object.ns, object.name, kube::PatchType::kMerge,
      {{"metadata", {{"labels", Labels()}, {"annotations", {{"turn", std::to_string(++turn_)}}}}}},
      "");
  if (made.ok()) return Acknowledge(object, *made);
  if (made.status().code() == StatusCode::kNotFound) {
    losses_.push_back(fmt::format("{} {} of version {} is gone", object.kind->plural, object.name,
                                  object.version));
    object.version = 0;
    return;
  }
  Unknown(object);
}

void Writer::Delete(Object& object) {
  const Status deleted = client_.Delete(*object.kind, object.ns, object.name, {});
  // A request may have been sent twice; then the second one finds that the object is gone.
  if (deleted.ok() || deleted.code() == StatusCode::kNotFound) {
    object.version = 0;
    return;
  }
  object.may_be_gone = true;
  Unknown(object);
}

void Writer::LookAgain(Object& object) {
  const auto found = client_.Get(*object.kind, object.ns, object.name);
  if (found.ok()) {
    const int64_t version = VersionOf(*found);
    if (version < object.version) {
      losses_.push_back(fmt::format("{} {} was at version {} and is at {}", object.kind->plural,
                                    object.name, object.version, version));
    }
    object.version = version;
    object.unsure = object.may_be_gone = false;
    return;
  }
  if (found.status().code() != StatusCode::kNotFound) {
    std::this_thread::sleep_for(kAbsence);
    return;
  }
  if (object.version != 0 && !object.may_be_gone) {
    losses_.push_back(fmt::format("{} {} of version {} is gone", object.kind->plural, object.name,
                                  object.version));
  }
  object.version = 0;
  object.unsure = object.may_be_gone = false;
}

}  // namespace berth::chaos
