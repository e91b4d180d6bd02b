#include "guest/containers/container_service.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <set>
#include <vector>

#include "base/files/whole_file.h"
#include "base/ipc/container_call.h"
#include "base/ipc/crust_call.h"

namespace berth::guest {

namespace ipc = base::ipc;
namespace call = base::ipc::container;
using base::UniqueFd;
using ipc::Failure;
using ipc::Message;
using ipc::Problem;
using ipc::Result;

namespace {

constexpr size_t kLargestList = 1024 * 1024;
constexpr size_t kMostContainers = 1024;
constexpr size_t kMostProcesses = 1024;  // of a container

Failure Refuse(std::string_view code, std::string text) {
  return {Problem::kRefused, std::move(text), std::string(code)};
}

// A failure of runc, or of the system, as the caller sees it.
Failure Explain(Failure failure) {
  if (failure.code.empty()) {
    failure.code =
        failure.problem == Problem::kTimeout ? "DEADLINE_EXCEEDED" : "FAILED_PRECONDITION";
  }
  failure.problem = Problem::kRefused;
  return failure;
}

std::string TextOf(const Message& request, std::string_view name) {
  const std::string* text = request.FindText(name);
  return text == nullptr ? "" : *text;
}

bool IsSet(const Message& request, std::string_view name) {
  return request.FindNumber(name).value_or(0) != 0;
}

Failure WriteFile(const std::string& path, std::string_view text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const int error = file.valid() ? base::WriteAll(file.get(), text) : errno;
  return error == 0 ? ipc::Ok() : ipc::SystemFailure("write '" + path + "'", error);
}

Failure MakeFolders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0700);
  }
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return ipc::Ok();
  return ipc::SystemFailure("make '" + path + "'", errno);
}

Result<pid_t> ReadPid(const std::string& path) {
  std::string text;
  if (const int error = base::ReadWholeFile(path, 64, text); error != 0) {
    return ipc::SystemFailure("read '" + path + "'", error);
  }
  pid_t pid = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (read.ec != std::errc() || pid <= 0) {
    return Failure{Problem::kBroken, "runc wrote no pid to '" + path + "'", ""};
  }
  return pid;
}

// A pipe whose one end is for the container's process.
struct Pipe {
  UniqueFd own, given;
};

Result<Pipe> MakePipe(bool own_reads) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ipc::SystemFailure("make a pipe", errno);
  Pipe pipe;
  pipe.own.Reset(ends[own_reads ? 0 : 1]);
  pipe.given.Reset(ends[own_reads ? 1 : 0]);
  return pipe;
}

// The children of all threads of this process.
std::vector<pid_t> ListChildren() {
  std::vector<pid_t> children;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return children;
  while (const dirent* entry = readdir(tasks)) {
    std::string text;
    const std::string file = std::string("/proc/self/task/") + entry->d_name + "/children";
    if (base::ReadWholeFile(file, kLargestList, text) != 0) continue;
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      pid_t pid = 0;
      const auto read = std::from_chars(at, end, pid);
      if (read.ec == std::errc()) children.push_back(pid);
      at = read.ptr + 1;
    }
  }
  closedir(tasks);
  return children;
}

}  // namespace

class ContainerService::Busy {
 public:
  explicit Busy(ContainerService& service) : service_(service) {
    const std::lock_guard lock(service_.mutex_);
    ++service_.busy_;
  }
  ~Busy() {
    const std::lock_guard lock(service_.mutex_);
    --service_.busy_;
  }

 private:
  ContainerService& service_;
};

struct ContainerService::Container {
  std::string id;
  std::mutex calls;  // held by the call in hand
  std::shared_ptr<GuestProcess> init;
  bool started = false;
  bool paused = false;
  std::map<std::string, std::shared_ptr<GuestProcess>> processes;
};

struct ContainerService::Launch {
  std::string container;
  std::string process;  // "": the container's own
  std::string port;
  bool has_terminal = false;
  std::vector<std::string> arguments;  // of runc, but for the files and the id
};

ContainerService::ContainerService(Options options)
    : options_(std::move(options)), runc_(options_.runc) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGPIPE, SIG_IGN);
  static_cast<void>(MakeFolders(options_.folder));  // told by the first create
}

ContainerService::~ContainerService() {
  std::map<std::string, Shared> left;
  {
    const std::lock_guard lock(mutex_);
    left = containers_;
  }
  for (const auto& [id, container] : left) {
    const std::lock_guard lock(container->calls);
    static_cast<void>(Delete(container, Message().Set(call::kForce, 1)));
  }
}

ContainerService::Shared ContainerService::Find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = containers_.find(id);
  return found == containers_.end() ? nullptr : found->second;
}

void ContainerService::Remove(const std::string& id) {
  const std::string bundle = BundleOf(id);
  for (const char* file :
       {"/config.json", "/process.json", "/pid", "/log", "/log-kill", "/console"}) {
    unlink((bundle + file).c_str());
  }
  rmdir(bundle.c_str());
  const std::lock_guard lock(mutex_);
  containers_.erase(id);
}

void ContainerService::ReapOrphans() {
  const std::lock_guard lock(mutex_);
  if (busy_ > 0) return;
  std::set<pid_t> own;
  for (const auto& [id, container] : containers_) {
    if (container->init) own.insert(container->init->pid());
    for (const auto& [name, process] : container->processes) own.insert(process->pid());
  }
  for (const pid_t child : ListChildren()) {
    if (!own.contains(child)) waitpid(child, nullptr, WNOHANG);
  }
}

Result<Message> ContainerService::Handle(const Message& request) {
  const Busy busy(*this);
  const std::string method = TextOf(request, ipc::kMethod);
  const std::string id = TextOf(request, call::kContainer);
  if (!ipc::crust::IsId(id)) {
    return Refuse("INVALID_ARGUMENT", "'" + id + "' is no id of a container");
  }
  if (method == call::kCreate) {
    Reply created = Create(id, request);
    return created.ok() ? created : Explain(created.failure());
  }
  const Shared container = Find(id);
  if (container == nullptr) {
    return Refuse("NOT_FOUND", "container '" + id + "' does not exist in the guest");
  }
  const std::lock_guard lock(container->calls);
  if (container->init == nullptr) {  // its create failed, or it was deleted, while this call waited
    return Refuse("NOT_FOUND", "container '" + id + "' does not exist in the guest");
  }
  Reply reply = method == call::kStart    ? Start(*container)
                : method == call::kExec   ? Exec(*container, request)
                : method == call::kKill   ? Kill(*container, request)
                : method == call::kDelete ? Delete(container, request)
                : method == call::kState  ? State(*container)
                                          : Ask(*container, method, request);
  return reply.ok() ? reply : Explain(reply.failure());
}

Result<std::shared_ptr<GuestProcess>> ContainerService::RunProcess(const Launch& launch) {
  const ipc::Deadline deadline = ipc::DeadlineIn(call::kRuncTime);
  const std::string bundle = BundleOf(launch.container);
  const std::string pid_file = bundle + "/pid";
  Result<UniqueFd> line = options_.open_port(launch.port);
  if (!line.ok()) return line.failure();

  std::vector<std::string> arguments = launch.arguments;
  arguments.insert(arguments.end(), {"--pid-file", pid_file});
  ConsoleSocket console;
  Pipe pipes[3];
  if (launch.has_terminal) {
    Result<ConsoleSocket> listening = ConsoleSocket::Listen(bundle + "/console");
    if (!listening.ok()) return listening.failure();
    console = std::move(*listening);
    arguments.insert(arguments.end(), {"--console-socket", bundle + "/console"});
  } else {
    for (int i = 0; i < 3; ++i) {
      Result<Pipe> pipe = MakePipe(i != 0);
      if (!pipe.ok()) return pipe.failure();
      pipes[i] = std::move(*pipe);
    }
  }
  arguments.push_back(launch.container);
  if (Failure ran = runc_.Run(arguments, bundle + "/log",
                              {.input = pipes[0].given.get(),
                               .output = pipes[1].given.get(),
                               .errors = pipes[2].given.get()},
                              deadline);
      !ran.ok()) {
    return ran;
  }
  const Result<pid_t> pid = ReadPid(pid_file);
  if (!pid.ok()) return pid.failure();
  GuestProcess::Options process = {
      .name = call::StreamName(launch.container, launch.process),
      .pid = *pid,
      .line = std::move(*line),
      .is_port = options_.has_ports,
      .input = std::move(pipes[0].own),
      .output = std::move(pipes[1].own),
      .errors = std::move(pipes[2].own),
      .terminal = {},
      .hello_time = options_.hello_time,
      .signal_all = [this, id = launch.container](int signal) {
        static_cast<void>(SignalAll(id, signal));  // the stand-in sees the end, or sends again
      }};
  if (launch.has_terminal) {
    Result<UniqueFd> master = console.Receive(deadline);
    if (!master.ok()) return master.failure();
    process.terminal = std::move(*master);
  }
  return std::make_shared<GuestProcess>(std::move(process));
}

ContainerService::Reply ContainerService::Create(const std::string& id, const Message& request) {
  const std::string* config = request.FindText(call::kConfig);
  if (config == nullptr) return Refuse("INVALID_ARGUMENT", "the container has no config");
  const auto container = std::make_shared<Container>();
  container->id = id;
  const std::lock_guard calls(container->calls);
  {
    const std::lock_guard lock(mutex_);
    if (containers_.size() >= kMostContainers) {
      return Refuse("RESOURCE_EXHAUSTED", "the guest has too many containers");
    }
    if (!containers_.emplace(id, container).second) {
      return Refuse("ALREADY_EXISTS", "container '" + id + "' already exists in the guest");
    }
  }
  const std::string bundle = BundleOf(id);
  Failure made = MakeFolders(bundle);
  if (made.ok()) made = WriteFile(bundle + "/config.json", *config);
  if (!made.ok()) {
    Remove(id);
    return made;
  }
  const Launch launch = {.container = id,
                         .process = "",
                         .port = TextOf(request, call::kPort),
                         .has_terminal = IsSet(request, call::kTerminal),
                         .arguments = {"create", "--bundle", bundle}};
  const auto process = RunProcess(launch);
  if (!process.ok()) {
    static_cast<void>(runc_.Run({"delete", "--force", id}, bundle + "/log", {},
                                ipc::DeadlineIn(call::kRuncTime)));
    Remove(id);
    return process.failure();
  }
  const std::lock_guard lock(mutex_);
  container->init = *process;
  return Message().Set(call::kPid, container->init->pid());
}

ContainerService::Reply ContainerService::Start(Container& container) {
  if (Failure ran = runc_.Run({"start", container.id}, BundleOf(container.id) + "/log", {},
                              ipc::DeadlineIn(call::kRuncTime));
      !ran.ok()) {
    return ran;
  }
  container.started = true;
  return Message();
}

ContainerService::Reply ContainerService::Exec(Container& container, const Message& request) {
  const std::string name = TextOf(request, call::kProcess);
  const std::string* spec = request.FindText(call::kSpec);
  if (spec == nullptr || !ipc::crust::IsId(name)) {
    return Refuse("INVALID_ARGUMENT", "the process has no name or no spec");
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(container.processes, [](const auto& entry) { return entry.second->IsClosed(); });
    if (container.processes.contains(name)) {
      return Refuse("ALREADY_EXISTS", "process '" + name + "' already exists");
    }
    if (container.processes.size() >= kMostProcesses) {
      return Refuse("RESOURCE_EXHAUSTED",
                    "container '" + container.id + "' has too many processes");
    }
  }
  const std::string file = BundleOf(container.id) + "/process.json";
  if (Failure written = WriteFile(file, *spec); !written.ok()) return written;
  const auto process = RunProcess({.container = container.id,
                                   .process = name,
                                   .port = TextOf(request, call::kPort),
                                   .has_terminal = IsSet(request, call::kTerminal),
                                   .arguments = {"exec", "--detach", "--process", file}});
  unlink(file.c_str());
  if (!process.ok()) return process.failure();
  const std::lock_guard lock(mutex_);
  container.processes.emplace(name, *process);
  return Message().Set(call::kPid, (*process)->pid());
}

Failure ContainerService::SignalAll(const std::string& id, int signal) {
  const Busy busy(*this);
  // Its own log, because it may run beside another call.
  return runc_.Run({"kill", "--all", id, std::to_string(signal)}, BundleOf(id) + "/log-kill", {},
                   ipc::DeadlineIn(call::kRuncTime));
}

ContainerService::Reply ContainerService::Kill(Container& container, const Message& request) {
  const auto signal = request.FindNumber(call::kSignal);
  if (!signal || *signal < 1 || *signal >= NSIG) {
    return Refuse("INVALID_ARGUMENT", "there is no such signal");
  }
  Failure sent;
  const std::string name = TextOf(request, call::kProcess);
  if (IsSet(request, call::kAll)) {
    sent = SignalAll(container.id, static_cast<int>(*signal));
  } else if (name.empty()) {
    sent = container.init->Signal(static_cast<int>(*signal));
  } else if (const auto found = container.processes.find(name);
             found != container.processes.end()) {
    sent = found->second->Signal(static_cast<int>(*signal));
  } else {
    sent = Refuse("NOT_FOUND", "there is no process '" + name + "'");
  }
  return sent.ok() ? Reply(Message()) : Reply(sent);
}

ContainerService::Reply ContainerService::Delete(const Shared& container, const Message& request) {
  const bool force = IsSet(request, call::kForce);
  if (!force && container->init && !container->init->FindEnd()) {
    return Refuse("FAILED_PRECONDITION", "container '" + container->id + "' is not stopped");
  }
  const ipc::Deadline deadline = ipc::DeadlineIn(call::kRuncTime);
  // runc deletes only what has ended, and this service must see the end before runc looks.
  if (container->init && !container->init->FindEnd()) {
    if (container->paused) {
      static_cast<void>(
          runc_.Run({"resume", container->id}, BundleOf(container->id) + "/log", {}, deadline));
    }
    static_cast<void>(container->init->Signal(SIGKILL));
    if (!container->init->WaitForEnd(deadline)) {
      return Refuse("DEADLINE_EXCEEDED", "container '" + container->id + "' does not end");
    }
  }
  const Failure ran = runc_.Run({"delete", "--force", container->id},
                                BundleOf(container->id) + "/log", {}, deadline);
  if (!ran.ok()) return ran;
  std::shared_ptr<GuestProcess> init;
  std::map<std::string, std::shared_ptr<GuestProcess>> processes;
  {
    const std::lock_guard lock(mutex_);
    init = std::move(container->init);
    processes = std::move(container->processes);
  }
  processes.clear();  // joins their threads, which nobody may wait for under the lock
  init.reset();
  Remove(container->id);
  return Message();
}

ContainerService::Reply ContainerService::State(Container& container) {
  const bool ended = container.init->FindEnd().has_value();
  const std::string status = ended               ? "stopped"
                             : container.paused  ? "paused"
                             : container.started ? "running"
                                                 : "created";
  return Message().Set(call::kStatus, status).Set(call::kPid, ended ? 0 : container.init->pid());
}

ContainerService::Reply ContainerService::Ask(Container& container, std::string_view method,
                                              const Message& request) {
  std::vector<std::string> arguments;
  if (method == call::kProcesses) {
    arguments = {"ps", "--format", "json", container.id};
  } else if (method == call::kStats) {
    arguments = {"events", "--stats", container.id};
  } else if (method == call::kUpdate) {
    arguments = {"update", "--resources", "-", container.id};
  } else if (method == call::kPause || method == call::kResume) {
    arguments = {method == call::kPause ? "pause" : "resume", container.id};
  } else {
    return Refuse("UNIMPLEMENTED", "the guest has no call '" + std::string(method) + "'");
  }
  Result<std::string> output =
      runc_.Ask(arguments, BundleOf(container.id) + "/log", TextOf(request, call::kText),
                ipc::DeadlineIn(call::kRuncTime));
  if (!output.ok()) return output.failure();
  if (method == call::kPause) container.paused = true;
  if (method == call::kResume) container.paused = false;
  return Message().Set(call::kText, std::move(*output));
}

}  // namespace berth::guest
