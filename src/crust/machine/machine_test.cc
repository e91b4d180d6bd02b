#include "crust/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <functional>
#include <thread>

#include "base/assert_ok.h"
#include "crust/machine/accelerator.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using base::ipc::Message;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::chrono::steady_clock::time_point Soon() {
  return std::chrono::steady_clock::now() + std::chrono::minutes(1);
}

TEST(MachineArgumentsTest, TheGuestGetsItsMemoryAndProcessorsAndNoOtherDevices) {
  const MachineSettings settings = {.kernel = "/k", .image = "/i", .memory_mib = 512, .cpus = 2};
  const std::vector<std::string> arguments = MachineArguments(settings, MachinePaths("/run/a,b"));
  EXPECT_THAT(arguments, Contains("512M"));
  EXPECT_THAT(arguments, Contains("2"));
  EXPECT_THAT(arguments, Contains("-nodefaults"));
  EXPECT_THAT(arguments, Contains("-sandbox"));
  // A comma in a path does not end the option's value.
  EXPECT_THAT(arguments, Contains("socket,id=control,path=/run/a,,b/control,server=on,wait=off"));
}

TEST(MachineArgumentsTest, OnlyAnEmulatedGuestIsToldTheFrequencyOfTheCounter) {
  MachineSettings settings = {.kernel = "/k", .image = "/i", .tsc_khz = 2'000'000};
  EXPECT_THAT(MachineArguments(settings, MachinePaths("/m")),
              Contains(HasSubstr("tsc_early_khz=2000000")));
  settings.accelerator = "kvm";
  EXPECT_THAT(MachineArguments(settings, MachinePaths("/m")),
              Not(Contains(HasSubstr("tsc_early_khz"))));
}

TEST(MachineArgumentsTest, ASandboxWithNeedsOfItsOwnGetsThemInPlaceOfTheSettings) {
  const MachineSettings settings = {.kernel = "/k", .image = "/i", .memory_mib = 512, .cpus = 2};
  const std::vector<std::string> arguments =
      MachineArguments(settings, MachinePaths("/m"), {.memory_mib = 1024, .cpus = 3});
  EXPECT_THAT(arguments, Contains("1024M"));
  EXPECT_THAT(arguments, Contains("3"));
  EXPECT_THAT(arguments, Not(Contains("512M")));
}

TEST(MachineArgumentsTest, OnlyAGuestWithAShareHasMemoryThatAnotherProcessCanUse) {
  const MachineSettings settings = {.kernel = "/k", .image = "/i", .memory_mib = 512};
  EXPECT_THAT(MachineArguments(settings, MachinePaths("/m")), Not(Contains(HasSubstr("share"))));
  const std::vector<std::string> arguments = MachineArguments(
      settings, MachinePaths("/m,n"), {.memory_mib = 300, .share = MachineShare{.folder = "/f"}});
  EXPECT_THAT(arguments, Contains("microvm,memory-backend=memory"));
  EXPECT_THAT(arguments, Contains("memory-backend-memfd,id=memory,size=300M,share=on"));
  EXPECT_THAT(arguments, Contains("socket,id=share,path=/m,,n/share"));
}

TEST(MachineArgumentsTest, OnlyAGuestWithANetworkHasACard) {
  const MachineSettings settings = {.kernel = "/k", .image = "/i"};
  EXPECT_THAT(MachineArguments(settings, MachinePaths("/m")), Not(Contains("-netdev")));
  const std::vector<std::string> arguments =
      MachineArguments(settings, MachinePaths("/m"), {}, "02:00:00:00:00:01");
  EXPECT_THAT(arguments, Contains("tap,id=net0,fd=3"));
  EXPECT_THAT(arguments, Contains("virtio-net-device,netdev=net0,mac=02:00:00:00:00:01"));
}

TEST(MachineRecordTest, ARecordIsReadAsItWasWrittenAndDamageIsTold) {
  const platform::TempFolder folder;
  const auto records = MachineRecords::Open(folder / "records");
  ASSERT_OK(records);
  EXPECT_EQ(records->ReadRecord("s1").status().code(), StatusCode::kNotFound);
  MachineRecord record = {
      .mark = "m", .daemon = {.pid = 12, .start_time = 34}, .share = {.pid = 56, .start_time = 78}};
  ASSERT_OK(records->WriteRecord("s1", record));
  EXPECT_TRUE(records->IsOfThisBoot(record));
  const auto read = records->ReadRecord("s1");
  ASSERT_OK(read);
  EXPECT_EQ(*read, record);
  EXPECT_THAT(records->ListSandboxes().value(), testing::ElementsAre("s1"));
  ASSERT_OK(records->RemoveRecord("s1"));
  ASSERT_OK(records->RemoveRecord("s1"));
  EXPECT_THAT(records->ListSandboxes().value(), testing::IsEmpty());
  EXPECT_EQ(DecodeMachineRecord("{\"version\":1}").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeMachineRecord("{\"version\":2,\"bootId\":\"b\",\"mark\":\"m\"}").status().code(),
            StatusCode::kDataLoss);
}

TEST(AcceleratorTest, WithoutTheKernelsDeviceGuestsAreEmulated) {
  const platform::TempFolder folder;
  const auto records = MachineRecords::Open(folder / "records");
  ASSERT_OK(records);
  const auto chosen =
      ChooseAccelerator({}, *records, folder / "machines", folder / "no-such-device");
  ASSERT_OK(chosen);
  EXPECT_EQ(*chosen, "tcg");
}

// A guest that answers as a test tells.
class FakeGuest {
 public:
  // `answer` gets each line, and returns what is sent.
  FakeGuest(const std::string& path, std::function<std::string(const Message&)> answer)
      : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), answer_(std::move(answer)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeGuest() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void Serve() {
    while (true) {
      const base::UniqueFd client(accept(listener_.get(), nullptr, nullptr));
      if (!client.valid()) return;
      base::ipc::LineReader reader(base::ipc::guest::kLargestLine);
      char buffer[4096];
      for (ssize_t size; (size = read(client.get(), buffer, sizeof buffer)) > 0;) {
        reader.AddBytes({buffer, static_cast<size_t>(size)});
        while (const auto line = reader.TakeLine()) {
          const std::string text = answer_(*base::ipc::ReadJson(*line));
          if (text.empty()) return;
          EXPECT_EQ(write(client.get(), text.data(), text.size()),
                    static_cast<ssize_t>(text.size()));
        }
      }
    }
  }

  const base::UniqueFd listener_;
  const std::function<std::string(const Message&)> answer_;
  std::thread thread_;
};

std::string ReplyTo(const Message& request, Message reply) {
  return base::ipc::WriteJson(
             reply.Set(base::ipc::guest::kId, *request.FindText(base::ipc::guest::kId))) +
         "\n";
}

class GuestClientTest : public testing::Test {
 protected:
  const platform::TempFolder folder_;
  const std::string path_ = folder_ / "control";
};

TEST_F(GuestClientTest, ARestOfAnEarlierConnectionAndAnotherCallsReplyAreSkipped) {
  const FakeGuest guest(path_, [](const Message& request) {
    return "5,\"broken\n\n{\"id\":\"another\"}\n" +
           ReplyTo(request, Message().Set("release", std::string("6.1")));
  });
  GuestClient client(path_);
  for (int i = 0; i < 2; ++i) {
    const auto reply = client.Call(Message().Set("method", std::string("guest.ping")), Soon());
    ASSERT_OK(reply);
    EXPECT_EQ(*reply->FindText("release"), "6.1");
  }
}

TEST_F(GuestClientTest, AnErrorHasTheGuestsCodeAndItsWordsAreQuoted) {
  const FakeGuest guest(path_, [](const Message& request) {
    return ReplyTo(
        request,
        Message().Set("error", std::string("no\nsuch disk")).Set("code", std::string("NOT_FOUND")));
  });
  const auto reply = GuestClient(path_).Call(Message().Set("method", std::string("x")), Soon());
  EXPECT_EQ(reply.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(base::Message(reply.status())), Not(HasSubstr("\n")));
}

TEST_F(GuestClientTest, AMachineThatEndsAndOneThatDoesNotListenAreUnavailable) {
  EXPECT_EQ(GuestClient(path_).Call(Message(), Soon()).status().code(), StatusCode::kUnavailable);
  const FakeGuest guest(path_, [](const Message&) { return std::string(); });
  EXPECT_EQ(GuestClient(path_).Call(Message(), Soon()).status().code(), StatusCode::kUnavailable);
}

TEST_F(GuestClientTest, AnEndlessLineIsNotKept) {
  base::ipc::LineReader reader(8);
  for (int i = 0; i < 100; ++i) reader.AddBytes("01234");
  reader.AddBytes("\nnext\n\nlast");
  EXPECT_EQ(reader.TakeLine(), "next");
  EXPECT_EQ(reader.TakeLine(), std::nullopt);
  reader.AddBytes("\n");
  EXPECT_EQ(reader.TakeLine(), "last");
}

}  // namespace
}  // namespace berth::crust
