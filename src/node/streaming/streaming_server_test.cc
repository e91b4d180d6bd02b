#include "node/streaming/streaming_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "node/containers/container_log.h"
#include "node/streaming/streaming_exec.h"
#include "platform/files/durable_file.h"

namespace berth::node {
namespace {

using base::StatusCode;
using base::StatusOr;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// One container "main" with a log file; exec goes to a URL that a test sets.
class OneContainer : public StreamBackend {
 public:
  StatusOr<Log> FindLog(const StreamTarget& target, bool previous) override {
    if (target.container != "main")
      return base::Error(StatusCode::kNotFound, "no container \"{}\"", target.container);
    return Log{.path = previous ? previous_log : log, .container_id = "id"};
  }
  bool IsRunning(const StreamTarget&, const std::string&) override { return running; }
  StatusOr<std::string> Exec(const StreamTarget& target, const ExecOptions& options) override {
    last = options;
    return url;
  }
  StatusOr<std::string> Attach(const StreamTarget& target, const ExecOptions& options) override {
    attached = options;
    return url;
  }
  StatusOr<std::string> PortForward(const StreamTarget& target,
                                    const std::vector<int32_t>& ports) override {
    forwarded = ports;
    return url;
  }
  std::string log, previous_log, url;
  std::atomic<bool> running{true};
  ExecOptions last, attached;
  std::vector<int32_t> forwarded;
};

class StreamingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/berth-stream-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    backend_.log = folder_ + "/0.log";
    backend_.previous_log = folder_ + "/previous.log";
    Append(
        "2026-01-01T00:00:00.000000001Z stdout F one\n"
        "2026-01-01T00:00:01.000000000Z stdout P two, \n"
        "2026-01-01T00:00:01.000000001Z stdout F in parts\n"
        "2026-01-01T00:00:02.000000000Z stderr F three\n");
    Restart({});
  }
  void Restart(const StreamLimits& limits) {
    server_.reset();
    auto server = StreamingServer::Start(folder_ + "/s.sock", backend_, clock_, limits);
    ASSERT_TRUE(server.ok()) << base::ToString(server.status());
    server_ = *std::move(server);
  }
  void TearDown() override {
    server_.reset();
    EXPECT_TRUE(platform::RemoveTree(folder_).ok());
  }
  void Append(const std::string& text) {
    std::ofstream(folder_ + "/0.log", std::ios::app) << text << std::flush;
  }

  base::UniqueFd Connect() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder_ + "/s.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
    base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval limit{.tv_sec = 60, .tv_usec = 0};  // for a loaded machine
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
  }
  static void Send(int fd, const std::string& text) {
    ASSERT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // What comes until `part` is there or the peer ends.
  static std::string ReceiveUntil(int fd, const std::string& part) {
    std::string out;
    char block[4096];
    while (part.empty() || out.find(part) == std::string::npos) {
      const ssize_t size = recv(fd, block, sizeof(block), 0);
      if (size <= 0) break;
      out.append(block, static_cast<size_t>(size));
    }
    return out;
  }
  // The runtime's streaming server; the backend gives its address.
  base::UniqueFd ListenAsRuntime() {
    base::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    backend_.url = fmt::format("http://127.0.0.1:{}/exec/TOKEN", ntohs(address.sin_port));
    return listener;
  }
  std::string Get(const std::string& target) {
    const base::UniqueFd fd = Connect();
    Send(fd.get(), "GET " + target + " HTTP/1.1\r\nHost: node\r\n\r\n");
    return ReceiveUntil(fd.get(), "");
  }
  // The body of a chunked answer.
  static std::string Body(const std::string& answer) {
    std::string out;
    size_t at = answer.find("\r\n\r\n");
    if (at == std::string::npos) return "no body";
    at += 4;
    while (at < answer.size()) {
      const size_t size = std::stoul(answer.substr(at), nullptr, 16);
      at = answer.find("\r\n", at) + 2;
      if (size == 0) return out;
      out += answer.substr(at, size);
      at += size + 2;
    }
    return out + "(broken off)";
  }

  std::string folder_;
  base::SystemClock clock_;
  OneContainer backend_;
  std::unique_ptr<StreamingServer> server_;
};

constexpr char kLogs[] = "/containerLogs/default/web/uid/main";

TEST_F(StreamingTest, SendsALogWithoutItsFraming) {
  EXPECT_EQ(Body(Get(kLogs)), "one\ntwo, in parts\nthree\n");
}

TEST_F(StreamingTest, IsForRootAlone) {
  struct stat info{};
  ASSERT_EQ(stat((folder_ + "/s.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(StreamingTest, HonoursTheOptionsOfALog) {
  EXPECT_EQ(Body(Get(std::string(kLogs) + "?tailLines=1")), "three\n");
  EXPECT_EQ(Body(Get(std::string(kLogs) + "?tailLines=0")), "");
  EXPECT_EQ(Body(Get(std::string(kLogs) + "?limitBytes=5")), "one\nt");
  EXPECT_EQ(Body(Get(std::string(kLogs) + "?sinceTime=2026-01-01T00:00:02Z")), "three\n");
  EXPECT_EQ(Body(Get(std::string(kLogs) + "?tailLines=1&timestamps=true")),
            "2026-01-01T00:00:02.000000000Z three\n");
}

TEST_F(StreamingTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(Get(std::string(kLogs) + "?tailLines=many"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/containerLogs/default/web/uid/other"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/etc/passwd"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/exec/default/web/uid/main?stdout=true"),
              HasSubstr("you must specify a command"));
  // A NUL byte would hide from the kernel what stands behind it.
  EXPECT_THAT(Get("/containerLogs/default/web/uid/main%00x"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/exec/default/web/uid/main?command=a%00b&stdout=1"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_TRUE(backend_.last.command.empty());
  const base::UniqueFd fd = Connect();
  Send(fd.get(), "nonsense\r\n\r\n");
  EXPECT_THAT(ReceiveUntil(fd.get(), ""), StartsWith("HTTP/1.1 400 "));
}

TEST_F(StreamingTest, RefusesAHeadWithoutEnd) {
  const base::UniqueFd fd = Connect();
  const std::string much(40 * 1024, 'x');
  (void)send(fd.get(), much.data(), much.size(), MSG_NOSIGNAL);
  EXPECT_THAT(ReceiveUntil(fd.get(), "}"), StartsWith("HTTP/1.1 429 "));
}

TEST_F(StreamingTest, FollowsALogUntilItsContainerEnds) {
  const base::UniqueFd fd = Connect();
  Send(fd.get(),
       std::string("GET ") + kLogs + "?follow=true&tailLines=1 HTTP/1.1\r\nHost: node\r\n\r\n");
  EXPECT_THAT(ReceiveUntil(fd.get(), "three\n"), HasSubstr("three\n"));
  Append("2026-01-01T00:00:03.000000000Z stdout F four\n");
  EXPECT_THAT(ReceiveUntil(fd.get(), "four\n"), HasSubstr("four\n"));
  // Rotation: the file is renamed and made anew.
  ASSERT_EQ(rename((folder_ + "/0.log").c_str(), (folder_ + "/0.log.1").c_str()), 0);
  Append("2026-01-01T00:00:04.000000000Z stdout F five\n");
  EXPECT_THAT(ReceiveUntil(fd.get(), "five\n"), HasSubstr("five\n"));
  backend_.running = false;
  EXPECT_THAT(ReceiveUntil(fd.get(), ""), HasSubstr("0\r\n\r\n"));
}

TEST_F(StreamingTest, FollowsALogOnAMachineWithoutFreeInotifyInstances) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The log is the last file that can be opened.
  const int next = base::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
  const rlimit one_more{.rlim_cur = static_cast<rlim_t>(next) + 1, .rlim_max = before.rlim_max};
  std::string got;
  int asked = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_more), 0);
  const base::Status done = ReadContainerLog(
      folder_ + "/0.log", {.follow = true},
      [&](std::string_view bytes) {
        got += bytes;
        return true;
      },
      [&] { return ++asked > 1; }, [] { return false; });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(done.ok()) << done;
  EXPECT_THAT(got, HasSubstr("three\n"));
}

TEST_F(StreamingTest, EndsItsStreamsWhenItStops) {
  const base::UniqueFd fd = Connect();
  Send(fd.get(), std::string("GET ") + kLogs + "?follow=true HTTP/1.1\r\nHost: node\r\n\r\n");
  EXPECT_THAT(ReceiveUntil(fd.get(), "three\n"), HasSubstr("three\n"));
  server_.reset();
  EXPECT_EQ(ReceiveUntil(fd.get(), ""), "");
}

TEST_F(StreamingTest, AUsersStreamsKeepNobodyOut) {
  Restart({.streams = 6, .per_user = 2, .administrators = 2});
  const base::UniqueFd listener = ListenAsRuntime();
  std::vector<std::pair<base::UniqueFd, base::UniqueFd>> streams;  // ends of client and runtime
  // Asks for a stream, and keeps it if it is granted, because the runtime gets it then. Returns
  // "granted", or the error's answer.
  const auto ask = [&](std::string_view headers) -> std::string {
    base::UniqueFd fd = Connect();
    Send(fd.get(), fmt::format("POST /exec/default/web/uid/main?command=cat&stdin=1 HTTP/1.1\r\n"
                               "{}\r\n",
                               headers));
    pollfd waits[] = {{.fd = fd.get(), .events = POLLIN, .revents = 0},
                      {.fd = listener.get(), .events = POLLIN, .revents = 0}};
    if (poll(waits, 2, 10'000) <= 0) return "no answer";
    if (waits[0].revents != 0) return ReceiveUntil(fd.get(), "}");
    streams.emplace_back(std::move(fd),
                         base::UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    return "granted";
  };
  const std::string_view ann = "X-Remote-User: ann\r\nX-Remote-Group: system:authenticated\r\n";
  EXPECT_EQ(ask(ann), "granted");
  EXPECT_EQ(ask(ann), "granted");
  const std::string refused = ask(ann);
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(refused, HasSubstr("user 'ann' has too many streams (2)"));
  EXPECT_EQ(ask("X-Remote-User: bob\r\n"), "granted");
  EXPECT_EQ(ask("X-Remote-User: eve\r\n"), "granted");
  // The rest is for administrators; a request without a user comes from root itself.
  EXPECT_THAT(ask("X-Remote-User: dan\r\n"), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(ask("X-Remote-User: adm\r\nX-Remote-Group: system:masters\r\n"), "granted");
  EXPECT_EQ(ask(""), "granted");
  EXPECT_THAT(ask(""), StartsWith("HTTP/1.1 503 "));
  // A stream that has ended leaves its place.
  streams.erase(streams.begin());
  std::string answer;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (answer != "granted" && std::chrono::steady_clock::now() < deadline) answer = ask(ann);
  EXPECT_EQ(answer, "granted");
}

TEST_F(StreamingTest, APartOfTheClusterHasMoreStreamsThanAPerson) {
  Restart({.streams = 8, .per_user = 1, .per_system_user = 3, .administrators = 2});
  std::vector<base::UniqueFd> followers;
  const auto follow = [&](std::string_view user) {
    const base::UniqueFd& fd = followers.emplace_back(Connect());
    Send(fd.get(),
         fmt::format("GET {}?follow=true HTTP/1.1\r\nX-Remote-User: {}\r\n\r\n", kLogs, user));
    return ReceiveUntil(fd.get(), "\r\n").substr(0, 12);
  };
  EXPECT_EQ(follow("ann"), "HTTP/1.1 200");
  EXPECT_EQ(follow("ann"), "HTTP/1.1 429");
  const std::string_view collector = "system:serviceaccount:logs:collector";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(follow(collector), "HTTP/1.1 200") << i;
  EXPECT_EQ(follow(collector), "HTTP/1.1 429");
  EXPECT_EQ(follow("bob"), "HTTP/1.1 200");
}

TEST_F(StreamingTest, AStreamInWhichNothingPassesEnds) {
  Restart({.quiet = std::chrono::milliseconds(100)});
  const base::UniqueFd listener = ListenAsRuntime();
  const base::UniqueFd fd = Connect();
  Send(fd.get(),
       "POST /exec/default/web/uid/main?command=cat&stdin=1&stdout=1 HTTP/1.1\r\n"
       "X-Remote-User: ann\r\n\r\n");
  const base::UniqueFd runtime(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(runtime.valid());
  const timeval limit{.tv_sec = 60, .tv_usec = 0};  // for a loaded machine
  setsockopt(runtime.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  EXPECT_THAT(ReceiveUntil(runtime.get(), ""), Not(HasSubstr("X-Remote-User")));
  EXPECT_EQ(ReceiveUntil(fd.get(), ""), "");
}

TEST_F(StreamingTest, CarriesAnExecOnToTheRuntime) {
  const base::UniqueFd listener = ListenAsRuntime();
  const base::UniqueFd fd = Connect();
  Send(fd.get(),
       "POST /exec/default/web/uid/main?command=cat&command=a%20b&stdin=1&stdout=1 HTTP/1.1\r\n"
       "Host: node\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nearly");
  const base::UniqueFd runtime(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(runtime.valid());
  const std::string head = ReceiveUntil(runtime.get(), "early");
  EXPECT_THAT(head, StartsWith("POST /exec/TOKEN HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("Upgrade: SPDY/3.1\r\n"));
  EXPECT_THAT(backend_.last.command, ::testing::ElementsAre("cat", "a b"));
  EXPECT_TRUE(backend_.last.in && backend_.last.out && !backend_.last.err && !backend_.last.tty);
  Send(runtime.get(), "HTTP/1.1 101 Switching Protocols\r\n\r\nhello");
  EXPECT_THAT(ReceiveUntil(fd.get(), "hello"), HasSubstr("101 Switching Protocols"));
  Send(fd.get(), "keys");
  EXPECT_EQ(ReceiveUntil(runtime.get(), "keys"), "keys");
  shutdown(runtime.get(), SHUT_WR);
  EXPECT_EQ(ReceiveUntil(fd.get(), ""), "");
}

TEST_F(StreamingTest, AnEndOfInputEndsNoStream) {
  const base::UniqueFd log = Connect();
  Send(log.get(), std::string("GET ") + kLogs + "?follow=true HTTP/1.1\r\nHost: node\r\n\r\n");
  EXPECT_THAT(ReceiveUntil(log.get(), "three\n"), HasSubstr("three\n"));
  shutdown(log.get(), SHUT_WR);

  const base::UniqueFd listener = ListenAsRuntime();
  const base::UniqueFd fd = Connect();
  Send(fd.get(),
       "POST /exec/default/web/uid/main?command=cat&stdin=1&stdout=1 HTTP/1.1\r\n\r\nkeys");
  const base::UniqueFd runtime(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(runtime.valid());
  EXPECT_THAT(ReceiveUntil(runtime.get(), "keys"), HasSubstr("keys"));
  shutdown(fd.get(), SHUT_WR);
  EXPECT_EQ(ReceiveUntil(runtime.get(), ""), "");  // the runtime sees the end of the input
  Send(runtime.get(), "late");
  EXPECT_EQ(ReceiveUntil(fd.get(), "late"), "late");
  shutdown(runtime.get(), SHUT_WR);
  EXPECT_EQ(ReceiveUntil(fd.get(), ""), "");

  // By now the end of the log's client has been read as well.
  Append("2026-01-01T00:00:03.000000000Z stdout F four\n");
  EXPECT_THAT(ReceiveUntil(log.get(), "four\n"), HasSubstr("four\n"));
}

TEST_F(StreamingTest, AttachAndPortForwardAskTheRuntimeForTheirStreams) {
  backend_.url = "http://127.0.0.1:1/nobody-listens";
  EXPECT_THAT(Get("/attach/default/web/uid/main?stdin=1&stdout=1&stderr=1&tty=1"),
              StartsWith("HTTP/1.1 503 "));
  EXPECT_TRUE(backend_.attached.in && backend_.attached.out && backend_.attached.tty);
  EXPECT_FALSE(backend_.attached.err);
  EXPECT_THAT(Get("/portForward/default/web/uid?ports=80&ports=443,8080"),
              StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(backend_.forwarded, ::testing::ElementsAre(80, 443, 8080));
  EXPECT_THAT(Get("/attach/default/web/uid/main"), HasSubstr("at least one of stdin"));
  EXPECT_THAT(Get("/portForward/default/web/uid?ports=0"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get("/portForward/default/web/uid/main"), StartsWith("HTTP/1.1 404 "));
}

TEST(ContainerLogLine, IsParsed) {
  const auto line = ParseLogLine("2026-01-01T00:00:00.5Z stderr P half of it");
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->error_stream);
  EXPECT_TRUE(line->partial);
  EXPECT_EQ(line->text, "half of it");
  EXPECT_EQ(ParseLogLine("2026-01-01T00:00:00Z stdout F ")->text, "");
  EXPECT_FALSE(ParseLogLine("no log line").has_value());
  EXPECT_FALSE(ParseLogLine("").has_value());
}

TEST(StreamUrl, IsParsed) {
  const auto url = ParseStreamUrl("http://[::1]:4321/exec/x?y=1");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->host, "::1");
  EXPECT_EQ(url->port, "4321");
  EXPECT_EQ(url->target, "/exec/x?y=1");
  EXPECT_EQ(ParseStreamUrl("https://127.0.0.1:1/x").status().code(), StatusCode::kUnimplemented);
  EXPECT_FALSE(ParseStreamUrl("http://127.0.0.1").ok());
}

}  // namespace
}  // namespace berth::node
