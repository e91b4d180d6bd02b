#include "volume/flex/driver_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/fake_faults.h"
#include "base/ids.h"
#include "base/json.h"
#include "platform/files/durable_file.h"
#include "volume/flex/fake_driver_folder.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using base::StatusOr;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kUser[] = "pods/1234/volumes/example~nfs/data";

class DriverStoreTest : public testing::Test {
 protected:
  DriverStoreTest() { Open(); }

  void Open() {
    store_.reset();
    auto store = DriverStore::Open({.folder = temp_ / "store", .users = temp_ / "kubelet"});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  StatusOr<DriverStore::Taken> TakeCopy(const std::string& folder) {
    const auto drivers = OpenDrivers(drivers_.path());
    EXPECT_TRUE(drivers.ok());
    return store_->TakeCopy(drivers->get(), folder, {});
  }
  DriverVersion Version(const std::string& folder) {
    auto taken = TakeCopy(folder);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() ? taken->version : DriverVersion{};
  }
  // What lies in the store: "vendor~driver/ID".
  std::vector<std::string> OnDisk() {
    std::vector<std::string> found;
    const auto folders = platform::ListFolder(temp_ / "store");
    for (const std::string& folder : *folders) {
      const auto ids = platform::ListFolder(temp_ / ("store/" + folder));
      for (const std::string& id : *ids) found.push_back(folder + "/" + id);
    }
    return found;
  }
  void MakeUser() {
    ASSERT_TRUE(platform::MakeFolders(temp_ / ("kubelet/" + std::string(kUser))).ok());
  }

  const platform::TempFolder temp_;
  const FakeDriverFolder drivers_;
  std::shared_ptr<DriverStore> store_;
};

TEST_F(DriverStoreTest, ACopyIsWhatTheDriverWas) {
  drivers_.Install("example~nfs", "one");
  drivers_.Put("example~nfs/lib/data", "data", 0640);
  ASSERT_EQ(symlink("data", (drivers_ / "example~nfs/lib/link").c_str()), 0);
  drivers_.Put("example~nfs/.hidden", "hidden");
  const auto taken = TakeCopy("example~nfs");
  ASSERT_TRUE(taken.ok()) << taken.status();
  const DriverVersion& version = taken->version;
  EXPECT_EQ(version.driver, "example/nfs");
  EXPECT_EQ(version.executable, temp_ / ("store/example~nfs/" + version.id + "/nfs"));
  drivers_.Remove("example~nfs");
  EXPECT_EQ(OutputOf(version.executable), "one");
  const std::string copy = version.executable.substr(0, version.executable.rfind('/'));
  EXPECT_EQ(*platform::ReadFile(copy + "/lib/data"), "data");
  EXPECT_THAT(*platform::ListFolder(copy + "/lib"), ElementsAre("data", "link"));
  EXPECT_THAT(*platform::ListFolder(copy), ElementsAre("lib", "nfs"));
}

TEST_F(DriverStoreTest, TheSameContentIsTheSameVersion) {
  drivers_.Install("nfs", "one");
  const DriverVersion first = Version("nfs");
  drivers_.Install("nfs", "one");
  EXPECT_EQ(Version("nfs").id, first.id);
  drivers_.Install("nfs", "two");
  const DriverVersion second = Version("nfs");
  EXPECT_NE(second.id, first.id);
  ASSERT_EQ(chmod((drivers_ / "nfs/nfs").c_str(), 0700), 0);
  EXPECT_NE(Version("nfs").id, second.id);
  EXPECT_EQ(OutputOf(first.executable), "one");
}

TEST_F(DriverStoreTest, AFileThatIsOpenForWritingIsNotTaken) {
  drivers_.Install("nfs", "one");
  for (const char* path : {"nfs/nfs", "nfs/data"}) {
    drivers_.Put("nfs/data", "data", 0644);
    base::UniqueFd writer(open((drivers_ / path).c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(writer.valid());
    const auto taken = TakeCopy("nfs");
    EXPECT_EQ(taken.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(base::ToString(taken.status()), HasSubstr("is being written"));
    writer.Reset();
    EXPECT_TRUE(TakeCopy("nfs").ok());
  }
}

TEST_F(DriverStoreTest, AWritableMappingCountsAsWriting) {
  drivers_.Install("nfs", "one");
  base::UniqueFd fd(open((drivers_ / "nfs/nfs").c_str(), O_RDWR | O_CLOEXEC));
  void* mapped = mmap(nullptr, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  fd.Reset();
  EXPECT_EQ(TakeCopy("nfs").status().code(), StatusCode::kUnavailable);
  munmap(mapped, 16);
  EXPECT_TRUE(TakeCopy("nfs").ok());
}

TEST_F(DriverStoreTest, WhatIsWrittenWithinATickIsTaken) {
  drivers_.Install("nfs", "aaaa");
  const DriverVersion first = Version("nfs");
  base::UniqueFd fd(open((drivers_ / "nfs/nfs").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(pwrite(fd.get(), "#!/bin/sh\necho bbbb\n", 20, 0), 20);
  fd.Reset();
  const DriverVersion second = Version("nfs");
  EXPECT_EQ(OutputOf(first.executable), "aaaa");
  EXPECT_EQ(OutputOf(second.executable), "bbbb");
}

TEST_F(DriverStoreTest, AVersionThatNobodyNeedsGoes) {
  drivers_.Install("nfs", "one");
  DriverVersion one = Version("nfs");
  drivers_.Install("nfs", "two");
  const DriverVersion two = Version("nfs");
  store_->RemoveUnused();
  EXPECT_EQ(OutputOf(one.executable), "one");  // pinned
  const std::string id = one.id;
  one = {};
  store_->RemoveUnused();
  EXPECT_EQ(store_->FindVersion("nfs", DriverVersionId(id)).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(OnDisk(), ElementsAre("nfs/" + two.id));
}

TEST_F(DriverStoreTest, AHeldVersionOutlivesItsDriverAndTheProcess) {
  MakeUser();
  drivers_.Install("example~nfs", "one");
  std::string id;
  {
    const DriverVersion version = Version("example~nfs");
    id = version.id;
    ASSERT_TRUE(store_->HoldVersion(version, kUser).ok());
    ASSERT_TRUE(store_->HoldVersion(version, kUser).ok());
  }
  drivers_.Remove("example~nfs");
  store_->RemoveUnused();
  Open();
  EXPECT_THAT(store_->ListHeldDrivers(), ElementsAre("example/nfs"));
  const auto kept = store_->FindVersion("example/nfs", DriverVersionId(id));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(OutputOf(kept->executable), "one");
  int released = 0;
  store_->SetOnReleased([&] { ++released; });
  ASSERT_TRUE(store_->ReleaseVersion(*kept, kUser).ok());
  ASSERT_TRUE(store_->ReleaseVersion(*kept, kUser).ok());
  EXPECT_EQ(released, 1);
  Open();
  EXPECT_THAT(OnDisk(), IsEmpty());
}

TEST_F(DriverStoreTest, AUserHasWhatItHeldLast) {
  MakeUser();
  drivers_.Install("nfs", "one");
  const DriverVersion one = Version("nfs");
  drivers_.Install("nfs", "two");
  const DriverVersion two = Version("nfs");
  const auto held_by = [&] {
    const auto held = store_->FindHeldVersion("nfs", kUser);
    EXPECT_TRUE(held.ok());
    return held.ok() && held->has_value() ? OutputOf((*held)->executable) : "none";
  };
  EXPECT_EQ(held_by(), "none");
  ASSERT_TRUE(store_->HoldVersion(one, kUser).ok());
  ASSERT_TRUE(store_->HoldVersion(two, kUser).ok());
  EXPECT_EQ(held_by(), "two");
  ASSERT_TRUE(store_->HoldVersion(one, kUser).ok());
  EXPECT_EQ(held_by(), "one");
  Open();
  EXPECT_EQ(held_by(), "one");
  ASSERT_TRUE(store_->ReleaseVersion(one, kUser).ok());
  EXPECT_EQ(held_by(), "two");
}

TEST_F(DriverStoreTest, AHoldHasAVersionAndOneWithoutAVersionCounts) {
  MakeUser();
  drivers_.Install("nfs", "one");
  const DriverVersion one = Version("nfs");
  drivers_.Install("nfs", "two");
  const DriverVersion two = Version("nfs");
  ASSERT_TRUE(store_->HoldVersion(one, kUser).ok());
  ASSERT_TRUE(store_->HoldVersion(two, kUser).ok());
  const auto file_of = [&](const DriverVersion& version) {
    return temp_ / ("store/nfs/" + version.id + "/.held/" + base::Sha256Hex(kUser));
  };
  const auto record = base::json::Parse(*platform::ReadFile(file_of(two)));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(*record, (base::Json{{"version", 1}, {"order", 1}, {"user", kUser}}));

  // An earlier Berth wrote these records. The version `one` was held last.
  for (const auto& [version, order] : {std::pair(&one, "12"), std::pair(&two, "3")}) {
    const std::string text = fmt::format("{} {}", order, kUser);
    ASSERT_TRUE(platform::WriteDurably<"test.file">(file_of(*version), text).ok());
  }
  Open();
  EXPECT_THAT(store_->UsersOf("nfs"), ElementsAre(kUser));
  const auto held = store_->FindHeldVersion("nfs", kUser);
  ASSERT_TRUE(held.ok() && held->has_value());
  EXPECT_EQ(OutputOf((*held)->executable), "one");
  ASSERT_TRUE(store_->HoldVersion(two, kUser).ok());
  const auto next = base::json::Parse(*platform::ReadFile(file_of(two)));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(*next, (base::Json{{"version", 1}, {"order", 13}, {"user", kUser}}));
}

// The version stays, because a newer Berth may have written the record.
TEST_F(DriverStoreTest, AHoldThatCannotBeReadKeepsItsVersion) {
  drivers_.Install("nfs", "one");
  std::string id;
  {
    const DriverVersion version = Version("nfs");
    id = version.id;
    ASSERT_TRUE(store_->HoldVersion(version, kUser).ok());
  }
  const std::string file = temp_ / ("store/nfs/" + id + "/.held/" + base::Sha256Hex(kUser));
  for (const char* damaged :
       {R"({"version":2,"order":1,"user":"u"})", R"({"order":1,"user":"u"})", "{", "u", ""}) {
    ASSERT_TRUE(platform::WriteDurably<"test.file">(file, damaged).ok());
    Open();
    EXPECT_THAT(store_->UsersOf("nfs"), ElementsAre("?")) << damaged;
    EXPECT_THAT(OnDisk(), ElementsAre("nfs/" + id)) << damaged;
  }
}

TEST_F(DriverStoreTest, AHoldEndsWithItsUser) {
  drivers_.Install("nfs", "one");
  drivers_.Install("other", "two");
  MakeUser();
  const DriverVersion nfs = Version("nfs"), other = Version("other");
  ASSERT_TRUE(store_->HoldVersion(nfs, kUser).ok());
  ASSERT_TRUE(store_->HoldVersion(other, "pods/9999/volumes/other/data").ok());
  Open();
  EXPECT_THAT(store_->ListHeldDrivers(), ElementsAre("nfs"));
  EXPECT_THAT(OnDisk(), ElementsAre("nfs/" + nfs.id));
}

TEST_F(DriverStoreTest, AVersionThatIsGoneCannotBeHeld) {
  drivers_.Install("nfs", "one");
  DriverVersion version = Version("nfs");
  version.pin.reset();
  store_->RemoveUnused();
  EXPECT_EQ(store_->HoldVersion(version, kUser).code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->ReleaseVersion(version, kUser).ok());
}

TEST_F(DriverStoreTest, AStoreHasOneProcess) {
  const auto second = DriverStore::Open({.folder = temp_ / "store", .users = ""});
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
}

// Cut off at each step, and opened anew: held versions are whole, all else is gone.
TEST_F(DriverStoreTest, WhatAFailureLeavesIsRemovedOrWhole) {
  MakeUser();
  for (const char* point :
       {"flex.version.copied", "flex.version.placed", "flex.hold.write.before",
        "flex.hold.write.temp", "flex.hold.write.after", "flex.version.remove", "flex.version.gone",
        "flex.hold.remove.before", "flex.hold.remove.after"}) {
    SCOPED_TRACE(point);
    drivers_.Install("nfs", "one");
    std::string id;
    {
      const base::FakeFaults faults(fmt::format("{}=error", point).c_str());
      const auto taken = TakeCopy("nfs");
      if (taken.ok()) {
        id = taken->version.id;
        if (store_->HoldVersion(taken->version, kUser).ok()) {
          (void)store_->ReleaseVersion(taken->version, kUser);
        }
      }
    }
    store_->RemoveUnused();
    // The same process goes on.
    {
      const DriverVersion again = Version("nfs");
      EXPECT_EQ(OutputOf(again.executable), "one");
      EXPECT_TRUE(store_->HoldVersion(again, kUser).ok());
    }
    Open();
    {
      EXPECT_THAT(OnDisk(), testing::SizeIs(1));
      const auto kept = store_->FindVersion("nfs", DriverVersionId(Version("nfs").id));
      ASSERT_TRUE(kept.ok()) << kept.status();
      EXPECT_EQ(OutputOf(kept->executable), "one");
      ASSERT_TRUE(store_->ReleaseVersion(*kept, kUser).ok());
    }
    Open();
    EXPECT_THAT(OnDisk(), IsEmpty());
  }
}

// A writer that comes while a copy is taken waits for its end, or ends it; a copy is never a mix.
TEST_F(DriverStoreTest, ACopyIsNeverAMixOfTwoWrites) {
  const std::string a(300'000, 'a'), b(300'000, 'b');
  const std::string path = drivers_ / "nfs/nfs";
  drivers_.Put("nfs/nfs", a);
  std::atomic<bool> end = false;
  std::atomic<int> tries = 0;
  std::thread writer([&] {
    for (int i = 0; !end; ++i) {
      // Begins as the next copy does.
      for (const int seen = tries; !end && tries == seen;) std::this_thread::yield();
      const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
      const std::string& text = i % 2 == 0 ? b : a;
      for (size_t at = 0; at < text.size(); at += 4096) {
        if (pwrite(fd.get(), text.data() + at, std::min<size_t>(4096, text.size() - at),
                   static_cast<off_t>(at)) < 0) {
          ADD_FAILURE();
        }
      }
    }
  });
  int taken = 0;
  for (; tries < 200; ++tries) {
    const auto copy = TakeCopy("nfs");
    if (!copy.ok()) {
      EXPECT_EQ(copy.status().code(), StatusCode::kUnavailable);
      continue;
    }
    ++taken;
    const auto content = platform::ReadFile(copy->version.executable);
    ASSERT_TRUE(content.ok());
    EXPECT_TRUE(*content == a || *content == b) << "a mix";
  }
  end = true;
  writer.join();
  EXPECT_TRUE(TakeCopy("nfs").ok());
  RecordProperty("taken", taken);
}

}  // namespace
}  // namespace berth::volume
